"""Errors: their fields, their sentence in Python, and how the shell spells parameters."""

from __future__ import annotations

import pickle

import pytest
import sklearn.exceptions

import cge
from cge.cli.command import flag_of, in_shell, shell_message, use_flags
from cge.errors import CgeWarning, FileFormatError, InputError, Message, MissingDataError, Param, UnknownNodeError
from cge.estimators.estimator import NotFittedError


def test_fields_and_sentence() -> None:
    error = InputError(parameter="hops", expected="at least 0", found=-1, hint=Message.of("use {hops}", hops=4))
    assert str(error) == "hops must be at least 0, found -1; use hops=4"
    assert (error.parameter, error.found, error.expected, error.hint) == ("hops", -1, "at least 0", "use hops=4")
    plain = MissingDataError("no such data")
    assert (str(plain), plain.parameter, plain.hint) == ("no such data", None, None)
    file = FileFormatError("a.csv", "two columns", 1_000, hint="write three")
    assert str(file) == "a.csv, line 1,000: two columns; write three"
    assert (str(file.path), file.line, file.problem) == ("a.csv", 1000, "two columns")


def test_unknown_nodes_are_counted() -> None:
    assert str(UnknownNodeError("", ["x"])) == "node 'x' is not in the graph"
    error = UnknownNodeError(Param("y"), ["x", "z"], 7, "label others")
    assert str(error) == "7 nodes in y are not in the graph, the first: 'x', 'z'; label others"
    assert (error.offenders, error.count) == (["x", "z"], 7)


@pytest.mark.parametrize(
    ("message", "shell"),
    [
        (Message.of("pass {ids} to", ids="str"), "pass --ids str to"),
        (Message.of("pass {weighted}", weighted=False), "pass --unweighted"),
        (Message.of("{header}", header=True), "--header"),
        (Message.of("{header}", header=False), "--no-header"),
        (
            Message.of("as in {source}, {edge_type}", source=1, edge_type="how so"),
            "as in --source 1, --edge-type 'how so'",
        ),
        (Message.of("{random_state} and {n_jobs}"), "--seed and --jobs"),
        (Message.of("a lower {hops}"), "a lower hops"),  # the command has no such flag
        (Message("found ids='x', ", Message.of("use {ids}", ids="int")), "found ids='x', use --ids int"),
        ("plain text about ids=1", "plain text about ids=1"),
    ],
)
def test_the_shell_names_the_flags_of_the_running_command(message: str, shell: str) -> None:
    words = ("ids", "weighted", "header", "source", "edge_type", "random_state", "n_jobs")
    use_flags([*map(flag_of, words), "--unweighted", "--no-header"])
    assert shell_message(message) == shell
    assert shell_message(InputError(message, hint=Message.of("set {ids}"))) == f"{shell}; set --ids"
    assert shell_message(CgeWarning(message)) == shell


def test_parameters_as_python_and_shell_spell_them() -> None:
    use_flags(["--weighting"])
    assert str(Param("weighting", "cosine")) == "weighting='cosine'"
    assert in_shell(Param("weighting", "cosine")) == "--weighting cosine"
    message = Message("use ", Param("weighting", "cosine"))
    assert (message, message.upper()) == ("use weighting='cosine'", "USE WEIGHTING='COSINE'")
    again = pickle.loads(pickle.dumps(message))
    assert shell_message(again) == "use --weighting cosine"


def test_a_model_that_is_not_fitted() -> None:
    for error in (cge.CgeError, sklearn.exceptions.NotFittedError, NotFittedError):
        with pytest.raises(error, match="call fit first"):
            cge.CGE().predict()


@pytest.mark.parametrize(
    "settings", [{"random_state": 2**64}, {"training": {"max_epochs": 10**400}}, {"n_jobs": 2**70}]
)
def test_integers_beyond_64_bits(settings: dict[str, object]) -> None:
    graph = cge.Graph.from_edges([(0, 1), (1, 2)])
    with pytest.raises(InputError, match="must be an integer that fits in 64 bits, found 1"):
        cge.CGE(**settings).fit(graph, {0: "a", 1: "b"})  # type: ignore[arg-type]
