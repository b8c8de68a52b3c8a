"""The documentation site builds without a warning, is complete, and needs no network."""

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
LOCAL = ("file:", "data:", "blob:")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    result = subprocess.run(build, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    return folder


def text_of(page: Path) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text()))


def test_nothing_is_fetched(site: Path) -> None:
    pages, styles = [*site.rglob("*.html")], [*site.rglob("*.css")]
    assert len(pages) > 30
    assert [url for page in pages for url in FETCHED.findall(page.read_text())] == []
    assert [url for page in [*pages, *styles] for url in STYLED.findall(page.read_text())] == []


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
    parameters = text_of(site / "reference" / "cge.html")
    assert all(name in parameters for name in cge.CGE().get_params())


def test_every_command_and_option_is_in_the_reference(site: Path) -> None:
    group: Any = typer.main.get_command(app)
    root = group.make_context("cge", [], resilient_parsing=True)
    page = (site / "reference" / "commands.html").read_text()
    parts = dict(re.findall(r'<h2 id="cge-(\w+)">(.*?)(?=<h2|</article>)', page, re.DOTALL))
    assert list(parts) == list(group.commands)
    for name, command in group.commands.items():
        context = command.make_context(name, [], parent=root, resilient_parsing=True)
        options = [option for option in context.command.params if not getattr(option, "hidden", False)]
        flags = [flag for option in options for flag in option.opts or () if flag.startswith("--")]
        missing = [flag for flag in flags if flag not in parts[name]]
        assert missing == [], name


def test_pages_outside_docs_are_pages_and_other_files_are_paths(site: Path) -> None:
    results = (site / "results.html").read_text()
    assert 'href="results/weights.html"' in results
    assert "<code>studies/attempts.py</code>" in results
    assert 'href="architecture.html#layers"' in (site / "CONTRIBUTING.html").read_text()
    reports = sorted(page.stem for page in (ROOT / "results").glob("*.md"))
    assert sorted(page.stem for page in (site / "results").glob("*.html")) == reports


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_pages_open_from_a_folder_and_can_be_searched(browser: Any, site: Path, width: int, scheme: str) -> None:
    problems: list[str] = []
    tab = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
    tab.on("console", lambda entry: problems.append(entry.text) if entry.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("request", lambda request: None if request.url.startswith(LOCAL) else problems.append(request.url))
    for page in ("reference/cge.html", "reference/commands.html", "results/bench-fit.html", "index.html"):
        tab.goto((site / page).as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0, page
    assert tab.evaluate("document.body.dataset.mdColorScheme") == {"light": "default", "dark": "slate"}[scheme]
    tab.locator("label[for=__search]").first.dispatch_event("click")
    tab.locator(".md-search-result__meta", has_text="Type to start searching").wait_for(state="attached")
    tab.fill(".md-search__input", "NegativeSample")
    tab.press(".md-search__input", "r")  # the search listens to keys
    tab.wait_for_selector(".md-search-result__item a[href*='reference/sampling.html']")
    assert problems == []
    tab.context.close()
