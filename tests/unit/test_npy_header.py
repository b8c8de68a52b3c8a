"""Headers of `.npy` files are read as by NumPy, without parsing Python."""

from __future__ import annotations

import ast
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cge.data.stored.work_files import create_array, load_array, open_array, save_array
from cge.npy_header import read_header


@pytest.mark.parametrize("dtype", ["f4", ">f8", "i8", "u2", "i1", "?"])
@pytest.mark.parametrize("shape", [(0,), (7,), (3, 0), (3, 4), (2, 3, 4)], ids=str)
def test_arrays_are_those_of_numpy(dtype: str, shape: tuple[int, ...], tmp_path: Path, monkeypatch: Any) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    save_array(tmp_path / "saved.npy", array)
    np.save(tmp_path / "numpy.npy", array)
    created = create_array(tmp_path / "created.npy", shape, array.dtype)
    created[...] = array
    expected = np.load(tmp_path / "numpy.npy")
    monkeypatch.setattr(ast, "literal_eval", lambda _: pytest.fail("threads must not parse Python"))
    for path in tmp_path.iterdir():
        mapped, loaded = open_array(path), load_array(path)
        for result in (mapped, loaded):
            assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
            assert result.tobytes() == expected.tobytes()
        assert isinstance(mapped, np.memmap) or 0 in shape
        assert type(loaded) is np.ndarray
        assert loaded.flags.writeable


def test_long_headers_have_another_version() -> None:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.ones(5), version=(2, 0))
    stream.seek(0)
    assert read_header(stream) == ((5,), np.dtype(float))
    assert np.frombuffer(stream.read()).tolist() == [1] * 5


@pytest.mark.parametrize(
    "array",
    [
        np.ones((2, 3), order="F"),
        np.array([{}], dtype=object),
        np.zeros(2, [("x", "f4")]),
        np.array(["a"]),
    ],
    ids=["columns", "objects", "records", "text"],
)
def test_other_arrays_are_refused(array: Any) -> None:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    stream.seek(0)
    with pytest.raises(ValueError, match="expected an array of numbers in C order"):
        read_header(stream)
