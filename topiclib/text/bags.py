"""The text as the paper's documents: bags of content words, which need no tokenizer and no pretrained model."""

import re
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from .. import checks
from ..data import Documents, TopicModel
from ..model import TopicTransformer
from ..theory import CorpusMoments
from .corpus import Corpus, word_table
from .libraries import library
from .pairs import Pairs


class Bags(NamedTuple):
    """Chunks of articles as word counts."""

    counts: np.ndarray  # (n, V+1), column 0 ([MASK]) zero, as in `Documents.counts`
    article: np.ndarray  # (n,) index of a chunk's article
    vocabulary: np.ndarray  # (V,) words, sorted; word i of the model is vocabulary[i - 1]


def bag_corpus(corpus: Corpus, n_words: int, length: int = 128, fewest: int = 5) -> Bags:
    """Each article's content words, `length` at a time, of which the n_words most widespread are kept.

    Content words have three letters or more, a to z, and are no stop words. The last piece of an article counts from a
    quarter of the length. Kept words stand in at least 5 chunks and at most a fifth of them; those in the most chunks
    come first, ties in alphabetical order. Chunks with fewer than `fewest` kept words are left out. ValueError when
    there are not so many words, or an argument is no whole number that makes sense.
    """
    for name, value, minimum in (("n_words", n_words, 2), ("length", length, 4), ("fewest", fewest, 1)):
        checks.integer(name, value, minimum)
    stop_words = library("sklearn.feature_extraction.text").ENGLISH_STOP_WORDS
    pieces, article = [], []
    for index, paragraphs in enumerate(corpus.articles):
        words = [w for w in re.findall(r"[a-z]{3,}", " ".join(paragraphs).lower()) if w not in stop_words]
        starts = range(0, len(words) - length // 4 + 1, length)
        pieces += [words[start : start + length] for start in starts]
        article += [index] * len(starts)

    names, word = np.unique(np.concatenate(pieces or [[]]), return_inverse=True)
    chunk = np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces])
    table = word_table(chunk, word, len(pieces), len(names))
    df = table.getnnz(axis=0)  # chunks with the word
    allowed = np.flatnonzero((df >= 5) & (df <= 0.2 * len(pieces)))
    if len(allowed) < n_words:
        raise ValueError(f"n_words = {n_words} is not allowed: {len(allowed)} words stand in 5 to 20% of the chunks")
    kept = np.sort(allowed[np.argsort(-df[allowed], kind="stable")[:n_words]])
    counts = np.pad(table[:, kept].toarray().astype(np.int64), ((0, 0), (1, 0)))  # (n, V+1)
    enough = counts.sum(axis=1) >= fewest
    return Bags(counts[enough], np.array(article)[enough], names[kept])


def as_documents(counts: np.ndarray) -> Documents:
    """Counts of shape (n, V+1) as documents of one topic: the model never asks which topics there are."""
    return Documents(TopicModel(1, counts.shape[1] - 1), counts, np.ones((len(counts), 1)))


def fold_in(counts: np.ndarray, p: np.ndarray, iterations: int = 50) -> np.ndarray:
    """P(word) of each document as the likeliest mixture of given topics, (n, V+1), by EM; [MASK] has probability 0.

    counts: (n, V+1). p: p(word | topic), (K, V), positive.
    """
    words = counts[:, 1:]
    weights = np.full((len(words), len(p)), 1 / len(p))  # (n, K)
    for _ in range(iterations):
        weights *= (words / (weights @ p)) @ p.T
        weights /= weights.sum(axis=1, keepdims=True)
    return np.pad(weights @ p, ((0, 0), (1, 0)))


def resample(counts: np.ndarray, P: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Documents of the same lengths, their words drawn independently from P, (n, V+1): topics without bursts."""
    return rng.multinomial(counts.sum(axis=1), P / P.sum(axis=1, keepdims=True))


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


def embedding_optimum(
    moments: CorpusMoments, d: int, weight_decay: float, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """W_E, (d, V+1), and the free bias, (V+1,), that minimise the squared loss with W_V = I; by L-BFGS.

    The loss is E||W_E' W_E p + b - x||^2 + weight_decay ||W_E||_F^2: Theorem 1's on the moments of a corpus.
    """
    checks.integer("d", d, 1)
    checks.number("weight_decay", weight_decay)
    p, x = moments.PP.sum(axis=1), moments.XP.sum(axis=1)
    C, Y = moments.PP - np.outer(p, p), moments.XP - np.outer(x, p)
    Y = (Y + Y.T) / 2
    scale = 1 / np.sum(Y * Y) ** 0.5  # the loss itself is too small for the optimizer's tolerances

    def loss(flat):
        W = flat.reshape(d, -1)
        WC, WY = W @ C, W @ Y
        gram, inner = W @ W.T, WC @ W.T
        value = np.sum(gram * inner) - 2 * np.sum(WY * W) + weight_decay * np.sum(W * W)
        gradient = 2 * (inner @ W + gram @ WC) - 4 * WY + 2 * weight_decay * W
        return scale * value, scale * gradient.ravel()

    start = 0.1 * np.random.default_rng(seed).standard_normal(d * len(p))
    W = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 300, "maxcor": 20}).x.reshape(d, -1)
    return W, x - W.T @ (W @ p)


def attention_between_words(model: TopicTransformer, counts: np.ndarray) -> Pairs:
    """N A_ij between different words of each document, each pair of words once; 1 is uniform attention.

    counts: unmasked documents, (n, V+1). Words are numbered from 0, as in a vocabulary. `place` says which document
    and key word, so that pairs of the same place differ in the query word only.
    """
    weight = np.exp(model.scores().detach().numpy())
    parts = []
    for document, n in enumerate(counts):
        words = np.flatnonzero(n)
        of_key = weight[np.ix_(words, words)]  # (key, query)
        attention = n.sum() * of_key / (n[words] @ of_key)
        key, query = np.nonzero(~np.eye(len(words), dtype=bool))
        place = document * len(n) + words[key]
        parts.append((words[query] - 1, words[key] - 1, np.zeros_like(key), place, attention[key, query]))
    query, key, zero, place, attention = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Pairs(query, key, zero, zero, place, attention)
