"""Propagation along weighted paths, path weightings, classifiers and networks. Models never sample or train."""
