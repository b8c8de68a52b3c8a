"""Every Python block of the README and of docs/ runs, and prints what the text block after it shows."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from studies.tables import write_report

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n?```text\n(?P<output>.*?)^```\n)?", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    text = page.read_text()
    for block in BLOCK.finditer(text):
        line = text[: block.start()].count("\n") + 2
        printed = io.StringIO()
        code = compile("\n" * (line - 1) + block["code"], str(page), "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        if block["output"] is not None:
            assert printed.getvalue().rstrip() == block["output"].rstrip(), f"{page.name}, line {line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert missing == []


def test_pages_show_what_is_printed_and_measured() -> None:
    """`scripts/update_readme.py` writes these parts."""
    script = ROOT / "scripts" / "update_readme.py"
    done = subprocess.run([sys.executable, str(script), "--check"], check=False)
    assert done.returncode == 0, "README.md or docs/results.md is stale: run scripts/update_readme.py"


@pytest.mark.parametrize("name", ["table2", "table3"])
def test_tables_are_those_of_the_cells(name: str, tmp_path: Path) -> None:
    """`cge reproduce NAME --show` writes them."""
    shutil.copytree(ROOT / "results" / name, tmp_path / name, ignore=shutil.ignore_patterns("vectors"))
    write_report(name, tmp_path)
    for ending in ("md", "json"):
        made, kept = ((folder / f"{name}.{ending}").read_text() for folder in (tmp_path, ROOT / "results"))
        assert made == kept, f"results/{name}.{ending} is stale: run cge reproduce {name} --show"
