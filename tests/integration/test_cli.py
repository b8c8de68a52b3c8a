"""The command line: tables, JSON, exit codes, one sentence for each error."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import cge
from cge.cli import demo
from cge.cli.main import run
from tests.integration.commands import json_of, subprocess_environment

ROOT = Path(__file__).parents[2]
HEADER_NOTE = (
    "line 1 was read as an edge, but its ids 'who' and 'whom' occur nowhere else; "
    "if it names the columns, pass --header"
)
TIMESTAMP_NOTE = (
    "column 3 was read as weights, but 1082040961 looks like a timestamp; pass --unweighted to ignore the column"
)
UNREAD_NOTE = (
    "the column 'strength' is not read; --weight or --edge-type names one that holds weights or types, "
    "--unweighted says that none does"
)


def checked(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """Return what `cge check … --json` prints."""
    assert run(["check", *words, "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    result: dict[str, Any] = json.loads(printed.out)
    return result


def test_options_of_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, labels = tmp_path / "edges.csv", tmp_path / "labels.csv"
    path.write_text("% about\nkind|to|by|cost\nx|1|2|3\ny|2|3|4\n")
    labels.write_text("mood,who\nhappy,1\nsad,2\n")
    words = ["--comment", "%", "--source", "by", "--target", "2", "--weight", "cost", "--edge-type", "kind"]
    result = checked(capsys, str(path), "--delimiter", "|", "--header", *words, "--directed")
    assert result["reading"]["columns"] == {"source": "by", "target": "to", "weight": "cost", "edge_type": "kind"}
    assert (result["graph"]["edges"], result["graph"]["weighted"], result["graph"]["edge_types"]) == (
        2,
        True,
        ["x", "y"],
    )
    path.write_text("1\t2\t5\n2\t3\t6\n")
    words = ["--delimiter", "tab", "--no-header", "--unweighted", "--comment", ""]
    result = checked(capsys, str(path), *words, "--labels", str(labels), "--node-column", "who", "--label-column", "1")
    assert result["graph"]["weighted"] is False
    assert result["classes"] == {"happy": 1, "sad": 1}
    assert result["reading"]["columns"] == {"source": 1, "target": 2}
    assert checked(capsys, str(path), "--source", "1", "--target", "3")["graph"]["nodes"] == 4


def test_check_says_how_it_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("source;target;weight\n1;2;5\n2;1;6\n3;3;1\n2;3;1\n")
    result = checked(capsys, str(path))
    assert result["reading"] == {
        "path": str(path),
        "delimiter": "semicolons",
        "header": True,
        "columns": {"source": "source", "target": "target", "weight": "weight"},
        "unread": [],
        "ids": "integers",
        "first_ids": [1, 2, 3],
        "rows": 4,
        "duplicates_merged": 1,
        "self_loops_dropped": 1,
    }
    assert result["notes"] == []
    assert result["graph"]["degree_quantiles"] == {
        "min": 1.0,
        "p25": 1.0,
        "median": 1.0,
        "p75": 1.5,
        "p90": 1.8,
        "p99": 1.98,
        "max": 2.0,
    }
    assert checked(capsys, str(path), "--self-loops")["reading"]["self_loops_dropped"] == 0
    assert run(["check", str(path)]) == 0
    output = {line[:14].strip(): line[14:].strip() for line in capsys.readouterr().out.splitlines()}
    assert output["separated by"] == "semicolons, with a header"
    assert output["columns"] == "source = 'source', target = 'target', weight = 'weight'"
    assert output["ids"] == "integers: 1, 2, 3"
    assert output["rows"] == "4, 1 duplicates merged, 1 self-loops dropped"


@pytest.mark.parametrize(
    ("content", "note"),
    [
        (
            "who,whom\nann,bob\nbob,cy\n",
            HEADER_NOTE,
        ),
        (
            "1.0,2.0\n2.0,3.0\n",
            "ids look like decimal numbers, and '1.0' is read as text; write 1 where 1.0 is meant",
        ),
        (
            "1,2,1082040961\n2,3,1082040962\n",
            TIMESTAMP_NOTE,
        ),
        (
            "source,target,strength\n1,2,5\n2,3,6\n",
            UNREAD_NOTE,
        ),
        ("1,1\n2,2\n", "every row is a self-loop, so there are no edges; pass --self-loops to keep them"),
    ],
)
def test_notes(content: str, note: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "edges.csv"
    path.write_text(content)
    assert checked(capsys, str(path))["notes"] == [note]
    assert run(["check", str(path)]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert f"note: {note}" in output


@pytest.mark.parametrize("words", [["--weight", "c"], ["--edge-type", "d"], ["--unweighted"]])
def test_columns_that_are_not_read_are_told_where_nothing_was_said(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("a,b,c,d\n1,2,3,x\n2,3,4,y\n")
    assert "columns 'c', 'd' are not read" in checked(capsys, str(path))["notes"][0]
    result = checked(capsys, str(path), *words)
    assert not result["notes"]
    assert result["reading"]["unread"] == sorted({"c", "d"} - set(words))


def test_options_about_labels_need_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("1,2\n")
    for words in (["--label-column", "labels.csv"], ["--node-column", "1"], ["--multilabel"]):
        assert run(["check", str(path), *words]) == 2
        assert f"{words[0]} describes the file of --labels; add --labels, or leave it out" in capsys.readouterr().err


def test_a_first_column_that_counts_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("1,ann,bob\n2,bob,cy\n")
    assert run(["check", str(path)]) == 2
    assert "pass --source 2 and --target 3 if column 1 counts the rows, --edge-type 3 to" in capsys.readouterr().err
    assert checked(capsys, str(path), "--source", "2", "--target", "3")["graph"]["edges"] == 2


def test_a_first_node_that_may_be_a_header(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edges, nodes = tmp_path / "edges.csv", tmp_path / "nodes.txt"
    edges.write_text("source,target\nann,bob\nbob,cy\n")
    note = f"{nodes}, line 2: 'who' was read as a node, the only one without an edge; remove the line if it names"
    for names, notes in (
        ("who\nann\nbob\ncy\n", 1),
        ("who\nann\nbob\ncy\ndan\n", 0),  # others have no edges, either
        ("ann\nbob\ncy\ndan\n", 0),
        ("id\nwho\nann\nbob\ncy\n", 0),  # there is a header
    ):
        nodes.write_text(f"# people\n{names}")
        result = checked(capsys, str(edges), "--node-list", str(nodes))["notes"]
        assert len(result) == notes
        assert all(text.startswith(note) for text in result)


@pytest.mark.parametrize(
    "content", ["ann,bob\nbob,cy\n", "1,2\n", "1,2,1.5\n2,3,1082040962\n", "source,target\n1.0,a\na,b\n"]
)
def test_no_notes_where_nothing_is_odd(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "edges.csv").write_text(content)
    assert checked(capsys, str(tmp_path / "edges.csv"))["notes"] == []


def test_paths_of_the_shell(capsys: pytest.CaptureFixture[str]) -> None:
    for given, sentence in [
        ("", "the path is empty; pass the path of a file"),
        ("-", "reading from standard input is not supported; save it to a file"),
        ("http://example.org/e.csv", "'http://example.org/e.csv' is a web address; download it first"),
    ]:
        assert run(["check", given]) == 2
        assert capsys.readouterr().err == f"cge: {sentence}\n"


def test_piped_tables_have_no_blanks_at_the_ends_of_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "e.csv").write_text("a,b\n")
    for words in (["check", str(tmp_path / "e.csv")], ["datasets"]):
        assert run(words) == 0
        lines = capsys.readouterr().out.split("\n")
        assert [line for line in lines if line != line.rstrip()] == []


def test_check_shows_graph_and_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "e.csv").write_text("a,b\nb,c\n")
    (tmp_path / "l.csv").write_text("node,label\na,x\nc,y\nb,x\n")
    assert run(["check", str(tmp_path / "e.csv"), "--labels", str(tmp_path / "l.csv")]) == 0
    output = capsys.readouterr().out
    assert "3 of 3" in output
    assert "2: x 2, y 1" in output
    result = json_of(capsys, "check", str(tmp_path / "e.csv"), "--labels", str(tmp_path / "l.csv"))
    assert (result["graph"]["nodes"], result["labeled"], result["classes"]) == (3, 3, {"x": 2, "y": 1})


def test_demo_prints_tables_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["demo", "--max-epochs", "20", "--out", str(tmp_path / "demo")]
    result = json_of(capsys, *words)
    demo._print(cge.load_dataset("cora"), result)
    output = capsys.readouterr().out
    assert [line for line in output.split("\n") if line != line.rstrip()] == []
    assert "2,708" in output
    assert "Accuracy on 1,000 test papers" in output
    assert output.count("(probability 0.") == 3
    methods = {row["method"]: row for row in result["accuracy"]}
    assert list(methods) == [
        "cge",
        *["cge (uniform weights)"] * (result["weighting"] != "uniform"),
        "SGC",
        "label propagation",
        "logistic regression (features)",
    ]
    assert methods["SGC"]["accuracy"] == pytest.approx(0.815, abs=0.01)
    assert methods["label propagation"]["accuracy"] == pytest.approx(0.718, abs=0.01)
    assert methods["logistic regression (features)"]["accuracy"] == pytest.approx(0.604, abs=0.01)
    for row in methods.values():
        assert row["interval"][0] < row["accuracy"] < row["interval"][1]
    assert (tmp_path / "demo" / "report.html").stat().st_size < 3_000_000
    model = cge.load(tmp_path / "demo")
    assert (model.weighting_, model.classifiers_) == (result["weighting"], result["classifiers"])
    data = cge.load_dataset("cora")
    assert data.split is not None
    assert data.node_titles is not None
    test, fields = data.split.test, [name.replace("_", " ") for name in data.class_names]
    accuracy = model.score(data.node_titles[test].tolist(), [fields[code] for code in data.labels[test]])
    assert accuracy == pytest.approx(methods["cge"]["accuracy"])
    first = result["explanations"][0]  # the model that was saved predicts the same
    assert model.predict([first["paper"]]).tolist() == [first["field"]]
    number = {title: node for node, title in enumerate(data.node_titles.tolist())}
    for paper in result["explanations"]:
        for path in paper["paths"]:
            assert path["papers"][0] == paper["paper"]
            nodes = [number[title] for title in path["papers"]]
            assert [fields[data.labels[node]] for node in nodes] == path["fields"]
            for node, following in pairwise(nodes):
                assert node == following or following in data.graph.neighbors(node)


def test_datasets_lists_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    result = {entry["name"]: entry for entry in json_of(capsys, "datasets")["datasets"]}
    assert len(result) == 17
    assert result["cora"]["location"] == "bundled"
    assert run(["datasets"]) == 0
    output = capsys.readouterr().out
    assert all(name in output for name in result)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nope"], "No such command 'nope'; 'cge --help' lists the commands"),
        (["chek"], "No such command 'chek'; did you mean 'check'? 'cge --help' lists the commands"),
        (["export"], "No such command 'export'; did you mean 'embed'? 'cge --help' lists the commands"),
        (["train"], "No such command 'train'; did you mean 'fit'? 'cge --help' lists the commands"),
        (
            ["check", "cora"],
            "cora: there is no such file; EDGES is a file, data sets by name work in 'cge evaluate' and 'cge tune'",
        ),
        (["check"], "give a file EDGES, or --edges TYPE=FILE for each edge type, and not both"),
        (["scoer"], "No such command 'scoer'; did you mean 'score', 'serve'? 'cge --help' lists the commands"),
        (["--", "--xyz"], "No such option: --xyz; 'cge --help' lists the commands"),
        (["check", "--xyz", "x"], "No such option: --xyz; 'cge check --help' lists the options"),
        (["fit", "--hop", "3"], "No such option: --hop; did you mean --hops? 'cge fit --help' lists the options"),
        (
            ["fit", "edges.csv"],
            (
                "Missing option '--labels'; a fit needs labels, and 'cge embed EDGES --out vectors.parquet' makes "
                "vectors without any; 'cge fit --help' lists the options"
            ),
        ),
        (["score", "model"], "Missing option '--labels'; 'cge score --help' lists the options"),
        (
            ["bench", "nope"],
            (
                "there is no benchmark 'nope'; choose one of engine, fit, load, scale, serve, skipgram, startup, "
                "typed, update, walks"
            ),
        ),
        (["check", "no-such-file.csv"], "no-such-file.csv: there is no such file; check its path"),
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


def test_help_names_all_formats(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run(["check", "--help-all"]) == 0
    output = capsys.readouterr().out
    assert ".csv, .tsv, .txt (each also .gz), .parquet, .npy, .npz or .mtx" in " ".join(output.split())
    for flag in ("--ids", "--delimiter", "--edge-type", "--multilabel", "--unweighted", "--no-header"):
        assert flag in output


def test_help_of_a_benchmark_is_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "walks", "--help"]) == 0
    assert "--tools" in capfd.readouterr().out


# ---------------------------------------------------------------------- processes


@pytest.mark.parametrize("words", ["datasets", "--help", "check --help"])
def test_a_closed_pipe_is_no_error(words: str, tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "cge", *words.split()],
        stdout=write,
        stderr=subprocess.PIPE,
        env=subprocess_environment(),
        cwd=tmp_path,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_with_a_closed_error_stream_nothing_goes_to_the_output(tmp_path: Path) -> None:
    call = f"{sys.executable} -m cge check no-such-file.csv 2>&-"
    done = subprocess.run(["sh", "-c", call], capture_output=True, env=subprocess_environment(), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")


def test_interruption_while_importing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Slow(ModuleType):
        def __getattr__(self, name: str) -> None:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "cge.cli.app", Slow("cge.cli.app"))
    assert run(["demo"]) == 130
    assert capsys.readouterr().err == "cge: interrupted\n"


INTERRUPTED_AT = """
import os, signal, sys
import cge.cli

class Interrupter:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupter())
signal.signal(signal.SIGINT, signal.default_int_handler)
cge.cli.main(["demo"])
"""


@pytest.mark.parametrize("module", ["typer", "rich.console", "cge.data", "cge.sampling"])
def test_an_interruption_during_imports_is_one_word(module: str) -> None:
    call = [sys.executable, "-c", INTERRUPTED_AT.format(module=module)]
    done = subprocess.run(call, capture_output=True, env=subprocess_environment())
    assert (done.returncode, done.stderr) == (130, b"cge: interrupted\n")


def test_commands_import_what_is_slow_only_when_they_run() -> None:
    light = {"typer", "rich", "cge", *sys.stdlib_module_names}
    for path in sorted((ROOT / "src" / "cge" / "cli").glob("*.py")):
        for statement in ast.parse(path.read_text()).body:
            names = [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else []
            if isinstance(statement, ast.ImportFrom) and statement.module:
                names = [statement.module]
            for name in names:
                assert name.split(".")[0] in light, path
                assert not name.startswith("cge") or name.startswith("cge.cli") or name == "cge.errors", path
