"""Tasks in forked processes: results in order, messages, errors, and what happens when a process is ended."""

import os
import signal
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pytest

import cge
from cge.errors import CgeError, InputError
from cge.parallel import resolve_jobs
from cge.training.parallel_tasks import run_parallel
from tests.fixtures import labels_at, two_groups


def square(number, send):
    send(("started", number))
    time.sleep(0.05 * (3 - number))  # later tasks end first
    return number**2, os.getpid()


def test_results_come_in_the_order_of_the_tasks_and_messages_arrive() -> None:
    messages = []
    results = run_parallel([partial(square, number) for number in range(4)], 2, messages.append)
    assert [value for value, _ in results] == [0, 1, 4, 9]
    assert sorted(messages) == [("started", number) for number in range(4)]
    assert len({pid for _, pid in results} | {os.getpid()}) == 5


def test_one_job_or_one_task_runs_in_this_process() -> None:
    assert {pid for _, pid in run_parallel([partial(square, 2)] * 2, 1)} == {os.getpid()}
    assert run_parallel([partial(square, 3)], 4) == [(9, os.getpid())]


def test_a_process_uses_its_share_of_the_threads() -> None:
    shares = run_parallel([lambda send: (resolve_jobs(None), resolve_jobs(7))] * 3, 6)
    assert shares == [(2, 2)] * 3
    assert resolve_jobs(7) == 7


def fail(send):
    raise InputError(parameter="hops", expected="at least 0", found=-1)


def test_an_error_is_raised_with_its_fields_and_ends_the_others() -> None:
    started = time.monotonic()
    with pytest.raises(InputError, match="hops must be at least 0") as caught:
        run_parallel([lambda send: time.sleep(30), fail], 2)
    assert caught.value.parameter == "hops"
    assert time.monotonic() - started < 20


def test_an_error_that_cannot_be_sent_is_named() -> None:
    class LocalError(Exception):
        pass

    def task(send):
        raise LocalError("no such thing")

    with pytest.raises(RuntimeError, match="no such thing"):
        run_parallel([task, task], 2)


def test_a_process_that_is_killed_is_named() -> None:
    with pytest.raises(CgeError, match="was killed"):
        run_parallel([lambda send: os.kill(os.getpid(), signal.SIGKILL)] * 2, 2)


def test_children_do_not_wait_for_threads_of_pytorch() -> None:
    """They do not survive a fork; large tensors are copied by several threads."""
    lines = (
        "import torch",
        "from cge.training.parallel_tasks import run_parallel",
        "torch.set_num_threads(2)",
        "(torch.ones(10**6) * 2).clone()  # starts the threads",
        "print(run_parallel([lambda _send: float(torch.ones(10**6).clone().sum())] * 2, 2))",
    )
    process = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=60)
    assert process.stdout == "[1000000.0, 1000000.0]\n", process.stderr


def test_fits_do_not_depend_on_how_many_candidates_are_trained_at_once() -> None:
    graph, settings = two_groups(), {"max_epochs": 40, "patience": 40}
    nodes, validation = labels_at(range(0, 40, 4)), labels_at(range(1, 40, 4))
    results = []
    for n_jobs in (1, 3):
        epochs = []
        model = cge.CGE(training=settings, random_state=1, n_jobs=n_jobs)
        model.fit(graph, nodes, validation, callback=epochs.append)
        results.append((model.predict_proba().tobytes(), model.embedding_.tobytes(), model.search_results_))
        assert {epoch.stage for epoch in epochs} == {"compare", "train"}
        assert not np.isnan(model.embedding_).any()
    assert results[0] == results[1]
