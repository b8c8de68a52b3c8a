"""`cge datasets`: which data sets there are, and which are on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from cge.cli.printing import facts, print_json, print_table

__all__ = ["datasets"]


def datasets(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """List the data sets that load by name: their sizes, where they come from, and whether they are here.

    Example: cge datasets
    """
    from dataclasses import asdict

    from cge.data import catalog

    entries = catalog()
    if as_json:
        print_json({"datasets": [asdict(entry) for entry in entries]})
        return
    sizes = [("nodes", "right"), ("edges", "right"), ("classes", "right"), ("features", "right")]
    print_table(
        [("name", "left"), *sizes, ("here", "left"), ("what", "left")],
        [
            (
                entry.name,
                *(
                    f"{number:,}" if number else "–"
                    for number in (entry.nodes, entry.edges, entry.classes, entry.features)
                ),
                entry.present,
                entry.title,
            )
            for entry in entries
        ],
    )
    print()
    facts((entry.name, entry.home) for entry in entries)
    print("\nLooked for in the folder that CGE_DATA_DIR names, then in the cache, then at their public home.")
