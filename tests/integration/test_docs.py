"""The examples of the README and of docs/ run, and print what the page shows after them.

`python` blocks run in one namespace per page, in an empty folder. A `text` block right after one is its output. In
`console` blocks, lines that begin with `$ cge` are commands, and the lines below are their output. In expected output,
a line of `…` stands for any lines, and `…` at the end of a line for any text. Numbers with decimals or a percent sign
may differ in their last places, since processors round differently.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import math
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cge.cli.main import run

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n?```text\n(?P<output>.*?)^```\n)?|^```console\n(?P<console>.*?)^```\n",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
NUMBER = re.compile(r"[+−-]?\d[\d,]*(?:\.\d+)?%?")
MAX_WORDS = 22_000


def test_numbers_may_differ_in_their_last_places() -> None:
    assert same_line("dan: chess (99%), 0.994", "dan: chess (98%), 0.988")
    assert not same_line("dan: chess (99%)", "dan: go (99%)")
    assert not same_line("dan: chess (99%)", "dan: chess (59%)")
    assert not same_line("140 labels", "141 labels")
    assert difference("a\n…\nd\n", "a\nb\nc\nd\n") is None
    assert difference("a\n…\nd\n", "a\nb\nc\n") is not None


@pytest.mark.usefixtures("restored_registries")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    names: dict[str, object] = {}
    text = page.read_text()
    for block in BLOCK.finditer(text):
        line = text[: block.start()].count("\n") + 2
        if block["console"] is not None:
            for command, expected in commands(block["console"]):
                problem = difference(expected, output_of(command))
                assert problem is None, f"{page.name}, line {line}, {command}: {problem}"
            continue
        printed = io.StringIO()
        code = compile("\n" * (line - 1) + block["code"], str(page), "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        if block["output"] is not None:
            problem = difference(block["output"], printed.getvalue())
            assert problem is None, f"{page.name}, line {line}: {problem}"


def commands(console: str) -> list[tuple[str, str]]:
    """Return the commands of a console block, each with the output that the page shows."""
    parts = re.split(r"^\$ (.+)\n", console, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def output_of(command: str) -> str:
    """Run a `cge` command in this process and return what it prints."""
    name, *arguments = shlex.split(command, comments=True)
    assert name == "cge", command
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = run(arguments)
    assert code == 0, command
    return printed.getvalue()


def difference(expected: str, printed: str) -> str | None:
    """Return how printed text differs from what a page shows, or None."""
    wanted, lines = (text.rstrip().splitlines() for text in (expected, printed))
    position = 0
    for number, line in enumerate(wanted):
        if line.strip() == "…":
            following = wanted[number + 1] if number + 1 < len(wanted) else None
            while position < len(lines) and (following is None or not same_line(following, lines[position])):
                position += 1
        elif position < len(lines) and same_line(line, lines[position]):
            position += 1
        else:
            break
    else:
        if position == len(lines):
            return None
    return f"the page shows\n{expected}\nprinted was\n{printed}"


def same_line(expected: str, printed: str) -> bool:
    """Return whether two lines are the same, up to the last places of numbers and the width of columns."""
    expected, printed = (" ".join(text.replace("−", "-").split()) for text in (expected, printed))
    if expected.endswith("…"):
        printed = printed[: len(expected) - 1] + "…"
    if NUMBER.sub("0", expected) != NUMBER.sub("0", printed):
        return False
    return all(same_number(a, b) for a, b in zip(NUMBER.findall(expected), NUMBER.findall(printed), strict=True))


def same_number(expected: str, printed: str) -> bool:
    if not any(sign in expected for sign in ".%"):
        return expected == printed
    values = [float(text.rstrip("%").replace(",", "")) / (100 if "%" in text else 1) for text in (expected, printed)]
    return math.isclose(*values, rel_tol=0.05, abs_tol=0.03)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert missing == []


def test_the_documentation_stays_short() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert sum(len(page.read_text().split()) for page in pages) <= MAX_WORDS


def test_pages_show_what_is_printed_and_measured() -> None:
    """`scripts/update_readme.py` writes these parts."""
    script = ROOT / "scripts" / "update_readme.py"
    result = subprocess.run([sys.executable, str(script), "--check"], check=False)
    assert result.returncode == 0, "a page is stale: run scripts/update_readme.py"


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/faq.md", "docs/getting-started.md"])
def test_accuracies_of_the_default_are_written_by_the_script_only(page: str) -> None:
    """A figure that is written by hand contradicts the study as soon as that is run again."""
    by_hand = re.sub(r"<!-- (\w+) -->.*?<!-- /\1 -->", "", (ROOT / page).read_text(), flags=re.DOTALL)
    assert re.findall(r"\d\d\.\d(?: ± \d\.\d)? %", by_hand) == []


def test_a_page_is_stale_where_a_result_has_changed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("update_readme", ROOT / "scripts" / "update_readme.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    before = {name: getattr(script, name)() for name in ("summary", "ablations", "faster")}
    shutil.copytree(ROOT / "results", tmp_path / "results", ignore=shutil.ignore_patterns("*.jsonl", "*.svg"))
    weights = json.loads((ROOT / "results" / "weights.json").read_text())
    for method in ("auto", "degree, mlp"):
        weights["graphs"]["cora"][method]["test"] |= {"mean": 0.1234, "sd": 0.056, "runs": 7}
    (tmp_path / "results" / "weights.json").write_text(json.dumps(weights))
    monkeypatch.setattr(script, "RESULTS", tmp_path / "results")
    assert "12.3 ± 5.6 %" in script.accuracy("results.md")
    assert all("12.3 ± 5.6" in getattr(script, name)() and "12.3 ± 5.6" not in text for name, text in before.items())
