"""MkDocs hook: adds pages from outside docs/ to the site and adapts the links to them.

Pages are written for a checkout, where `../results/weights.md` and `../src/cge/graph.py` exist. In the site the first
is a page as well; links to files that are not part of the site are replaced by their path.
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
_PAGES = ("CONTRIBUTING.md", "CHANGELOG.md")
_SUFFIXES = (".md", ".png", ".svg")
# Fenced blocks and code are matched first, so that links in them stay unchanged.
_LINK = re.compile(
    r"^( *)```.*?^\1```|\[(?P<text>[^\]]+)\]\((?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)|`[^`\n]+`",
    re.MULTILINE | re.DOTALL,
)


def beside() -> list[str]:
    """Return the files outside docs/ that are part of the site, by their path in the checkout."""
    results = sorted(path for path in (ROOT / "results").rglob("*") if path.suffix in _SUFFIXES)
    return [*(path.relative_to(ROOT).as_posix() for path in results), *_PAGES]


def on_config(config: MkDocsConfig) -> None:
    """Replace `results/*.md` in the navigation by the files that exist."""
    if config.nav:
        config.nav = _expanded(config.nav)


def _expanded(entry: Any) -> Any:
    if isinstance(entry, dict):
        return {title: _expanded(child) for title, child in entry.items()}
    if not isinstance(entry, list):
        return entry
    return [item for child in entry for item in (_matching(child) if isinstance(child, str) else [_expanded(child)])]


def _matching(pattern: str) -> list[str]:
    """Return the files that match a pattern with a star; any other name is returned as it is."""
    return sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern)) if "*" in pattern else [pattern]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the files outside docs/."""
    for path in beside():
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:
    """Adapt links to the locations in the site."""
    own = page.file.src_uri
    folder = posixpath.dirname(own if own in beside() else f"docs/{own}")

    def adapt(link: re.Match[str]) -> str:
        if link["path"] is None:
            return link[0]
        path = posixpath.normpath(posixpath.join(folder, link["path"]))
        target = path.removeprefix("docs/")
        if files.get_file_from_path(target) is not None:
            return f"[{link['text']}]({posixpath.relpath(target, posixpath.dirname(own) or '.')}{link['anchor'] or ''})"
        if path.startswith("docs/") or not (ROOT / path).exists():
            return link[0]  # MkDocs reports it
        return f"`{path}`" if link["text"].startswith("`") else f"{link['text']} (`{path}`)"

    return _LINK.sub(adapt, markdown)
