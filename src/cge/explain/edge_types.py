"""Types of steps, by number and by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.graph import Graph
from cge.models.transitions import TransitionMatrix

__all__ = ["NO_STEP", "STAYS", "EdgeTypes"]

Array = npt.NDArray[Any]

STAYS, NO_STEP = "(stays)", "(no step)"


@dataclass(frozen=True, eq=False)
class EdgeTypes:
    """The type of each step, `of_step (m,)`, a number into `names`.

    After the types of edges come two more names: of steps from a node to itself, and of paths without steps.
    """

    names: tuple[str, ...]
    of_step: Array

    @classmethod
    def of(cls, graph: Graph, steps: TransitionMatrix) -> EdgeTypes | None:
        """Return the types of the steps of a graph; None where its edges have none."""
        if graph.edge_types is None:
            return None
        names = (*graph.edge_type_names, STAYS, NO_STEP)
        self_loops = steps.rows == steps.indices
        return cls(
            names,
            np.where(self_loops, len(names) - 2, graph.edge_types[np.maximum(steps.graph_entry, 0)]).astype(np.int64),
        )

    def named(self, steps: Array) -> tuple[str, ...]:
        """Return the types of the steps of one path by name."""
        return tuple(self.names[place] for place in self.of_step[steps[steps >= 0]].tolist())
