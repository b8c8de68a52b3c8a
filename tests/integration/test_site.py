"""The documentation site: it builds without a warning, is whole, and asks nothing of the network."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import typer

import cge
from cge.cli.app import app

ROOT = Path(__file__).parents[2]
FETCHED = re.compile(
    r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=\"?(?:https?:)?//[^\s>]*", re.IGNORECASE
)
STYLED = re.compile(r"(?:@import\s*|url\()[\"']?(?:https?:)?//[^\s)]*")
LINK = re.compile(r"\b(?:href|src)=\"([^\"]*)\"")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return folder


def text_of(page: Path) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text()))


def test_nothing_is_fetched(site: Path) -> None:
    pages, styles = [*site.rglob("*.html")], [*site.rglob("*.css")]
    assert len(pages) > 30
    assert [found for page in pages for found in FETCHED.findall(page.read_text())] == []
    assert [found for page in [*pages, *styles] for found in STYLED.findall(page.read_text())] == []


def test_links_lead_to_files_of_the_site(site: Path) -> None:
    missing = []
    for page in site.rglob("*.html"):
        if page.name == "404.html":  # served from anywhere, so its links begin at the root
            continue
        for link in LINK.findall(re.sub(r"<(script|pre|code)\b.*?</\1>", "", page.read_text(), flags=re.DOTALL)):
            path = unquote(html.unescape(link)).partition("#")[0]
            if path and not re.match(r"https?:|data:|mailto:", path) and not (page.parent / path).exists():
                missing.append((page.name, link))
    assert missing == []


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    reference = "".join(page.read_text() for page in (site / "reference").glob("*.html"))
    missing = [name for name in cge.__all__ if name != "__version__" and f'id="cge.{name}"' not in reference]
    assert missing == []
    assert "__version__" in text_of(site / "reference" / "index.html")
    settings = text_of(site / "reference" / "cge.html")  # which are in no docstring of the source
    assert "where vectors come from: 'paths' sums what lies at the ends" in settings


def test_every_command_and_option_is_in_the_reference(site: Path) -> None:
    group: Any = typer.main.get_command(app)
    whole = group.make_context("cge", [], resilient_parsing=True)
    page = (site / "reference" / "commands.html").read_text()
    parts = dict(re.findall(r'<h2 id="cge-(\w+)">(.*?)(?=<h2|</article>)', page, re.DOTALL))
    assert list(parts) == list(group.commands)
    for name, command in group.commands.items():
        context = command.make_context(name, [], parent=whole, resilient_parsing=True)
        format_value = [one for one in context.command.params if not getattr(one, "hidden", False)]
        missing = [
            flag
            for one in format_value
            if one.opts
            for flag in one.opts
            if flag.startswith("--") and flag not in parts[name]
        ]
        assert missing == [], name


def test_pages_beside_docs_are_pages_and_other_files_are_told(site: Path) -> None:
    weights = (site / "weights.html").read_text()
    assert 'href="results/weights.html"' in weights
    assert "<code>studies/attempts.py</code>" in weights
    assert 'href="architecture.html"' in (site / "CONTRIBUTING.html").read_text()
    measured = sorted(page.stem for page in (ROOT / "results").glob("*.md"))
    assert sorted(page.stem for page in (site / "results").glob("*.html")) == measured


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_pages_open_from_a_folder_and_can_be_searched(browser: Any, site: Path, width: int, scheme: str) -> None:
    wrong: list[str] = []
    tab = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
    tab.on("console", lambda one: wrong.append(one.text) if one.type in ("error", "warning") else None)
    tab.on("pageerror", lambda one: wrong.append(str(one)))
    tab.on("request", lambda one: None if one.url.startswith(("file:", "data:", "blob:")) else wrong.append(one.url))
    for page in ("reference/cge.html", "reference/commands.html", "results/bench-fit.html", "index.html"):
        tab.goto((site / page).as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0, page
    assert tab.evaluate("document.body.dataset.mdColorScheme") == {"light": "default", "dark": "slate"}[scheme]
    tab.locator("label[for=__search]").first.dispatch_event("click")
    tab.locator(".md-search-result__meta", has_text="Type to start searching").wait_for(state="attached")
    tab.fill(".md-search__input", "NegativeSample")
    tab.press(".md-search__input", "r")  # the search listens to keys
    tab.wait_for_selector(".md-search-result__item a[href*='reference/sampling.html']")
    assert wrong == []
    tab.context.close()
