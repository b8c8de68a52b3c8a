"""The study of graphs with types: its cells, and the tables of stored cells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cge.errors import InputError
from studies import typed
from studies.cells import Cell


def test_cells_are_selected_by_graph_and_method() -> None:
    assert {(cell.graph, cell.method) for cell in typed.cells("yelp/gcn", 2)} == {("yelp", "gcn")}
    assert {cell.graph for cell in typed.cells("*/gcn", 1)} == set(typed.GRAPHS) - {"debian"}
    assert {cell.method for cell in typed.cells("debian", 1)} == {"default", "untyped"}
    assert Cell("aifb", "sgc", 0) not in set(typed.cells(None, 1))  # it needs features
    with pytest.raises(InputError, match="the study has no graph 'cora'"):
        list(typed.cells("cora", 1))


def test_tables_compare_with_the_best_closed_form(tmp_path: Path) -> None:
    scores = {"uniform": (0.6, 0.62), "degree": (0.5, 0.52), "default": (0.65, 0.66), "gcn": (0.55, 0.56)}
    (tmp_path / "typed").mkdir()
    rows = [
        {"graph": "imdb", "method": method, "seed": seed, "macro_f1": value, "accuracy": value, "seconds": 1.0}
        | {"metapaths": []}
        for method, values in scores.items()
        for seed, value in enumerate(values)
    ]
    rows[4]["metapaths"] = [{"metapath": "a–b", "weight": 0.5, "uniform_weight": 0.25, "contribution": 0.75}]
    (tmp_path / "typed" / "imdb.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tables = typed.write_report(tmp_path)["graphs"]["imdb"]
    assert tables["best_closed_form"] == "uniform"
    assert tables["gains"]["default"]["gain"] == pytest.approx(0.045)
    page = (tmp_path / "typed.md").read_text()
    assert "| gcn | 55.5 ± 0.7 (2) |" in page
    assert "imdb, gain over `uniform` in percentage points: default +4.5 (paired t-test" in page
    assert "| imdb | a–b | 50 % | 25 % | 75 % |" in page
