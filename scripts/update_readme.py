#!/usr/bin/env python
"""Write what `cge demo` prints and what was measured into the README and the pages of `docs/`.

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
RESULTS = ROOT / "results"
_TITLES = {"cora": "CORA", "citeseer": "CITESEER", "pubmed": "PUBMED"}
_NELL = {"nell-0.1": "NELL 10 %", "nell-0.01": "NELL 1 %", "nell-0.001": "NELL 0.1 %"}  # with their label rates
_PUBLISHED = {  # on CORA, CITESEER and PUBMED, by their authors
    "gcn": ("GCN", "81.5 / 70.3 / 79.0"),
    "appnp": ("APPNP", "83.3 / 71.8 / 80.1"),
    "planetoid-t": ("Planetoid-T", "75.7 / 62.9 / 75.7"),
}
_FITS = {
    "gcn": "GCN",
    "cge": "`CGE()`: defaults, with model search",
    "cge degree": '`CGE("degree", classifier="consistency")`',
    "grand": '`CGE("uniform", classifier="consistency", hops=8, label_propagation=False)`, similar to GRAND',
}


def demo() -> str:
    """Return the accuracy table that `cge demo` prints."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "cge", "demo", "--out", folder]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    parts = re.split(r"\n{2,}", "\n".join(line.rstrip() for line in printed.strip().splitlines()))
    return "\n".join(["```text", next(part for part in parts if part.startswith("Accuracy on ")), "```"])


def measured(name: str) -> dict[str, Any]:
    """Return the means of a study or the rows of a benchmark."""
    content: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return content


def wrapped(text: str, indent: str = "") -> str:
    """Return a paragraph or, with an indent, an item of a list, in lines of at most 120 characters."""
    joined = re.sub("`[^`]*`| %| ± ", lambda match: match[0].replace(" ", "\xa0"), text)  # not broken over lines
    lines = wrap(joined, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\xa0", " ")


def mean(test: dict[str, Any], seeds: bool = True) -> str:
    """Return a mean in percent with its standard deviation and, in parentheses, the number of seeds."""
    deviation = "" if test["sd"] is None else f" ± {100 * test['sd']:.1f}"
    return f"{100 * test['mean']:.1f}{deviation}" + (f" ({test['runs']})" if seeds else "")


def accuracy(results: str) -> str:
    """Return the test accuracy of the default settings on the citation graphs; `results` is the page to link to."""
    graphs = measured("weights")["graphs"]
    tests = {title: graphs[graph]["auto"]["test"] for graph, title in _TITLES.items()}
    most = max(test["runs"] for test in tests.values())
    fewer = "".join(f", {title} {test['runs']}" for title, test in tests.items() if test["runs"] < most)
    values = ", ".join(f"{title} {mean(test, seeds=False)} %" for title, test in tests.items())
    return wrapped(
        "Test accuracy of `CGE()` on the Planetoid splits (20 training labels per class, 500 validation labels): "
        f"{values} (mean ± standard deviation; {most} seeds{fewer}; [all results]({results}))."
    )


def faster() -> str:
    """Return the test accuracy of a model that compares fewer candidates than the default."""
    test = measured("weights")["graphs"]["cora"]["degree, mlp"]["test"]
    name = '`CGE("degree", classifier="mlp")`, which compares few candidates and takes less time,'
    return wrapped(f"{name} has {mean(test, seeds=False)} % on CORA ({test['runs']} seeds).")


def summary() -> str:
    """Return a table of the default settings and what they selected, with two graph networks for comparison."""
    titles, networks = _TITLES | _NELL, measured("table2")["datasets"]
    runs = [measured("weights")["graphs"][graph]["auto"] for graph in titles]
    selected = [", ".join(f"{name} {count}" for name, count in _by_count(run["weighting"])) for run in runs]
    rows = [
        ["`CGE()`", *(mean(run["test"]) for run in runs)],
        ["selected weightings, by runs", *selected],
        ["runs with prior correction", *(str(run["prior_corrected"]) for run in runs)],
    ]
    rows += [
        [_PUBLISHED[method][0], *(mean(networks[graph][method]["accuracy"]) for graph in titles)]
        for method in ("appnp", "gcn")
    ]
    return _markdown(list(titles.values()), rows)


def _markdown(titles: list[str], rows: list[list[str]]) -> str:
    """Return a table of numbers with a title for each column but the first."""
    lines = [f"| | {' | '.join(titles)} |", f"|---|{'--:|' * len(titles)}"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _by_count(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: -pair[1])


def ablations() -> str:
    """Return the accuracy of variants of `degree` on CORA."""
    rows = measured("weights")["graphs"]["cora"]
    names = {"degree": "selected classifiers"} | {
        name: name.removeprefix("degree, ").replace("sampled, constant", "sampled instead of all paths")
        for name in rows
        if name.startswith(("degree, ", "sampled, "))
    }
    values = "; ".join(f"{text} {mean(rows[name]['test'])}" for name, text in names.items())
    about = "**Ablations on CORA**, all with `degree` (number of seeds)"
    return wrapped(f"{about}: {values}. [CPU seconds](../results/weights.md).")


def table2() -> str:
    """Return what table 2 shows about baselines and the gain from learned weights, as items of a list."""
    datasets = measured("table2")["datasets"]
    values = []
    for method, (name, published) in _PUBLISHED.items():
        means = " / ".join(mean({**datasets[graph][method]["accuracy"], "sd": None}, seeds=False) for graph in _TITLES)
        values.append(f"{name} {means} (published {published})")
    tests = [
        row["against"]
        for rows in datasets.values()
        for method, row in rows.items()
        if re.fullmatch(r"cge-[ti]-(average|cnn|lstm)", method) and not row["outdated"] and row["against"]
    ]
    gains, seeds, p = ([test[key] for test in tests] for key in ("gain", "runs", "p"))
    low, high = (f"{100 * gain:+.1f}".replace("-", "−") for gain in (min(gains), max(gains)))
    smallest = min(p), min(test["p_holm"] for test in tests)
    baselines = f"- **Baselines** agree with published results on CORA / CITESEER / PUBMED: {', '.join(values)}."
    learned = (
        f"- **CGE-T and CGE-I.** Learned weights gain {low} to {high} points over uniform ones in the {len(tests)} "
        f"cells of the complete algorithm ({min(seeds)} to {max(seeds)} seeds); the smallest p is {smallest[0]:.3f}, "
        f"after Holm's correction {smallest[1]:.3f}. Cells marked ° are of older code, with fewer outer steps."
    )
    return "\n".join(wrapped(item, "  ") for item in (baselines, learned))


def fit_time() -> str:
    """Return a table of the seconds and the peak memory of fits with two threads."""
    graphs = {"cora": "CORA", "pubmed": "PUBMED", "nell-0.01": "NELL 1 %"}
    rows = {row["case"]: row for row in measured("bench-fit_methods")["rows"] if row["n_jobs"] == 2}
    lines = []
    for method, text in _FITS.items():
        of_method = [rows[f"{graph} {method}"] for graph in graphs]
        memory = ", ".join(f"{row['peak_mb'] / 1000:.2f}" for row in of_method)
        lines.append([text, *(f"{row['seconds']:.3g} s" for row in of_method), f"{memory} GB"])
    return _markdown([*graphs.values(), "peak memory"], lines)


def speed() -> str:
    """Return a table of walking speeds on one thread: cge, the fastest other package and NumPy."""
    walks = measured("bench-walks")
    cases: dict[str, dict[str, float]] = {}
    for row in walks["rows"]:
        if row["n_jobs"] == 1 and row["value"] is not None:
            cases.setdefault(row["case"], {})[row["tool"]] = row["value"]
    lines = ["| million steps per second, one thread | cge | best package | vectorized NumPy |", "|---|---|---|---|"]
    for case, rates in cases.items():
        packages = {tool: rate for tool, rate in rates.items() if tool not in ("cge", "numpy")}
        if "cge" in rates and packages:
            best = max(packages, key=lambda tool: packages[tool])
            numpy = _millions(rates["numpy"]) if "numpy" in rates else "–"
            lines.append(f"| {case} | {_millions(rates['cge'])} | {_millions(packages[best])} ({best}) | {numpy} |")
    where = f"{walks['machine']['cpu']}, {walks['machine']['cores']} cores, {walks['machine']['date']}"
    return "\n".join([*lines, "", f"`./run bench walks`, {where}; [all rows](../results/bench-walks.md)."])


def _millions(rate: float) -> str:
    return f"{rate / 1e6:.3g}"


def table(name: str) -> str:
    """Return the first table of a study's report, without the number of seeds in each cell."""
    lines = (RESULTS / f"{name}.md").read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    text = "\n".join(lines[first : lines.index("", first)])
    return re.sub(r" ± ", "±", re.sub(r" \(\d+\)", "", text))


def table3() -> str:
    """Return the rows of GCN in table 3; those of `cge` alone are of older code than the summary."""
    return table("table3").partition("\n| *this package* |")[0]


def main() -> int:
    """Update the pages, or return 1 if one is stale."""
    checking = "--check" in sys.argv
    pages = {
        "README.md": {"accuracy": f"{accuracy('docs/results.md')}\n{faster()}"}
        | ({} if checking else {"demo": demo()}),
        "docs/index.md": {"accuracy": accuracy("results.md")},
        "docs/results.md": {
            "summary": summary(),
            "weights": table("weights"),
            "ablations": ablations(),
            "table2": table2(),
            "table3": table3(),
        },
        "docs/benchmarks.md": {"fit": fit_time(), "speed": speed()},
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
