"""`cge fit`: files in, a model out; progress, interruptions and errors."""

from __future__ import annotations

import errno
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cge
from cge.cli.command import flag_of
from cge.cli.data import check
from cge.cli.estimator_options import METHODS, estimator_of
from cge.cli.fit import COMMON, fit
from cge.cli.fit_output import FitProgress
from cge.cli.main import run
from cge.cli.output_folder import Checkpoint
from cge.estimators.configs import flat_params, flat_settings, make_estimator
from cge.training.history import PaperEpoch
from tests.integration.commands import json_of, subprocess_environment
from tests.integration.fit_command import (
    SMALL_FIT,
    SMALL_FIT_FLAGS,
    fit_arguments,
    tensor_hashes,
    usage_error,
)


def without_warnings(errors: str) -> str:
    """Return the error stream without the warnings about path weights, which so small a fit may cause."""
    return "".join(line for line in errors.splitlines(True) if not line.startswith("warning: path weights "))


def test_the_model_equals_that_of_the_api(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(fit_arguments(files, *SMALL_FIT_FLAGS, "--seed", "3", "--weighting", "cnn")) == 0
    printed = capsys.readouterr()
    assert without_warnings(printed.err) == ""
    graph = cge.read_graph(files / "edges.csv")
    codes, names = cge.read_labels(files / "labels.csv", graph)
    y = {node: names[code] for node, code in zip(graph.node_ids.tolist(), codes, strict=True) if code >= 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cge.CgeWarning)
        expected = make_estimator(
            cge.PaperCGE, {**SMALL_FIT, "setting": "transductive", "random_state": 3, "weighting": "cnn"}
        ).fit(graph, y)
    model = cge.load(files / "m")
    assert model.get_params() == expected.get_params()
    assert model.classes_.tolist() == ["left", "right"]
    assert model.predict(["l15", "r15"]).tolist() == ["left", "right"]
    assert np.array_equal(model.predict_proba(), expected.predict_proba())
    output = {line[:14].strip(): line[14:].strip() for line in printed.out.splitlines()}
    seen, best = expected.labels_seen_, expected.selection_history_[expected.best_epoch_ - 1]
    assert output["nodes"] == "40"
    assert output["edges"] == f"{graph.num_edges:,}"
    assert output["labels"] == (
        f"20 ({20 - seen['validation']} training, {seen['validation']} held out for validation); path weights were "
        f"learned on the {20 - seen['validation']} and again in the refit"
    )
    assert output["best epoch"].startswith(f"{expected.best_epoch_} of 4, selected on held-out labels")
    assert output["validation"] == f"accuracy {best.validation_accuracy:.1%} on {seen['validation']} labels"
    assert re.fullmatch(r"0\.\d+ ± [\d.e-]+, effective sample size \d+% of the paths", output["path weights"])
    assert output["saved to"] == str(files / "m")
    assert output["in Python"].startswith(f'model = cge.load("{files / "m"}");')
    assert [file.name for file in (files / "m").iterdir() if file.suffix != ".safetensors"] == ["model.json"]


def test_json_is_one_object_and_nothing_else(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "--validation",
        str(files / "validation.csv"),
        "--weighting",
        "uniform",
        "--learning-rate",
        "0.05",
    ]
    result = json_of(capsys, *fit_arguments(files, *SMALL_FIT_FLAGS, *words))
    model = cge.load(files / "m")
    assert (result["folder"], result["nodes"], result["classes"]) == (str(files / "m"), 40, ["left", "right"])
    assert (result["method"], result["labels_seen"]) == ("paper", {"train": 20, "outer": 0, "validation": 8})
    assert (result["path_weight_summary"], result["refitted"], result["classifiers"]) == (None, False, None)
    assert result["best_epoch"] == model.best_epoch_
    assert result["validation_accuracy"] == model.history_[model.best_epoch_ - 1].validation_accuracy
    assert result["history"] == model.history_.rows()
    assert (result["selection_history"], result["warnings"], result["notes"]) == (None, [], [])
    assert result["settings"] == flat_params(model)
    assert (result["settings"]["learning_rate"], result["settings"]["n_jobs"]) == (0.05, None)
    assert 0 < result["seconds"] < 600


def test_the_default_method_is_cge(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--method", "cge", "--max-epochs", "20", "--dim", "4", "--validation", str(files / "validation.csv")]
    result = json_of(capsys, *fit_arguments(files, *words))
    model = cge.load(files / "m")
    assert isinstance(model, cge.CGE)
    assert (result["weighting"], result["classifiers"]) == (model.weighting_, model.classifiers_)
    assert result["search_results"] == model.search_results_
    assert result["settings"]["max_epochs"] == model.training.max_epochs == 20
    assert run(fit_arguments(files, *words)) == 0
    output = {line[:11].strip(): line[11:].strip() for line in capsys.readouterr().out.splitlines()}
    assert output["classifier"].startswith(model.classifiers_[0])
    assert output["weighting"]


def test_multilabel_classes_keep_their_names(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (files / "labels.csv").open("a") as more:
        more.write("l1,tall\nr1,tall\nr2,tall\n")
    assert run(fit_arguments(files, *SMALL_FIT_FLAGS, "--multilabel", "--weighting", "uniform", "--no-refit")) == 0
    model = cge.load(files / "m")
    assert model.classes_.tolist() == ["left", "right", "tall"]
    assert model.predict(["l1"]).shape == (1, 3)
    assert (model.refit, model.selection_history_) == (False, None)
    assert "micro-F1" in capsys.readouterr().out


# ---------------------------------------------------------------------- settings


def options_in(words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the flags that a help page lists."""
    monkeypatch.setenv("COLUMNS", "200")
    assert run(words) == 0
    output = capsys.readouterr().out
    assert "cge fit edges.csv --labels labels.csv --out model" in output
    assert "callable" not in output
    # Lines of a wrapped description, which may begin with a flag too, are indented further.
    return re.findall(r"^│ \*? {1,6}(--[a-z-]+) ", output.replace("│ --", "│  --"), re.MULTILINE)


def test_help_has_twelve_options_and_help_all_the_rest(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    short = options_in(["fit", "--help"], capsys, monkeypatch)
    assert sorted(short) == sorted([*map(flag_of, COMMON), "--help", "--help-all"])
    assert len(COMMON) == 12
    every = options_in(["fit", "--help-all"], capsys, monkeypatch)
    assert len(every) == len(set(every))
    assert {"--method", "--config", "--json", "--ids", "--multilabel", *short} < set(every)
    assert {flag_of(name) for method in METHODS for name in flat_settings(estimator_of(method))} < set(every)


def test_no_setting_is_called_as_an_option_of_files() -> None:
    of_files = set(inspect.signature(fit).parameters)
    assert of_files >= set(inspect.signature(check).parameters)
    for method in METHODS:
        assert not of_files & set(flat_settings(estimator_of(method)))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--method cge --window 3", "--window is an option of --method paper, not of --method cge"),
        ("--method paper --hops 3", "--hops is an option of --method cge, not of --method paper"),
        ("--method table", "--method must be one of cge, paper, found 'table'"),
    ],
)
def test_an_option_of_the_other_method_is_refused(
    words: str, problem: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert usage_error(fit_arguments(files, *words.split()), capsys).startswith(problem)


def test_help_of_all_commands_does_not_wait_for_libraries() -> None:
    code = "import sys; from cge.cli.main import run; run(['--help']); print({'numpy', 'torch'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=subprocess_environment(), check=True
    )
    assert "fit" in done.stdout
    assert done.stdout.endswith("set()\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--dim 0", "--dim must be an integer from 1 to 4096, found 0"),
        ("--dim few", "--dim must be an integer from 1 to 4096, found 'few'"),
        ("--dim 2.5", "--dim must be an integer from 1 to 4096, found 2.5"),
        ("--seed -1", "--seed must be an integer of at least 0, found -1"),
        ("--jobs 0", "--jobs must be an integer of at least 1, -1 or none, found 0"),
        (
            "--seed 18446744073709551616",
            "--seed must be an integer that fits in 64 bits, found 18446744073709551616",
        ),
        ("--max-epochs 9223372036854775808", "--max-epochs must be an integer that fits in 64 bits, found 9"),
        ("--learning-rate nan", "--learning-rate must be a number above 0, at most 10 or none, found nan"),
        ("--loss hinge", "--loss must be one of auto, softmax, negative, found 'hinge'"),
        ("--dims 3", "No such option: --dims"),
    ],
)
def test_a_wrong_setting_is_refused_before_anything_is_read(
    words: str, sentence: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "edges.csv").unlink()
    assert run(fit_arguments(files, *words.split())) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"cge: {sentence}")
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    assert not (files / "m").exists()


# ---------------------------------------------------------------------- input that is wrong


def test_files_that_are_wrong(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels, more = files / "labels.csv", files / "validation.csv"
    more.write_text(labels.read_text())
    problem = usage_error(fit_arguments(files, "--validation", str(more)), capsys)
    assert problem.startswith(f"{more}: every node in it has a label in {labels}, too")
    problem = usage_error(fit_arguments(files, "--setting", "inductive"), capsys)
    assert problem.startswith("--setting inductive needs node features")
    labels.write_text("node,label\nl1,left\nnobody,right\n")
    problem = usage_error(fit_arguments(files), capsys)
    assert "node 'nobody' in" in problem
    assert "is not in the graph (ids look like 'l0', 'l1')" in problem
    assert run(["check", str(files / "edges.csv"), "--labels", str(labels)]) == 2
    assert capsys.readouterr().err == f"cge: {problem}\n"
    labels.write_text("node,label\nl1,left\nl2,left\n")
    assert usage_error(fit_arguments(files), capsys) == "--labels must hold at least two classes, found only 'left'"
    labels.unlink()
    assert usage_error(fit_arguments(files), capsys) == f"{labels}: there is no such file; check its path"
    assert not (files / "m").exists()
    assert usage_error(["fit", "e.csv"], capsys).startswith("Missing option '--labels'")


def test_a_folder_that_cannot_be_written_is_refused_before_training(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = files / "m"
    out.write_text("mine")
    assert usage_error(fit_arguments(files), capsys) == f"{out} is a file; give --out a folder"
    assert out.read_text() == "mine"
    problem = usage_error(fit_arguments(files, "--out", str(out / "deeper")), capsys)
    assert problem == f"{out / 'deeper'} cannot be created: {out} is a file; give --out another folder"
    out.unlink()
    (out / "checkpoint").mkdir(parents=True)
    note = out / "checkpoint" / "note.json"
    note.write_text("{}")
    assert usage_error(fit_arguments(files), capsys).startswith(f"{note} is no checkpoint of cge; move it away")
    note.rename(out / "model.json")
    assert usage_error(fit_arguments(files), capsys).startswith(
        f"{out / 'model.json'} was not written by cge; move it away"
    )
    assert (out / "model.json").read_text() == "{}"


def test_a_folder_that_may_not_be_written(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(**_: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("cge.cli.output_folder.TemporaryFile", denied)  # whoever runs the tests may write everywhere
    problem = usage_error(fit_arguments(files), capsys)
    assert problem == f"{files / 'm'} cannot be written (Permission denied); give --out another folder"
    assert not (files / "m").exists()


def test_notes_and_warnings_are_lines_on_the_error_stream(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (files / "validation.csv").open("a") as more:
        more.write("l1,left\n")
    words = [*SMALL_FIT_FLAGS, "--validation", str(files / "validation.csv"), "--weighting-lr", "1e-9"]
    assert run(fit_arguments(files, *words)) == 0
    note, warning = capsys.readouterr().err.splitlines()
    assert note == (
        f"note: 1 of 9 nodes in {files / 'validation.csv'} have a label in {files / 'labels.csv'}, too: "
        "they are used for training only"
    )
    assert re.match(
        r"warning: path weights are nearly constant .* --weighting uniform gives about the same vectors", warning
    )
    assert run(fit_arguments(files, *words, "--quiet")) == 0
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"{warning}\n")
    assert run(fit_arguments(files, *words, "--json")) == 0
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    assert [f"note: {text}" for text in result["notes"]] == [note]
    assert [f"warning: {text}" for text in result["warnings"]] == [warning]


# ---------------------------------------------------------------------- interrupted and continued


def test_a_killed_fit_continues_to_the_same_model(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*SMALL_FIT_FLAGS, "--weighting", "average", "--max-epochs", "8", "--patience", "8", "--quiet"]
    process = subprocess.Popen(
        [sys.executable, "-m", "cge", *fit_arguments(files, *words)], env=subprocess_environment()
    )
    checkpoints = files / "m" / "checkpoint"
    deadline = time.monotonic() + 60
    while not list(checkpoints.glob("*.json")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    done = Checkpoint(files / "m").epochs("select")
    assert 1 <= done <= 9
    assert not (files / "m" / "model.json").exists()
    assert run(fit_arguments(files, *words, "--resume")) == 0
    assert not checkpoints.exists()
    other = files / "other"
    assert run(fit_arguments(files, *words, "--out", str(other))) == 0
    assert tensor_hashes(files / "m") == tensor_hashes(other)
    rows = [
        json.loads((folder / "model.json").read_text())["metadata"]["selection_history"]
        for folder in (files / "m", other)
    ]
    assert [row["path_loss"] for row in rows[0]] == [row["path_loss"] for row in rows[1]]


class Interrupter:
    """Presses Ctrl-C after an epoch of a stage."""

    def __init__(self, number: int, refit: bool = False) -> None:
        self.number, self.refit, self.epochs = number, refit, list[int]()

    def __call__(self, epoch: PaperEpoch) -> None:
        self.epochs.append(epoch.epoch)
        if epoch.epoch == self.number and (epoch.stage == "refit") == self.refit:
            raise KeyboardInterrupt


def test_ctrl_c_tells_how_to_continue(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(fit_arguments(files, *SMALL_FIT_FLAGS, "--seed", "7", "--quiet")) == 0
    old = tensor_hashes(files / "m")
    monkeypatch.setattr(FitProgress, "__call__", Interrupter(2).__call__)
    assert run(fit_arguments(files, *SMALL_FIT_FLAGS)) == 130
    way = "cge: interrupted; the same command with --resume continues from epoch"
    assert without_warnings(capsys.readouterr().err) == f"{way} 2\n"
    assert tensor_hashes(files / "m") == old, "a model is replaced by a finished one only"
    again = Interrupter(1, refit=True)
    monkeypatch.setattr(FitProgress, "__call__", again.__call__)
    assert run(fit_arguments(files, *SMALL_FIT_FLAGS, "--resume")) == 130
    assert again.epochs == [3, 4, 1]
    assert capsys.readouterr().err == f"{way} 1 of the training on all labels\n"
    monkeypatch.setattr("cge.training.paper_training.train", interrupted)
    assert run(fit_arguments(files, *SMALL_FIT_FLAGS, "--out", str(files / "new"))) == 130
    assert (
        capsys.readouterr().err
        == "cge: interrupted; no epoch was finished, so there is no checkpoint to continue from\n"
    )
    assert not (files / "new").exists()
    monkeypatch.undo()
    problem = usage_error(fit_arguments(files, *SMALL_FIT_FLAGS, "--resume", "--seed", "1"), capsys)
    assert problem == (
        f"{files / 'm' / 'checkpoint'} holds a checkpoint of another fit (other settings, graph or labels); "
        "leave out --resume to start again, or give --out another folder"
    )
    assert run(fit_arguments(files, *SMALL_FIT_FLAGS, "--seed", "7", "--quiet")) == 0, (
        "without --resume, old checkpoints do not count"
    )
    assert tensor_hashes(files / "m") == old
    assert not (files / "m" / "checkpoint").exists()
    assert run(fit_arguments(files, *SMALL_FIT_FLAGS, "--seed", "7", "--resume")) == 0
    problem = f"note: there is no checkpoint in {files / 'm'}, so training starts with the first epoch\n"
    assert without_warnings(capsys.readouterr().err) == problem
    assert tensor_hashes(files / "m") == old


def interrupted(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_only_our_checkpoints_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / ".mine").touch()
    (folder / "select.json").write_text('{"format": "cge", "kind": "checkpoint"}')
    for name in ("select-0123456789abcdef.safetensors", ".select-0123456789abcdef.tmp"):
        (folder / name).touch()
    checkpoint = Checkpoint(tmp_path)
    assert (checkpoint.epochs("select"), checkpoint.best_epoch()) == (0, 0)
    checkpoint.remove()
    assert [file.name for file in folder.iterdir()] == [".mine"]


# ---------------------------------------------------------------------- progress


def watched(words: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what a call prints on the error stream when that is a terminal."""
    own, other = os.openpty()
    read: list[bytes] = []

    def listen() -> None:
        try:
            while data := os.read(own, 4096):
                read.append(data)
        except OSError:  # Linux: the other end was closed
            pass

    listener = threading.Thread(target=listen)
    listener.start()
    with os.fdopen(other, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        assert run(words) == 0
        monkeypatch.undo()
    listener.join()
    os.close(own)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(read).decode())


def test_a_terminal_shows_the_epochs(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    output = watched(fit_arguments(files, *SMALL_FIT_FLAGS), monkeypatch)
    for number, stage in enumerate(["pretrain", "train", "train", "train"], 1):
        assert f"{stage} · epoch {number}/4" in output
    best = cge.load(files / "m").best_epoch_
    assert f"refit · epoch {best}/{best}" in output
    number = r"\d+\.\d+"
    line = (
        rf"path loss {number} · supervised loss {number} · validation accuracy {number}% · "
        rf"path weights {number} ± {number}"
    )
    assert re.search(line, output)
    assert re.search(r"up to 0:\d\d left", output)
    assert "saved to" in capsys.readouterr().out
    for flag in ("--quiet", "--json"):
        monkeypatch.setenv("TERM", "xterm")
        assert without_warnings(watched(fit_arguments(files, *SMALL_FIT_FLAGS, flag), monkeypatch)) == ""
        assert (capsys.readouterr().out == "") == (flag == "--quiet")
