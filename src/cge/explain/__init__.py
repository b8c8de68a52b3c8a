"""Explanations of predictions by the contributions of paths, and analyses of path weights."""
