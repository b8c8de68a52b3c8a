#!/usr/bin/env python
"""Write what `cge demo` prints and what was measured into the README and the pages of results and benchmarks.

`--check` only compares, and only what needs no training.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import wrap
from typing import Any

ROOT = Path(__file__).parents[1]
_ACCURACY, _EXPLANATION = "Accuracy on ", "Paper "  # how these parts of the demo begin


def demo() -> str:
    """Return the accuracy table and one explanation that `cge demo` prints."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "cge", "demo", "--out", folder]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    parts = re.split(r"\n{2,}", "\n".join(line.rstrip() for line in printed.strip().splitlines()))
    accuracy = next(part for part in parts if part.startswith(_ACCURACY))
    explanation = [part for part in parts if part.startswith(_EXPLANATION)][1]
    return "\n".join(["```text", accuracy, "", explanation, "```"])


def accuracy() -> str:
    """Return the test accuracy of the default settings on the citation graphs, from the study of weightings."""
    reports = (ROOT / "results" / "weights.md").read_text().split("\n## ")
    cells = {}
    for graph in ("cora", "citeseer", "pubmed"):
        report = next(report for report in reports if report.startswith(f"{graph}\n"))
        cells[graph] = next(line.split(" | ")[1] for line in report.splitlines() if line.startswith("| auto |"))
    seeds = {graph: int(re.search(r"\((\d+)\)", cell)[1]) for graph, cell in cells.items()}  # type: ignore[index]
    most = max(seeds.values())
    fewer = "".join(f", {graph.upper()} {count}" for graph, count in seeds.items() if count < most)
    values = ", ".join(f"{graph.upper()} {cell.split(' (')[0]} %" for graph, cell in cells.items())
    text = (
        "Test accuracy on the Planetoid splits (20 training labels per class, 500 validation labels): "
        f"{values} (mean ± standard deviation; {most} seeds{fewer}; [all results](docs/results.md)). "
        "Settings are the defaults."
    )
    return "\n".join(wrap(text, 120, break_long_words=False, break_on_hyphens=False))


def speed() -> str:
    """Return a table of walking speeds on one thread: cge, the fastest other package and NumPy."""
    file = ROOT / "results" / "bench-walks.json"
    if not file.exists():
        return "Not measured yet: `./run bench walks`."
    measured = json.loads(file.read_text())
    cases: dict[str, dict[str, float]] = {}
    for row in measured["rows"]:
        if row["n_jobs"] == 1 and row["value"] is not None:
            cases.setdefault(row["case"], {})[row["tool"]] = row["value"]
    lines = ["| million steps per second, one thread | cge | best package | vectorized NumPy |", "|---|---|---|---|"]
    for case, rates in cases.items():
        packages = {tool: rate for tool, rate in rates.items() if tool not in ("cge", "numpy")}
        if "cge" in rates and packages:
            best = max(packages, key=lambda tool: packages[tool])
            numpy = _millions(rates["numpy"]) if "numpy" in rates else "–"
            lines.append(f"| {case} | {_millions(rates['cge'])} | {_millions(packages[best])} ({best}) | {numpy} |")
    return "\n".join([*lines, "", _source(measured)])


def _millions(rate: float) -> str:
    return f"{rate / 1e6:.3g}"


def _source(measured: dict[str, Any]) -> str:
    machine = measured["machine"]
    where = f"{machine['cpu']}, {machine['cores']} cores, {machine['date']}"
    return f"`./run bench walks`, {where}; [all rows](../results/bench-walks.md)."


def table(name: str) -> str:
    """Return the first table of a study's report, without the number of seeds in each cell."""
    file = ROOT / "results" / f"{name}.md"
    if not file.exists():
        return f"Not run yet: `cge reproduce {name}`."
    lines = file.read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    text = "\n".join(lines[first : lines.index("", first)])
    return re.sub(r" ± ", "±", re.sub(r" \(\d+\)", "", text))


def main() -> int:
    """Update the pages, or return 1 if one is stale."""
    checking = "--check" in sys.argv
    pages = {
        "README.md": {"accuracy": accuracy()} | ({} if checking else {"demo": demo()}),
        "docs/results.md": {"table3": table("table3"), "weights": table("weights")},
        "docs/benchmarks.md": {"speed": speed()},
    }
    stale = False
    for name, blocks in pages.items():
        old = (ROOT / name).read_text()
        text = _fill(old, blocks)
        stale |= text != old
        if not checking:
            (ROOT / name).write_text(text)
    return int(stale and checking)


def _fill(text: str, blocks: dict[str, str]) -> str:
    """Return a text with blocks between the marks that have their names."""
    for name, block in blocks.items():
        before, _, rest = text.partition(f"<!-- {name} -->\n")
        _, mark, after = rest.partition(f"<!-- /{name} -->")
        text = f"{before}<!-- {name} -->\n{block}\n{mark}{after}"
    return text


if __name__ == "__main__":
    sys.exit(main())
