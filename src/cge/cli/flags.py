"""Messages of the library in the spelling of the shell: parameters become the flags of the running command."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from contextvars import ContextVar

from cge.errors import CgeError, Message, Param

_FLAGS = {
    "random_state": "--seed",
    "n_jobs": "--jobs",
    "y": "--labels",
    "edges": "--graph",
    "trust": "--trust-data",
}  # others have the name of the parameter
_running: ContextVar[frozenset[str]] = ContextVar("running", default=frozenset())


def use_flags(flags: Iterable[str]) -> None:
    """Set the flags of the command that runs."""
    _running.set(frozenset(flags))


def flag_of(name: str) -> str:
    """Return the flag of a parameter.

    >>> flag_of("learning_rate"), flag_of("random_state")
    ('--learning-rate', '--seed')
    """
    return _FLAGS.get(name, "--" + name.replace("_", "-"))


def in_shell(param: Param) -> str:
    """Return how the shell spells a parameter; as Python does where the running command has no such flag.

    >>> use_flags(["--ids", "--weighted", "--unweighted"])
    >>> in_shell(Param("ids", "str")), in_shell(Param("weighted", False)), in_shell(Param("hops", 2))
    ('--ids str', '--unweighted', 'hops=2')
    """
    flag = flag_of(param.name)
    if param.value is False:
        flag = "--unweighted" if flag == "--weighted" else flag.replace("--", "--no-", 1)
    if flag not in _running.get():
        return str(param)
    if not param.has_value or isinstance(param.value, bool):
        return flag
    return f"{flag} {shlex.quote(str(param.value))}"


def shell_message(message: str | CgeError | Warning) -> str:
    """Return a message, an error or a warning as text, with parameters as the shell spells them."""
    if isinstance(message, CgeError):
        message = message.message
    elif isinstance(message, Warning):
        message = message.args[0]
    return message.render(in_shell) if isinstance(message, Message) else str(message)
