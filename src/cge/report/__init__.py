"""One page that shows a trained model: how well it does, what it looks at, and why."""

from cge.report.page import write_page

__all__ = ["write_page"]
