"""LDA topics of a corpus, the paper's filters on them, and the pairs of words that co-occur most."""

import numpy as np
from scipy.sparse import csr_matrix, triu

from .cache import cached
from .libraries import library


def fit_lda(counts: np.ndarray, n_topics: int, seed: int) -> np.ndarray:
    """p(word | topic) by scikit-learn's batch LDA, (K, V), cached. counts: (n, V)."""
    decomposition = library("sklearn.decomposition")
    options = {"max_iter": 10, "max_doc_update_iter": 5, "learning_method": "batch", "random_state": seed}
    table = csr_matrix(counts)

    def fit():
        weights = decomposition.LatentDirichletAllocation(n_topics, **options).fit(table).components_
        return weights / weights.sum(axis=1, keepdims=True)

    content = (table.data, table.indices, table.indptr, table.shape)
    return cached(("lda", *content, n_topics, options, library("sklearn").__version__), fit)


def topic_words(p: np.ndarray, threshold: float, one_topic: bool) -> np.ndarray:
    """Which words are in which topic, (V, K): the paper's ambiguity filter (Appendix E.3).

    p: p(word | topic), (K, V). A topic keeps its int(threshold V) + 1 most likely words. one_topic: a word in several
    of them stays only where its likelihood is largest (Table 1); otherwise in all (Table 5).
    """
    number = int(threshold * p.shape[1]) + 1
    best = np.argsort(-p, axis=1, kind="stable")[:, :number]  # (K, number)
    member = np.zeros(p.T.shape, dtype=bool)
    np.put_along_axis(member, best.T, True, axis=0)
    if one_topic:
        first = np.where(member, p.T, -1).argmax(axis=1)
        member &= first[:, None] == np.arange(len(p))
    return member


def shuffle_membership(member: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The same topics dealt to the same words at random, (V, K): the control."""
    shuffled, words = member.copy(), np.flatnonzero(member.any(axis=1))
    shuffled[words] = member[rng.permutation(words)]
    return shuffled


def topic_relations(member: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each pair of different words: do they share a topic? have they topics, but none in common? Two (V, V)."""
    sizes = member.astype(np.float32)
    shared, has = sizes @ sizes.T > 0, member.any(axis=1)
    different = has[:, None] & has & ~shared
    np.fill_diagonal(shared, False)
    return shared, different


def top_cooccurring(counts: np.ndarray, number: int) -> np.ndarray:
    """The `number` unordered pairs of words that stand together in the most chunks, (number, 2), most first.

    counts: (n, V). Ties at the cut are broken by order in the vocabulary. ValueError for more pairs than there are.
    """
    present = csr_matrix((counts > 0).astype(np.float32))
    together = triu(present.T @ present, 1).tocsr()
    if not 0 < number <= together.nnz:
        raise ValueError(f"{number} pairs are wanted: {together.nnz} pairs stand together")
    together.sort_indices()
    first, second = together.nonzero()
    top = np.argsort(-together.data, kind="stable")[:number]
    return np.stack([first[top], second[top]], axis=1)
