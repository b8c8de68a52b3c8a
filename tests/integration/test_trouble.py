"""Full disks, files that may not be written and damaged models: one sentence, exit code 2, nothing half-written."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cge
from cge.cli.main import run
from tests.integration.commands import refused

WRITES = {
    "embed": ["embed", "m", "--out", "out.csv"],
    "embed for numpy": ["embed", "m", "--out", "out.npz"],
    "predict": ["predict", "m", "--out", "out.csv"],
    "predict as parquet": ["predict", "m", "--out", "out.parquet"],
    "report": ["report", "m", "--out", "out.html"],
    "explain": ["explain", "m", "--node", "l1", "--csv", "out.csv"],
    "explain as parquet": ["explain", "m", "--node", "l1", "--parquet", "out.parquet"],
}
READS = [["embed", "m", "--out", "v.csv"], ["predict", "m"], ["report", "m"], ["explain", "m", "--node", "l1"]]
FIT = ["fit", "edges.csv", "--labels", "labels.csv", "--out", "new", "--max-epochs", "3", "--classifier", "mlp"]
FIT += ["--weighting", "uniform", "--dim", "4"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a model of two communities, trained for a moment."""
    folder, draw = tmp_path_factory.mktemp("trouble"), np.random.default_rng(1)
    edges = [(f"{side}{a}", f"{side}{b}") for side in "lr" for a in range(10) for b in draw.choice(10, 3) if a != b]
    y = {f"{side}{k}": side for side in "lr" for k in range(6)}
    graph = cge.Graph.from_edges([*edges, ("l0", "r0")])
    cge.CGE(dim=4, classifier="mlp", weighting="uniform", refit=False, training={"max_epochs": 3}).fit(graph, y).save(
        folder / "m"
    )
    (folder / "edges.csv").write_text("".join(f"{a},{b}\n" for a, b in edges))
    (folder / "labels.csv").write_text("".join(f"{node},{name}\n" for node, name in y.items()))
    return folder


@pytest.fixture
def here(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with a copy of the model."""
    shutil.copytree(model, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def failing(call: Callable[..., Any], number: int, when: Callable[..., bool]) -> Callable[..., Any]:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if when(*args):
            raise OSError(number, os.strerror(number))
        return call(*args, **kwargs)

    return wrapped


def writes(_: object, flags: int, *__: object) -> bool:
    return bool(flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR))


def full(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(os, "fsync", failing(os.fsync, errno.ENOSPC, lambda *_: True))


def read_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(os, "open", failing(os.open, errno.EROFS, writes))


def forbidden(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(os, "open", failing(os.open, errno.EACCES, writes))


@pytest.mark.parametrize(
    ("trouble", "reason"), [(full, "No space left"), (read_only, "Read-only"), (forbidden, "Perm")]
)
@pytest.mark.parametrize("name", WRITES)
def test_a_file_that_cannot_be_written_stays_as_it_was(
    name: str, trouble: Callable[..., None], reason: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = here / WRITES[name][-1]
    out.write_text("mine")
    before = sorted(path.name for path in here.iterdir())
    with pytest.MonkeyPatch.context() as patch:
        trouble(patch)
        message = refused(capsys, *WRITES[name])
    assert message.startswith(f"{out} cannot be written ({reason}")
    assert message.endswith(f"; {'free the disk or ' if trouble is full else ''}choose another file")
    assert out.read_text() == "mine"
    assert sorted(path.name for path in here.iterdir()) == before


@pytest.mark.parametrize(
    ("trouble", "reason"), [(full, "No space left"), (read_only, "Read-only"), (forbidden, "Perm")]
)
def test_a_fit_that_cannot_be_written(
    trouble: Callable[..., None], reason: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(here / "m", here / "new")
    before = {path.name: path.read_bytes() for path in (here / "new").iterdir()}
    with pytest.MonkeyPatch.context() as patch:
        trouble(patch)
        message = refused(capsys, *FIT)
    assert f"cannot be written ({reason}" in message
    assert {path.name: path.read_bytes() for path in (here / "new").iterdir() if path.is_file()} == before


@pytest.mark.parametrize("name", WRITES)
def test_places_where_nothing_can_be_written(name: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words, (stem, suffix) = WRITES[name][:-1], WRITES[name][-1].split(".")
    (here / f"folder.{suffix}").mkdir()
    os.mkfifo(here / f"pipe.{suffix}")
    assert refused(capsys, *words, f"folder.{suffix}").endswith("is a folder; give the path of a file")
    assert refused(capsys, *words, f"pipe.{suffix}").endswith("is a pipe or a device; give the path of a file")
    message = refused(capsys, *words, f"none/{stem}.{suffix}")
    assert message.endswith("its folder does not exist; create it, or choose another file")


def cut(folder: Path) -> None:
    tensors = next(folder.glob("*.safetensors"))
    tensors.write_bytes(tensors.read_bytes()[:-7])


def newer(folder: Path) -> None:
    content = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(content | {"format_version": 99}))


def a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("")


def unfinished(folder: Path) -> None:
    (folder / "model.json").unlink()
    (folder / "checkpoint").mkdir()


MODELS: list[tuple[Callable[[Path], object], str]] = [
    (shutil.rmtree, "m: there is no such folder; expected a model saved by `cge fit` or `model.save`"),
    (a_file, "m: this is a file; give the path of a folder that cge has saved"),
    (
        lambda folder: (folder / "model.json").unlink(),
        "m: the folder holds no 'model.json'; give a folder that cge has",
    ),
    (
        unfinished,
        "m: the fit into this folder is not finished; continue it with the same 'cge fit' command and --resume",
    ),
    (
        lambda folder: (folder / "model.json").write_text("{"),
        "model.json: this is not readable JSON; restore the folder",
    ),
    (newer, "m/model.json: written by a newer cge (format version 99, this one reads 9); upgrade cge"),
    (cut, "bytes, expected "),
    (lambda folder: next(folder.glob("*.safetensors")).unlink(), "is missing; restore the folder from a copy, or save"),
]


@pytest.mark.parametrize("words", READS, ids=lambda words: words[0])
@pytest.mark.parametrize(("damage", "sentence"), MODELS)
def test_a_model_that_is_not_whole(
    words: list[str], damage: Callable[[Path], object], sentence: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(here / "m")
    before = sorted(path.name for path in here.iterdir())
    sentence = "m: the file is empty" if damage is a_file and words[0] == "embed" else sentence  # it reads edges too
    assert sentence in refused(capsys, *words)
    assert sorted(path.name for path in here.iterdir()) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
@pytest.mark.parametrize("name", ["model.json", "checkpoint/plan.json"])
def test_pipes_in_the_folder_of_a_model_are_refused(name: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "new" / "checkpoint").mkdir(parents=True)
    os.mkfifo(here / "new" / name)
    message = refused(capsys, "fit", "edges.csv", "--labels", "labels.csv", "--out", "new")
    assert message.startswith(f"new/{name} ")
    assert message.endswith("move it away, or give --out another folder")


def test_files_that_cannot_be_read(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["fit", "edges.csv", "--labels"]
    assert refused(capsys, *words, "none.csv", "--out", "new") == "none.csv: there is no such file; check its path"
    assert refused(capsys, *words, "m", "--out", "new") == "m: this is a directory; give the path of a file"
    (here / "cut.csv.gz").write_bytes(b"\x1f\x8b\x08\x00")
    assert "the gzip data ends too early" in refused(capsys, *words, "cut.csv.gz", "--out", "new")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", failing(Path.open, errno.EACCES, lambda path, *_: path.name == "labels.csv"))
        message = refused(capsys, *words, "labels.csv", "--out", "new")
    assert message == "labels.csv: you may not read this file; change its permissions"
    assert not (here / "new").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_output_to_a_full_disk(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        assert run(["datasets"]) == 2
    printed = "cge: the output cannot be used (No space left on device); free the disk or choose another\n"
    assert capsys.readouterr().err == printed


def test_names_cannot_move_the_cursor(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, "check", "no\nsuch\x1b[31m.csv")
    assert message == r"no\nsuch\x1b[31m.csv: there is no such file; check its path"
    (here / "odd.csv").write_text("a\x1b[31m,b\nb,c\n")
    (here / "odd-labels.csv").write_text("node,label\nb,\x1b[2Jred\nc,blue\n")
    assert run(["check", "odd.csv", "--labels", "odd-labels.csv"]) == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert r"\x1b[2Jred" in printed
