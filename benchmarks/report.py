"""Rows as a table on the terminal, as a Markdown table and as JSON, with the facts of the machine they come from."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.environments import TOOLS, versions
from benchmarks.harness import OURS, Row, ratio, to_json

__all__ = ["cells", "machine_facts", "markdown", "save", "show"]

_HEADINGS = ("case", "tool", "n_jobs", "M {unit}", "M per CPU s", "peak MB", "× best peer", "note")
_OWN_PACKAGES = ("cge", "numpy", "numba", "pyarrow", "scipy")


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
    """Print the table; it tells which tools are `missing`, for ratios are to the best of those that ran."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=150)  # a pipe has no width
    table = Table(title=f"cge bench {bench}: best of several repeats", caption=_missing(missing))
    for place, heading in enumerate(_headings(rows)):
        table.add_column(heading, justify="left" if place in (0, 1, 7) else "right")
    for before, row in zip([None, *rows], rows, strict=False):
        if before is not None and before.case != row.case:
            table.add_section()
        table.add_row(*cells(rows, row), style="bold" if row.tool == OURS else None)
    console.print(table)


def _missing(tools: Sequence[str]) -> str | None:
    return f"not run, so not among the peers compared with: {', '.join(tools)}" if tools else None


def markdown(bench: str, rows: Sequence[Row], facts: dict[str, Any], missing: Sequence[str] = ()) -> str:
    """Return the table with the facts of the machine as a Markdown page."""
    headings = _headings(rows)
    lines = [
        f"# cge bench {bench}",
        "",
        f"{facts['date']}, {facts['cpu']}, {facts['cores']} cores, {facts['memory_gb']} GB, Python {facts['python']}.",
        "One run, the best of several repeats. `× best peer` compares with the fastest other tool on at most as many",
        "threads.",
        "",
        "| " + " | ".join(headings) + " |",
        "|" + "|".join("---" if place in (0, 1, 7) else "--:" for place in range(len(headings))) + "|",
    ]
    for row in rows:
        texts = [text.replace("|", "\\|") for text in cells(rows, row)]
        lines.append("| " + " | ".join(f"**{text}**" if row.tool == OURS and text else text for text in texts) + " |")
    if missing:
        lines += ["", f"{_missing(missing)}."]
    lines += ["", "Versions: " + "; ".join(facts["versions"].values()) + ".", ""]
    return "\n".join(lines)


def machine_facts(tools: Sequence[str]) -> dict[str, Any]:
    """Return what numbers depend on: processor, cores, memory, Python, versions of packages, date."""
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
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or "unknown processor"


def save(
    bench: str, rows: Sequence[Row], tools: Sequence[str], folder: Path, missing: Sequence[str] = ()
) -> list[Path]:
    """Write `bench-<name>.json` and `bench-<name>.md` and return their paths."""
    facts = machine_facts(tools)
    folder.mkdir(parents=True, exist_ok=True)
    data, page = folder / f"bench-{bench}.json", folder / f"bench-{bench}.md"
    content = to_json(bench, rows) | {"machine": facts, "tools_not_run": list(missing)}
    data.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    page.write_text(markdown(bench, rows, facts, missing), encoding="utf-8")
    return [data, page]
