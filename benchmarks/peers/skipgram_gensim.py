# mypy: ignore-errors
"""Skip-gram by gensim, with its own defaults for learning rate and windows, on walks that are sampled before.

Frequent nodes are not sampled down, so the pairs it trains are known: half of those that full windows have, for each
node draws its reach. Where only the rate is wanted, it trains on some of the walks, with the table of all nodes.
"""

import numpy as np
from gensim.models import Word2Vec
from measure import arrays, job, measure_pairs, pairs_of_walk, uniform_walks


def main() -> None:
    """Do the job."""
    task = job()
    indptr, indices = arrays(task["graph"])
    names = np.arange(task["nodes"]).astype(str)
    counts = dict(zip(names.tolist(), np.diff(indptr).tolist(), strict=True))
    starts = np.tile(np.arange(task["nodes"]), task["walks"])
    n_walks = min(len(starts), task["most_walks"] or len(starts))

    pairs = n_walks * pairs_of_walk(task["length"], task["window"], shrink=True)

    def prepare(seed):
        order = np.random.default_rng(seed).permutation(starts)[:n_walks]
        walks = names[uniform_walks(indptr, indices, order, task["length"], seed)].tolist()
        model = Word2Vec(
            vector_size=task["dim"],
            window=task["window"],
            negative=task["negatives"],
            sg=1,
            hs=0,
            sample=0,
            min_count=0,
            workers=task["n_jobs"],
            seed=seed,
        )
        model.build_vocab_from_freq(counts)

        def work():
            model.train(walks, total_examples=len(walks), epochs=1)
            return model.wv.vectors[[model.wv.key_to_index[name] for name in names]], pairs

        return work

    measure_pairs(task, prepare)


if __name__ == "__main__":
    main()
