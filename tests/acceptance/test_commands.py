"""`./run` and `./test` set up once, repair an interrupted set-up, and print what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Replaces Python: prints a version, makes "environments" that are copies of itself, and logs calls of pip.
# FAKE_… variables in the environment make it fail, or wait.
FAKE_PYTHON = """#!/bin/sh
case "$*" in
    *'(3, 11)'*) exit ${FAKE_TOO_OLD:-0} ;;
    *'import ensurepip, venv'*) exit ${FAKE_NO_VENV:-0} ;;
    '-m venv '*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && echo "venv" >>"$FAKE_LOG"
        printf '#!/bin/sh\\necho cge "$@"\\n' >"$3/bin/cge" && chmod +x "$3/bin/cge" ;;
    '-m pip install '*) echo "pip $*" >>"$FAKE_LOG"; sleep ${FAKE_PIP_SECONDS:-0}; exit ${FAKE_PIP_FAILS:-0} ;;
    --version) echo "Python 3.8.1" ;;
esac
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Copy what set-up needs into a folder whose name has a blank, next to a replacement for Python."""
    folder = tmp_path / "my project"
    (folder / "scripts").mkdir(parents=True)
    (folder / "src").mkdir()
    (folder / "src" / "module.py").write_text("")
    for name in ("run", "test", "scripts/set-up.sh", "pyproject.toml", "constraints.txt"):
        shutil.copy2(ROOT / name, folder / name)
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "python3"
    fake.write_text(FAKE_PYTHON)
    fake.chmod(0o755)
    return folder


def start(project: Path, *arguments: str, command: Path | None = None, **environment: str) -> subprocess.Popen[str]:
    names = {"PATH": f"{project.parent / 'bin'}:/usr/bin:/bin", "HOME": os.environ.get("HOME", "/")}
    names["FAKE_LOG"] = str(project.parent / "log")
    # Only the replacement may be found: real interpreters of other names are hidden by failing ones.
    for name in ("python3.11", "python3.12", "python3.13", "python"):
        hidden = project.parent / "bin" / name
        hidden.write_text("#!/bin/sh\nexit 1\n")
        hidden.chmod(0o755)
    return subprocess.Popen(
        [str(command or project / "run"), *arguments],
        cwd="/",
        env=names | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def call(
    project: Path, *arguments: str, command: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    (project.parent / "log").write_text("")
    process = start(project, *arguments, command=command, **environment)
    out, err = process.communicate()
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def log(project: Path) -> list[str]:
    return (project.parent / "log").read_text().splitlines()


def test_set_up_happens_once_and_then_the_command_runs(project: Path) -> None:
    first = call(project)
    assert (first.returncode, first.stdout) == (0, "cge demo\n")
    assert first.stderr.startswith(f"Setting up {project}/.venv (once")
    assert first.stderr.count("\n") == 1
    assert log(project)[0] == "venv"
    assert "--constraint constraints.txt --editable ." in log(project)[1]
    second = call(project, "check", "my file.csv")
    assert (second.stdout, second.stderr, log(project)) == ("cge check my file.csv\n", "", [])


def test_changed_requirements_are_installed_into_the_same_environment(project: Path) -> None:
    call(project)
    with (project / "constraints.txt").open("a") as file:
        file.write("# changed\n")
    call(project)
    assert [line.split()[0] for line in log(project)] == ["pip"]
    call(project)
    assert log(project) == []


def test_an_interrupted_set_up_starts_from_nothing(project: Path) -> None:
    failed = call(project, FAKE_PIP_FAILS="1")
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1].startswith("pip could not install what cge needs")
    (project / ".venv" / "leftover").touch()
    repaired = call(project)
    assert repaired.returncode == 0
    assert [line.split()[0] for line in log(project)] == ["venv", "pip"]
    assert not (project / ".venv" / "leftover").exists()


def test_a_moved_project_is_set_up_anew(project: Path) -> None:
    call(project)
    moved = project.rename(project.parent / "moved")
    call(moved)
    assert [line.split()[0] for line in log(moved)] == ["venv", "pip"]


def test_two_calls_at_once_set_up_once(project: Path) -> None:
    processes = [start(project, FAKE_PIP_SECONDS="2") for _ in range(2)]
    outputs = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert [out for out, _ in outputs] == ["cge demo\n"] * 2
    assert [line.split()[0] for line in log(project)] == ["venv", "pip"]


def test_the_lock_of_a_killed_call_is_taken_over(project: Path) -> None:
    lock = project / ".venv.lock"
    lock.mkdir()
    dead = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True, check=True).stdout
    (lock / "pid").write_text(dead)
    assert call(project).returncode == 0
    assert not lock.exists()


def test_a_link_to_the_command_works(project: Path) -> None:
    link = project.parent / "link"
    link.symlink_to(project / "run")
    assert call(project, command=link).stdout == "cge demo\n"


def test_a_python_that_is_named_must_work(project: Path) -> None:
    blank = project.parent / "bin" / "my python"
    shutil.copy2(project.parent / "bin" / "python3", blank)
    assert call(project, PYTHON=str(blank)).returncode == 0
    shutil.rmtree(project / ".venv")
    refused = call(project, PYTHON="/nowhere/python")
    assert refused.returncode == 1
    assert refused.stderr == "PYTHON names /nowhere/python, which is not a working Python 3.11, 3.12 or 3.13\n"


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("FAKE_TOO_OLD", "cge needs Python 3.11, 3.12 or 3.13, and found Python 3.8.1; install one, or name it: "),
        ("FAKE_NO_VENV", "has no venv module; install it (on Debian and Ubuntu: apt install python3-venv)"),
    ],
)
def test_what_is_missing_is_one_sentence(project: Path, fault: str, sentence: str) -> None:
    done = call(project, **{fault: "1"})
    assert done.returncode == 1
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (project / ".venv").exists()
