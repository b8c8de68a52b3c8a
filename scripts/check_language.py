#!/usr/bin/env python
"""Keep retired names out of the code and the documentation.

Prints every line of the code, tests included, of `docs`, `README.md` and `CONTRIBUTING.md` that has a retired public
name, and every variable and parameter of the Python code whose name says nothing (`one`, `found`, `told`, `asked`,
`left`) or is a retired word for something that has an established name (`heat`, `leaders`). Returns 1 if there is one.

    python scripts/check_language.py            # every place
    python scripts/check_language.py --count    # how many, by folder and by name
    python scripts/check_language.py src/cge/cli
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
CODE = ("src", "studies", "scripts", "benchmarks", "tests")
TEXT = (*CODE, "docs", "README.md", "CONTRIBUTING.md")
EXEMPT = ("scripts/check_language.py", "tests/unit/test_check_language.py")  # which name what is retired
ALLOWED = {  # names that others gave
    "src/cge/estimators/similar.py": ("threads=",),  # an argument of usearch
    "tests/unit/test_store.py": ("facts",),  # a key of folders that early versions wrote
}
SUFFIXES = (".css", ".html", ".js", ".md", ".py", ".toml")
# Retired variable → what is used instead. Words that have another meaning in some places are not in this table, such as
# `ends` (positions where parts end), `members` (of archives), `words` (of texts and commands) and `shown`.
LOCALS = dict.fromkeys(("one", "found", "told", "asked", "left"), "name what the value is") | {
    "chances": "use probabilities",
    "heat": "use temperature",
    "heats": "use temperatures",
    "heated": "use scaled",
    "surprise": "use log_loss",
    "surprises": "use log_losses",
    "guard": "name the rule of the model search",
    "judge": "use score or evaluate",
    "judged": "use scored or evaluated",
    "challenger": "use candidate",
    "holder": "use incumbent",
    "contest": "use comparison",
    "pooling": "use propagation",
    "discount": "use normalization exponent",
    "carry": "use input",
    "carries": "use inputs",
    "brings": "use contribution",
    "lacking": "use missing",
    "robbed": "use missing or hidden",
    "leaders": "use ensemble",
    "rarity": "use idf",
    "commoner": "use class_prior_ratio",
    "facts": "use metadata",
    "twin": "use baseline",
    "votes": "use label scores",
}

# Retired name, as a regular expression between word boundaries → what is used instead.
RETIRED = {
    r"encoder=[\"']\w+[\"']|--encoder": "CGE for paths, PaperCGE(setting=...) for the paper's algorithm",
    r"reader=|--reader|readers_|(?:plain|deep|gentle|taught|sparse) readers?": "classifier",
    r"label_votes_?|--label-votes|votes?|voting": "label_propagation",
    r"payloads?": "inputs",
    r"weighting=[\"']?(?:none|gates|steps)\b|--weighting (?:none|gates|steps)": "uniform, edges, edges+hops",
    r"weights_": "weighting_",
    r"label_shift_?|--label-shift|shares of classes|classes' shares": "prior_correction",
    r"held_out|--held-out": "validation_fraction",
    r"n_models|--n-models": "n_estimators",
    r"best_round_?|on_round|max_rounds|rounds|--rounds": "epochs, callback",
    r"passes=|--passes|node_drop|feature_drop|hidden_drop|--(?:node|feature|hidden)-drop": "TrainingConfig",
    r"threads=|--threads": "n_jobs, --jobs",
    r"--folds|folds=(?=\d)": "n_folds",
    r"compared_": "search_results_",
    r"worth\(|\w+_worth|worth_\w+|Worth|--worth": "compare_weighting()",
    r"twins?": "uniform weights, baseline",
    r"Additions": "GraphUpdate",
    r"selection labels?|labels that choose|choosing labels": "validation labels",
    r"chances|sure|surest": "probabilities, confidence",
    r"brings?|brought": "contribution",
    r"heats?|heated|cooled": "temperature, scale_probabilities",
    r"surpris\w+": "log loss",
    r"judged?|judges|challengers?|contests?|likelier|bearable|affords?": "search, candidate, budget",
    r"guard|guards|holder|holders": "model selection, incumbent",
    r"StepRows|pooling|poolings|pooled": "propagation, TransitionMatrix",
    r"lacking|robbed": "missing inputs",
    r"leaders?": "ensemble",
    r"rarity|rarities": "idf",
    r"commoner": "class_prior_ratio",
    r"facts": "metadata",
    r"pupils?|taught|teach|teaches|teacher": "distilled, trained",
    r"houses?|rooms?|cures?": "architecture, module, hint",
    r"x\(end\)": "x(endpoint)",
}
_PATTERNS = {re.compile(rf"(?<![\w-])(?:{names})(?:(?<==)|(?!\w))"): instead for names, instead in RETIRED.items()}


class Place(NamedTuple):
    """A retired name in a file."""

    path: Path
    line: int
    name: str
    hint: str


def files(folders: tuple[str, ...], suffixes: tuple[str, ...]) -> Iterator[Path]:
    """Yield the files below some folders of the checkout, or the files that are named themselves."""
    for folder in folders:
        path = ROOT / folder
        yield from [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.suffix in suffixes)


def retired_names(path: Path) -> Iterator[Place]:
    """Yield the retired public names in a file."""
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
    if name in EXEMPT:
        return
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for pattern, instead in _PATTERNS.items():
            for match in pattern.finditer(line):
                if match[0] not in ALLOWED.get(name, ()):
                    yield Place(path, number, match[0], f"use {instead}")


def retired_locals(path: Path) -> Iterator[Place]:
    """Yield the variables and parameters that have a retired name; the field `found` of errors is none of them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    fields = [statement.target for body in bodies for statement in body if isinstance(statement, ast.AnnAssign)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in fields and node.id in LOCALS:
            yield Place(path, node.lineno, node.id, LOCALS[node.id])
        elif isinstance(node, ast.arg) and node.arg in LOCALS and node.arg != "found":
            yield Place(path, node.lineno, node.arg, LOCALS[node.arg])


def places() -> list[Place]:
    """Return every retired name."""
    return [
        *(place for path in files(TEXT, SUFFIXES) for place in retired_names(path)),
        *(place for path in files(CODE, (".py",)) for place in retired_locals(path)),
    ]


def counts(retired: list[Place]) -> str:
    """Return how many retired names there are, by folder and by name."""
    folders = Counter("/".join(place.path.relative_to(ROOT).parts[:-1][:3]) or "." for place in retired)
    words = Counter(place.name for place in retired)
    lines = [f"{number:6,}  {folder}" for folder, number in sorted(folders.items())]
    return "\n".join([*lines, "", ", ".join(f"{name} {number:,}" for name, number in words.most_common())])


def main() -> int:
    """Print the retired names; return 1 if there is one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, help="folders and files to look at [all]")
    parser.add_argument("--count", action="store_true", help="print numbers instead of places")
    options = parser.parse_args()
    selected = [path.resolve() for path in options.paths]
    retired = [place for place in places() if not selected or any(place.path.is_relative_to(path) for path in selected)]
    if options.count and retired:
        print(counts(retired))
    else:
        for path, line, name, hint in retired:
            print(f"{path.relative_to(ROOT)}:{line}: {name!r} is retired; {hint}")
    return int(bool(retired))


if __name__ == "__main__":
    sys.exit(main())
