"""`cge datasets`: list the data sets, and which of them are on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cge.cli.common_options import Json
from cge.cli.main import print_error
from cge.cli.printing import print_json, print_pairs, print_table

if TYPE_CHECKING:
    from cge.data import DatasetInfo

_FIELDS = ("name", "title", "nodes", "edges", "classes", "features", "source", "license", "location", "downloadable")


def datasets(
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the names, one per line.")] = False,
    as_json: Json = False,
) -> None:
    """List the data sets that load by name, and whether they are on this machine.

    CORA is part of cge. Others are downloaded when they are first loaded, or prepared by hand (docs/datasets.md).

    For example:

      cge datasets
      cge datasets --quiet
    """
    from cge.data import catalog
    from cge.data.sets.fetch import cache_dir, data_dir

    entries, folder, cache = catalog(), data_dir(), cache_dir()
    if folder is not None and not folder.is_dir():
        print_error(
            f"CGE_DATA_DIR is {str(folder)!r}, which is not a folder; set it to the one with planetoid/ and so on"
        )
    elif folder is not None and all(entry.location != "CGE_DATA_DIR" for entry in entries):
        print_error(
            f"CGE_DATA_DIR is {str(folder)!r}, which contains none of the data sets; "
            f"files are expected at {entries[1].files[0].path} and so on"
        )
    if as_json:
        rows = [{key: getattr(entry, key) for key in _FIELDS} for entry in entries]
        print_json({"data_dir": folder and str(folder), "cache_dir": str(cache), "datasets": rows})
        return
    if quiet:
        print("\n".join(entry.name for entry in entries))
        return
    sizes = [("nodes", "right"), ("edges", "right"), ("classes", "right"), ("features", "right")]
    print_table(
        [("name", "left"), *sizes, ("location", "left"), ("access", "left"), ("title", "left")],
        [(entry.name, *_sizes(entry), entry.location, entry.access, entry.title) for entry in entries],
    )
    print()
    print_pairs((entry.name, entry.source) for entry in entries)
    print()
    print_pairs([("CGE_DATA_DIR", "not set" if folder is None else str(folder)), ("cache", str(cache))])
    print(
        "\nFiles are searched in CGE_DATA_DIR, then in the cache, and then downloaded where the access is 'download'.\n"
        "Data sets with the access 'manual' are described in docs/datasets.md."
    )


def _sizes(entry: DatasetInfo) -> list[str]:
    return [f"{number:,}" if number else "–" for number in (entry.nodes, entry.edges, entry.classes, entry.features)]
