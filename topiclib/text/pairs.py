"""What a model makes of pairs of words: means by topic relation, with their controls."""

from typing import NamedTuple

import numpy as np
import torch

from .cache import cached
from .corpus import Chunks
from .encoders import Encoder, attention_weights


class Pairs(NamedTuple):
    """Pairs of positions in a chunk that show different words of the vocabulary."""

    query: np.ndarray  # (n,) word at the query position
    key: np.ndarray  # (n,) word at the key position
    distance: np.ndarray  # (n,) positions between them, at least 1
    article: np.ndarray  # (n,)
    place: np.ndarray  # (n,) the key's position, counted through all chunks
    attention: np.ndarray  # (n, layers, heads) or (n,): weight of the key for the query, times chunk length


class Means(NamedTuple):
    """Means over pairs of different words that share a topic, and over pairs that have topics but share none."""

    same: float | np.ndarray
    different: float | np.ndarray

    @property
    def ratio(self) -> float | np.ndarray:
        """Same over different topic."""
        return self.same / self.different


def cosines(embeddings: np.ndarray) -> np.ndarray:
    """Cosine similarity of each pair of rows."""
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    return unit @ unit.T


def pair_means(values: np.ndarray, same: np.ndarray, different: np.ndarray) -> Means:
    """Means of a (V, V) array over two masks of the same shape, every pair of words counting once."""
    return Means(*(values[mask].mean(axis=0, dtype=float) for mask in (same, different)))


def attention_pairs(encoder: Encoder, chunks: Chunks, chosen: np.ndarray) -> Pairs:
    """Attention between all words of the vocabulary in the chosen chunks, cached; the paper's length-normalised weight.

    A weight is multiplied by the chunk's number of tokens, so that uniform attention is 1 whatever the length (the
    paper divides this by 100). It is kept in half precision. Pairs of the same word are left out.
    """

    def run():
        parts = []
        for i in chosen:
            n, place = chunks.lengths[i], np.flatnonzero(chunks.word[i] >= 0)
            word = chunks.word[i, place]
            query, key = np.nonzero(word[:, None] != word)
            weights = attention_weights(encoder, chunks.ids[i, :n])[:, :, place[query], place[key]]
            scaled = (n * weights).transpose(2, 0, 1).astype(np.float16)  # (pairs, layers, heads)
            distance, article = np.abs(place[query] - place[key]), np.full(len(query), chunks.article[i])
            parts.append((word[query], word[key], distance, article, i * chunks.ids.shape[1] + place[key], scaled))
        return Pairs(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    weights = [weight.numpy() for weight in encoder.model.state_dict().values()]
    text = (chunks.ids[chosen], chunks.word[chosen], chunks.article[chosen], chosen)
    return cached(("attention", *weights, encoder.model.config.to_json_string(), *text, torch.__version__), run)


def head_average(pairs: Pairs) -> Pairs:
    """The same pairs, attention averaged over layers and heads."""
    return pairs._replace(attention=pairs.attention.reshape(len(pairs.query), -1).mean(axis=1, dtype=np.float32))


def among(pairs: Pairs, words: np.ndarray) -> Pairs:
    """The pairs of which both words are in `words` (indices into the vocabulary), renumbered by their place in it."""
    index = np.full(1 + max(pairs.query.max(), words.max()), -1)
    index[words] = np.arange(len(words))
    query, key = index[pairs.query], index[pairs.key]
    kept = (query >= 0) & (key >= 0)
    return Pairs(*(column[kept] for column in pairs._replace(query=query, key=key)))


def attention_means(pairs: Pairs, same: np.ndarray, different: np.ndarray) -> Means:
    """Mean attention by topic relation, every pair of positions counting once; for each head if pairs have heads."""
    return pair_means(pairs.attention, *(mask[pairs.query, pairs.key] for mask in (same, different)))


def with_partner(pairs: Pairs, same: np.ndarray, different: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Which pairs, (n,), stand in a group that has both kinds, and are of one: those that `matched_means` compares.

    by: group of each pair, (n,), e.g. pairs.distance.
    """
    kinds = [mask[pairs.query, pairs.key] for mask in (same, different)]
    shared = np.intersect1d(*(by[kind] for kind in kinds))
    return (kinds[0] | kinds[1]) & np.isin(by, shared)


def matched_means(pairs: Pairs, same: np.ndarray, different: np.ndarray, by: np.ndarray) -> Means:
    """The same means in groups, then averaged over groups with the weights that same-topic pairs give them.

    by: group of each pair, (n,), e.g. pairs.distance: then both kinds lie equally far apart. Groups that lack either
    kind are left out. Attention averaged over heads is wanted. NaN when no group has both.
    """
    means = _drawn_means(pairs, same, different, by, np.zeros_like(by), np.ones((1, 1)))
    return Means(*(float(mean[0]) for mean in means))


def bootstrap_ratio(
    pairs: Pairs, same: np.ndarray, different: np.ndarray, rng: np.random.Generator, by: np.ndarray | None = None
) -> tuple[float, float]:
    """95% interval of a ratio when whole articles are drawn anew, a thousand times: their pairs belong together.

    The ratio is that of `matched_means`, or, without groups `by`, of `attention_means`.
    """
    articles, row = np.unique(pairs.article, return_inverse=True)
    draws = rng.multinomial(len(articles), np.full(len(articles), 1 / len(articles)), size=1000).astype(float)
    ratio = _drawn_means(pairs, same, different, np.zeros_like(row) if by is None else by, row, draws).ratio
    low, high = np.nanquantile(ratio, [0.025, 0.975])  # few articles can leave out a kind
    return float(low), float(high)


def _drawn_means(
    pairs: Pairs, same: np.ndarray, different: np.ndarray, by: np.ndarray, row: np.ndarray, draws: np.ndarray
) -> Means:
    """`matched_means` of the pairs in each draw, (draws,) each. draws: how often a row is drawn, (draws, rows)."""
    kept = with_partner(pairs, same, different, by)
    groups, group = np.unique(by[kept], return_inverse=True)
    shape, tables = (draws.shape[1], len(groups)), []
    for mask in (same, different):
        kind = mask[pairs.query[kept], pairs.key[kept]]
        cell = row[kept][kind] * shape[1] + group[kind]
        for weights in (None, pairs.attention[kept][kind]):
            table = np.bincount(cell, weights, minlength=shape[0] * shape[1])
            tables.append(draws @ table.reshape(shape))  # (draws, groups)
    n_same, sum_same, n_different, sum_different = tables
    both = n_different > 0  # where n_same is 0 its group has no weight
    total = np.where(both, n_same, 0).sum(axis=1)
    total[total == 0] = np.nan
    matched = n_same * sum_different / n_different.clip(1)  # as if there were as many of them as of the same topic
    return Means(*(np.where(both, sums, 0).sum(axis=1) / total for sums in (sum_same, matched)))
