"""The import graph of installed packages: modules are nodes, imports are edges, and a module's package is its label."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.data.dataset import Dataset
from cge.errors import MissingDataError
from cge.graph import Graph

__all__ = ["PACKAGES", "import_graph", "imported_names", "package_modules"]

Array = npt.NDArray[Any]

# Packages that `./test` installs, with pinned versions; each has at least 70 modules.
PACKAGES = (
    *("PIL", "alembic", "fontTools", "gensim", "hypothesis", "matplotlib", "mpmath", "mypy", "narwhals", "networkx"),
    *("numpy", "optuna", "pandas", "polars", "pyarrow", "pydantic", "pygments", "rich", "scipy", "setuptools"),
    *("sklearn", "sqlalchemy", "torch_geometric"),
)


def package_modules(package: str) -> dict[str, Path]:
    """Return the files of all modules of an installed package, by the names of the modules."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingDataError(f"the import graph needs the package {package}, which ./test installs")
    root, modules = Path(next(iter(spec.submodule_search_locations))), {}
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root.parent).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return modules


def imported_names(source: str, module: str, is_package: bool) -> Iterator[str]:
    r"""Yield what the source of a module imports: names of modules, or of objects in modules.

    >>> list(imported_names("import a.b\nfrom .c import d", "p.q", is_package=False))
    ['a.b', 'p.c', 'p.c.d']
    """
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            parents = parents[: len(parents) - node.level + 1] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _edges(modules: dict[str, Path]) -> Iterator[tuple[str, str]]:
    for module, file in modules.items():
        try:
            names: Iterable[str] = set(imported_names(file.read_text("utf-8"), module, file.name == "__init__.py"))
        except (SyntaxError, UnicodeDecodeError):  # templates and test data with the ending of Python files
            continue
        yield from ((module, name) for name in names if name in modules and name != module)


def import_graph(packages: Sequence[str] = PACKAGES) -> Dataset:
    """Return the undirected graph of imports between modules, without features; classes are packages."""
    modules = {name: file for package in packages for name, file in package_modules(package).items()}
    edges = sorted(_edges(modules))
    names = sorted({module for edge in edges for module in edge})
    number = {name: position for position, name in enumerate(names)}
    pairs = np.array([(number[source], number[target]) for source, target in edges], np.int64)
    classes = tuple(sorted(packages))
    labels: Array = np.array([classes.index(name.partition(".")[0]) for name in names])
    return Dataset("imports", Graph.from_edges(pairs, num_nodes=len(names)), labels, classes, None)
