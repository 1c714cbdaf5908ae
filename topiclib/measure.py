"""One number per claim: what is read off a trained matrix."""

from typing import NamedTuple

import numpy as np


class BlockStatistics(NamedTuple):
    """Mean entries of a (V+1) x (V+1) matrix: W_ii, same topic (i != j), different topic, and the column of [MASK]."""

    diagonal: float
    same_topic: float
    different_topic: float
    mask_column: float

    @property
    def contrast(self) -> float:
        """Same-topic mean minus different-topic mean: the topic structure in one number."""
        return self.same_topic - self.different_topic

    @property
    def excess(self) -> float:
        """Diagonal mean minus same-topic mean: what a word adds for itself."""
        return self.diagonal - self.same_topic


def block_statistics(W: np.ndarray, topic_of: np.ndarray) -> BlockStatistics:
    """Mean entries of W over word pairs by topic relation; a mean over no pair is NaN.

    W: (V+1, V+1). topic_of: topic of each token id, (V+1,), as `TopicModel.topic_of`; negative: in no topic, left out.
    ValueError when W has another shape.
    """
    if np.shape(W) != (len(topic_of), len(topic_of)):
        wanted = f"one row and column for each of {len(topic_of)} tokens"
        raise ValueError(f"W of shape {np.shape(W)} is not allowed: {wanted} is wanted")
    words = np.flatnonzero(topic_of >= 0)
    block, topic = W[np.ix_(words, words)], topic_of[words]
    same = topic[:, None] == topic
    diagonal = np.eye(len(words), dtype=bool)
    means = [block[mask].mean() if mask.any() else np.nan for mask in (diagonal, same & ~diagonal, ~same)]
    return BlockStatistics(*map(float, means), float(W[words, 0].mean()))


def shuffle_topics(topic_of: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The same topics dealt to other words: the negative control of every topic-wise mean; shape (V+1,)."""
    shuffled = topic_of.copy()
    words = np.flatnonzero(topic_of >= 0)
    shuffled[words] = rng.permutation(topic_of[words])
    return shuffled


def relative_distance(A: np.ndarray, B: np.ndarray) -> float:
    """||A - B||_F / ||B||_F."""
    return float(np.linalg.norm(A - B) / np.linalg.norm(B))
