"""Modules and functions of the package are short enough to be read at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "cge"
MAX_MODULE, MAX_FUNCTION = 350, 80
KERNELS = {"kernel", "float_kernel"}  # decorators of compiled functions, which cannot be divided as freely
Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_kernel(function: Function) -> bool:
    return any(ast.unparse(decorator).partition("(")[0] in KERNELS for decorator in function.decorator_list)


def length(function: Function) -> int:
    """Return the lines from `def` to the last one, with docstring and nested functions, but without nested kernels."""
    inner = [node for node in ast.walk(function) if isinstance(node, Function) and node is not function]
    kernels = sum((node.end_lineno or 0) - node.lineno + 1 for node in inner if is_kernel(node))
    return (function.end_lineno or 0) - function.lineno + 1 - kernels


def long_functions(text: str) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Function) and not is_kernel(node) and length(node) > MAX_FUNCTION:
            yield node.name, length(node)


def test_modules_have_at_most_350_lines() -> None:
    lengths = {str(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCE.rglob("*.py")}
    assert len(lengths) > 100
    assert {path: length for path, length in lengths.items() if length > MAX_MODULE} == {}


def test_functions_have_at_most_80_lines() -> None:
    texts = {str(path): path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    assert {path: too_long for path, text in texts.items() if (too_long := list(long_functions(text)))} == {}


@pytest.mark.parametrize(
    ("decorator", "lines", "functions"),
    [("", 80, []), ("", 81, [("f", 81)]), ("@cache\n", 81, [("f", 81)]), ("@kernel\n", 200, [])],
)
def test_lines_count_from_def_to_the_last_one(decorator: str, lines: int, functions: list[tuple[str, int]]) -> None:
    text = f"{decorator}def f():\n" + "    x = 1\n" * (lines - 1)
    assert list(long_functions(text)) == functions


def test_kernels_do_not_count_where_they_are_nested() -> None:
    kernel = "    @float_kernel\n    def g():\n" + "        x = 1\n" * 100
    assert list(long_functions(f"def f():\n{kernel}    return g\n")) == []
    assert list(long_functions(f"def f():\n{kernel.replace('@float_kernel', '@cache')}    return g\n")) != []
