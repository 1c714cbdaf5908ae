"""The text as the paper's documents: bags of content words, which need no tokenizer and no pretrained model."""

import re
from typing import NamedTuple

import numpy as np

from .. import checks
from ..data import Documents, TopicModel
from ..model import TopicTransformer
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
