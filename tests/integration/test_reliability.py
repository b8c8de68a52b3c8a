"""Hostile and odd input: threads, memory, slow files, strange ids and labels; each case once went wrong."""

from __future__ import annotations

import gzip
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import cge
from cge.cli.main import run
from cge.data.files.blocks import numbered_lines
from cge.data.files.numbering import Names
from cge.errors import FileFormatError, InputError
from cge.memory import allocate
from cge.training.encoder_data import EncoderData
from cge.training.torch_state import seeded
from tests.fixtures import TRAIN_NODES, labels_at, quick_cge, two_groups
from tests.integration.fit_command import fail_if_called


def test_random_numbers_of_threads_do_not_mix() -> None:
    def draw(_: int) -> list[float]:
        with seeded(0, "parameters"):
            first = torch.rand(1).item()
            time.sleep(0.01)
            return [first, torch.rand(1).item()]

    alone, state = draw(0), torch.random.get_rng_state()
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(draw, range(8))) == [alone] * 8
    assert torch.equal(torch.random.get_rng_state(), state)


def test_classes_that_end_in_a_zero_character_are_refused() -> None:
    graph = cge.Graph.from_edges([("a", "b"), ("b", "c")])
    with pytest.raises(InputError, match=r"y has the class 'x\\x00', which ends in a zero character; remove it"):
        cge.CGE().fit(graph, {"a": "x", "b": "x\0", "c": "z"})


def test_labels_as_a_column_are_named_as_a_shape() -> None:
    with pytest.raises(InputError, match=r"y has shape \(40, 1\), a matrix .* pass a flat array, such as y.ravel\(\)"):
        cge.CGE().fit(two_groups(), np.zeros((40, 1), int))


def test_many_dense_features_of_few_nodes_become_principal_components(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("cge.training.data_size._WIDE", 50)
    wide = np.random.default_rng(0).normal(size=(40, 60)) + 0.3 * np.repeat(np.eye(2, 60), 20, axis=0)
    graph = two_groups().with_features(wide)
    data = EncoderData(graph)
    inputs, rows = np.asarray(data.inputs("l2"), np.float64), data.dense_rows.astype(np.float64)
    assert inputs.shape == (40, data.input_dim) == (40, 39)  # centered rows have one dimension less
    assert inputs @ inputs.T == pytest.approx(rows @ rows.T, abs=1e-5)
    model = quick_cge("degree", classifier="mlp").fit(graph, labels_at(TRAIN_NODES))
    model.save(tmp_path / "m")
    assert np.array_equal(cge.load(tmp_path / "m").predict_proba(), model.predict_proba())
    explanation = model.explain(3, top=5)
    assert explanation.by_feature[0].name in range(60)
    assert model.transform(replace(graph, node_ids=np.arange(40) + 100)).shape == model.embedding_.shape


# ---------------------------------------------------------------------- memory


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cge.memory.free_memory", lambda: 3_000_000)
    monkeypatch.setattr("cge.memory._LARGE", 1 << 20)


@pytest.mark.usefixtures("little_memory")
def test_rows_beyond_the_memory_are_refused_while_they_are_read(tmp_path: Path) -> None:
    for name, row in (("numbers", b"1 2\n"), ("text", b"a b\n")):
        file = tmp_path / f"{name}.txt.gz"
        file.write_bytes(gzip.compress(row * 1_000_000))
        with pytest.raises(FileFormatError, match="its rows need more memory than is free"):
            cge.read_graph(file)
    file = tmp_path / "many.txt"
    file.write_text("".join(f"node{k} node{k + 1}\n" for k in range(60_000)))
    with pytest.raises(FileFormatError, match="its rows need more memory than is free"):
        cge.read_graph(file)


@pytest.mark.usefixtures("little_memory")
def test_arrays_beyond_the_memory_are_not_unpacked(tmp_path: Path) -> None:
    array = np.zeros((1000, 1000))
    np.savez_compressed(tmp_path / "x.npz", features=array)
    with gzip.open(tmp_path / "x.npy.gz", "wb") as stream:
        np.save(stream, array)
    for name in ("x.npz", "x.npy.gz"):
        with pytest.raises(FileFormatError, match="the array needs more memory than this machine has"):
            cge.read_features(tmp_path / name, cge.Graph.from_edges([(0, 1)]))
    with pytest.raises(MemoryError, match="8,000,000 bytes are needed, 3,000,000 are free"):
        allocate((1000, 1000), np.float64)


def test_a_long_string_in_many_rows_of_parquet_is_kept_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long, sizes, intern = "x" * 10_000, [], Names.intern
    pq.write_table(pa.table({"source": [long] * 500, "target": [f"t{k}" for k in range(500)]}), tmp_path / "e.parquet")

    def spy(names: Names, text: Any, *more: Any) -> Any:
        sizes.append(len(text))
        return intern(names, text, *more)

    monkeypatch.setattr(Names, "intern", spy)
    assert cge.read_graph(tmp_path / "e.parquet").neighbors("t7") == [long]
    assert max(sizes) < 100_000


# ---------------------------------------------------------------------- slow or long text


def test_blank_lines_are_skipped_at_once(tmp_path: Path) -> None:
    file = tmp_path / "edges.csv"
    file.write_bytes(b"\n" * 200_000 + b" \r\n\t\n  source,target\n" + b"\n" * 50_000 + b"a,b\n,c\n")
    lines = list(numbered_lines(file))
    assert len(lines) < 1000
    assert [line for line in lines if line[2].strip()][:2] == [
        (200_003, 200_005, b"  source,target\n"),
        (250_004, 250_021, b"a,b\n"),
    ]
    with pytest.raises(FileFormatError, match="line 250,005: the node id is empty: ',c'"):
        cge.read_graph(file)


def test_long_ids_are_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "edges.csv").write_text(f"{'x' * 100_000},b\nb,c\n")
    (tmp_path / "labels.csv").write_text(f"b,{'y' * 100_000}\n")
    assert run(["check", str(tmp_path / "edges.csv"), "--labels", str(tmp_path / "labels.csv")]) == 0
    output = capsys.readouterr().out
    assert len(output) < 4000
    assert "(100,002 characters), b, c" in " ".join(output.split())


def test_names_that_cannot_be_saved_are_refused_before_training(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cge.store.packing.MAX_BYTES", 1000)
    monkeypatch.setattr("cge.cli.fit._fit", fail_if_called)
    rows = [f"{side}{k},1" for side in "lr" for k in range(20)]
    (files / "x.csv").write_text("\n".join([f"node,{'long' * 200}", *rows]))
    words = [str(files / "edges.csv"), "--labels", str(files / "labels.csv"), "--features", str(files / "x.csv")]
    assert run(["fit", *words, "--out", str(files / "m")]) == 2
    assert "the names of features and edge types take" in capsys.readouterr().err


# ---------------------------------------------------------------------- ids


def test_ids_of_arrays_are_decoded_or_refused(tmp_path: Path) -> None:
    assert cge.Graph.from_edges(np.array([[b"a", b"\xc3\xbc"]])).node_ids.tolist() == ["a", "ü"]
    cases: dict[str, Any] = {
        "UTF-8 text": np.array([[b"a", b"\xfc"]]),
        "9223372036854775808, which does not fit in 64 bits": np.array([[1, 2**63]], np.uint64),
        "found timedelta64": np.array([[1, 2]], "m8[s]"),
        "found datetime64": np.array([[1, 2]], "M8[s]"),
        "found complex128": np.array([[1, 2j]]),
        "found void64": np.zeros((1, 2), [("a", "i4"), ("b", "i4")]),
    }
    for message, array in cases.items():
        np.save(tmp_path / "edges.npy", array)
        with pytest.raises(InputError, match=message):
            cge.read_graph(tmp_path / "edges.npy")


def test_an_odd_header_is_not_called_a_pickle(tmp_path: Path) -> None:
    header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (1, 2), }".ljust(20_000) + b"\n"
    file = tmp_path / "edges.npy"
    file.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(16))
    with pytest.raises(FileFormatError, match=r"this is not a readable \.npy file; write or fetch it again"):
        cge.read_graph(file)


@pytest.mark.parametrize(
    "words",
    ["evaluate cora --seed {}", "evaluate cora --jobs {}", "predict m --jobs {}", "similar m a --top {}"],
)
def test_integers_beyond_64_bits_are_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words.format(2**64).split()) == 2
    assert "does not fit in 64 bits" in capsys.readouterr().err
