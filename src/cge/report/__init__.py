"""One page that shows a trained model: how well it does, what it looks at, and why."""

from cge.report.comparison import compared
from cge.report.page import write_page
from cge.report.test_scores import measured_by

__all__ = ["compared", "measured_by", "write_page"]
