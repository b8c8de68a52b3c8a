"""`cge bench startup`: how long a command takes that uses a small stored model, and what importing the package takes.

A model of CORA is trained for a few epochs and saved. Every command is a process of its own; the least CPU time (user
and system, start of the interpreter included) and the least wall time of several repeats count.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.report import machine_description, save_table
from cge.data import load_dataset
from cge.estimators.cge import CGE

__all__ = ["main"]

_COMMANDS = {
    "import numpy, scipy.sparse": ["-c", "import numpy, scipy.sparse"],
    "from cge import CGE": ["-c", "from cge import CGE"],
    "cge --help": ["-m", "cge", "--help"],
    "cge predict MODEL --nodes 35,40": ["-m", "cge", "predict", "{model}", "--nodes", "35,40"],
    "cge predict MODEL --out FILE.csv": ["-m", "cge", "predict", "{model}", "--out", "{folder}/predictions.csv"],
    "cge similar MODEL 35": ["-m", "cge", "similar", "{model}", "35"],
    "cge explain MODEL --node 35": ["-m", "cge", "explain", "{model}", "--node", "35"],
    "cge explain MODEL": ["-m", "cge", "explain", "{model}"],
    "cge embed MODEL --out FILE.npz": ["-m", "cge", "embed", "{model}", "--out", "{folder}/vectors.npz"],
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="cge bench startup", description=str(__doc__).splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--save", action="store_true", help="write results/startup.json and .md")
    parser.add_argument("--repeats", type=int, default=5, help="default: %(default)s")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        _save_model(f"{folder}/model")
        names = {"model": f"{folder}/model", "folder": folder}
        rows = [
            _measure(name, [word.format(**names) for word in command], args.repeats)
            for name, command in _COMMANDS.items()
        ]
    result = {"bench": "startup", "machine": machine_description([]), "rows": rows}
    lines = ["| | CPU s | wall s |", "|---|--:|--:|"]
    lines += [f"| `{row['name']}` | {row['cpu_seconds']:.2f} | {row['seconds']:.2f} |" for row in rows]
    print(json.dumps(result) if args.json else "\n".join(lines))
    if args.save:
        save_table("startup", __doc__, result, lines)
    return 0


def _save_model(folder: str) -> None:
    data = load_dataset("cora")
    split = data.splits[0]
    model = CGE("degree", classifier="consistency", label_propagation=False, training={"max_epochs": 20})
    model.fit(data.graph, data.labels_of(split.train), data.labels_of(split.validation)).save(folder)


def _measure(name: str, arguments: list[str], repeats: int) -> dict[str, str | float]:
    """Return the least CPU and wall seconds of a command; a first run, which writes bytecode, does not count."""
    environment, seconds, cpu_seconds = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}, [], []
    for _ in range(repeats + 1):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        command = [sys.executable, *arguments]
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
        seconds.append(time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {"name": name, "cpu_seconds": min(cpu_seconds[1:]), "seconds": min(seconds[1:])}


if __name__ == "__main__":
    sys.exit(main())
