"""MkDocs hook: generates the command reference from the commands."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import typer

from cge.cli.app import app

MARK = "<!-- commands -->"
_FLAG = re.compile(r"(?<![\w`-])--[a-z][\w-]*")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the mark by the reference."""
    return markdown.replace(MARK, "\n".join(_reference())) if MARK in markdown else markdown


def _reference() -> Iterator[str]:
    """Yield the reference as lines of Markdown."""
    group: Any = typer.main.get_command(app)
    root = group.make_context("cge", [], resilient_parsing=True)
    yield from _tables(group.params)
    yield from ("", _text(group.epilog), "")
    for name, command in group.commands.items():
        # The options of estimators are added when the context is made.
        context = command.make_context(name, [], parent=root, resilient_parsing=True)
        context.command.list_suffixes()
        usage = " ".join(context.command.get_usage(context).split()).removeprefix("Usage: ")
        yield from ("", f"## cge {name}", "", "```text", usage, "```", "")
        yield from _paragraphs(context.command.help)
        yield from _tables(context.command.params)


def _paragraphs(text: str) -> Iterator[str]:
    """Yield a help text; commands in it become blocks of code."""
    lines = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    for code, group in groupby(lines, lambda line: line.startswith("cge ")):
        if code:
            yield from ("", "```sh", *group, "```")
        else:
            yield from (part for line in group for part in ("", _text(line)))


def _tables(parameters: list[Any]) -> Iterator[str]:
    """Yield a table for each panel of options."""
    panels: defaultdict[str, list[Any]] = defaultdict(list)
    for option in parameters:
        if not getattr(option, "hidden", False):
            kind = "Arguments" if option.param_type_name == "argument" else "Options"
            panels[option.rich_help_panel or kind].append(option)
    for title in sorted(panels, key="Arguments".__ne__):  # arguments first
        yield from ("", f"| {title} | |", "|---|---|")
        for option in panels[title]:
            yield f"| {_name(option)} | {_text(option.help or '')}{_default(option)} |"


def _name(option: Any) -> str:
    """Return how an argument or an option is written."""
    if option.param_type_name == "argument":
        return f"`{option.metavar or option.name.upper()}`"
    flags = " ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))
    return flags if option.is_flag or not option.metavar else f"{flags} {option.metavar}"


def _default(option: Any) -> str:
    if option.required:
        return " *Required.*"
    shown = option.show_default and option.default not in (None, False, "", ()) and not callable(option.default)
    return f" Default `{option.default}`." if shown else ""


def _text(text: str) -> str:
    """Return Rich markup as Markdown."""
    plain = re.sub(r"([|<*_])", r"\\\1", text.replace("\\[", "["))
    return _FLAG.sub(lambda flag: f"`{flag[0]}`", plain)
