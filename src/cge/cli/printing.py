"""How the commands print: tables for people, one JSON object for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cge.cli.main import printable

_MAX_CELL = 2000  # characters of a cell
_PIPED_WIDTH = 120  # columns to fill where the output is not a terminal


def _console() -> Console:
    console = Console(highlight=False, soft_wrap=False)
    if not console.is_terminal and console.width < _PIPED_WIDTH:
        console.width = _PIPED_WIDTH
    return console


def _print(content: Table | Text) -> None:
    """Print through our own stream: rich would pad lines with blanks, and end the process at a broken pipe."""
    console = _console()
    with console.capture() as captured:
        console.print(content)
    text = captured.get()
    if not console.is_terminal:
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    print(text, end="")


def width() -> int:
    """Return how many columns there are to fill."""
    return int(_console().width)


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object, and nothing else, on the output stream."""
    print(json.dumps(value, ensure_ascii=False))


def print_notes(notes: Iterable[str], kind: str = "note") -> None:
    """Print notes or warnings on the error stream, one per line."""
    for note in notes:
        print(f"{kind}: {note}", file=sys.stderr)


def heading(text: str) -> None:
    """Print a line that starts a section."""
    _print(Text(text, style="bold"))


def print_pairs(rows: Iterable[tuple[str, str]]) -> None:
    """Print (name, value) pairs as two columns."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(name), _cell(value))
    _print(table)


def print_table(columns: Iterable[tuple[str, str]], rows: Iterable[Iterable[str]]) -> None:
    """Print a table; `columns` are (title, "left" or "right") pairs. Cells are plain text: no markup is read."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for title, side in columns:
        table.add_column(title, justify="right" if side == "right" else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row))
    _print(table)


def _cell(text: str) -> Text:
    cut = text if len(text) <= _MAX_CELL else f"{text[:_MAX_CELL]}… ({len(text):,} characters)"
    return Text(printable(cut))
