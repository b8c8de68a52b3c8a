"""One page that shows a trained model: how well it does, what it looks at, and why."""

from cge.report.comparison import compared
from cge.report.measured import measured_by
from cge.report.page import write_page

__all__ = ["compared", "measured_by", "write_page"]
