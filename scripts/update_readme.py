#!/usr/bin/env python
"""Write what `cge demo` prints and what was measured into the README and the page of results.

`--check` only compares, and only what takes no training.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_DEMO_BEGINS = "Right on"  # what stands before is about the data
_DEMO_ENDS = "The model is in"  # and from here on, about files


def demo() -> str:
    """Return what `cge demo` prints about its model, as a block of text."""
    done = subprocess.run([sys.executable, "-m", "cge", "demo"], capture_output=True, text=True, check=True)
    lines = [line.rstrip() for line in done.stdout.rstrip().splitlines()]
    first = next(place for place, line in enumerate(lines) if line.startswith(_DEMO_BEGINS))
    last = next(place for place, line in enumerate(lines) if line.startswith(_DEMO_ENDS))
    return "\n".join(["```text", *lines[first : last - 1], "```"])


def speed() -> str:
    """Return a table of the measured rates on one thread, ours and the best peer's."""
    file = ROOT / "results" / "bench-walks.json"
    if not file.exists():
        return "Not measured yet: `./run bench walks`."
    saved = json.loads(file.read_text())
    cases: dict[str, dict[str, float]] = {}
    for row in saved["rows"]:
        if row["n_jobs"] == 1 and row["value"] is not None:
            cases.setdefault(row["case"], {})[row["tool"]] = row["value"]
    lines = ["| million steps per second, one thread | cge | best package | vectorized NumPy |", "|---|---|---|---|"]
    for case, rates in cases.items():
        packages = {tool: rate for tool, rate in rates.items() if tool not in ("cge", "numpy")}
        if "cge" in rates and packages:
            best = max(packages, key=lambda tool: packages[tool])
            plain = _millions(rates["numpy"]) if "numpy" in rates else "–"
            lines.append(f"| {case} | {_millions(rates['cge'])} | {_millions(packages[best])} ({best}) | {plain} |")
    return "\n".join([*lines, "", _machine(saved)])


def _millions(rate: float) -> str:
    return f"{rate / 1e6:.3g}"


def _machine(saved: dict[str, Any]) -> str:
    facts = saved["machine"]
    where = f"{facts['cpu']}, {facts['cores']} cores, {facts['date']}"
    what = "all rows in [results](results/bench-walks.md), what they mean in [benchmarks](docs/benchmarks.md)"
    return f"`./run bench walks`, {where}; {what}."


def table(name: str) -> str:
    """Return the first table of a study's report."""
    file = ROOT / "results" / f"{name}.md"
    if not file.exists():
        return f"Not run yet: `cge reproduce {name}`."
    lines = file.read_text().splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("|"))
    return "\n".join(lines[first : lines.index("", first)])


def main() -> int:
    """Update the pages, or say that one is stale."""
    checking = "--check" in sys.argv
    readme = {"speed": speed()} if checking else {"demo": demo(), "speed": speed()}
    pages = {"README.md": readme, "docs/results.md": {name: table(name) for name in ("table2", "table3")}}
    stale = False
    for name, blocks in pages.items():
        old = (ROOT / name).read_text()
        text = _with(old, blocks)
        stale |= text != old
        if not checking:
            (ROOT / name).write_text(text)
    return int(stale and checking)


def _with(text: str, blocks: dict[str, str]) -> str:
    """Return a text with blocks between the marks that have their names."""
    for name, block in blocks.items():
        before, _, rest = text.partition(f"<!-- {name} -->\n")
        _, mark, after = rest.partition(f"<!-- /{name} -->")
        text = f"{before}<!-- {name} -->\n{block}\n{mark}{after}"
    return text


if __name__ == "__main__":
    sys.exit(main())
