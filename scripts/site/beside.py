"""A hook of MkDocs: pages that lie beside docs/ come into the site, and links out of docs/ lead there.

Pages are written to be read in a checkout, where `../results/weights.md` and `../src/cge/graph.py` lead somewhere. In
the site the first is a page as well; of the second only its path is told.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
_ALONE = ("CONTRIBUTING.md", "CHANGELOG.md")
_SUFFIXES = (".md", ".png", ".svg")
# Fenced blocks and code are matched first, so that links in them stay as they are.
_LINK = re.compile(
    r"^( *)```.*?^\1```|\[(?P<text>[^\]]+)\]\((?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)|`[^`\n]+`",
    re.MULTILINE | re.DOTALL,
)


def beside() -> list[str]:
    """Return the files beside docs/ that come into the site, by their path in the checkout."""
    results = sorted(path for path in (ROOT / "results").rglob("*") if path.suffix in _SUFFIXES)
    return [*(path.relative_to(ROOT).as_posix() for path in results), *_ALONE]


def on_config(config: MkDocsConfig) -> None:
    """Put the files that are there in the place of `results/*.md` in the navigation."""
    if config.nav:
        config.nav = _expanded(config.nav)


def _expanded(entry: Any) -> Any:
    if isinstance(entry, dict):
        return {title: _expanded(below) for title, below in entry.items()}
    if not isinstance(entry, list):
        return entry
    return [found for one in entry for found in (_named(one) if isinstance(one, str) else [_expanded(one)])]


def _named(pattern: str) -> list[str]:
    """Return the files that a pattern with a star names; a name without one is itself."""
    return sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern)) if "*" in pattern else [pattern]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the files beside docs/."""
    for path in beside():
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:
    """Let links lead to where their pages are in the site."""
    own = page.file.src_uri
    folder = posixpath.dirname(own if own in beside() else f"docs/{own}")

    def moved(link: re.Match[str]) -> str:
        if link["path"] is None:
            return link[0]
        path = posixpath.normpath(posixpath.join(folder, link["path"]))
        place = path.removeprefix("docs/")
        if files.get_file_from_path(place) is not None:
            return f"[{link['text']}]({posixpath.relpath(place, posixpath.dirname(own) or '.')}{link['anchor'] or ''})"
        if path.startswith("docs/") or not (ROOT / path).exists():
            return link[0]  # MkDocs will complain
        return f"`{path}`" if link["text"].startswith("`") else f"{link['text']} (`{path}`)"

    return _LINK.sub(moved, markdown)
