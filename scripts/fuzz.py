#!/usr/bin/env python
"""Read damaged files with every reader and with `cge.load`: only a `CgeError` may be raised.

`tests/fuzzing` defines the readers and how files are damaged. Totals are written to results/fuzz.json, and the next run
continues with new inputs; failing inputs are saved. Memory is limited, and nothing in a file may start a program.

    python scripts/fuzz.py --inputs 1000000 --jobs 2
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

_CHUNK = 2_000  # inputs per job
_MAX_SECONDS = 20  # of processor time for an input
_FORBIDDEN = frozenset({"pickle.find_class", "os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork"})


@dataclass
class Tally:
    """Counts for a target: inputs, how many of them were accepted as valid, how many failed."""

    inputs: int = 0
    accepted: int = 0
    failures: int = 0
    seconds: float = 0.0
    peak_mb: int = 0

    def add(self, other: Tally) -> None:
        """Add the counts of another run."""
        self.inputs, self.accepted = self.inputs + other.inputs, self.accepted + other.accepted
        self.failures, self.seconds = self.failures + other.failures, round(self.seconds + other.seconds, 1)
        self.peak_mb = max(self.peak_mb, other.peak_mb)


# ---------------------------------------------------------------------- worker processes


def work(channel: Connection, current: Any, folder: Path, failures: Path, seed: int, memory: int) -> None:
    """Receive (target, first, count) and send a `Tally`, until killed; `current` is the index of the current input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends this one
    from tests.fuzzing.models import MODELS
    from tests.fuzzing.targets import TARGETS, read_files

    targets, events = TARGETS | MODELS, list[str]()
    signal.signal(signal.SIGPROF, _too_slow)
    for name, target in targets.items():  # libraries and kernels are loaded before memory is limited
        for index in range(20):
            read_files(target, folder, target.make(Random(f"{name} {index}")))
    limit = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + memory * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    sys.addaudithook(lambda event, _: events.append(event) if event in _FORBIDDEN and not _is_numba() else None)
    warnings.simplefilter("error")
    while True:
        name, first, count = channel.recv()
        tally, start = Tally(inputs=count), time.process_time()
        for index in range(first, first + count):
            current.value = index
            files, problem = targets[name].make(Random(f"{seed} {name} {index}")), ""
            signal.setitimer(signal.ITIMER_PROF, _MAX_SECONDS)
            try:
                tally.accepted += read_files(targets[name], folder, files)
            except BaseException:  # whatever it is, it is a bug
                problem = traceback.format_exc()
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            if problem or events:
                tally.failures += 1
                _save(failures / f"{name}-{seed}-{index}", files, problem or f"a file caused the events {events}")
                events.clear()
        tally.seconds = time.process_time() - start
        tally.peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        channel.send(tally)


def _is_numba() -> bool:
    """Return whether Numba is running, which caches compiled kernels as pickles."""
    return any("numba" in Path(frame.filename).parts for frame in traceback.extract_stack())


def _too_slow(*_: object) -> None:
    raise TimeoutError(f"more than {_MAX_SECONDS} seconds")


def _save(folder: Path, files: dict[str, bytes], problem: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    (folder / "problem.txt").write_text(problem)


# ---------------------------------------------------------------------- the main process


class Worker:
    """A process that reads files; it is restarted if it dies."""

    def __init__(self, number: int, home: Path, failures: Path, seed: int, memory: int) -> None:
        self.folder, self.failures, self.seed, self.memory = home / str(number), failures, seed, memory
        self.job: tuple[str, int, int] | None = None
        self._start()

    def _start(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        context = multiprocessing.get_context("spawn")
        self.channel, other_end = context.Pipe()
        self.current = context.Value("q", -1)
        self.process = context.Process(
            target=work, args=(other_end, self.current, self.folder, self.failures, self.seed, self.memory), daemon=True
        )
        self.process.start()
        other_end.close()

    def send(self, job: tuple[str, int, int]) -> None:
        """Send the next job."""
        self.job = job
        self.channel.send(job)

    def receive(self) -> tuple[str, Tally]:
        """Return the counts of the job; a process that died on an input is restarted after it."""
        assert self.job is not None
        name, first, count = self.job
        try:
            tally: Tally = self.channel.recv()
            self.job = None
        except EOFError:
            self.process.join()
            done = max(self.current.value, first) - first + 1
            tally = Tally(inputs=done, failures=1)
            files = {path.name: path.read_bytes() for path in self.folder.iterdir()}
            _save(
                self.failures / f"{name}-{self.seed}-{self.current.value}", files, f"died with {self.process.exitcode}"
            )
            self._start()
            self.job = (name, first + done, count - done) if count > done else None
            if self.job is not None:
                self.channel.send(self.job)
        return name, tally


def make_jobs(n_inputs: int, shares: dict[str, float], previous: dict[str, Tally]) -> Iterator[tuple[str, int, int]]:
    """Yield (target, first, count): each target gets its share, in turns, after the inputs of previous runs."""
    total = sum(shares.values())
    remaining = {name: math.ceil(n_inputs * share / total) for name, share in shares.items()}
    first = {name: previous[name].inputs for name in shares}
    while any(remaining.values()):
        for name in shares:
            count = min(remaining[name], _CHUNK)
            if count:
                yield name, first[name], count
            first[name] += count
            remaining[name] -= count


def run_jobs(
    workers: list[Worker], jobs: Iterator[tuple[str, int, int]], deadline: float
) -> Iterator[tuple[str, Tally]]:
    """Run jobs on all workers until there are no more or the time is over; yield the counts of each."""
    busy = []
    for worker in workers:
        if (job := next(jobs, None)) is not None:
            worker.send(job)
            busy.append(worker)
    while busy:
        ready = wait([worker.channel for worker in busy])
        for worker in [worker for worker in busy if worker.channel in ready]:
            yield worker.receive()
            job = next(jobs, None) if worker.job is None and time.monotonic() < deadline else None
            if job is not None:
                worker.send(job)
            elif worker.job is None:
                busy.remove(worker)


def summarize(seed: int, tallies: dict[str, Tally]) -> dict[str, Any]:
    """Return the content of results/fuzz.json."""
    total = Tally()
    for tally in tallies.values():
        total.add(tally)
    rate = round(total.inputs / total.seconds) if total.seconds else 0
    targets = {name: asdict(tally) for name, tally in sorted(tallies.items())}
    return {"seed": seed, **asdict(total), "inputs_per_second": rate, "targets": targets}


def main() -> int:
    """Read damaged files, count them and report failures."""
    from cge.store.atomic import write_text
    from tests.fuzzing.models import MODELS
    from tests.fuzzing.targets import TARGETS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000, help="how many more inputs [100000]")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many seconds")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes [one for each core]")
    parser.add_argument("--only", help="targets, separated by commas")
    parser.add_argument("--seed", type=int, default=0, help="totals are those of one seed")
    parser.add_argument("--memory", type=int, default=2048, help="MB that a process may allocate beyond libraries")
    parser.add_argument("--totals", type=Path, default=ROOT / "results" / "fuzz.json")
    parser.add_argument("--failures", type=Path, default=ROOT / "runs" / "fuzz", help="folder for failing inputs")
    options = parser.parse_args()

    shares = {name: target.share for name, target in (TARGETS | MODELS).items()}
    names = options.only.split(",") if options.only else list(shares)
    tallies = {name: Tally() for name in shares}
    if options.totals.exists():
        previous = json.loads(options.totals.read_text())
        if previous["seed"] != options.seed:
            parser.error(f"{options.totals} has the seed {previous['seed']}; pass it, or another file by --totals")
        tallies |= {name: Tally(**counts) for name, counts in previous["targets"].items()}
    jobs = make_jobs(options.inputs, {name: shares[name] for name in names}, tallies)
    deadline, failed = time.monotonic() + options.seconds, 0
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as home:
        workers = [
            Worker(number, Path(home), options.failures, options.seed, options.memory) for number in range(options.jobs)
        ]
        try:
            for name, tally in run_jobs(workers, jobs, deadline):
                tallies[name].add(tally)
                failed += tally.failures
                write_text(options.totals, json.dumps(summarize(options.seed, tallies), indent=1) + "\n")
        except KeyboardInterrupt:
            print("interrupted; finished jobs are counted, and the same command continues")
        for worker in workers:
            worker.process.kill()
            worker.process.join()
    total = summarize(options.seed, tallies)
    rate = f"{total['inputs_per_second']:,} per second and process"
    print(f"{total['inputs']:,} inputs in all, {rate}, {failed} new failures")
    if failed:
        print(f"failing inputs are in {options.failures}, a folder each, with problem.txt")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
