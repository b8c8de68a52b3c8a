#!/usr/bin/env python
"""Kill `cge fit`, `cge embed` and `cge report` at random moments, and check the files.

A file must be either the old one or the new one, never a part of it; `cge fit --resume` must lead to the same bytes as
an uninterrupted fit; other files must have a temporary name and be removed by the next run. Half of the kills come at a
random moment, half within milliseconds of the creation of a temporary file. Writes results/kills.json.

    python scripts/kill_test.py --kills 20
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src")]

SIZE = 60  # nodes of each of two communities
CGE = ["--max-epochs", "30", "--classifier", "mlp", "--weighting", "degree"]
PAPER = ["--method", "paper", "--dim", "16", "--walks-per-node", "2", "--walk-length", "8", "--window", "3"]
PAPER += ["--pretrain", "1", "--max-epochs", "8", "--patience", "8", "--outer-steps", "2"]


def write_graph(folder: Path) -> None:
    """Write two communities and labels of half of their nodes."""
    random = Random(1)
    pairs = [(side, a, b) for side in "lr" for a in range(SIZE) for b in random.sample(range(SIZE), 4) if a != b]
    edges = [f"{side}{a},{side}{b}" for side, a, b in pairs] + [f"l{k},r{k}" for k in range(0, SIZE, 10)]
    labels = [f"{side}{k},{name}" for side, name in (("l", "left"), ("r", "right")) for k in range(SIZE // 2)]
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges, ""]))
    (folder / "labels.csv").write_text("\n".join(["node,label", *labels, ""]))


# ---------------------------------------------------------------------- runs


def start(arguments: list[str]) -> int:
    """Start a command in a forked process, which has the libraries loaded; return its process id."""
    from cge.cli.main import run

    pid = os.fork()
    if pid:
        return pid
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    code = 1
    try:
        code = run(arguments)
    finally:
        os._exit(code)


def complete(arguments: list[str]) -> float:
    """Run a command that must succeed; return the seconds it took."""
    start_time = time.monotonic()
    code = os.waitstatus_to_exitcode(os.waitpid(start(arguments), 0)[1])
    if code:
        raise SystemExit(f"cge {' '.join(arguments)} ended with {code}")
    return time.monotonic() - start_time


def killed(arguments: list[str], home: Path, seconds: float, nth_file: int, random: Random) -> bool:
    """Kill a command at a random moment, or right after its n-th temporary file; return whether it still ran."""
    seen = set(_temporary(home))
    wanted, pid = len(seen) + nth_file, start(arguments)
    deadline = time.monotonic() + (20 * seconds if nth_file else random.uniform(0, seconds))
    while time.monotonic() < deadline and not os.waitpid(pid, os.WNOHANG)[0]:
        seen |= set(_temporary(home)) if nth_file else set()
        if nth_file and len(seen) >= wanted:
            time.sleep(random.uniform(0, 0.01))
            break
        time.sleep(0.0005)
    try:
        os.kill(pid, signal.SIGKILL)
        return os.waitpid(pid, 0)[1] == signal.SIGKILL
    except (ChildProcessError, ProcessLookupError):
        return False


def _temporary(home: Path) -> Iterator[str]:
    for folder in (home, home / "model", home / "model" / "checkpoint"):
        try:
            yield from (entry.path for entry in os.scandir(folder) if entry.name.endswith(".tmp"))
        except OSError:
            continue


# ---------------------------------------------------------------------- checks


def model_hash(folder: Path) -> str:
    """Return the hash of a saved model's tensors; a damaged model raises an error."""
    import cge

    cge.load(folder)
    sha256: str = json.loads((folder / "model.json").read_text())["tensors"]["sha256"]
    return sha256


def _fit(home: Path, settings: list[str], out: Path) -> list[str]:
    paths = [str(home / "edges.csv"), "--labels", str(home / "labels.csv"), "--out", str(out)]
    return ["fit", *paths, *settings, "--quiet"]


def kill_fits(home: Path, settings: list[str], files: int, kills: int, random: Random) -> dict[str, Any]:
    """Kill fits, check the model and resume; a fit writes at least `files` files.

    Two of three replace an old model, the third starts with an empty folder. Half of them are killed again while
    resuming.
    """
    model, other = home / "model", home / "other"
    shutil.rmtree(model, ignore_errors=True)
    arguments = _fit(home, settings, model)
    seconds = complete(arguments)
    new = model_hash(model)
    complete([*_fit(home, settings, other), "--seed", "7"])
    old = model_hash(other)
    counts = {"kills": 0, "damaged": 0, "resumed to another model": 0, "leftover files": 0}
    states = {"old model": 0, "no model": 0, "new model": 0}
    states |= {"with a checkpoint": 0, "with a temporary file": 0, "killed again while resuming": 0}
    for kill in _until(lambda: counts["kills"], kills):
        replacing = kill % 3 < 2
        shutil.rmtree(model)
        if replacing:
            shutil.copytree(other, model)
        counts["kills"] += killed(arguments, home, seconds, random.randint(1, files) if kill % 2 else 0, random)
        states["with a temporary file"] += any(_temporary(home))
        states["with a checkpoint"] += any((model / "checkpoint").glob("*.json"))
        if kill % 4 > 1:
            states["killed again while resuming"] += killed([*arguments, "--resume"], home, seconds, 0, random)
        state = _state(lambda: model_hash(model)) if (model / "model.json").exists() else "none"
        states["old model"] += state == old
        states["no model"] += state == "none"
        states["new model"] += state == new
        counts["damaged"] += state not in (old if replacing else "none", new)
        complete([*arguments, "--resume"])
        counts["resumed to another model"] += _state(lambda: model_hash(model)) != new
        counts["leftover files"] += len(list(model.iterdir())) != 2
    return counts | states | {"seconds per run": round(seconds, 1)}


def kill_exports(home: Path, arguments: list[str], kills: int, random: Random) -> dict[str, Any]:
    """Kill a command that replaces a file, and check the file."""
    out = Path(arguments[-1])
    seconds = complete(arguments)
    new, old = out.read_bytes(), b"the old file\n"
    counts = {"kills": 0, "damaged": 0, "leftover files": 0, "most temporary files at once": 0}
    states = {"old file": 0, "new file": 0, "with a temporary file": 0}
    for kill in _until(lambda: counts["kills"], kills):
        out.write_bytes(old)
        counts["kills"] += killed(arguments, home, seconds, kill % 2, random)
        temporary = len(list(_temporary(home)))
        states["with a temporary file"] += temporary > 0
        counts["most temporary files at once"] = max(counts["most temporary files at once"], temporary)
        content = out.read_bytes()
        states["old file"] += content == old
        states["new file"] += content == new
        counts["damaged"] += content not in (old, new)
    complete(arguments)
    counts["leftover files"] += any(_temporary(home)) or out.read_bytes() != new
    return counts | states | {"seconds per run": round(seconds, 1)}


def _until(kills: Callable[[], int], wanted: int) -> Iterator[int]:
    """Count attempts until there were enough kills: a command may end before it is killed."""
    for attempt in range(5 * wanted):
        if kills() >= wanted:
            return
        yield attempt


def _state(read: Callable[[], str]) -> str:
    from cge.errors import CgeError

    try:
        return read()
    except CgeError as error:
        return f"damaged: {error}"


def main() -> int:
    """Kill, check and count; return 1 if a check failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="of each command [20]")
    parser.add_argument("--only", help="commands, separated by commas: fit, fit --method paper, embed, report")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "kills.json")
    options = parser.parse_args()
    random, only = Random(options.seed), options.only.split(",") if options.only else None
    import numba  # noqa: F401 - all are loaded once, before processes fork

    import cge.cli.app
    import cge.estimators.encoder_fit
    import cge.estimators.paper_model
    import cge.report.contents
    import cge.store.exports
    import cge.training.paper_training  # noqa: F401

    results = {}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        write_graph(home)
        for name, settings, files in (("fit", CGE, 4), ("fit --method paper", PAPER, 16)):
            if only is None or name in only:
                results[name] = kill_fits(home, settings, files, options.kills, random)
                print(name, results[name], flush=True)
        if not (home / "model").exists():
            complete(_fit(home, PAPER, home / "model"))
        for name, out in (("embed", "vectors.csv"), ("report", "report.html")):
            if only is None or name in only:
                arguments = [name, str(home / "model"), "--out", str(home / out)]
                results[name] = kill_exports(home, arguments, options.kills, random)
                print(name, results[name], flush=True)
    from cge.store.atomic import write_text

    write_text(options.out, json.dumps(results, indent=1) + "\n")
    failures = ("damaged", "resumed to another model", "leftover files")
    return int(any(counts.get(name, 0) for counts in results.values() for name in failures))


if __name__ == "__main__":
    sys.exit(main())
