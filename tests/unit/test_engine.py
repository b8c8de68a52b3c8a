"""Engines: order, errors, workers that are lost."""

import os
import pickle
import threading
import time
from functools import partial

import pytest

from cge.engine import Engine, LocalEngine, RayEngine, make_engine
from cge.errors import FileFormatError, InputError, MissingDataError


def square(number):
    return number * number


def fail_at(place, number):
    if number == place:
        raise FileFormatError("edges.csv", "the first id is empty", 7, hint="write an id")
    return number


def end_process(number):
    if number == 3:
        os._exit(9)
    return number


def process_id(_):
    time.sleep(0.2)
    return os.getpid()


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_results_have_the_order_of_the_blocks(n_jobs):
    engine: Engine = LocalEngine(n_jobs)

    def task(number):
        time.sleep(0.002 * (number % 3))
        return square(number)

    assert list(engine.map(task, range(20))) == [square(number) for number in range(20)]


def test_threads_run_side_by_side():
    barrier = threading.Barrier(3, timeout=10)
    assert list(LocalEngine(3).map(lambda _: barrier.wait() >= 0, range(6))) == [True] * 6


def test_blocks_are_taken_as_results_are_read():
    taken = []
    results = LocalEngine(2).map(square, (taken.append(number) or number for number in range(100)))
    assert next(results) == 0
    assert len(taken) == 4
    results.close()
    assert len(taken) == 4


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_an_error_stops_the_rest(n_jobs):
    done = []

    def task(number):
        done.append(number)
        return fail_at(5, number)

    with pytest.raises(FileFormatError, match="line 7: the first id is empty; write an id"):
        list(LocalEngine(n_jobs).map(task, range(1000)))
    assert len(done) < 20


def test_errors_survive_pickling():
    with pytest.raises(FileFormatError) as raised:
        fail_at(0, 0)
    copy = pickle.loads(pickle.dumps(raised.value))
    assert (str(copy), copy.line, copy.hint) == (str(raised.value), 7, "write an id")
    assert copy.message.render(str) == str(copy)


def test_processes():
    engine = LocalEngine(2, processes=True)
    assert len({*engine.map(process_id, range(6))} - {os.getpid()}) == 2
    with pytest.raises(FileFormatError, match="line 7"):
        list(engine.map(partial(fail_at, 1), range(4)))
    with pytest.raises(InputError, match="a worker process was killed, probably for lack of memory; free memory"):
        list(engine.map(end_process, range(8)))


def sleep_and_mark(folder, number):
    time.sleep(0.2 if number else 20)
    if number == 3:
        raise FileFormatError("edges.csv", "the first id is empty", 7)
    (folder / str(number)).touch()
    return number


def test_results_as_they_finish():
    def task(number):
        time.sleep(0.3 if number == 0 else 0)
        return square(number)

    assert list(LocalEngine(1).map_as_finished(task, range(3))) == [(0, 0), (1, 1), (2, 4)]
    results = list(LocalEngine(2).map_as_finished(task, range(5)))
    assert results[-1] == (0, 0)
    assert sorted(results) == [(number, number * number) for number in range(5)]


def test_an_error_ends_processes_that_still_run(tmp_path):
    engine, start = LocalEngine(2, processes=True), time.monotonic()
    with pytest.raises(FileFormatError, match="line 7"):
        list(engine.map_as_finished(partial(sleep_and_mark, tmp_path), [0, 3]))
    assert time.monotonic() - start < 20
    assert not list(tmp_path.iterdir())


def test_engines_by_name():
    assert make_engine("local", n_jobs=3).n_workers == 3
    with pytest.raises(InputError, match="engine must be one of 'local', 'ray', found 'spark'"):
        make_engine("spark")
    with pytest.raises(InputError, match="an address is that of a Ray cluster; add the engine 'ray'"):
        make_engine("local", "auto")


def test_without_ray(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(MissingDataError, match="the engine 'ray' needs Ray; pip install 'cge\\[ray\\]'"):
        RayEngine()
