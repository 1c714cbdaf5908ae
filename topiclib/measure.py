"""One number per claim: what is read off a trained matrix."""

from typing import NamedTuple

import numpy as np

from . import checks
from .data import MASK, Documents, MaskedDocuments
from .model import TopicTransformer


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
    checks.shape("W", W, (len(topic_of), len(topic_of)), "a row and a column for each token")
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


class AttentionStatistics(NamedTuple):
    """Mean attention by the relation of key and query word, times the number of keys: 1 is uniform attention."""

    same_word: float
    same_topic: float
    different_topic: float

    @property
    def ratio(self) -> float:
        """Same topic (another word) over different topic: what Theorem 3 and Table 3 are about."""
        return self.same_topic / self.different_topic


def attention_by_relation(
    model: TopicTransformer, documents: Documents | MaskedDocuments, topic_of: np.ndarray
) -> AttentionStatistics:
    """Mean of N A_ij over all pairs of a key position i and a query position j, by relation; NaN over no pair.

    A_ij is the weight of key i for query j, N the number of keys of the document, so that 1 means uniform attention at
    every length; every pair of every document counts once. All positions that show a word are queries. Keys are those
    that the model's rule allows; unmasked documents have no chosen position, so all are keys. A position is a key of
    itself and counts as the same word: the model cannot tell it from another copy (Assumption 2 has one c1 for both).
    topic_of: topic of each token id, (V+1,), as `TopicModel.topic_of`; negative ([MASK]): in no pair, but a key still.
    Scores more than 600 below the largest of their query count as 600 below: a weight of 1e-260, where floats end.
    """
    queries = documents.counts if isinstance(documents, Documents) else documents.keys
    keys = queries.astype(float)  # (n, V+1)
    if isinstance(documents, MaskedDocuments) and model.mask_keys == "unchosen":
        keys -= documents.chosen
    if model.mask_keys == "excluded":
        keys[:, MASK] = 0
    scores = model.scores().detach().numpy()
    # Of one key showing the row's word, for the column's query, up to a factor for each query; (V+1, V+1).
    weight = np.exp(np.maximum(scores - scores.max(axis=0), -600))
    total = keys @ weight  # over all keys, for each query word; (n, V+1)
    number = keys.sum(axis=1, keepdims=True)
    scaled = np.divide(number * queries, total, out=np.zeros_like(total), where=total > 0)  # (n, V+1)
    pairs, attention = keys.T @ queries, weight * (keys.T @ scaled)  # number of pairs, their sum of N A; (V+1, V+1)

    word = topic_of >= 0
    same = (topic_of[:, None] == topic_of) & word
    itself = np.eye(len(word), dtype=bool)
    relations = (same & itself, same & ~itself, ~same & word & word[:, None])
    counts = [pairs[relation].sum() for relation in relations]
    sums = [attention[relation].sum() for relation in relations]
    return AttentionStatistics(*(float(x / n) if n else np.nan for x, n in zip(sums, counts, strict=True)))


def assumption2_weights(model: TopicTransformer, topic_of: np.ndarray) -> tuple[float, float, float]:
    """(alpha, beta, gamma) of Assumption 2, read off the model's scores S: means of e^S over query words.

    In units of the mean weight of a key word of another topic: alpha, of another word of the query's topic; beta, of
    the query word itself; gamma, of all words of its topic. Topics of equal size, of at least 2 words, are wanted.
    topic_of: topic of each token id, (V+1,); [MASK] is left out, as key and as query.
    """
    words = np.exp(model.scores().detach().numpy()[1:, 1:])  # (V, V)
    same = np.equal.outer(topic_of[1:], topic_of[1:])
    other = (words * ~same).sum(axis=0) / (~same).sum(axis=0)  # (V,)
    own_word, own_topic = np.diag(words) / other, (words * same).sum(axis=0) / other
    v = same[0].sum()
    return float((own_topic - own_word).mean() / (v - 1)), float(own_word.mean()), float(own_topic.mean() / v)


def repeats(counts: np.ndarray, P: np.ndarray) -> np.ndarray:
    """How often two positions of a document show word i: in the text, and if words were drawn from P; (2, V+1).

    Means of n_i (n_i - 1) / N^2 and of N (N - 1) P_i^2 / N^2, documents weighted by their length.
    """
    N = counts.sum(axis=1, keepdims=True)
    share = N / N.sum()
    return np.stack([(share * x).sum(axis=0) for x in (counts * (counts - 1) / N**2, (1 - 1 / N) * P**2)])


def effect_size(W: np.ndarray, topic_of: np.ndarray) -> float:
    """Cohen's d between the entries of W for other words of the same topic and those for words of different topics.

    topic_of: topic of each token id, (V+1,); negative: left out, like the diagonal.
    """
    words = np.flatnonzero(topic_of >= 0)
    block, same = W[np.ix_(words, words)], np.equal.outer(topic_of[words], topic_of[words])
    inside, outside = block[same & ~np.eye(len(words), dtype=bool)], block[~same]
    spread = (inside.size * inside.var() + outside.size * outside.var()) / (inside.size + outside.size - 2)
    return float((inside.mean() - outside.mean()) / spread**0.5)


def block_means(W: np.ndarray, topic_of: np.ndarray) -> np.ndarray:
    """W with each entry between words replaced by the mean of its block, the diagonal left out of the means.

    topic_of: topic 0..K-1 of each token id, (V+1,), negative for [MASK] alone.
    """
    member = np.equal.outer(topic_of[1:], np.arange(topic_of.max() + 1)).astype(float)  # (V, K)
    words, sizes = W[1:, 1:], member.sum(axis=0)
    pairs = np.outer(sizes, sizes) - np.diag(sizes)
    sums = member.T @ (words - np.diag(np.diag(words))) @ member
    result = W.copy()
    result[1:, 1:] = member @ (sums / np.maximum(pairs, 1)) @ member.T
    return result
