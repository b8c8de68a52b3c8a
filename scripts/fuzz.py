#!/usr/bin/env python
"""Read damaged files until something other than a `CgeError` comes out: every reader, and `cge.load`.

`tests/fuzzing` says what is read and how files are damaged. Totals are kept in results/fuzz.json, and the next run goes
on with new inputs; what fails is kept with its bytes. Memory is limited, and nothing in a file may start a program.

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

_CHUNK = 2_000  # inputs at once
_SLOW = 20  # seconds of the processor for one input
_FORBIDDEN = frozenset({"pickle.find_class", "os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork"})


@dataclass
class Tally:
    """What became of the inputs of one reader: how many were taken as valid, how many failed."""

    inputs: int = 0
    taken: int = 0
    failures: int = 0
    seconds: float = 0.0
    peak_mb: int = 0

    def add(self, other: Tally) -> None:
        """Add what another run counted."""
        self.inputs, self.taken = self.inputs + other.inputs, self.taken + other.taken
        self.failures, self.seconds = self.failures + other.failures, round(self.seconds + other.seconds, 1)
        self.peak_mb = max(self.peak_mb, other.peak_mb)


# ---------------------------------------------------------------------- a process that reads


def work(channel: Connection, place: Any, folder: Path, failures: Path, seed: int, memory: int) -> None:
    """Take (reader, first, count) and send a `Tally`, again and again; `place` tells the input that is read."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process ends this one
    from tests.fuzzing.models import MODELS
    from tests.fuzzing.targets import TARGETS, one

    targets, seen = TARGETS | MODELS, list[str]()
    signal.signal(signal.SIGPROF, _too_slow)
    for name, target in targets.items():  # libraries and kernels are loaded before memory is limited
        for index in range(20):
            one(target, folder, target.make(Random(f"{name} {index}")))
    limit = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + memory * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    sys.addaudithook(lambda event, _: seen.append(event) if event in _FORBIDDEN and not _is_numba() else None)
    warnings.simplefilter("error")
    while True:
        name, first, count = channel.recv()
        tally, began = Tally(inputs=count), time.process_time()
        for index in range(first, first + count):
            place.value = index
            files, problem = targets[name].make(Random(f"{seed} {name} {index}")), ""
            signal.setitimer(signal.ITIMER_PROF, _SLOW)
            try:
                tally.taken += one(targets[name], folder, files)
            except BaseException:  # whatever it is, it is a defect
                problem = traceback.format_exc()
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            if problem or seen:
                tally.failures += 1
                _keep(failures / f"{name}-{seed}-{index}", files, problem or f"a file led to {seen}")
                seen.clear()
        tally.seconds = time.process_time() - began
        tally.peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        channel.send(tally)


def _is_numba() -> bool:
    """Say whether Numba is at work, which keeps compiled kernels as pickles of its own."""
    return any("numba" in Path(frame.filename).parts for frame in traceback.extract_stack())


def _too_slow(*_: object) -> None:
    raise TimeoutError(f"more than {_SLOW} seconds")


def _keep(folder: Path, files: dict[str, bytes], problem: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    (folder / "problem.txt").write_text(problem)


# ---------------------------------------------------------------------- the process that counts


class PathClassifier:
    """A process that reads; one that dies is followed by another."""

    def __init__(self, number: int, home: Path, failures: Path, seed: int, memory: int) -> None:
        self.folder, self.failures, self.seed, self.memory = home / str(number), failures, seed, memory
        self.job: tuple[str, int, int] | None = None
        self._start()

    def _start(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        context = multiprocessing.get_context("spawn")
        self.channel, theirs = context.Pipe()
        self.place = context.Value("q", -1)
        self.process = context.Process(
            target=work, args=(theirs, self.place, self.folder, self.failures, self.seed, self.memory), daemon=True
        )
        self.process.start()
        theirs.close()

    def give(self, job: tuple[str, int, int]) -> None:
        """Send what is to be read next."""
        self.job = job
        self.channel.send(job)

    def take(self) -> tuple[str, Tally]:
        """Return what was counted, also where the process has died on an input: then it goes on behind it."""
        assert self.job is not None
        name, first, count = self.job
        try:
            tally: Tally = self.channel.recv()
            self.job = None
        except EOFError:
            self.process.join()
            done = max(self.place.value, first) - first + 1
            tally = Tally(inputs=done, failures=1)
            files = {one.name: one.read_bytes() for one in self.folder.iterdir()}
            _keep(self.failures / f"{name}-{self.seed}-{self.place.value}", files, f"died with {self.process.exitcode}")
            self._start()
            self.job = (name, first + done, count - done) if count > done else None
            if self.job is not None:
                self.channel.send(self.job)
        return name, tally


def jobs(wanted: int, classifiers: dict[str, float], before: dict[str, Tally]) -> Iterator[tuple[str, int, int]]:
    """Yield (reader, first, count): each reader gets its share, in turns, after what was read before."""
    whole = sum(classifiers.values())
    left = {name: math.ceil(wanted * share / whole) for name, share in classifiers.items()}
    first = {name: before[name].inputs for name in classifiers}
    while any(left.values()):
        for name in classifiers:
            count = min(left[name], _CHUNK)
            if count:
                yield name, first[name], count
            first[name] += count
            left[name] -= count


def counted(
    classifiers: list[PathClassifier], work_left: Iterator[tuple[str, int, int]], ends: float
) -> Iterator[tuple[str, Tally]]:
    """Keep all readers busy until nothing is left or the time is over; yield what each has counted."""
    busy = []
    for classifier in classifiers:
        if (job := next(work_left, None)) is not None:
            classifier.give(job)
            busy.append(classifier)
    while busy:
        ready = wait([classifier.channel for classifier in busy])
        for classifier in [one for one in busy if one.channel in ready]:
            yield classifier.take()
            job = next(work_left, None) if classifier.job is None and time.monotonic() < ends else None
            if job is not None:
                classifier.give(job)
            elif classifier.job is None:
                busy.remove(classifier)


def summary(seed: int, tallies: dict[str, Tally]) -> dict[str, Any]:
    """Return what results/fuzz.json holds."""
    whole = Tally()
    for one in tallies.values():
        whole.add(one)
    rate = round(whole.inputs / whole.seconds) if whole.seconds else 0
    classifiers = {name: asdict(one) for name, one in sorted(tallies.items())}
    return {"seed": seed, **asdict(whole), "inputs_per_second": rate, "classifiers": classifiers}


def main() -> int:
    """Read, count and say what failed."""
    from cge.store.atomic import write_text
    from tests.fuzzing.models import MODELS
    from tests.fuzzing.targets import TARGETS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000, help="how many more inputs [100000]")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so long, whatever is left")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes [one for each core]")
    parser.add_argument("--only", help="readers, separated by commas")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other inputs; totals are kept of one")
    parser.add_argument("--memory", type=int, default=2048, help="MB that a process may ask for beyond libraries")
    parser.add_argument("--totals", type=Path, default=ROOT / "results" / "fuzz.json")
    parser.add_argument("--failures", type=Path, default=ROOT / "runs" / "fuzz", help="folder for what fails")
    told = parser.parse_args()

    shares = {name: target.share for name, target in (TARGETS | MODELS).items()}
    names = told.only.split(",") if told.only else list(shares)
    tallies = {name: Tally() for name in shares}
    if told.totals.exists():
        kept = json.loads(told.totals.read_text())
        if kept["seed"] != told.seed:
            parser.error(f"{told.totals} counts the seed {kept['seed']}; give it, or another file by --totals")
        tallies |= {name: Tally(**one) for name, one in kept["classifiers"].items()}
    work_left = jobs(told.inputs, {name: shares[name] for name in names}, tallies)
    ends, failed = time.monotonic() + told.seconds, 0
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as home:
        classifiers = [PathClassifier(k, Path(home), told.failures, told.seed, told.memory) for k in range(told.jobs)]
        try:
            for name, tally in counted(classifiers, work_left, ends):
                tallies[name].add(tally)
                failed += tally.failures
                write_text(told.totals, json.dumps(summary(told.seed, tallies), indent=1) + "\n")
        except KeyboardInterrupt:
            print("interrupted; what was read is counted, and the same command goes on")
        for classifier in classifiers:
            classifier.process.kill()
            classifier.process.join()
    found = summary(told.seed, tallies)
    print(
        f"{found['inputs']:,} inputs in all, {found['inputs_per_second']:,} a second and process, {failed} failed now"
    )
    if failed:
        print(f"what failed is in {told.failures}, one folder each, with problem.txt")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
