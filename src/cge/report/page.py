"""The report: one HTML file that opens offline. What it shows is in facts.py; how, in page.html, page.css, page.js.

Data and the chart library (Plotly) lie in the page as compressed text. Nothing of the user's is ever read as markup.
JSON escapes what is not ASCII, for ids may hold half of a surrogate pair, which no encoding can write.
"""

from __future__ import annotations

import base64
import gzip
import json
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from cge.report.contents import facts_of
from cge.store.atomic import writable_file, write_files

__all__ = ["write_page"]


def write_page(model: Any, out: str | Path, **told: Any) -> int:
    """Write the report of a trained `CGE` to a file, at once or not at all; return its size in bytes.

    `told` goes to `facts_of`.
    """
    path = writable_file(out)
    home = files("cge.report")
    page = Template((home / "page.html").read_text("utf-8")).substitute(
        style=(home / "page.css").read_text("utf-8"),
        script=(home / "page.js").read_text("utf-8"),
        library=_packed(_library()),
        data=_packed(json.dumps(facts_of(model, **told), ensure_ascii=True, allow_nan=False)),
    )
    content = page.encode()
    write_files({path: lambda stream: stream.write(content)})
    return len(content)


def _library() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
