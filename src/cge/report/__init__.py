"""The report: one HTML page about a trained model, with its accuracy, its embedding, paths and weights."""

from cge.report.contents import write_page
from cge.report.scored_nodes import compare_methods, scored_nodes

__all__ = ["compare_methods", "scored_nodes", "write_page"]
