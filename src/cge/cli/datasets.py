"""`cge datasets`: which data sets there are, and which are on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cge.cli.common_options import Json
from cge.cli.main import complain
from cge.cli.printing import facts, print_json, print_table

if TYPE_CHECKING:
    from cge.data import DatasetInfo

__all__ = ["datasets"]

_KEPT = ("name", "title", "nodes", "edges", "classes", "features", "source", "license", "location", "downloadable")


def datasets(
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the names alone, one on a line.")] = False,
    as_json: Json = False,
) -> None:
    """List the data sets that load by name, and whether they are here.

    CORA comes with cge. Others are fetched when they are first loaded, or made by hand (docs/datasets.md).

    For example:

      cge datasets
      cge datasets --quiet
    """
    from cge.data import catalog
    from cge.data.sets.fetch import cache_dir, data_dir

    entries, folder, cache = catalog(), data_dir(), cache_dir()
    if folder is not None and not folder.is_dir():
        complain(
            f"CGE_DATA_DIR is {str(folder)!r}, which is not a folder; name the one that holds planetoid/ and so on"
        )
    elif folder is not None and all(entry.location != "CGE_DATA_DIR" for entry in entries):
        complain(
            f"CGE_DATA_DIR is {str(folder)!r}, which holds none of the sets; "
            f"files are looked for at {entries[1].files[0].path} and so on"
        )
    if as_json:
        found = [{key: getattr(entry, key) for key in _KEPT} for entry in entries]
        print_json({"data_dir": folder and str(folder), "cache_dir": str(cache), "datasets": found})
        return
    if quiet:
        print("\n".join(entry.name for entry in entries))
        return
    sizes = [("nodes", "right"), ("edges", "right"), ("classes", "right"), ("features", "right")]
    print_table(
        [("name", "left"), *sizes, ("here", "left"), ("comes by", "left"), ("what", "left")],
        [(entry.name, *_sizes(entry), entry.location, entry.access, entry.title) for entry in entries],
    )
    print()
    facts((entry.name, entry.source) for entry in entries)
    print()
    facts([("CGE_DATA_DIR", "not set" if folder is None else str(folder)), ("cache", str(cache))])
    print(
        "\nLooked for in the folder that CGE_DATA_DIR names, then in the cache. What comes by download is then "
        "fetched;\nwhat comes by hand is not offered in this form by its home: docs/datasets.md tells how to make it."
    )


def _sizes(entry: DatasetInfo) -> list[str]:
    return [f"{number:,}" if number else "–" for number in (entry.nodes, entry.edges, entry.classes, entry.features)]
