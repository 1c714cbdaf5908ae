"""The topic model, its documents, and the masking that turns documents into prediction problems.

A document is kept as its word counts. Nothing in the paper's model sees the position of a word, so the counts
(and, for every chosen position, the word shown there and the word to be predicted) are all that it can use.
Word ids are the paper's: 0 is [MASK], words are 1..V with V = T v, and word i belongs to topic ceil(i / v).
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from . import checks

MASK = 0  # id of the token [MASK]
KEY_RULES = ("attended", "excluded", "unchosen")  # which keys get attention: all, all but [MASK], all not chosen


@dataclass(frozen=True)
class TopicModel:
    """T disjoint topics of v equally likely words each (Section 3.1). ValueError unless T, v are integers >= 1."""

    T: int = 10
    v: int = 10

    def __post_init__(self):
        checks.integer("T", self.T)
        checks.integer("v", self.v)

    @property
    def V(self) -> int:
        """Number of words, without [MASK]."""
        return self.T * self.v

    @cached_property
    def topic_of(self) -> np.ndarray:
        """Topic 0..T-1 of every word id, shape (V+1,); -1 for [MASK]."""
        return (np.arange(self.V + 1) - 1) // self.v

    @cached_property
    def membership(self) -> np.ndarray:
        """1 where word i belongs to topic t, shape (V+1, T); the row of [MASK] is zero."""
        return (self.topic_of[:, None] == np.arange(self.T)).astype(float)


@dataclass(frozen=True)
class FixedTopics:
    """Every document has tau distinct topics, equally weighted (Section 3.1). ValueError unless 1 <= tau (<= T)."""

    tau: int = 2

    def __post_init__(self):
        checks.integer("tau", self.tau)

    def sample(self, topics: TopicModel, n: int, rng: np.random.Generator) -> np.ndarray:
        """Topic weights theta of n documents, shape (n, T)."""
        if self.tau > topics.T:
            raise ValueError(f"tau = {self.tau} is not allowed: a document cannot have more than T = {topics.T} topics")
        chosen = np.argsort(rng.random((n, topics.T)), axis=1)[:, : self.tau]
        theta = np.zeros((n, topics.T))
        np.put_along_axis(theta, chosen, 1 / self.tau, axis=1)
        return theta

    def kappa(self, T: int) -> float:
        """kappa_theta = (T-tau) / (tau T (T-1)), where Cov(theta) = kappa_theta (I - 11'/T)."""
        if not self.tau < T:
            raise ValueError(f"tau = {self.tau} is not allowed with T = {T}: with tau = T all documents are alike")
        return (T - self.tau) / (self.tau * T * (T - 1))


@dataclass(frozen=True)
class DirichletTopics:
    """Topic weights theta ~ Dirichlet(alpha, ..., alpha), as in LDA (Section 6). ValueError unless alpha > 0."""

    alpha: float = 0.1

    def __post_init__(self):
        checks.positive("alpha", self.alpha)

    def sample(self, topics: TopicModel, n: int, rng: np.random.Generator) -> np.ndarray:
        """Topic weights theta of n documents, shape (n, T)."""
        return rng.dirichlet(np.full(topics.T, float(self.alpha)), size=n)

    def kappa(self, T: int) -> float:
        """kappa_theta = 1 / (T (T alpha + 1)), where Cov(theta) = kappa_theta (I - 11'/T)."""
        if T < 2:
            raise ValueError(f"T = {T} is not allowed: with one topic all documents are alike")
        return 1 / (T * (T * self.alpha + 1))


@dataclass(frozen=True)
class Masking:
    """The masking law of Section 3.2: a position is chosen with probability p_m; a chosen position keeps its word
    with probability p_c, shows a uniformly random word of 1..V with probability p_r, and [MASK] otherwise.

    ValueError unless 0 < p_m <= 1, p_c >= 0, p_r >= 0 and p_c + p_r < 1.
    """

    p_m: float = 0.15
    p_c: float = 0.1
    p_r: float = 0.1

    def __post_init__(self):
        if not 0 < self.p_m <= 1:
            raise ValueError(f"p_m = {self.p_m!r} is not allowed: above 0 and at most 1 is wanted")
        for name, rate in (("p_c", self.p_c), ("p_r", self.p_r)):
            if not 0 <= rate < 1:
                raise ValueError(f"{name} = {rate!r} is not allowed: at least 0 and below 1 is wanted")
        if not self.p_c + self.p_r < 1:
            raise ValueError(f"p_c + p_r = {self.p_c + self.p_r:g} is not allowed: below 1, or no [MASK] is left")

    @property
    def mu(self) -> float:
        """mu = p_m (1-p_c-p_r): probability that a position shows [MASK]."""
        return self.p_m * (1 - self.p_c - self.p_r)

    @property
    def a(self) -> float:
        """a = 1 - (1-p_c) p_m: probability that a position still shows its own word, replaced ones aside."""
        return 1 - (1 - self.p_c) * self.p_m


@dataclass(frozen=True)
class Documents:
    """Documents as word counts.

    counts: how often each word occurs, integers of shape (n, V+1), column 0 ([MASK]) zero.
    theta: the topic weights that each document was drawn from, shape (n, T).
    """

    topics: TopicModel
    counts: np.ndarray
    theta: np.ndarray

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, rows) -> "Documents":
        """The documents in `rows` (an index, a slice or an array of indices), in that order."""
        rows = np.atleast_1d(rows) if np.ndim(rows) == 0 and not isinstance(rows, slice) else rows
        return replace(self, counts=self.counts[rows], theta=self.theta[rows])

    @property
    def lengths(self) -> np.ndarray:
        """N of every document, shape (n,)."""
        return self.counts.sum(axis=1)


def length_range(length) -> tuple[int, int]:
    """(N_min, N_max) of a constant length N or a range (N_min, N_max). ValueError unless 1 <= N_min <= N_max."""
    if np.ndim(length) > 0 and np.shape(length) != (2,):
        raise ValueError(f"length = {length!r} is not allowed: N, or the two ends (N_min, N_max), is wanted")
    low, high = (length, length) if np.ndim(length) == 0 else length
    checks.integer("length", low)
    checks.integer("length", high)
    if low > high:
        raise ValueError(f"length = ({low}, {high}) is not allowed: the shortest length comes first")
    return int(low), int(high)


def sample_documents(topics: TopicModel, n: int, mixture, length, rng: np.random.Generator) -> Documents:
    """n documents of the topic model (Section 3.1, or LDA with DirichletTopics).

    mixture: FixedTopics(tau) or DirichletTopics(alpha), the law of the topic weights theta.
    length: N, or (N_min, N_max) for N uniform on N_min..N_max, both ends included.

    Topic counts are multinomial given theta and N; the words of a topic are uniform, drawn for many documents at once.
    ValueError for an impossible n, tau or length.
    """
    checks.integer("n", n)
    low, high = length_range(length)
    lengths = rng.integers(low, high + 1, size=n)
    theta = mixture.sample(topics, n, rng)
    topic_counts = rng.multinomial(lengths, theta)  # (n, T)
    width = topics.V + 1
    counts = np.empty((n, width), dtype=np.int64)
    for start in range(0, n, 1000):  # blocks of documents that fit into the cache
        block = topic_counts[start : start + 1000]
        first_words = np.arange(len(block))[:, None] * width + 1 + np.arange(topics.T) * topics.v
        tokens = np.repeat(first_words.ravel(), block.ravel())
        tokens += rng.integers(topics.v, size=tokens.size)
        counts[start : start + 1000] = np.bincount(tokens, minlength=len(block) * width).reshape(-1, width)
    return Documents(topics, counts, theta)


def scramble_documents(documents: Documents, rng: np.random.Generator) -> Documents:
    """The same words dealt to the documents at random: lengths and word totals stay, topics go (a negative control)."""
    counts = documents.counts
    n, width = counts.shape
    row, word = np.nonzero(counts)
    words = rng.permutation(np.repeat(word, counts[row, word]))
    cells = np.repeat(np.arange(n), documents.lengths) * width + words
    scrambled = np.bincount(cells, minlength=n * width).reshape(n, width)
    return replace(documents, counts=scrambled, theta=np.full_like(documents.theta, np.nan))


@dataclass(frozen=True)
class MaskedDocuments:
    """Documents after masking: what the model sees and what it must predict.

    keys: masked word counts over all positions, shape (n, V+1), column 0 counting [MASK].
    chosen: the same over chosen positions only, shape (n, V+1).
    labels: how often each word has to be predicted, shape (n, V+1).
    document, query, label: for every chosen position its document, the word shown there and the word to be predicted;
        sorted by document, then query; shape (chosen positions,) each.
    """

    keys: np.ndarray
    chosen: np.ndarray
    labels: np.ndarray
    document: np.ndarray
    query: np.ndarray
    label: np.ndarray

    def __len__(self) -> int:
        return len(self.keys)


def mask_documents(documents: Documents, masking: Masking, rng: np.random.Generator) -> MaskedDocuments:
    """Fresh masks for every document (Section 3.2), conditioned on at least one chosen position in each."""
    counts = documents.counts
    n, width = counts.shape
    cells = np.flatnonzero(counts > 0)  # three times as fast as on the integers
    tokens = np.repeat(cells, counts.ravel()[cells])  # document * width + word of every position, document by document
    chosen = rng.random(tokens.size) < masking.p_m
    _choose_at_least_one(chosen, documents.lengths, masking.p_m, rng)
    document, label = np.divmod(tokens[chosen], width)

    fate = rng.random(label.size)
    query = np.where(fate < masking.p_c, label, MASK)
    is_random = (fate >= masking.p_c) & (fate < masking.p_c + masking.p_r)
    query[is_random] = rng.integers(1, width, size=np.count_nonzero(is_random))

    order = np.argsort(document * width + query, kind="stable")
    document, query, label = document[order], query[order], label[order]
    shown, labels = (
        np.bincount(document * width + words, minlength=n * width).reshape(n, width) for words in (query, label)
    )
    return MaskedDocuments(counts + shown - labels, shown, labels, document, query, label)


def _choose_at_least_one(chosen, lengths, p_m, rng):
    """Redraw, in place, the choices of each document that has none, given that it has at least one.

    Whatever the order of the positions, the first chosen one is then truncated geometric and the later ones are free.
    """
    starts = np.cumsum(lengths) - lengths
    empty = ~np.logical_or.reduceat(chosen, starts)
    if not empty.any():
        return
    N = lengths[empty]
    quantile = rng.random(N.size) * np.expm1(N * np.log1p(-p_m))
    first = np.minimum(np.floor(np.log1p(quantile) / np.log1p(-p_m)).astype(np.int64), N - 1)
    position = np.arange(N.sum()) - np.repeat(np.cumsum(N) - N, N)
    after = position - np.repeat(first, N)
    chosen[np.repeat(empty, lengths)] = (after == 0) | ((after > 0) & (rng.random(N.sum()) < p_m))


def resample(counts: np.ndarray, P: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Documents of the same lengths, their words drawn independently from P, (n, V+1): topics without bursts."""
    return rng.multinomial(counts.sum(axis=1), P / P.sum(axis=1, keepdims=True))
