"""What all commands share: options, help, completion, config files; and what `cge fit` checks before it trains."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer

import cge
from cge.cli.app import app
from cge.cli.fit_plan import format_bytes
from cge.cli.main import run
from cge.cli.output_folder import Checkpoint
from cge.estimators.configs import flat_params, make_estimator
from cge.memory import available_memory
from tests.integration.commands import json_of, subprocess_environment
from tests.integration.fit_command import (
    SMALL_FIT_FLAGS,
    fail_if_called,
    fit_arguments,
    usage_error,
)

# Every command, and which of the shared options it has. Those that use a saved model are deterministic; cells of
# `reproduce` run on one thread each, and their seeds are part of the study.
SHARED = {
    "demo": {"--quiet", "--json", "--seed", "--jobs"},
    "check": {"--quiet", "--json"},
    "ingest": {"--quiet", "--json", "--jobs"},
    "fit": {"--quiet", "--json", "--seed", "--jobs"},
    "predict": {"--quiet", "--json", "--jobs"},
    "explain": {"--quiet", "--json", "--jobs"},
    "score": {"--quiet", "--json", "--jobs"},
    "embed": {"--quiet", "--json", "--seed", "--jobs"},
    "similar": {"--quiet", "--json", "--jobs"},
    "links": {"--quiet", "--json", "--seed", "--jobs"},
    "update": {"--quiet", "--json", "--jobs"},
    "serve": {"--jobs"},
    "report": {"--quiet", "--json", "--jobs"},
    "datasets": {"--quiet", "--json"},
    "evaluate": {"--quiet", "--json", "--seed", "--jobs"},
    "tune": {"--quiet", "--json", "--seed", "--jobs"},
    "reproduce": {"--quiet", "--json"},
    "bench": {"--json"},
}


LONG = {"ingest", "fit", "check", "predict", "score", "explain", "embed", "update", "report"}  # have --help-all
SCREEN = 72  # lines, at 100 columns


def help_of(words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    assert run([*words, "--help-all" if {*words} & LONG else "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", SHARED)
def test_help_fits_a_screen(command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert run([command, "--help"]) == 0
    output = capsys.readouterr().out
    assert len(output.splitlines()) <= SCREEN
    assert ("--help-all" in output) == (command in LONG)


def test_every_command_is_known() -> None:
    assert set(typer.main.get_command(app).commands) == set(SHARED)  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", SHARED)
def test_options_and_help_of_every_command(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = help_of([command], capsys, monkeypatch, 200)
    options = set(re.findall(r"│ \*? +(--quiet|--json|--seed|--jobs)\b", output.replace("│ --", "│  --")))
    assert options - ({"--jobs"} if command == "reproduce" else set()) == SHARED[command]
    assert re.search(rf"For example:\s+cge {command}\b", output)
    assert re.search(rf"Usage: cge {command} (\[OPTIONS\]|\[--json\] \[--help\])( [A-Z|.]+)*\s*\n", output)
    assert not re.search(r"<\w+|[{}]", output), "types are words"
    narrow = help_of([command], capsys, monkeypatch, 40)
    assert max(map(len, narrow.splitlines())) <= 40


def test_the_first_screen_fits(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    output = help_of([], capsys, monkeypatch, 90)
    assert all(f"│ {command} " in output for command in SHARED)
    assert len(output.splitlines()) < 48


# ---------------------------------------------------------------------- completion


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cge ev", ["evaluate"]),
        ("cge evaluate ci", ["citeseer"]),
        ("cge evaluate cora --method plan", ["planetoid-t", "planetoid-i"]),
        ("cge tune co", ["cora"]),
        (
            "cge fit --weighting ",
            [
                *("auto", "uniform", "degree", "cosine", "relation-uniform", "relation-degree", "metapaths"),
                *("relations", "edges", "edges+hops", "average", "cnn", "lstm"),
            ],
        ),
        ("cge fit --method p", ["paper"]),
        ("cge fit e.csv --classifier s", ["sparse", "sparse-light"]),
        ("cge fit --ids ", ["auto", "int", "str"]),
        ("cge fit --walk", ["--walks-per-node", "--walk-length"]),
        ("cge reproduce t", ["table2", "table3", "tasks", "typed"]),
        ("cge similar model x --metric ", ["cosine", "dot"]),
        ("cge bench w", ["walks"]),
    ],
)
def test_completion(
    line: str, expected: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_CGE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
    with pytest.raises(SystemExit) as ended:
        run([])
    assert ended.value.code == 0
    assert capsys.readouterr().out.split() == expected


# ---------------------------------------------------------------------- config files


def test_a_config_file_has_the_defaults_of_options(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = files / "fit.toml"
    values = {"method": "paper", "dim": 8, "max_epochs": 3, "seed": 7, "refit": False, "learning_rate": "none"}
    values |= {"edges": str(files / "edges.csv"), "labels": str(files / "labels.csv"), "out": str(files / "m")}
    config.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in (values | {"json": True}).items()))
    assert run(["fit", "--config", str(config), "--dry-run", "--dim", "16", "--head-lr", "0.5"]) == 0
    result = json.loads(capsys.readouterr().out)
    expected = {"dim": 16, "max_epochs": 3, "random_state": 7, "refit": False, "head_lr": 0.5}
    assert result["settings"] == flat_params(make_estimator(cge.PaperCGE, expected))
    assert (result["method"], result["folder"]) == ("paper", str(files / "m"))
    config.write_text("weighting = 'uniform'\nrandom_state = 3\ndirected = true\nhops = 2\n")
    result = json_of(capsys, *fit_arguments(files, "--method", "cge", "--config", str(config), "--dry-run"))
    assert {name: result["settings"][name] for name in ("weighting", "random_state", "hops")} == {
        "weighting": "uniform",
        "random_state": 3,
        "hops": 2,
    }
    assert result["edges"] == cge.read_graph(files / "edges.csv", directed=True).num_edges


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("# mine\nwindo = 3\n", ", line 2: there is no setting 'windo'; the closest name is 'window'"),
        ("hops = 3\n", ", line 1: there is no setting 'hops'; the closest name is "),
        ("dim = 3\nlables = 'x'\n", ", line 2: there is no setting 'lables'; the closest name is 'labels'"),
        ("config = 'x'\n", ", line 1: there is no setting 'config'; the closest name is "),
        ("dim = 0\n", ", line 1: dim must be an integer from 1 to 4096, found 0"),
        ("dim = true\n", ", line 1: dim must be an integer from 1 to 4096, found True"),
        ("seed = 9223372036854775808\n", ", line 1: seed must be an integer that fits in 64 bits, found 92233"),
        ("directed = 3\n", ": directed must be true or false, found 3"),
        ("labels = true\n", ": labels must be text, found True"),
        ("labels = ['a']\n", ": labels must be one value, found ['a']"),
        ("[fit]\ndim = 3\n", ": found the table [fit]; write all settings at the top level"),
        ("dim: 3\n", ": the file is not valid TOML: "),
    ],
)
def test_a_wrong_config_file(content: str, problem: str, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = files / "fit.toml"
    config.write_text(content)
    assert usage_error(fit_arguments(files, "--config", str(config)), capsys).startswith(f"{config}{problem}")
    assert not (files / "m").exists()


def test_evaluate_reads_the_same_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "gcn.toml"
    for content, problem in (
        ("hiden = 3\n", "there is no setting 'hiden'; the closest name is 'hidden'"),
        ("\ndropout = 2\n", "dropout must be a number from 0 to"),
        ("random_state = 2\n", "there is no setting 'random_state'; "),
    ):
        config.write_text(content)
        assert run(["evaluate", "cora", "--method", "gcn", "--config", str(config), "--json"]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith(f"cge: {config}, line {content.count(chr(10))}: {problem}")


# ---------------------------------------------------------------------- before a fit


def test_a_dry_run_prints_the_plan_and_writes_nothing(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cge.estimators.encoder_fit.fit_encoder", fail_if_called)
    monkeypatch.setattr("cge.estimators.paper_cge.PaperCGE._train", fail_if_called)
    before, validation = sorted(files.iterdir()), str(files / "validation.csv")
    assert run(fit_arguments(files, "--dry-run", "--validation", validation, "--method", "cge")) == 0
    lines = capsys.readouterr().out.splitlines()
    output = {line[:15].strip(): line[15:].strip() for line in lines}
    assert output["labels"] == "20 training, 8 validation; path weights may be learned on the training labels"
    assert output["inputs"] == "walk embeddings"
    assert re.match(r"about \d+ MB at most", output["memory"])
    assert output["output folder"] == str(files / "m")
    assert "time" not in output  # no estimate is good enough
    candidates = [re.split(r"\s{2,}", line.strip()) for line in lines[lines.index("") + 1 :]]
    assert candidates[0] == ["stage", "weighting", "classifier", "label propagation", "condition"]
    assert candidates[1] == ["label propagation", "0 hops", "mlp", "yes"]
    assert ["classifier", "0 hops", "sparse-light", "as selected", "if sparse is best"] in candidates
    assert ["weighting", "uniform, degree", "as selected", "as selected"] in candidates
    assert candidates[-1] == ["nothing was trained or written (--dry-run)"]
    result = json_of(capsys, *fit_arguments(files, "--dry-run", "--validation", validation, "--method", "cge"))
    assert (result["labels_seen"]["train"], result["refit"]) == (20, False)
    assert [row["label_propagation"] for row in result["candidates"]][:2] == [True, False]
    assert result["candidates"][-1]["label_propagation"] == "as selected"
    assert run(fit_arguments(files, "--dry-run", *SMALL_FIT_FLAGS)) == 0
    output = {line[:15].strip(): line[15:].strip() for line in capsys.readouterr().out.splitlines()}
    assert output["walks"] == "2 per node with 6 nodes, window 3"
    assert (output["path loss"], output["epochs"]) == ("softmax over all nodes", "at most 4")
    assert output["labels"].startswith(
        "20 (16 training, 4 held out for validation); path weights are learned on the 16 and again"
    )
    result = json_of(capsys, *fit_arguments(files, "--dry-run", *SMALL_FIT_FLAGS))
    assert (result["dry_run"], result["method"], result["settings"]["dim"]) == (True, "paper", 8)
    assert result["peak_bytes"] > 0
    assert result["candidates"] == []
    assert sorted(files.iterdir()) == before
    problem = usage_error(fit_arguments(files, "--dry-run", "--setting", "inductive"), capsys)
    assert problem.startswith("--setting inductive needs")
    (files / "m").write_text("mine")
    assert usage_error(fit_arguments(files, "--dry-run"), capsys) == f"{files / 'm'} is a file; give --out a folder"
    inside = files / "m" / "model"
    problem = usage_error([*fit_arguments(files, "--dry-run"), "--out", str(inside)], capsys)
    assert problem == f"{inside} cannot be created: {files / 'm'} is a file; give --out another folder"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--method", "paper"], "use fewer --walks-per-node, a smaller --window or --dim, or --weighting uniform"),
        (
            ["--method", "cge", "--validation-fraction", "0.5"],
            "compare fewer candidates (--weighting degree --classifier mlp), or use a smaller --dim",
        ),
        (
            ["--method", "cge", "--weighting", "degree", "--classifier", "mlp"],
            "use a smaller --dim, or add --features",
        ),
    ],
)
def test_a_fit_that_needs_more_memory_than_there_is(
    words: list[str], hint: str, files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cge.memory.available_memory", lambda: 123_000_000)
    problem = usage_error(fit_arguments(files, *words), capsys)
    assert re.match(rf"this fit needs about \d+ MB of memory, 120 MB are available; {re.escape(hint)}", problem)
    assert problem.endswith("; --no-memory-check starts it anyway")
    assert not (files / "m").exists()
    if words[1] == "paper":
        assert run(fit_arguments(files, *SMALL_FIT_FLAGS, "--no-memory-check", "--quiet")) == 0
        assert (files / "m" / "model.json").exists()


def machine(root: Path, **content: str) -> Path:
    """Write the files in which a system reports its memory."""
    for name, text in content.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_available_memory_of_the_machine_and_its_control_groups(tmp_path: Path) -> None:
    assert available_memory(tmp_path) is None
    machine(tmp_path, proc__meminfo="MemTotal: 9000 kB\nMemAvailable:    4000 kB\n", proc__self__statm="900 10 3\n")
    assert available_memory(tmp_path) == 4000 * 1024 + 10 * 4096
    machine(tmp_path, proc__self__cgroup="0::/box/inner\n", sys__fs__cgroup__box__inner__memory_dot_max="max\n")
    assert available_memory(tmp_path) == 4000 * 1024 + 10 * 4096
    group = {"memory_dot_max": "1000000\n", "memory_dot_current": "300000\n", "memory_dot_stat": "inactive_file 7\n"}
    machine(tmp_path, **{f"sys__fs__cgroup__box__{name}": text for name, text in group.items()})
    assert available_memory(tmp_path) == 700_007 + 10 * 4096
    first = {"memory_dot_limit_in_bytes": "500000\n", "memory_dot_usage_in_bytes": "100000\n"}
    machine(tmp_path, proc__self__cgroup="4:cpu,memory:/\n")
    machine(tmp_path, **{f"sys__fs__cgroup__memory__{name}": text for name, text in first.items()})
    assert available_memory(tmp_path) == 400_000 + 10 * 4096
    code = (
        "import resource, sys; from pathlib import Path; from cge.memory import available_memory\n"
        "limit = 4096 * int(Path('/proc/self/statm').read_text().split()[0]) + 50_000_000\n"
        "resource.setrlimit(resource.RLIMIT_AS, (limit, limit)); print(available_memory())"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env=subprocess_environment(), check=True
    ).stdout
    own = 4096 * 40_000  # more than an interpreter has
    assert 0 < int(output) <= 50_000_000 + own
    assert (format_bytes(1.45e9), format_bytes(123e9)) == ("1.4 GB", "123 GB")


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")]
)
def test_out_of_memory(
    error: Exception, files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(cge.PaperCGE, "fit", fail)
    problem = usage_error(fit_arguments(files, *SMALL_FIT_FLAGS), capsys)
    assert problem == "out of memory; use a smaller graph, smaller settings, or a machine with more memory"


# ---------------------------------------------------------------------- two fits, signals, pipes


def start_fit(files: Path, words: list[str]) -> subprocess.Popen[bytes]:
    """Start a fit and wait until its first epoch is done."""
    process = subprocess.Popen(
        [sys.executable, "-m", "cge", *words],
        env=subprocess_environment(),
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # which nohup ignores
    )
    deadline = time.monotonic() + 120
    while not list((files / "m" / "checkpoint").glob("*.json")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


def test_two_fits_in_one_folder_sigterm_and_sighup(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = fit_arguments(
        files, *SMALL_FIT_FLAGS, "--max-epochs", "5000", "--patience", "5000", "--weighting", "uniform"
    )
    process = start_fit(files, words)
    problem = usage_error(words, capsys)
    assert re.fullmatch(
        rf"process {process.pid} on \S+ is working in {files / 'm'}; "
        "wait until it is done, or give --out another folder",
        problem,
    )
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate()
    assert process.returncode == 143
    assert re.fullmatch(r"cge: terminated; the same command with --resume continues from epoch \d+\n", errors.decode())
    assert Checkpoint(files / "m").epochs("select") >= 1
    assert [file.name for file in (files / "m").iterdir()] == ["checkpoint"]
    shutil.rmtree(files / "m")
    process = start_fit(files, words)
    process.send_signal(signal.SIGHUP)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 129
    assert errors.startswith(b"cge: terminated; the same command with --resume continues")


def test_symbolic_links_in_a_folder_are_refused(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, elsewhere = files / "m", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    precious = elsewhere / "select.json"
    precious.write_text("precious")
    hint = "is a symbolic link; remove it, or give --out another folder"
    for name, target in ((".cge-working", precious), ("checkpoint", elsewhere), ("model.json", precious)):
        (folder / name).symlink_to(target)
        assert usage_error(fit_arguments(files, *SMALL_FIT_FLAGS), capsys) == f"{folder / name} {hint}"
        (folder / name).unlink()
    (folder / "checkpoint").mkdir()
    (folder / "checkpoint" / "select.json").symlink_to(precious)
    assert (
        usage_error(fit_arguments(files, *SMALL_FIT_FLAGS), capsys) == f"{folder / 'checkpoint' / 'select.json'} {hint}"
    )
    assert precious.read_text() == "precious"
    (folder / "checkpoint" / "select.json").unlink()
    os.mkfifo(folder / ".cge-working")
    problem = usage_error(fit_arguments(files, *SMALL_FIT_FLAGS), capsys)
    assert problem == f"{folder / '.cge-working'} is not a regular file; remove it, or give --out another folder"


def test_closed_pipes_and_poor_terminals(files: Path) -> None:
    assert run(fit_arguments(files, *SMALL_FIT_FLAGS, "--quiet")) == 0
    line = [sys.executable, "-m", "cge", "predict", str(files / "m")]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*line, "--json"], stdout=write, stderr=subprocess.PIPE, env=subprocess_environment())
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")
    poor = subprocess_environment() | {
        "PYTHONIOENCODING": "ascii",
        "NO_COLOR": "1",
        "COLUMNS": "40",
        "FORCE_COLOR": "1",
    }
    code = "from cge.cli.main import run; run(['check', {0!r}]); run(['predict', '--help'])"
    done = subprocess.run([sys.executable, "-c", code.format(str(files / "edges.csv"))], capture_output=True, env=poor)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\x1b[3" not in done.stdout  # colors; bold and dim are none
    assert done.stdout.isascii()
    assert max(map(len, re.sub(rb"\x1b\[[0-9;]*m", b"", done.stdout).splitlines())) == 40


def test_an_error_prints_nothing_on_the_output_stream(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong: list[list[Any]] = [
        ["check", "no.csv"],
        ["fit", "no.csv", "--labels", "l.csv", "--out", files / "m"],
        ["predict", "no"],
        ["explain", "no", "--node", "1"],
        ["embed", "no", "--out", files / "v.csv"],
        ["similar", "no", "1"],
        ["report", "no", "--out", files / "r.html"],
        ["evaluate", "no"],
        ["tune", "no"],
        ["reproduce", "no"],
        ["bench", "no"],
    ]
    for words in wrong:
        assert run([*map(str, words), "--json"]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith("cge: ")
        assert printed.err.count("\n") == 1
