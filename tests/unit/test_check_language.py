"""`scripts/check_language.py` reports retired names and locals, and nothing else."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "check_language.py"))


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("model.label_votes_ and label_votes=", ["label_votes_", "label_votes"]),
        ("CGE(encoder='table', weighting='none', n_models=3)", ["encoder='table'", "weighting='none", "n_models"]),
        ("the selection labels judge each challenger", ["selection labels", "judge", "challenger"]),
        ("cge fit --threads 2 --held-out 0.2", ["--threads", "--held-out"]),
        ("best_round_, on_round, compared_, worth()", ["best_round_", "on_round", "compared_", "worth("]),
        ("CGE(folds=3) and Task(folds=[nodes])", ["folds="]),
        ("Additions with a payload", ["Additions", "payload"]),
        ("z = Σ A(p) x(end) W, x(endpoint), max(end)", ["x(end)"]),
        ("weighting='uniform'; best_epoch_; held-out nodes; heated_by; twinkle; measure; `n_jobs=2`", []),
        ("classifier='mlp', search_results_, GraphUpdate, validation labels, probability, temperature", []),
    ],
)
def test_retired_names(line: str, names: list[str], tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text(f"first line\n{line}\n")
    places = list(SCRIPT["retired_names"](file))
    assert sorted(place.name for place in places) == sorted(names)
    assert {place.line for place in places} <= {2}


def test_retired_locals(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        "class Problem:\n    found: str\n\n    def __init__(self, found):\n        self.found = found\n\n\n"
        "def f(one, left_side):\n    told, right = 1, 2\n    for asked in [left for left in ()]:\n        pass\n"
        "    return lambda found_it: one + told\n\n\nfound = f(one=1)\n"
    )
    places = [(place.line, place.name) for place in SCRIPT["retired_locals"](file)]
    assert sorted(places) == [(8, "one"), (9, "told"), (10, "asked"), (10, "left"), (15, "found")]


def test_retired_words_for_established_terms(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text("def f(leaders, ends):\n    for heat in leaders:\n        members = heat + f(ends, facts=1)\n")
    places = [(place.line, place.name, place.hint) for place in SCRIPT["retired_locals"](file)]
    assert sorted(places) == [(1, "leaders", "use ensemble"), (2, "heat", "use temperature")]


def test_tests_are_scanned_for_names_and_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_one.py").write_text("found = 1\nvoting = 'label_votes'\n")
    monkeypatch.setitem(SCRIPT["files"].__globals__, "ROOT", tmp_path)
    (tmp_path / "README.md").write_text("")
    (tmp_path / "CONTRIBUTING.md").write_text("best_round_\n")
    places = [(place.path.name, place.line, place.name) for place in SCRIPT["places"]()]
    assert places == [
        ("test_one.py", 2, "voting"),
        ("test_one.py", 2, "label_votes"),
        ("CONTRIBUTING.md", 1, "best_round_"),
        ("test_one.py", 1, "found"),
    ]


def test_a_name_is_allowed_in_one_file_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCRIPT["files"].__globals__, "ROOT", tmp_path)
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    for name in ("test_store", "test_other", "test_check_language"):
        (tmp_path / "tests" / "unit" / f"{name}.py").write_text("'facts'\n'heat'\n")
    places = {(place.path.stem, place.name) for place in SCRIPT["places"]()}
    assert places == {("test_store", "heat"), ("test_other", "facts"), ("test_other", "heat")}
