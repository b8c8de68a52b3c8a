"""Seeded streams, thread blocks, errors, and the public surface."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare

import cge
from cge.errors import FileFormatError, UnknownNodeError, format_value
from cge.parallel import resolve_jobs, run_blocks
from cge.randomness import STEP, below, generator, key, mix, unit


def test_mix_is_the_finalizer_of_splitmix64() -> None:
    """The first outputs of SplitMix64 from seed 1234567, as published with its reference implementation."""
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    numbers = [int(mix(np.uint64((1234567 + k * int(STEP)) % 2**64))) for k in range(1, 5)]
    assert numbers == expected


def test_streams_are_named_and_independent() -> None:
    assert int(key(0, "a", 1)) != int(key(0, "a", 2)) != int(key(0, "a"))
    assert int(key(0, "a", "b")) != int(key(0, "ab"))
    assert int(key(0, 1)) != int(key(0, "1"))
    assert int(key(0, "a\x1fb")) != int(key(0, "a", "b"))
    assert generator(3, "x").random() == generator(3, "x").random()
    assert generator(3, "x").random() != generator(4, "x").random()
    with pytest.raises(cge.CgeError, match="the seed must be an integer of at least 0, found True"):
        key(True)
    assert int(key(np.int64(5))) == int(key(5))


def test_numbers_are_uniform_and_in_range() -> None:
    with np.errstate(over="ignore"):
        numbers = [np.uint64(mix(key(0) + np.uint64(k) * STEP)) for k in range(20_000)]
    die = np.bincount([int(below(number, 6)) for number in numbers], minlength=6)
    assert len(die) == 6
    assert chisquare(die).pvalue > 0.001
    floats = np.array([unit(number) for number in numbers])
    assert floats.min() >= 0
    assert floats.max() < 1
    assert chisquare(np.histogram(floats, 50, (0, 1))[0]).pvalue > 0.001


def test_every_block_runs_once_and_errors_are_raised() -> None:
    done: list[int] = []
    lock = threading.Lock()

    def work(number: int) -> None:
        if number == 13:
            raise RuntimeError("thirteen")
        with lock:
            done.append(number)

    run_blocks(work, [(k,) for k in range(10)], n_jobs=4)
    assert sorted(done) == list(range(10))
    for n_jobs in (1, 3):
        with pytest.raises(RuntimeError, match="thirteen"):
            run_blocks(work, [(12,), (13,)], n_jobs=n_jobs)
    assert resolve_jobs(None) >= 1
    assert resolve_jobs(np.int64(2)) == 2


def test_an_error_stops_waiting_blocks() -> None:
    started: list[int] = []

    def work(number: int) -> None:
        started.append(number)
        if number == 0:
            raise RuntimeError("first")
        time.sleep(0.02)

    with pytest.raises(RuntimeError, match="first"):
        run_blocks(work, [(k,) for k in range(40)], n_jobs=2)
    assert len(started) < 20


def test_no_block_runs_after_an_error_is_raised() -> None:
    done: list[int] = []

    def work(number: int) -> None:
        time.sleep(0.05 * number)
        if number == 1:
            raise RuntimeError("one")
        done.append(number)

    for blocks in ([0, 1, 2, 3], [3, 1, 2, 0]):
        done.clear()
        with pytest.raises(RuntimeError, match="one"):
            run_blocks(work, [(k,) for k in blocks], n_jobs=4)
        so_far = len(done)
        time.sleep(0.3)
        assert len(done) == so_far


def printed(code: str) -> str:
    """Return what a program prints; it may not hang."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_blocks_may_be_nested_and_outnumber_the_threads() -> None:
    code = (
        "from cge.parallel import run_blocks\n"
        "done = []\n"
        "def outer(number):\n"
        "    run_blocks(done.append, [(100 * number + k,) for k in range(20)], n_jobs=40)\n"
        "run_blocks(outer, [(k,) for k in range(60)], n_jobs=40)\n"
        "print(sorted(done) == [100 * number + k for number in range(60) for k in range(20)])"
    )
    assert printed(code) == "True"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_forked_process_has_threads_of_its_own() -> None:
    code = (
        "import os, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "from cge.parallel import run_blocks\n"
        "def twice():\n"
        "    found = []\n"
        "    run_blocks(found.append, [(k,) for k in range(9)], n_jobs=3)\n"
        "    return len(found)\n"
        "assert twice() == 9\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    os._exit(twice())\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    assert printed(code) == "9"


def test_kernels_compile_where_nothing_can_be_cached(tmp_path: Path) -> None:
    """As for a service account: the sources are read-only and there is no home."""
    code = (
        "import numba.core.caching as c\n"
        "c.CacheImpl._locator_classes = []\n"
        "from cge.randomness import mix\n"
        "import numpy as np\n"
        "print(int(mix(np.uint64(1))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == int(mix(np.uint64(1)))


def test_importing_cge_is_fast() -> None:
    """`cge --help` must not wait for compilers and linear algebra."""
    code = "import sys, cge; print([m for m in ('numba', 'scipy', 'pyarrow', 'sklearn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    with pytest.raises(AttributeError, match="module 'cge' has no attribute 'nope'"):
        cge.nope  # noqa: B018


def test_long_values_are_cut_in_messages() -> None:
    assert format_value("x" * 10_000).endswith("… (10,002 characters)")
    error = FileFormatError("a.csv", "found nothing", line=12345)
    assert str(error) == "a.csv, line 12,345: found nothing"
    assert (error.line, error.path.name) == (12345, "a.csv")
    assert str(UnknownNodeError("labels", [3], hint="check the ids")).endswith(
        "node 3 in labels is not in the graph; check the ids"
    )


def test_public_names() -> None:
    """A name is added here on purpose or not at all."""
    assert cge.__all__ == [
        "CGE",
        "CgeError",
        "CgeWarning",
        "ClassifierSpec",
        "Dataset",
        "DeepWalk",
        "EdgeWeighting",
        "Graph",
        "GraphUpdate",
        "LinkPredictor",
        "Method",
        "MultiTask",
        "Node2Vec",
        "NodeClassifier",
        "OuterConfig",
        "PaperCGE",
        "PaperOuterConfig",
        "PaperTrainingConfig",
        "PathWeighting",
        "SearchRole",
        "Split",
        "TrainingConfig",
        "WeightingSpec",
        "__version__",
        "edge_vectors",
        "load",
        "load_dataset",
        "multi_task",
        "read_features",
        "read_graph",
        "read_labels",
        "register_classifier",
        "register_format",
        "register_method",
        "register_weighting",
        "subgraph_vectors",
    ]
    for name in cge.__all__:
        assert getattr(cge, name) is not None
