"""The report as one HTML file that opens offline: contents.py has the data; page.html, page.css and page.js show it.

Data and the chart library (Plotly) are in the page as compressed text. The user's texts are never inserted as markup.
JSON escapes what is not ASCII, because ids may contain half of a surrogate pair, which UTF-8 cannot encode.
"""

from __future__ import annotations

import base64
import gzip
import json
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from cge.estimators.path_estimator import PathEstimator
from cge.report.contents import report_contents
from cge.store.atomic import writable_file, write_files


def write_page(model: PathEstimator, out: str | Path, **options: Any) -> int:
    """Write the report of a trained model to a file, atomically; return its size in bytes.

    `options` are those of `report_contents`.
    """
    from plotly.offline import get_plotlyjs

    path, folder = writable_file(out), files("cge.report")
    contents = report_contents(model, **options)
    page = Template((folder / "page.html").read_text("utf-8")).substitute(
        style=(folder / "page.css").read_text("utf-8"),
        script=(folder / "page.js").read_text("utf-8"),
        library=_compressed(get_plotlyjs()),
        data=_compressed(json.dumps(contents, ensure_ascii=True, allow_nan=False)),
    )
    content = page.encode()
    write_files({path: lambda stream: stream.write(content)})
    return len(content)


def _compressed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
