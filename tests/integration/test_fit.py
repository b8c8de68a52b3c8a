"""`cge fit` as a person meets it: files in, a model out, and every way in which that can end."""

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
from cge.cli.check import check
from cge.cli.estimator_options import with_settings
from cge.cli.fit import fit
from cge.cli.flags import settings_as_flags
from cge.cli.main import run
from cge.cli.output_folder import Checkpoint
from cge.cli.progress import Watch
from cge.estimators.cge import PAIRS_ONLY, PATHS_ONLY
from cge.estimators.configs import make_estimator
from cge.estimators.settings import settings_of
from cge.training.history import PaperEpoch
from tests.integration.fit_command import (
    SMALL_FIT,
    SMALL_FIT_FLAGS,
    fit_arguments,
    subprocess_environment,
    tensor_hashes,
    usage_error,
)

ROOT = Path(__file__).parents[2]


def said(errors: str) -> str:
    """Return what stands on the error stream, but for the warning that so small a fit may call for."""
    return "".join(line for line in errors.splitlines(True) if not line.startswith("warning: path weights "))


def test_the_model_is_that_of_the_api(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(fit_arguments(files, *SMALL_FIT_FLAGS, "--seed", "3", "--weighting", "cnn")) == 0
    printed = capsys.readouterr()
    assert said(printed.err) == ""
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
    format_value = {line[:14].strip(): line[14:].strip() for line in printed.out.splitlines()}
    seen, held = expected.labels_seen_, expected.selection_history_[expected.best_epoch_ - 1]
    assert format_value["nodes"] == "40"
    assert format_value["edges"] == f"{graph.num_edges:,}"
    assert format_value["labels"] == f"20 train, 20 weigh paths, {seen['selection']} choose the round"
    assert format_value["best round"].startswith(f"{expected.best_epoch_} of 4, chosen by labels held out")
    assert format_value["validation"] == f"{held.validation_accuracy:.1%} right on {seen['selection']} labels"
    assert re.fullmatch(r"0\.\d+ ± [\d.e-]+, effective share \d+%", format_value["path weights"])
    assert format_value["saved to"] == str(files / "m")
    assert format_value["in Python"] == f'model = cge.load("{files / "m"}")'
    assert [one.name for one in (files / "m").iterdir() if one.suffix != ".safetensors"] == ["model.json"]


def test_json_is_one_object_and_nothing_else(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--validation", str(files / "validation.csv"), "--weighting", "none", "--json", "--learning-rate", "0.05"]
    assert run(fit_arguments(files, *SMALL_FIT_FLAGS, *words)) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    found = json.loads(printed.out)
    model = cge.load(files / "m")
    assert (found["folder"], found["nodes"], found["classes"]) == (str(files / "m"), 40, ["left", "right"])
    assert found["labels_seen"] == {"train": 20, "outer": 0, "selection": 8}
    assert (found["weights"], found["refitted"], found["validation_labels"]) == (None, False, 8)
    assert found["best_round"] == model.best_epoch_
    assert found["validation_accuracy"] == model.history_[model.best_epoch_ - 1].validation_accuracy
    assert found["history"] == model.history_.rows()
    assert (found["selection_history"], found["warnings"], found["notes"]) == (None, [], [])
    assert found["settings"] == model.get_params()
    assert (found["settings"]["learning_rate"], found["settings"]["n_jobs"]) == (0.05, None)
    assert 0 < found["seconds"] < 600


def test_several_labels_keep_their_names(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (files / "labels.csv").open("a") as more:
        more.write("l1,tall\nr1,tall\nr2,tall\n")
    assert run(fit_arguments(files, *SMALL_FIT_FLAGS, "--multilabel", "--weighting", "none", "--no-refit")) == 0
    model = cge.load(files / "m")
    assert model.classes_.tolist() == ["left", "right", "tall"]
    assert model.predict(["l1"]).shape == (1, 3)
    assert (model.refit, model.selection_history_) == (False, None)
    assert "micro-F1" in capsys.readouterr().out


# ---------------------------------------------------------------------- settings


def test_every_setting_has_a_flag(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run(["fit", "--help"]) == 0
    whole = capsys.readouterr().out
    before, format_value = whole.split("─ Settings ─")
    for name, (_, setting, _) in settings_of(cge.CGE).items():
        flag = "--seed" if name == "random_state" else "--" + name.replace("_", "-")
        assert re.search(rf"│ +{flag} ", before if name in ("random_state", "n_jobs") else format_value), name
        assert all(choice in format_value for choice in setting.choices)
    every, of_paths, of_pairs = re.split("─ Settings of --encoder [a-z ]+ ─", format_value)
    assert all("--" + name.replace("_", "-") in of_paths for name in PATHS_ONLY)
    assert all("--" + name.replace("_", "-") in of_pairs for name in PAIRS_ONLY)
    assert "--encoder " in every
    assert "--no-refit" in format_value
    assert "callable" not in format_value
    assert "1 to 4096 [None]" in format_value
    for flag in ("--labels", "--features", "--validation", "--directed", "--out", "--resume", "--quiet", "--json"):
        assert flag in before
    assert "cge fit edges.csv --labels labels.csv --out model" in before


def test_no_setting_is_called_as_an_option_of_files() -> None:
    of_files = set(inspect.signature(fit).parameters)
    assert of_files >= set(inspect.signature(check).parameters)
    assert not of_files & set(settings_of(cge.CGE))
    assert set(inspect.signature(with_settings(fit, cge.CGE)).parameters) == of_files | set(settings_of(cge.CGE))


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
        ("--dim 0", "--dim must be a whole number of at least 1 and of at most 4096 or None, found 0"),
        ("--dim few", "--dim must be a whole number of at least 1 and of at most 4096 or None, found 'few'"),
        ("--dim 2.5", "--dim must be a whole number of at least 1 and of at most 4096 or None, found 2.5"),
        ("--seed -1", "--seed must be a whole number of at least 0, found -1"),
        ("--threads 0", "--threads must be a whole number of at least 1 or None, found 0"),
        ("--learning-rate nan", "--learning-rate must be a number above 0 and of at most 10 or None, found nan"),
        ("--loss hinge", "--loss must be one of 'auto', 'softmax', 'negative', found 'hinge'"),
        ("--dims 3", "No such option: --dims"),
    ],
)
def test_a_wrong_setting_is_told_before_anything_is_read(
    words: str, sentence: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "edges.csv").unlink()
    assert run(fit_arguments(files, *words.split())) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"cge: {sentence}")
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    assert not (files / "m").exists()


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("random_state must be small", "--seed must be small"),
        ("encoder='features' needs more; use encoder='table'", "--encoder features needs more; use --encoder table"),
        ("pass validation=", "pass --validation"),
        ("use refit=False, or refit=True.", "use --no-refit, or --refit."),
        ("y must hold two classes, found only 'dim'", "--labels must hold two classes, found only 'dim'"),
        ("try a tenth of learning_rate (now 1)", "try a tenth of --learning-rate (now 1)"),
        ("the loss of the outer problem", "the loss of the outer problem"),
    ],
)
def test_settings_in_messages_become_flags(message: str, expected: str) -> None:
    assert settings_as_flags(message, settings_of(cge.CGE)) == expected


# ---------------------------------------------------------------------- input that is wrong


def test_files_that_are_wrong(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels, more = files / "labels.csv", files / "validation.csv"
    more.write_text(labels.read_text())
    told = usage_error(fit_arguments(files, "--validation", str(more)), capsys)
    assert told.startswith(f"{more}: every node in it has a label in {labels}, too")
    assert usage_error(fit_arguments(files, "--encoder", "features"), capsys).startswith(
        "--encoder features needs node features"
    )
    labels.write_text("node,label\nl1,left\nnobody,right\n")
    told = usage_error(fit_arguments(files), capsys)
    assert "1 node in" in told
    assert "not in the graph: 'nobody'" in told
    assert run(["check", str(files / "edges.csv"), "--labels", str(labels)]) == 2
    assert capsys.readouterr().err == f"cge: {told}\n"
    labels.write_text("node,label\nl1,left\nl2,left\n")
    assert usage_error(fit_arguments(files), capsys) == "--labels must hold at least two classes, found only 'left'"
    labels.unlink()
    assert usage_error(fit_arguments(files), capsys) == f"{labels}: there is no such file; check its path"
    assert not (files / "m").exists()
    assert usage_error(["fit", "e.csv"], capsys).startswith("Missing option '--labels'")


def test_a_folder_that_cannot_be_written_is_told_before_training(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = files / "m"
    out.write_text("mine")
    assert usage_error(fit_arguments(files), capsys) == f"{out} is a file; give --out a folder"
    assert out.read_text() == "mine"
    told = usage_error(fit_arguments(files, "--out", str(out / "deeper")), capsys)
    assert told == f"{out / 'deeper'} cannot be made: {out} is a file; give --out another folder"
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
    told = usage_error(fit_arguments(files), capsys)
    assert told == f"{files / 'm'} cannot be written (Permission denied); give --out another folder"
    assert not (files / "m").exists()


def test_notes_and_warnings_are_lines_on_the_error_stream(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (files / "validation.csv").open("a") as more:
        more.write("l1,left\n")
    words = [*SMALL_FIT_FLAGS, "--validation", str(files / "validation.csv"), "--weighting-lr", "1e-9"]
    assert run(fit_arguments(files, *words)) == 0
    note, warning = capsys.readouterr().err.splitlines()
    assert note == (
        f"note: 1 of 9 nodes in {files / 'validation.csv'} have a label in {files / 'labels.csv'}, too: they train only"
    )
    assert re.match(r"warning: path weights stayed flat .* --weighting none gives about the same vectors", warning)
    assert run(fit_arguments(files, *words, "--quiet")) == 0
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"{warning}\n")
    assert run(fit_arguments(files, *words, "--json")) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert [f"note: {one}" for one in found["notes"]] == [note]
    assert [f"warning: {one}" for one in found["warnings"]] == [warning]


# ---------------------------------------------------------------------- stopping and going on


def test_a_killed_fit_goes_on_to_the_same_model(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*SMALL_FIT_FLAGS, "--max-epochs", "12", "--patience", "12", "--quiet"]
    process = subprocess.Popen(
        [sys.executable, "-m", "cge", *fit_arguments(files, *words)], env=subprocess_environment()
    )
    kept = files / "m" / "checkpoint"
    deadline = time.monotonic() + 60
    while not list(kept.glob("*.json")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    done = Checkpoint(files / "m").max_epochs("select")
    assert 1 <= done <= 13
    assert not (files / "m" / "model.json").exists()
    assert run(fit_arguments(files, *words, "--resume")) == 0
    assert not kept.exists()
    other = files / "other"
    assert run(fit_arguments(files, *words, "--out", str(other))) == 0
    assert tensor_hashes(files / "m") == tensor_hashes(other)
    rows = [
        json.loads((one / "model.json").read_text())["metadata"]["selection_history"] for one in (files / "m", other)
    ]
    assert [row["path_loss"] for row in rows[0]] == [row["path_loss"] for row in rows[1]]


class Interrupter:
    """Presses Ctrl-C after a round of a stage."""

    def __init__(self, number: int, refit: bool = False) -> None:
        self.number, self.refit, self.max_epochs = number, refit, list[int]()

    def __call__(self, one: PaperEpoch) -> None:
        self.max_epochs.append(one.epoch)
        if one.epoch == self.number and (one.stage == "refit") == self.refit:
            raise KeyboardInterrupt


def test_ctrl_c_names_the_way_on(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(fit_arguments(files, *SMALL_FIT_FLAGS, "--seed", "7", "--quiet")) == 0
    old = tensor_hashes(files / "m")
    monkeypatch.setattr(Watch, "__call__", Interrupter(2).__call__)
    assert run(fit_arguments(files, *SMALL_FIT_FLAGS)) == 130
    way = "cge: interrupted; the same command with --resume goes on from round"
    assert said(capsys.readouterr().err) == f"{way} 2\n"
    assert tensor_hashes(files / "m") == old, "a model is replaced by a finished one only"
    again = Interrupter(1, refit=True)
    monkeypatch.setattr(Watch, "__call__", again.__call__)
    assert run(fit_arguments(files, *SMALL_FIT_FLAGS, "--resume")) == 130
    assert again.max_epochs == [3, 4, 1]
    assert capsys.readouterr().err == f"{way} 1 of the training on all labels\n"
    monkeypatch.setattr("cge.estimators.paper_fit.train", interrupted)
    assert run(fit_arguments(files, *SMALL_FIT_FLAGS, "--out", str(files / "new"))) == 130
    assert capsys.readouterr().err == "cge: interrupted; no round was done, so there is nothing to go on from\n"
    assert not (files / "new").exists()
    monkeypatch.undo()
    told = usage_error(fit_arguments(files, *SMALL_FIT_FLAGS, "--resume", "--seed", "1"), capsys)
    assert told == (
        f"{files / 'm' / 'checkpoint'} holds a checkpoint of another fit (other settings, graph or labels); "
        "leave out --resume to start anew, or give --out another folder"
    )
    assert run(fit_arguments(files, *SMALL_FIT_FLAGS, "--seed", "7", "--quiet")) == 0, (
        "without --resume, old checkpoints do not count"
    )
    assert tensor_hashes(files / "m") == old
    assert not (files / "m" / "checkpoint").exists()
    assert run(fit_arguments(files, *SMALL_FIT_FLAGS, "--seed", "7", "--resume")) == 0
    told = f"note: there is no checkpoint in {files / 'm'}, so the fit starts with the first round\n"
    assert said(capsys.readouterr().err) == told
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
    found = Checkpoint(tmp_path)
    assert (found.max_epochs("select"), found.best_epoch()) == (0, 0)
    found.remove()
    assert [one.name for one in folder.iterdir()] == [".mine"]


# ---------------------------------------------------------------------- what is shown while it lasts


def watched(words: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what a call prints on the error stream when that is a terminal."""
    own, other = os.openpty()
    read: list[bytes] = []

    def listen() -> None:
        try:
            while data := os.read(own, 4096):
                read.append(data)
        except OSError:  # so Linux ends a terminal that nobody holds any more
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


def test_a_terminal_shows_the_rounds(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    format_value = watched(fit_arguments(files, *SMALL_FIT_FLAGS), monkeypatch)
    for number, stage in enumerate(["pretrain", "train", "train", "train"], 1):
        assert f"{stage} · round {number}/4" in format_value
    best = cge.load(files / "m").best_epoch_
    assert f"refit · round {best}/{best}" in format_value
    number = r"\d+\.\d+"
    facts = rf"path loss {number} · label loss {number} · validation {number}% · weights {number} ± {number}"
    assert re.search(facts, format_value)
    assert re.search(r"up to 0:\d\d left", format_value)
    assert "saved to" in capsys.readouterr().out
    for flag in ("--quiet", "--json"):
        monkeypatch.setenv("TERM", "xterm")
        assert said(watched(fit_arguments(files, *SMALL_FIT_FLAGS, flag), monkeypatch)) == ""
        assert (capsys.readouterr().out == "") == (flag == "--quiet")
