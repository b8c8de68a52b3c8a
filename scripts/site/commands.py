"""A hook of MkDocs: the reference of the command line, made from the commands themselves."""

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
    """Put the commands in the place of the mark."""
    return markdown.replace(MARK, "\n".join(_reference())) if MARK in markdown else markdown


def _reference() -> Iterator[str]:
    """Yield the reference as lines of Markdown."""
    group: Any = typer.main.get_command(app)
    whole = group.make_context("cge", [], resilient_parsing=True)
    yield from _tables(group.params)
    yield from ("", _text(group.epilog), "")
    for name, command in group.commands.items():
        context = command.make_context(name, [], parent=whole, resilient_parsing=True)  # some options come only now
        usage = " ".join(context.command.get_usage(context).split()).removeprefix("Usage: ")
        yield from ("", f"## cge {name}", "", "```text", usage, "```", "")
        yield from _paragraphs(context.command.help)
        yield from _tables(context.command.params)


def _paragraphs(text: str) -> Iterator[str]:
    """Yield a help text; commands in it become blocks of code."""
    lines = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    for code, some in groupby(lines, lambda line: line.startswith("cge ")):
        if code:
            yield from ("", "```sh", *some, "```")
        else:
            yield from (part for line in some for part in ("", _text(line)))


def _tables(parameters: list[Any]) -> Iterator[str]:
    """Yield a table for each panel of options."""
    panels: defaultdict[str, list[Any]] = defaultdict(list)
    for one in parameters:
        if not getattr(one, "hidden", False):
            kind = "Arguments" if one.param_type_name == "argument" else "Options"
            panels[one.rich_help_panel or kind].append(one)
    for title in sorted(panels, key="Arguments".__ne__):  # arguments stand first
        yield from ("", f"| {title} | |", "|---|---|")
        for one in panels[title]:
            yield f"| {_name(one)} | {_text(one.help or '')}{_default(one)} |"


def _name(one: Any) -> str:
    """Return how an argument or an option is written."""
    if one.param_type_name == "argument":
        return f"`{one.metavar or one.name.upper()}`"
    flags = " ".join(f"`{flag}`" for flag in (*one.opts, *one.secondary_opts))
    return flags if one.is_flag or not one.metavar else f"{flags} {one.metavar}"


def _default(one: Any) -> str:
    if one.required:
        return " *Required.*"
    told = one.show_default and one.default not in (None, False, "", ()) and not callable(one.default)
    return f" Default `{one.default}`." if told else ""


def _text(text: str) -> str:
    """Return a text of Rich as Markdown."""
    plain = re.sub(r"([|<*_])", r"\\\1", text.replace("\\[", "["))
    return _FLAG.sub(lambda flag: f"`{flag[0]}`", plain)
