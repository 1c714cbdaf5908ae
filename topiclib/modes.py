"""How fast anything grows from small attention scores: the modes of the population's gradient. Beyond the paper.

The model of Section 5 (one-hot words, one head, no biases, d = V+1): f = W_V X A with scores S = W_K' W_Q / sqrt(d).
With G = dL/dS the gradients are dL/dW_K = W_Q G' / sqrt(d) and dL/dW_Q = W_K G / sqrt(d): both vanish with W_K and
W_Q, so these grow exponentially, along the singular modes of G, while W_V is already at work.

Relabelling topics, and words within topics, changes nothing in the population. A matrix that commutes with it has six
different entries, its *numbers*: 00, 0w ([MASK] row), w0 ([MASK] column), diagonal, same topic, different topic. Its
singular modes are of three kinds: topic (T-1 contrasts between topics), within (T (v-1) contrasts between words of one
topic) and mask ([MASK] against words). Rows of W_V: predicted word; of S: key; columns: query.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv, gammaincinv, roots_jacobi
from scipy.stats import qmc

from . import checks
from .data import KEY_RULES, FixedTopics, Masking, TopicModel, length_range
from .model import LOSSES

DRAWS = 512  # topic mixtures (a Sobol sequence) behind cross-entropy with Dirichlet topics: rates within 0.5%
DOCUMENTS = 1024  # sampled documents of each kind behind rates for finite documents: within 0.5% at 100 to 150 tokens


class Rates(NamedTuple):
    """Signed singular values of G = dL/dS at S = 0. Positive: that score rises, through (W_K + W_Q) / 2; negative: it
    falls, through (W_K - W_Q) / 2. W_K and W_Q grow at |rate| / sqrt(d) - 2 weight_decay per learning rate and step.

    topic: same-topic score against other topics. within: same word against its topic; 0 if v = 1, where no such mode
    is. mask: score of a [MASK] key for a [MASK] query against the rest; 0 where [MASK] keys get no attention.
    """

    topic: float
    within: float
    mask: float


def to_numbers(W, topics: TopicModel) -> np.ndarray:
    """The six numbers of W, (V+1, V+1), averaged over relabellings: 00, 0w, w0, diagonal, same, different topic; (6,).

    Exact for a matrix that commutes with relabellings, else its orthogonal projection. With v = 1 "same" is 0.
    ValueError for another shape.
    """
    W = np.asarray(W, dtype=float)
    checks.shape("a matrix", W, (topics.V + 1, topics.V + 1))
    words, diagonal = W[1:, 1:], np.trace(W[1:, 1:])
    same = np.einsum("it,ij,jt->", topics.membership[1:], words, topics.membership[1:])
    sums = [W[0, 0], W[0, 1:].sum(), W[1:, 0].sum(), diagonal, same - diagonal, words.sum() - same]
    return np.array(sums) / entry_counts(topics)


def to_matrix(numbers, topics: TopicModel) -> np.ndarray:
    """The matrix, (V+1, V+1), that has these six numbers, (6,)."""
    corner, row, column, diagonal, same, different = numbers
    words = np.where(topics.membership @ topics.membership.T > 0, same, different)
    np.fill_diagonal(words, diagonal)
    words[0], words[:, 0], words[0, 0] = row, column, corner
    return words


def mode_rates(
    topics: TopicModel,
    masking: Masking,
    mixture,
    loss: str = "squared",
    mask_keys: str = "unchosen",
    weight_decay: float = 0.0,
    length=None,
    value=None,
) -> Rates:
    """Signed singular values of G = dL/dS at S = 0, W_V at the Stage 1 optimum of this key rule, loss, weight decay.

    mixture: FixedTopics(tau), tau < T, or DirichletTopics(alpha). length: None for infinitely long documents, N, or
    (N_min, N_max), every chosen position counting once. value: six numbers, (6,), for W_V instead of the optimum.
    Exact for infinite documents (squared loss, or fixed tau); DRAWS mixtures stand for a Dirichlet under cross-entropy;
    DOCUMENTS sampled documents, always the same ones, for finite length.
    ValueError for an unknown loss or rule, cross-entropy without weight decay (no optimum exists), tau >= T.
    """
    problems = population_problems(topics, masking, mixture, loss, mask_keys, length)
    if value is None:
        value = stage1_numbers(topics, masking, mixture, loss, mask_keys, weight_decay, length)
    _, _, G = loss_and_gradients(problems, value, np.zeros(6), loss)
    *corner, topic, within = spectrum(topics) @ (G / entry_counts(topics))
    mask = np.copysign(np.linalg.norm(corner), -corner[0])  # of rank one, since every column of G sums to zero
    has_within, has_mask = topics.v > 1, mask_keys == "attended"
    return Rates(float(-topic), float(-within) if has_within else 0.0, float(mask) if has_mask else 0.0)


def stage1_numbers(
    topics: TopicModel,
    masking: Masking,
    mixture,
    loss: str = "squared",
    mask_keys: str = "unchosen",
    weight_decay: float = 0.0,
    length=None,
) -> np.ndarray:
    """Six numbers of W_V minimising the loss + weight_decay ||W_V||^2 under uniform attention to the rule's keys; (6,).

    The least-norm minimiser if there are several. Arguments and errors as for `mode_rates`.
    """
    checks.number("weight_decay", weight_decay)
    problems = population_problems(topics, masking, mixture, loss, mask_keys, length)
    if loss == "cross-entropy" and not weight_decay > 0:
        raise ValueError("weight_decay = 0 is not allowed with cross-entropy: W_V grows without end, no optimum exists")
    unit = np.sqrt(entry_counts(topics))  # z = unit * numbers has the norm of the matrix

    def penalised(z):
        value, gradient, _ = loss_and_gradients(problems, z / unit, np.zeros(6), loss)
        return value + weight_decay * z @ z, gradient / unit + 2 * weight_decay * z

    z = np.zeros(6)
    if length is not None:
        z = unit * stage1_numbers(topics, masking, mixture, loss, mask_keys, weight_decay)
    for _ in range(100):  # Newton, halving steps that go too far
        value, gradient = penalised(z)
        h = 1.0 if loss == "squared" else 1e-5 * (1 + abs(z).max())  # exact for a quadratic
        hessian = np.array([(penalised(z + h * e)[1] - gradient) / h for e in np.eye(6)])
        step = -np.linalg.pinv((hessian + hessian.T) / 2, rcond=1e-11, hermitian=True) @ gradient
        while penalised(z + step)[0] > value + 1e-13 * abs(value):
            step /= 2
        z = z + step
        if np.linalg.norm(step) <= 1e-11 * np.linalg.norm(z):
            break
    return z / unit


def value_rate(topics: TopicModel, masking: Masking, mixture, mask_keys: str = "unchosen") -> float:
    """Stage 1: the topic part of W_V nears its optimum (squared loss, infinite documents) as exp(-rate x lr x steps).

    rate = 2 kappa_B x (a^2 attended, 1 unchosen, (a / (1-mu))^2 excluded).
    """
    checks.choice("mask_keys", mask_keys, KEY_RULES)
    visible = {"attended": masking.a, "unchosen": 1.0, "excluded": masking.a / (1 - masking.mu)}[mask_keys]
    return 2 * visible**2 * mixture.kappa(topics.T) / topics.v


def critical_weight_decay(
    topics: TopicModel, masking: Masking, mixture, loss: str = "squared", mask_keys: str = "unchosen", length=None
) -> float:
    """The weight decay above which Stage 2 never comes: the largest solution of lambda = sigma(lambda) / (2 sqrt(d)),
    sigma the topic rate of `mode_rates` with W_V at its optimum for that lambda. Errors as there."""

    def growth(log_decay):
        decay = np.exp(log_decay)
        sigma = mode_rates(topics, masking, mixture, loss, mask_keys, decay, length).topic
        return sigma / (topics.V + 1) ** 0.5 - 2 * decay

    for low in range(-1, -30, -1):
        if growth(low) > 0:
            return float(np.exp(brentq(growth, low, low + 1, xtol=1e-9)))
    raise ValueError("no weight decay is critical: topic scores do not grow at any, since their rate is not positive")


class Problems(NamedTuple):
    """Prediction problems, one per column, those with a word as query first. Words that are alike form a group.

    keys: frequency of each word of a group among the keys, (groups, problems). labels: probability that this problem
    comes up and a given word of the group is to be predicted. weight: that of the problem. size: words in a group.
    relation: of a group to the query word: 0 [MASK], 1 same word, 2 same topic, 3 different topic; (groups,).
    topic: topic[g, h] = number of words of group h in the topic of a word of group g, (groups, groups).
    word_queries: number of columns with a word as query; the others have [MASK].
    """

    keys: np.ndarray
    labels: np.ndarray
    weight: np.ndarray
    size: np.ndarray
    relation: np.ndarray
    topic: np.ndarray
    word_queries: int


def loss_and_gradients(problems, value, scores, loss):
    """Loss, and its derivatives with respect to the six numbers of W_V and of S (sums over entries)."""
    keys, labels, weight, size, relation, topic, n = problems
    V00, V0w, Vw0, Vd, Vs, Vx = value
    S00, S0w, Sw0, Sd, Ss, Sx = scores
    m = keys.copy()  # attention to each word
    m[:, :n] *= np.exp(np.array([S0w, Sd, Ss, Sx]) - max(S0w, Sd, Ss, Sx))[relation][:, None]
    m[:, n:] *= np.exp(np.array([S00, Sw0, Sw0, Sw0]) - max(S00, Sw0))[relation][:, None]
    total = (size * m).sum(0)
    m /= np.where(total > 0, total, 1)
    on_words = (size[1:] * m[1:]).sum(0)
    on_topic = topic @ m
    f = Vw0 * m[0] + Vx * on_words + (Vs - Vx) * on_topic + (Vd - Vs) * m
    f[0] = V00 * m[0] + V0w * on_words
    if loss == "squared":
        mean_loss = weight.sum() + (size * f * (weight * f - 2 * labels)).sum()
        residual = 2 * (weight * f - labels)
    else:
        top = f.max(0)
        odds = np.exp(f - top)
        odds_sum = (size * odds).sum(0)
        mean_loss = weight @ (top + np.log(odds_sum)) - (size * labels * f).sum()
        residual = weight / odds_sum * odds - labels
    sized = size * residual  # dL/df, all words of a group together
    words_sum, topic_sum = sized[1:].sum(0), topic @ residual
    diagonal, same = (sized[1:] * m[1:]).sum(), (sized * on_topic).sum()
    dV = (
        residual[0] @ m[0],
        residual[0] @ on_words,
        words_sum @ m[0],
        diagonal,
        same - diagonal,
        words_sum @ on_words - same,
    )
    dm = V0w * residual[0] + Vx * words_sum + (Vs - Vx) * topic_sum + (Vd - Vs) * residual
    dm[0] = V00 * residual[0] + Vw0 * words_sum
    m *= size
    d_logit = m * (dm - (m * dm).sum(0))
    by_group = d_logit[:, :n].sum(1)
    dS = (
        d_logit[0, n:].sum(),
        by_group[0],
        d_logit[1:, n:].sum(),
        by_group[relation == 1].sum(),
        by_group[relation == 2].sum(),
        by_group[relation == 3].sum(),
    )
    return mean_loss, np.array(dV), np.array(dS)


def population_problems(topics, masking, mixture, loss, mask_keys, length=None):
    """The population: a topic (own) against the others; queries: one of its words, kept or at random, or [MASK]."""
    checks.choice("loss", loss, LOSSES)
    checks.choice("mask_keys", mask_keys, KEY_RULES)
    mixture.kappa(topics.T)  # ValueError where all documents are alike
    if not masking.a > 0 or (mask_keys == "unchosen" and masking.p_m == 1):
        raise ValueError("p_m = 1 is not allowed with unchosen keys or p_c = 0: nothing is left to predict from")
    own, other, number, kept, replaced, hidden = _laws(topics, masking, mixture, loss, length)
    seen, noise, mask = masking.a, masking.p_m * masking.p_r / topics.V, 0.0
    if mask_keys == "unchosen":
        seen, noise = 1 - masking.p_m, 0.0
    elif mask_keys == "attended":
        mask = masking.mu

    v, groups, words = topics.v, len(other), hidden > 0
    theta, one = np.vstack([own, own, other]) / v, np.ones_like(own)
    size = np.vstack([one, one, (v - 1) * one, v * number])
    keys = np.vstack([mask * one, seen * theta + noise])
    labels = np.vstack([0 * one, kept + replaced * theta[0], replaced * theta[1:]])
    hidden_labels = np.vstack([0 * one, hidden * theta])
    size, keys = np.hstack([size, size[:, words]]), np.hstack([keys, keys[:, words]])
    labels = np.hstack([labels, hidden_labels[:, words]])
    weight = np.concatenate([kept + replaced, hidden[words]])
    topic = np.diag([0.0, 1.0, 1.0] + [float(v)] * groups)
    topic[1:3, 1:3] = 1, v - 1
    relation = np.array([0, 1, 2] + [3] * groups)
    if length is not None:  # every word is a group
        repeats = [1, 1, v - 1] + [v] * groups
        keys, labels, relation = (np.repeat(x, repeats, axis=0) for x in (keys, labels, relation))
        keys = _sampled_counts(keys, len(own), mask_keys, length_range(length))
        size, topic = np.ones((topics.V + 1, 1)), topics.membership @ topics.membership.T
    return Problems(keys, labels, weight, size, relation, topic, len(own))


def _sampled_counts(law, word_queries, mask_keys, length):
    """Key counts of documents with a chosen position in sight, the other N - 1 being independent: one each per column.

    law: probability that a position is a key showing this word, (V+1, columns). Every chosen position of a long
    document counts once, hence N with probability proportional to N.
    """
    rng = np.random.default_rng(0)
    N = np.arange(length[0], length[1] + 1)
    N = rng.choice(N, size=law.shape[1], p=N / N.sum())
    no_key = np.maximum(1 - law.sum(0), 0)
    counts = rng.multinomial(N - 1, np.vstack([law, no_key]).T).T[:-1].astype(float)
    if mask_keys != "unchosen":
        counts[1, :word_queries] += 1
    if mask_keys == "attended":
        counts[0, word_queries:] += 1
    return counts


def _laws(topics, masking, mixture, loss, length):
    """The mixtures theta: weight of the own topic, (laws,), of others and how many there are of each, (kinds, laws);
    probabilities of the law together with a kept word of the own topic, a random word there, or [MASK], (laws,)."""
    T, p_c, p_r, q = topics.T, masking.p_c, masking.p_r, 1 - masking.p_c - masking.p_r
    if isinstance(mixture, FixedTopics):
        tau = mixture.tau
        own, other = np.array([1 / tau, 0.0]), np.array([[1 / tau, 1 / tau], [0.0, 0.0]])
        number = np.array([[tau - 1, tau], [T - tau, T - tau - 1]])
        weights = p_c * np.array([1.0, 0.0]), p_r * np.array([tau / T, 1 - tau / T]), q * np.array([1.0, 0.0])
        if length is None:
            return own, other, number, *weights
        other = np.array([np.repeat(*column) for column in zip(other.T, number.T, strict=True)]).T  # (T-1, 2)
        copies = [np.repeat(x, DOCUMENTS, axis=-1) for x in (own, other, np.ones_like(other))]
        return *copies, *(np.repeat(x, DOCUMENTS) / DOCUMENTS for x in weights)

    alpha, rest = mixture.alpha, (T - 1) * mixture.alpha
    if loss == "squared" and length is None:
        # The loss depends on the others through the sum of theta^2 only, and linearly: two kinds of them will do.
        x, share = roots_jacobi(32, rest - 1, alpha - 1)
        own, share = (1 + x) / 2, share / share.sum()
        mean = (1 - own) / (T - 1)
        deviation = mean * ((T - 2) / (rest + 1)) ** 0.5
        other = np.array([mean + deviation * (T - 2) ** 0.5, mean - deviation / max(T - 2, 1) ** 0.5])
        number = np.outer([1, T - 2], np.ones_like(own))
        return own, other, number, p_c * T * share * own, p_r * share, q * share
    n = DRAWS if length is None else DOCUMENTS
    u = qmc.Sobol(T, rng=0).random(n).T
    other = gammaincinv(alpha, u[1:])
    other /= other.sum(0)
    # The own topic's weight is Beta(alpha, rest); as seen from a kept word it is Beta(alpha + 1, rest).
    own = np.concatenate([betaincinv(alpha + 1, rest, u[0]), betaincinv(alpha, rest, u[0])])
    other = np.hstack([other, other]) * (1 - own)
    first, second = np.repeat([1 / n, 0.0], n), np.repeat([0.0, 1 / n], n)
    return own, other, np.ones_like(other), p_c * first, p_r * second, q * second


def entry_counts(topics):
    """How many entries share each of the six numbers, (6,); 1 where there is none, with v = 1 or T = 1."""
    V, v = topics.V, topics.v
    return np.maximum([1, V, V, V, V * (v - 1), V * (V - v)], 1)


def spectrum(topics):
    """Six numbers -> the matrix in an orthonormal basis: its 2 x 2 part on [MASK] and the mean word, row by row, then
    its eigenvalues on topic contrasts and within topics; (6, 6). There products are easy: `_product`."""
    V, v = topics.V, topics.v
    root = V**0.5
    return np.array(
        [
            [1, 0, 0, 0, 0, 0],
            [0, root, 0, 0, 0, 0],
            [0, 0, root, 0, 0, 0],
            [0, 0, 0, 1, v - 1, V - v],
            [0, 0, 0, 1, v - 1, -v],
            [0, 0, 0, 1, -1, 0],
        ]
    )
