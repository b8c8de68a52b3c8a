"""The command line as a person meets it: tables, JSON, exit codes, one sentence for each error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cge.cli.main import run
from tests.integration.test_malformed_files import CASES, Case

FLAGS = {"ids": "--ids", "directed": "--directed", "self_loops": "--self-loops", "multilabel": "--multilabel"}


# The other cases need an option that only Python has.
CALLABLE = [case for case in CASES if set(case.options) <= set(FLAGS)]


def arguments(case: Case, folder: Path) -> list[str]:
    """Return the call of `cge check` for a malformed file."""
    words = ["check", str(folder / case.edges)]
    for name in ("labels", "features", "nodes"):
        if getattr(case, name):
            words += [f"--{name}", str(folder / getattr(case, name))]
    for name, value in case.options.items():
        words += [FLAGS[name]] if value is True else [FLAGS[name], str(value)]
    return words


@pytest.mark.parametrize("case", CALLABLE, ids=lambda case: case.name)
def test_malformed_files_end_in_one_sentence_and_exit_code_2(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case.write(tmp_path)
    assert run(arguments(case, tmp_path)) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"cge: {case.expected(tmp_path)}\n"


def test_check_shows_graph_and_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "e.csv").write_text("a,b\nb,c\n")
    (tmp_path / "l.csv").write_text("node,label\na,x\nc,y\nb,x\n")
    assert run(["check", str(tmp_path / "e.csv"), "--labels", str(tmp_path / "l.csv")]) == 0
    shown = capsys.readouterr().out
    assert "3 of 3" in shown
    assert "2: x 2, y 1" in shown
    assert run(["check", str(tmp_path / "e.csv"), "--labels", str(tmp_path / "l.csv"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["graph"]["nodes"], found["labeled"], found["classes"]) == (3, 3, {"x": 2, "y": 1})


def test_demo_prints_tables_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo"]) == 0
    shown = capsys.readouterr().out
    assert "2,708" in shown
    assert "→" in shown
    assert run(["demo", "--json", "--seed", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["nodes"], found["edges"], found["walks"], len(found["paths"])) == (2708, 5278, 27080, 6)
    assert found["classes"]["Theory"] == 351


def test_datasets_lists_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["datasets", "--json"]) == 0
    found = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)["datasets"]}
    assert len(found) == 13
    assert found["cora"]["present"] == "bundled"
    assert run(["datasets"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in found)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nope"], "No such command 'nope'; 'cge --help' lists what there is"),
        (["check"], "Missing argument 'edges'; 'cge check --help' lists what there is"),
        (["check", "--xyz", "x"], "No such option: --xyz; 'cge check --help' lists what there is"),
        (["bench", "nope"], "there is no benchmark 'nope'; choose one of load, walks"),
        (["check", "no-such-file.csv"], "no-such-file.csv: there is no such file"),
    ],
)
def test_misuse_is_one_sentence(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    assert capsys.readouterr().err == f"cge: {sentence}\n"


def test_errors_of_ours_are_exit_code_1_and_debug_shows_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(name: str) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("cge.data.load_dataset", broken)
    assert run(["demo"]) == 1
    expected = "cge: unexpected ZeroDivisionError: oh; run again with --debug for the traceback\n"
    assert capsys.readouterr().err == expected
    with pytest.raises(ZeroDivisionError):
        run(["demo", "--debug"])


def test_interruption_is_exit_code_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cge.data.load_dataset", interrupted)
    assert run(["demo"]) == 130
    assert capsys.readouterr().err == "cge: interrupted\n"


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == "0.1.0\n"
    for words in (["--help"], ["demo", "--help"], ["check", "--help"], ["datasets", "--help"], ["bench", "--help"]):
        assert run(words) == 0
        assert "Usage: cge" in capsys.readouterr().out
