# mypy: ignore-errors
"""Skip-gram by ensmallen. Threads are set by RAYON_NUM_THREADS.

Its pairs are counted on walks of its own: a center with the nodes up to `window` steps back and `window` - 1 ahead that
are other nodes than the center. The learning rate is the one that did best on CORA's validation nodes.
"""

import ensmallen
import numpy as np
from measure import job, measure_deepwalk, measure_pairs

TASK = job()
_RATE = 0.01
_COUNTED = 10_000  # walks whose pairs are counted


def load():
    """Read the edge list."""
    return ensmallen.Graph.from_csv(
        edge_path=TASK["integers"],
        edge_list_header=False,
        edge_list_separator="\t",
        sources_column_number=0,
        destinations_column_number=1,
        edge_list_numeric_node_ids=True,
        number_of_nodes=TASK["nodes"],
        numeric_node_ids=True,
        directed=False,
        verbose=False,
    )


def train(graph, seed):
    """Return the vectors of the centers."""
    model = ensmallen.models.SkipGram(
        embedding_size=TASK["dim"],
        window_size=TASK["window"],
        number_of_negative_samples=TASK["negatives"],
        walk_length=TASK["length"],
        iterations=TASK["walks"],
        epochs=1,
        learning_rate=_RATE,
        random_state=seed,
        verbose=False,
    )
    return model.fit_transform(graph)[0]


def pairs_of(walks):
    """Return the pairs that it trains on `walks (k, length)`."""
    met = 0
    for distance in range(1, min(TASK["window"], walks.shape[1] - 1) + 1):
        others = np.count_nonzero(walks[:, distance:] != walks[:, :-distance])
        met += others * (2 if distance < TASK["window"] else 1)
    return met


def main() -> None:
    """Do the job."""
    if TASK["kind"] == "deepwalk":
        measure_deepwalk(TASK, __file__, lambda seed: train(load(), seed))
        return
    graph = load()
    graph.enable(vector_sources=True)
    walks = graph.random_walks(walk_length=TASK["length"], quantity=min(TASK["nodes"], _COUNTED), iterations=1)
    pairs = pairs_of(walks) / len(walks) * TASK["nodes"] * TASK["walks"]
    measure_pairs(TASK, lambda seed: lambda: (train(graph, seed), pairs))


if __name__ == "__main__":
    main()
