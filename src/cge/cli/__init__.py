"""The command line: parses, calls, prints; no algorithm."""

from cge.cli.main import main

__all__ = ["main"]
