# mypy: ignore-errors
"""Walks by ensmallen; it samples the start nodes itself. Threads are set by RAYON_NUM_THREADS."""

import ensmallen
from measure import job, measure_walks


def main() -> None:
    """Do the job."""
    task = job()
    graph = ensmallen.Graph.from_csv(
        edge_path=task["integers"],
        edge_list_header=False,
        edge_list_separator="\t",
        sources_column_number=0,
        destinations_column_number=1,
        edge_list_numeric_node_ids=True,
        number_of_nodes=task["nodes"],
        numeric_node_ids=True,
        directed=False,
        verbose=False,
    )
    graph.enable(vector_sources=True)
    # Without this its node2vec walks look at 100 random neighbors only.
    exact = {} if task["p"] == task["q"] == 1 else {"max_neighbours": task["nodes"]}

    def walk(starts):
        # random_walks draws its starts without replacement: more than one walk per node are iterations.
        iterations = max(1, round(len(starts) / task["nodes"]))
        return graph.random_walks(
            walk_length=task["length"],
            quantity=len(starts) // iterations,
            return_weight=1 / task["p"],
            explore_weight=1 / task["q"],
            iterations=iterations,
            **exact,
        )

    measure_walks(task, walk, lambda walks: walks)


if __name__ == "__main__":
    main()
