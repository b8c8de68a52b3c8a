"""The measured tools, and the virtual environments of those that are not part of this project.

Each peer has an environment of its own under the cache folder, named after its requirements: another pin, another
environment. An environment is complete once its marker file exists; an incomplete one is created again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import cache_folder, shorten_paths

__all__ = ["TOOLS", "NotInstalledError", "Tool", "python_of", "versions"]

_INSTALL_SECONDS = 900
_MARKER = "complete"
_ARRAYS = ("numpy==2.4.6", "scipy==1.17.1")
_OLD_ARRAYS = ("numpy==1.26.4", "scipy==1.17.1")
_JIT = ("numba==0.68.1", *_OLD_ARRAYS)


class NotInstalledError(Exception):
    """A peer cannot be installed here; the message becomes the note of its row."""


@dataclass(frozen=True)
class Tool:
    """A tool and what to install for it.

    `requirements` is empty for tools that run in the project's own environment. A peer that would install a package
    whose name starts with one of `unwanted` is left out. `shares` is the tool whose environment it shares.
    """

    name: str
    requirements: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()
    shares: str = ""


TOOLS = {
    tool.name: tool
    for tool in (
        Tool("cge"),
        Tool("numpy"),
        Tool("pyarrow"),
        Tool("csrgraph", ("csrgraph==0.1.28", "pandas==3.0.6", *_JIT)),
        Tool(
            "dgl",
            ("dgl==1.1.3", "torch==2.13.0", "packaging==26.3", *_OLD_ARRAYS),
            unwanted=("nvidia-", "cuda-", "triton"),
        ),
        Tool("ensmallen", ("ensmallen==0.8.100", "numpy==1.26.4")),
        Tool("fastnode2vec", ("fastnode2vec==0.0.7", "gensim==4.4.0", *_JIT)),
        Tool("gensim", ("gensim==4.4.0", "fastnode2vec==0.0.7", *_JIT), shares="fastnode2vec"),
        Tool("networkx", ("networkx==3.6.1", *_ARRAYS)),
        Tool("pandas", ("pandas==3.1.1", *_ARRAYS)),
        Tool("pecanpy", ("pecanpy==2.0.9", "gensim==4.4.0", "numba-progress==1.2.0", *_JIT)),
        Tool("polars", ("polars==2.1.0", *_ARRAYS)),
    )
}


def python_of(tool: Tool) -> Path:
    """Return the Python that runs a tool; its environment is created if it does not exist."""
    if not tool.requirements:
        return Path(sys.executable)
    text = "\n".join((*sorted(tool.requirements), f"{sys.version_info.major}.{sys.version_info.minor}"))
    folder = cache_folder() / f"{tool.shares or tool.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not (folder / _MARKER).exists():
        if folder.exists():
            shutil.rmtree(folder)
        venv.create(folder, with_pip=True)
        _refuse_unwanted(tool, python)
        _pip(python, list(tool.requirements))
        (folder / _MARKER).write_text(text + "\n", encoding="utf-8")
    return python


def versions(tool: Tool) -> str:
    """Return the pinned versions of a peer, the peer first.

    >>> versions(TOOLS["networkx"])
    'networkx 3.6.1, numpy 2.4.6, scipy 1.17.1'
    """
    return ", ".join(pin.replace("==", " ") for pin in tool.requirements)


def _refuse_unwanted(tool: Tool, python: Path) -> None:
    """Raise an error if pip would install an unwanted package."""
    if not tool.unwanted:
        return
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.json"
        _pip(python, ["--dry-run", "--report", str(plan), *tool.requirements])
        names = [entry["metadata"]["name"].lower() for entry in json.loads(plan.read_text())["install"]]
    unwanted = [name for name in names if name.startswith(tool.unwanted)]
    if unwanted:
        raise NotInstalledError(f"left out: it would install {', '.join(unwanted[:3])}")


def _pip(python: Path, arguments: list[str]) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise NotInstalledError(f"did not install within {_INSTALL_SECONDS} s") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise NotInstalledError(f"did not install: {shorten_paths(errors[-1]) if errors else done.returncode}")
