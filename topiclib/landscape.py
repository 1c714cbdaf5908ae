"""The exact Stage 2 loss at any T, tau and v, its minimiser, and the best loss possible (Section 5.3, Appendix D).

Attention follows Assumption 2: to a query word, a key of the same word weighs beta, one of another word of its topic
alpha, any other key 1 (so weights are in units of the paper's c3). Documents are infinitely long (Assumption 1). By
symmetry the words fall into at most four groups for any query, so one loss costs the same at any T, v and tau.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from . import checks
from .data import KEY_RULES, Masking, TopicModel
from .theory import constants

VALUES = ("block", "diagonal")


def stage2_loss(alpha, beta, topics: TopicModel, tau, masking: Masking, value="block", mask_keys="excluded"):
    """E||f - x||^2 with W_V frozen and attention as in Assumption 2: exact at every T, v and tau.

    alpha, beta: at least 0; tau: topics of a document, 1 to T. Arrays broadcast.
    value: W_V by its numbers (W_i0, W_ii, W_same, W_diff), its row 0 being zero; "block" is Theorem 2's, "diagonal"
        Definition 2's.
    mask_keys: "excluded", no attention to [MASK] (the paper's formulas); "attended", equation 5 as written: to a word,
        [MASK] is of another topic, and to [MASK] it is the same word; "unchosen", no attention to any chosen position
        (the released code).
    ValueError for anything else, and where alpha = beta = 0 leaves a query no key to attend to.
    """
    alpha, beta = checks.numbers("alpha", alpha), checks.numbers("beta", beta)
    loss = _loss(alpha, beta, _queries(topics, tau, masking, value, mask_keys))
    if np.isnan(loss).any():
        raise ValueError(
            "alpha = beta = 0 is not allowed here: every key is of the query's topic, no attention is left"
        )
    return loss[()]


class Minimum(NamedTuple):
    """A minimiser of the Stage 2 loss, with gamma = ((v-1) alpha + beta) / v, and the loss there."""

    alpha: float
    beta: float
    gamma: float
    loss: float


def minimise_stage2(topics: TopicModel, tau, masking: Masking, value="block", mask_keys="excluded") -> Minimum:
    """The global minimum of `stage2_loss` over alpha, beta >= 0, by the zeros of its exact derivative.

    Where only gamma matters, the minimisers are a line; its point alpha = beta = gamma is returned. Where only beta /
    alpha matters (no key outside the topic), alpha = 1 is; where nothing matters, alpha = beta = 1. ValueError as for
    `stage2_loss`, for an array of tau, and where the loss has no minimum, falling for ever as attention grows.
    """
    checks.integer("tau", tau)
    queries, v = _queries(topics, tau, masking, value, mask_keys), topics.v
    _, W_ii, W_same, _ = _numbers(topics, masking, value)
    only_gamma = v == 1 or (W_ii == W_same and mask_keys != "attended")
    no_words = masking.p_c == masking.p_r == 0  # all queries are [MASK]: alpha does not matter, beta if it is a key

    # In terms of the weight of the own topic, s = (v-1) alpha + beta, and the own word's share of it, t = beta / s.
    def loss(s, t):
        return _loss(s * (1 - t) / max(v - 1, 1), s * t, queries)

    def best_share(s):
        if only_gamma or no_words:
            return np.full(np.shape(s), 1.0 if no_words else 1 / v)
        return _best_share(loss, s, v)

    def slope(log_s):  # of the loss at the best share, which does not change to first order
        s = np.exp(log_s)
        return _derivative(lambda s: loss(s, best_share(s.real)), s, s)

    # How much attention a query has for anything but its topic: where it goes there by half.
    rest = [q.total[2] / q.total[1] for q in queries if q.probability > 0 and q.total[1] > 0 and q.total[2] > 0]
    grid = np.log(np.geomspace(1e-6 * min([v, *rest]), 1e9 * max([v, *rest]), 400))
    shares = best_share(np.exp(grid))
    values = loss(np.exp(grid), shares)
    scale = max(1.0, np.abs(values).max())
    lowest = int(np.argmin(values))
    if np.ptp(values) < 1e-13 * scale:  # only the share matters
        t = 1 / v if no_words else shares[200]
        s = (v - 1) / (1 - t) if t < 1 else v
    elif values[-1] <= values[lowest] + 1e-14 * scale:
        raise ValueError("this loss has no minimum: it falls for ever as attention to the own topic grows")
    else:
        ends = grid[max(lowest - 1, 0)], grid[lowest + 1]
        before, after = slope(np.array(ends))
        if before < 0 < after:
            s = np.exp(brentq(lambda u: slope(np.array([u]))[0], *ends, xtol=1e-14))
        else:
            s = 0.0 if lowest == 0 and loss(0.0, 0.0) <= values[0] else np.exp(grid[lowest])
        t = best_share(np.array([s]))[0]
    if no_words:
        alpha, beta = 1.0, s * t
    else:
        alpha, beta = (s / v, s / v) if only_gamma else (s * (1 - t) / (v - 1), s * t)
    return Minimum(float(alpha), float(beta), float(((v - 1) * alpha + beta) / v), float(loss(s, t)))


def bayes_loss(topics: TopicModel, tau, masking: Masking):
    """The least squared loss of any predictor that sees the query word and knows the document's topics; tau broadcasts.

    With n = tau v words to choose from, of which a visible one is the label with probability
    pi = (p_c + p_r/V) / w, w = p_c + p_r tau/T: loss = (1 - w)(1 - 1/n) + w (1 - pi^2 - (1 - pi)^2 / (n - 1)).
    """
    tau = checks.integers("tau", tau, 1, topics.T)
    n, w = tau * topics.v, masking.p_c + masking.p_r * tau / topics.T
    pi = np.divide(masking.p_c + masking.p_r / topics.V, w, out=np.ones_like(w), where=w > 0)
    others = np.divide((1 - pi) ** 2, n - 1, out=np.zeros_like(w), where=n > 1)
    return ((1 - w) * (1 - 1 / n) + w * (1 - pi**2 - others))[()]


class _Query(NamedTuple):
    """One kind of query word. Coefficients of (alpha, beta, 1) are arrays of shape (3, ...), ... the shape of tau."""

    probability: np.ndarray
    total: np.ndarray  # the attention that the weights sum to, before it is normalised
    predictions: list  # for each group of words: (number of words, f times total)
    labels: list  # (joint probability of the query and such a label, the label's group)


def _queries(topics, tau, masking, value, mask_keys):
    """The three kinds of query: a word of the document's topics, any other word, [MASK]."""
    checks.choice("mask_keys", mask_keys, KEY_RULES)
    if mask_keys == "unchosen" and masking.p_m == 1:
        raise ValueError(
            "p_m = 1 is not allowed with unchosen keys: every position is chosen, none is left to attend to"
        )
    W_i0, W_ii, W_same, W_diff = _numbers(topics, masking, value)
    tau = checks.integers("tau", tau, 1, topics.T)
    T, v, V = topics.T, topics.v, topics.V
    p_c, p_r, noise = masking.p_c, masking.p_r, masking.p_m * masking.p_r / V
    # Key frequencies of a word of the document's topics, of any other word, and of [MASK].
    inside, outside, mask = masking.a / (tau * v) + noise, noise, masking.mu
    if mask_keys == "excluded":
        mask = 0.0
    elif mask_keys == "unchosen":
        inside, outside, mask = 1 / (tau * v), 0.0, 0.0

    def weight(alpha=0.0, beta=0.0, one=0.0):
        return np.stack(np.broadcast_arrays(alpha, beta, one, tau)[:3])  # (3, ...)

    def kind(probability, groups, mask_weight, labels):
        # groups: (number of words, weight of one of them, weight of its whole topic)
        words = sum(number * word for number, word, _ in groups)
        predictions = [
            (number, W_i0 * mask_weight + W_diff * words + (W_same - W_diff) * topic + (W_ii - W_same) * word)
            for number, word, topic in groups
        ]
        return _Query(probability + 0 * tau, words + mask_weight, predictions, labels)

    def own_topic(key):
        topic = weight(alpha=(v - 1) * key, beta=key)
        return [(1, weight(beta=key), topic), (v - 1, weight(alpha=key), topic)]

    def other_topics(number, key):
        return [(number * v, weight(one=key), weight(one=v * key))]

    of_mask = weight(one=mask)
    a_word_inside = kind(
        p_c + p_r * tau / T,
        own_topic(inside) + other_topics(tau - 1, inside) + other_topics(T - tau, outside),
        of_mask,
        [(p_c + p_r / V, 0), (p_r * (v - 1) / V, 1), (p_r * (tau - 1) / T, 2)],  # kept or drawn; drawn; drawn
    )
    a_word_outside = kind(
        p_r * (T - tau) / T,
        own_topic(outside) + other_topics(tau, inside) + other_topics(T - tau - 1, outside),
        of_mask,
        [(p_r * (T - tau) / T, 2)],
    )
    the_mask = kind(
        1 - p_c - p_r,
        other_topics(tau, inside) + other_topics(T - tau, outside),
        weight(beta=mask),
        [(1 - p_c - p_r, 0)],
    )
    return a_word_inside, a_word_outside, the_mask


def _loss(alpha, beta, queries):
    """1 + E||f||^2 - 2 E f_label over the kinds of query; NaN where a query has no key. Weights may be complex."""
    loss = 1.0
    for probability, total, predictions, labels in queries:
        weight = total[0] * alpha + total[1] * beta + total[2]
        scale = 1 / np.where(weight == 0, np.nan, weight)
        x, y = alpha * scale, beta * scale
        f = [value[0] * x + value[1] * y + value[2] * scale for _, value in predictions]
        part = probability * sum(number * f_i * f_i for (number, _), f_i in zip(predictions, f, strict=True))
        part = part - 2 * sum(joint * f[group] for joint, group in labels)
        loss = loss + np.where(probability > 0, part, 0.0)
    return loss


def _derivative(function, x, scale=1.0):
    """scale times the derivative of a function of arrays, element by element: exact to rounding, by a complex step."""
    return function(x + 1e-30j * scale).imag / 1e-30


def _best_share(loss, s, v):
    """The own word's best share of the attention s to its topic, for each s; 1/v, all words alike, if it is no matter.

    The lowest point of a grid finds the valley, false position (Illinois) the zero of the derivative in it.
    """
    grid = np.concatenate([[0.0], np.geomspace(1e-9, 1, 60)])
    values = loss(s[:, None], grid)
    lowest = np.argmin(values, axis=1)

    def slope(share):
        return _derivative(lambda t: loss(s, t), share)

    low, high = grid[np.maximum(lowest - 1, 0)], grid[np.minimum(lowest + 1, len(grid) - 1)]
    at_low, at_high = slope(low), slope(high)
    share = np.where(at_high < 0, high, low)  # at an end of the grid
    inside = (at_low < 0) & (at_high > 0)
    for _ in range(60):
        before, share = (
            share,
            np.where(inside, low - at_low * (high - low) / np.where(inside, at_high - at_low, 1), share),
        )
        if np.abs(share - before).max() < 1e-16:
            break
        at_share = slope(share)
        falls = at_share < 0
        low, at_low = np.where(falls, share, low), np.where(falls, at_share, at_low / 2)
        high, at_high = np.where(falls, high, share), np.where(falls, at_high / 2, at_share)
    return np.where(np.ptp(values, axis=1) < 1e-15, 1 / v, share)


def _numbers(topics, masking, value):
    """(W_i0, W_ii, W_same, W_diff) of W_V."""
    if isinstance(value, str) and value in VALUES:
        c1, c2, c3 = constants(topics, masking)
        if value == "diagonal":
            return -c1, c3, 0.0, 0.0
        u = -(c1 * c2 + c3) / (c2**2 + topics.V)
        return -c1 - c2 * u, u + c3 / topics.v, u + c3 / topics.v, u
    numbers = checks.floats(value)
    if numbers.shape != (4,) or not np.isfinite(numbers).all():
        wanted = f"{', '.join(VALUES)}, or four numbers (W_i0, W_ii, W_same, W_diff)"
        raise ValueError(f"value = {value!r} is not allowed: choose {wanted}")
    return tuple(map(float, numbers))
