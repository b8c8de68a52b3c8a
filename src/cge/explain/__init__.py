"""Explanations of predictions by the contributions of paths."""
