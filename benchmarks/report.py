"""Rows as a table on the terminal, and as JSON and Markdown files with a description of the machine."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.environments import TOOLS, versions
from benchmarks.harness import OURS, Row, ratio, to_json
from cge.errors import InputError

__all__ = ["cells", "machine_description", "markdown", "save", "show", "stored_result", "stored_rows"]

_HEADINGS = ("case", "tool", "threads", "M {unit}", "M per CPU s", "peak MB", "× best peer", "note")
_TEXT_COLUMNS = (0, 1, 7)
_OWN_PACKAGES = ("cge", "numpy", "numba", "pyarrow", "scipy")
_SAME_MACHINE = ("cpu", "cores", "memory_gb", "system")


def cells(rows: Sequence[Row], row: Row) -> tuple[str, ...]:
    """Return a row of the table as text; rates are in millions."""
    return (
        row.case,
        row.tool,
        str(row.n_jobs),
        _number(row.value, 1e6),
        _number(row.per_cpu_second, 1e6),
        "–" if row.peak_mb is None else f"{row.peak_mb:,.0f}",
        _number(ratio(rows, row)),
        row.note,
    )


def _number(value: float | None, unit: float = 1.0) -> str:
    if value is None:
        return "–"
    scaled = value / unit
    return f"{scaled:,.0f}" if scaled >= 100 else f"{scaled:.3g}"


def _headings(rows: Sequence[Row]) -> list[str]:
    unit = rows[0].unit if rows else "/s"
    return [heading.format(unit=unit) for heading in _HEADINGS]


def show(bench: str, rows: Sequence[Row], missing: Sequence[str] = ()) -> None:
    """Print the table, and which tools are `missing`: ratios are to the best of those that ran."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=150)  # a pipe has no width
    table = Table(title=f"cge bench {bench}: best of several repeats", caption=_missing(missing))
    for column, heading in enumerate(_headings(rows)):
        table.add_column(heading, justify="left" if column in _TEXT_COLUMNS else "right")
    for previous, row in zip([None, *rows], rows, strict=False):
        if previous is not None and previous.case != row.case:
            table.add_section()
        table.add_row(*cells(rows, row), style="bold" if row.tool == OURS else None)
    console.print(table)


def _missing(tools: Sequence[str]) -> str | None:
    return f"not run, so not among the peers: {', '.join(tools)}" if tools else None


def markdown(bench: str, rows: Sequence[Row], machine: dict[str, Any], missing: Sequence[str] = ()) -> str:
    """Return the table and the description of the machine as a Markdown page."""
    headings, dates = _headings(rows), " and ".join(sorted({row.date for row in rows if row.date}))
    description = f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB, Python {machine['python']}"
    lines = [
        f"# cge bench {bench}",
        "",
        f"Measured on {dates or machine['date']}: {description}.",
        "The best of several repeats. `× best peer` compares with the fastest other tool on at most as many threads.",
        "",
        "| " + " | ".join(headings) + " |",
        "|" + "|".join("---" if column in _TEXT_COLUMNS else "--:" for column in range(len(headings))) + "|",
    ]
    for row in rows:
        texts = [text.replace("|", "\\|") for text in cells(rows, row)]
        lines.append("| " + " | ".join(f"**{text}**" if row.tool == OURS and text else text for text in texts) + " |")
    if missing:
        lines += ["", f"{_missing(missing)}."]
    lines += ["", "Versions: " + "; ".join(machine["versions"].values()) + ".", ""]
    return "\n".join(lines)


def machine_description(tools: Sequence[str]) -> dict[str, Any]:
    """Return what the numbers depend on: processor, cores, memory, Python, versions of packages, date."""
    own = ", ".join(f"{name} {metadata.version(name)}" for name in _OWN_PACKAGES)
    peers = {name: versions(TOOLS[name]) for name in tools if TOOLS[name].requirements}
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {OURS: own, **peers},
    }


def _cpu() -> str:
    try:
        match = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        match = None
    return match[1].strip() if match else platform.processor() or "unknown processor"


def stored_rows(content: dict[str, Any]) -> list[Row]:
    """Return the rows of a saved JSON object."""
    names = {field.name for field in fields(Row)}
    return [Row(**{name: value for name, value in row.items() if name in names}) for row in content["rows"]]


def stored_result(bench: str, folder: Path) -> dict[str, Any] | None:
    """Return the saved JSON object of a benchmark, if there is one; refuse that of another machine."""
    file, machine = folder / f"bench-{bench}.json", machine_description(())
    if not file.exists():
        return None
    stored: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    if any(stored["machine"][name] != machine[name] for name in _SAME_MACHINE):
        raise InputError(f"{file} has rows of another machine; move it away first")
    return stored


def save(
    bench: str, rows: Sequence[Row], tools: Sequence[str], folder: Path, missing: Sequence[str] = ()
) -> list[Path]:
    """Write `bench-<name>.json` and `bench-<name>.md` and return their paths.

    Rows of other cases, tools or numbers of threads that the files already have are kept.
    """
    machine = machine_description(tools)
    folder.mkdir(parents=True, exist_ok=True)
    data, page = folder / f"bench-{bench}.json", folder / f"bench-{bench}.md"
    merged = {row.key: replace(row, date=machine["date"]) for row in rows}
    stored = stored_result(bench, folder)
    if stored is not None:
        merged = {row.key: row for row in stored_rows(stored)} | merged
        machine["versions"] = stored["machine"]["versions"] | machine["versions"]
    rows, ran = list(merged.values()), {row.tool for row in merged.values()}
    missing = [tool for tool in missing if tool not in ran]
    content = to_json(bench, rows) | {"machine": machine, "tools_not_run": missing}
    data.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    page.write_text(markdown(bench, rows, machine, missing), encoding="utf-8")
    return [data, page]


def save_table(bench: str, about: str | None, result: dict[str, Any], lines: Sequence[str]) -> None:
    """Write the result of a benchmark with a table of its own to results/; `about` is the docstring of its module."""
    folder = Path(__file__).parents[1] / "results"
    text = f"# cge bench {bench}\n\n{str(about).partition(chr(10) * 2)[2].strip()}\n\n"
    (folder / f"{bench}.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / f"{bench}.md").write_text(text + "\n".join(lines) + "\n")
