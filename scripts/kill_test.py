#!/usr/bin/env python
"""Kill `cge fit`, `cge embed` and `cge report` at random moments, and check their files.

A file must be the complete old or new one; `cge fit --resume` must lead to the bytes of a fit that was not interrupted;
temporary files must be gone after the next run. Half of the kills come at any moment of a run, half within milliseconds
of a temporary file. Writes results/kills.json.

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
DEFAULT = ["--max-epochs", "30", "--classifier", "mlp", "--weighting", "degree"]
PAPER = ["--method", "paper", "--dim", "16", "--walks-per-node", "4", "--walk-length", "8", "--window", "3"]
PAPER += ["--pretrain", "2", "--max-epochs", "12", "--patience", "12", "--outer-steps", "2"]


def write_graph(folder: Path) -> None:
    """Write two communities and labels of half of their nodes."""
    random = Random(1)
    ends = [(side, a, b) for side in "lr" for a in range(SIZE) for b in random.sample(range(SIZE), 4) if a != b]
    edges = [f"{side}{a},{side}{b}" for side, a, b in ends] + [f"l{k},r{k}" for k in range(0, SIZE, 10)]
    labels = [f"{side}{k},{name}" for side, name in (("l", "left"), ("r", "right")) for k in range(SIZE // 2)]
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges, ""]))
    (folder / "labels.csv").write_text("\n".join(["node,label", *labels, ""]))


# ---------------------------------------------------------------------- runs


def start_command(words: list[str]) -> int:
    """Start a command in a process of its own, in which the libraries are loaded already; return its id."""
    from cge.cli.main import run

    number = os.fork()
    if number:
        return number
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    code = 1
    try:
        code = run(words)
    finally:
        os._exit(code)


def done(words: list[str]) -> float:
    """Run a command that must succeed; return the seconds it took."""
    start = time.monotonic()
    code = os.waitstatus_to_exitcode(os.waitpid(start_command(words), 0)[1])
    if code:
        raise SystemExit(f"cge {' '.join(words)} ended with {code}")
    return time.monotonic() - start


def killed(words: list[str], home: Path, seconds: float, aim: int, random: Random) -> bool:
    """Kill a command at a random moment, or right after its temporary file `aim`; return whether it still ran."""
    seen = set(_temporary(home))
    wanted, number = len(seen) + aim, start_command(words)
    ends = time.monotonic() + (20 * seconds if aim else random.uniform(0, seconds))
    while time.monotonic() < ends and not os.waitpid(number, os.WNOHANG)[0]:
        seen |= set(_temporary(home)) if aim else set()
        if aim and len(seen) >= wanted:
            time.sleep(random.uniform(0, 0.01))
            break
        time.sleep(0.0005)
    try:
        os.kill(number, signal.SIGKILL)
        return os.waitpid(number, 0)[1] == signal.SIGKILL
    except (ChildProcessError, ProcessLookupError):
        return False


def _temporary(home: Path) -> Iterator[str]:
    for folder in (home, home / "model", home / "model" / "checkpoint"):
        try:
            yield from (entry.path for entry in os.scandir(folder) if entry.name.endswith(".tmp"))
        except OSError:
            continue


# ---------------------------------------------------------------------- files


def tensor_hash(folder: Path) -> str:
    """Return the hash of the tensors of a saved model; an incomplete model raises."""
    import cge

    cge.load(folder)
    sha256: str = json.loads((folder / "model.json").read_text())["tensors"]["sha256"]
    return sha256


def _fit(home: Path, settings: list[str], out: Path) -> list[str]:
    named = [str(home / "edges.csv"), "--labels", str(home / "labels.csv"), "--out", str(out)]
    return ["fit", *named, *settings, "--quiet"]


def fits(home: Path, settings: list[str], files: int, kills: int, random: Random) -> dict[str, Any]:
    """Kill fits, check the model, and resume them; a fit writes `files` or more.

    Two of three replace an old model, the third has an empty folder. Half of them are killed a second time, when they
    are resumed.
    """
    model, other = home / "model", home / "other"
    shutil.rmtree(model, ignore_errors=True)
    words = _fit(home, settings, model)
    seconds = done(words)
    new = tensor_hash(model)
    done([*_fit(home, settings, other), "--seed", "7"])
    old = tensor_hash(other)
    counts = {"kills": 0, "half-written": 0, "resumed to other bytes": 0, "left over at the end": 0}
    more = {"old model kept": 0, "no model yet": 0, "new model whole": 0}
    more |= {"with a checkpoint": 0, "with a temporary file": 0, "killed again when resumed": 0}
    for kill in _until(lambda: counts["kills"], kills):
        replacing = kill % 3 < 2
        shutil.rmtree(model)
        if replacing:
            shutil.copytree(other, model)
        counts["kills"] += killed(words, home, seconds, random.randint(1, files) if kill % 2 else 0, random)
        more["with a temporary file"] += any(_temporary(home))
        more["with a checkpoint"] += any((model / "checkpoint").glob("*.json"))
        if kill % 4 > 1:
            more["killed again when resumed"] += killed([*words, "--resume"], home, seconds, 0, random)
        exists = (model / "model.json").exists()
        now = _state(lambda: tensor_hash(model)) if exists else "none"
        more["old model kept"] += now == old
        more["no model yet"] += now == "none"
        more["new model whole"] += now == new
        counts["half-written"] += now not in (old if replacing else "none", new)
        done([*words, "--resume"])
        counts["resumed to other bytes"] += _state(lambda: tensor_hash(model)) != new
        counts["left over at the end"] += len(list(model.iterdir())) != 2
    return counts | more | {"seconds of a run": round(seconds, 1)}


def files(home: Path, words: list[str], kills: int, random: Random) -> dict[str, Any]:
    """Kill a command that replaces a file, and check the file."""
    out = Path(words[-1])
    seconds = done(words)
    new, old = out.read_bytes(), b"the file that was there\n"
    counts = {"kills": 0, "half-written": 0, "left over at the end": 0, "most temporary files at once": 0}
    more = {"old file kept": 0, "new file whole": 0, "with a temporary file": 0}
    for kill in _until(lambda: counts["kills"], kills):
        out.write_bytes(old)
        counts["kills"] += killed(words, home, seconds, kill % 2, random)
        temporary = len(list(_temporary(home)))
        more["with a temporary file"] += temporary > 0
        counts["most temporary files at once"] = max(counts["most temporary files at once"], temporary)
        now = out.read_bytes()
        more["old file kept"] += now == old
        more["new file whole"] += now == new
        counts["half-written"] += now not in (old, new)
    done(words)
    counts["left over at the end"] += any(_temporary(home)) or out.read_bytes() != new
    return counts | more | {"seconds of a run": round(seconds, 1)}


def _until(done: Callable[[], int], wanted: int) -> Iterator[int]:
    """Count attempts until enough have been kills: a command may end before it is killed."""
    for attempt in range(5 * wanted):
        if done() >= wanted:
            return
        yield attempt


def _state(read: Callable[[], str]) -> str:
    from cge.errors import CgeError

    try:
        return read()
    except CgeError as error:
        return f"damaged: {error}"


def main() -> int:
    """Kill, check and count; return 1 if a file was damaged."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="of each command [20]")
    parser.add_argument("--only", help="commands, separated by commas: fit, fit --method paper, embed, report")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "kills.json")
    options = parser.parse_args()
    random, only = Random(options.seed), options.only.split(",") if options.only else None
    import cge.cli.app
    import cge.estimators.cge
    import cge.report
    import cge.store.exports  # noqa: F401 - loaded once, before processes fork

    results = {}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        write_graph(home)
        for name, settings, written in (("fit", DEFAULT, 4), ("fit --method paper", PAPER, 16)):
            if only is None or name in only:
                results[name] = fits(home, settings, written, options.kills, random)
                print(name, results[name], flush=True)
        if not (home / "model").exists():
            done(_fit(home, PAPER, home / "model"))
        for name, out in (("embed", "vectors.csv"), ("report", "report.html")):
            if only is None or name in only:
                results[name] = files(
                    home, [name, str(home / "model"), "--out", str(home / out)], options.kills, random
                )
                print(name, results[name], flush=True)
    from cge.store.atomic import write_text

    write_text(options.out, json.dumps(results, indent=1) + "\n")
    wrong = ("half-written", "resumed to other bytes", "left over at the end")
    return int(any(counts.get(name, 0) for counts in results.values() for name in wrong))


if __name__ == "__main__":
    sys.exit(main())
