"""Evaluation: the protocol of runs, confidence intervals and paired tests."""
