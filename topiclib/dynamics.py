"""Why there are two stages: the population's gradient flow, in 18 numbers and in two. Beyond the paper.

Model, six numbers of a matrix and modes are those of `modes`. If W_V, W_K and W_Q commute with the relabellings of
topics and words, so do their gradients: the flow from them stays in 18 numbers, at any size.
"""

from typing import NamedTuple

import numpy as np

from . import checks
from .data import FixedTopics, Masking, TopicModel
from .modes import entry_counts, loss_and_gradients, population_problems, spectrum, to_numbers


class Flow(NamedTuple):
    """What was recorded at each of `steps` (updates done so far), as in `train.History`.

    loss: population loss without the penalty, (records,). norms: Frobenius norms of "W_V", "W_K", "W_Q", (records,)
    each. numbers: the six numbers of W_V, W_K, W_Q, (records, 3, 6).
    """

    steps: np.ndarray
    loss: np.ndarray
    norms: dict[str, np.ndarray]
    numbers: np.ndarray


class TwoNumberFlow(NamedTuple):
    """What was recorded at each of `steps`, (records,) each.

    b, f: eigenvalues of W_V on topic contrasts and on the mean word. k: W_K = W_Q = k x topic projector. gamma:
    attention to a same-topic word over one of another topic of the document. norms, loss: as in `Flow`.
    """

    steps: np.ndarray
    loss: np.ndarray
    norms: dict[str, np.ndarray]
    b: np.ndarray
    f: np.ndarray
    k: np.ndarray
    gamma: np.ndarray


class FixedPoint(NamedTuple):
    """Where the two-number flow ends: gamma = 1 + T p_c / p_r, ||W_V|| = sqrt(T), ||W_K|| = ||W_Q||."""

    gamma: float
    value_norm: float
    key_norm: float


def topic_amplitude(W_K, W_Q, topics: TopicModel) -> float:
    """k_0 = ||(W_K + W_Q) U / 2||_F / sqrt(T-1), U an orthonormal basis of topic contrasts: the part that grows.

    W_K, W_Q: (V+1, V+1). The topic part of each then has norm sqrt(T-1) k_0 exp(growth). ValueError for T = 1.
    """
    return float(np.linalg.norm(_grouped(W_K, W_Q, topics)[0]) / np.sqrt(topics.T - 1))


def onset_steps(k_0: float, k_end: float, growth_rate: float, learning_rate: float) -> float:
    """Steps until k_0 has grown to k_end: ln(k_end / k_0) / (learning_rate growth_rate).

    growth_rate = sigma / sqrt(d) - 2 weight_decay; inf unless it is positive. k may be any norm, the same on both ends.
    """
    return float(np.log(k_end / k_0) / (learning_rate * growth_rate)) if growth_rate > 0 else np.inf


def fixed_point(topics: TopicModel, masking: Masking) -> FixedPoint:
    """The end of the two-number flow: gamma* = 1 + T p_c / p_r for every tau, ||W_V|| = sqrt(T) as after Stage 1, and
    ||W_K|| = ||W_Q|| = sqrt((T-1) v sqrt(d) ln gamma*), d = V+1. ValueError unless T >= 2, p_c > 0, p_r > 0."""
    if not (topics.T > 1 and masking.p_c > 0 and masking.p_r > 0):
        rates = f"T = {topics.T}, p_c = {masking.p_c}, p_r = {masking.p_r}"
        raise ValueError(f"{rates} is not allowed: T of at least 2 and rates above 0 are wanted")
    gamma = 1 + topics.T * masking.p_c / masking.p_r
    key_norm = ((topics.T - 1) * topics.v * (topics.V + 1) ** 0.5 * np.log(gamma)) ** 0.5
    return FixedPoint(gamma, topics.T**0.5, float(key_norm))


def flow_start(W_V, W_K, W_Q, topics: TopicModel) -> np.ndarray:
    """The start of `reduced_flow`, (3, 6), that stands for these starting matrices, (V+1, V+1) each.

    Their averages over relabellings, except that W_K and W_Q both get the topic part k_0 of `topic_amplitude` and the
    like for the within part: of a random start only (W_K + W_Q) / 2 grows, whatever its orientation in R^d.
    """
    S, start = spectrum(topics), np.array([to_numbers(W, topics) for W in (W_V, W_K, W_Q)])
    spectra = start @ S.T
    between, within = _grouped(W_K, W_Q, topics)
    spectra[1:, 4] = np.linalg.norm(between) / np.sqrt(topics.T - 1)
    spectra[1:, 5] = np.linalg.norm(within) / np.sqrt(max(topics.T * (topics.v - 1), 1))
    return spectra @ np.linalg.inv(S).T


def reduced_flow(
    topics: TopicModel,
    masking: Masking,
    mixture,
    start,
    *,
    learning_rate: float,
    steps: int,
    loss: str = "squared",
    mask_keys: str = "unchosen",
    weight_decay: float = 0.0,
    record_every: int = 10,
) -> Flow:
    """Gradient descent on the population loss + weight_decay ||theta||^2 of all three matrices, in 18 numbers.

    start: six numbers of W_V, W_K, W_Q, (3, 6). Infinitely long documents, d = V+1. It is full-matrix gradient descent,
    step by step, from matrices that commute with relabellings; exact as `mode_rates` is. Records at step 0, every
    `record_every` steps and at the end. ValueError for impossible arguments, FloatingPointError when the loss explodes.
    """
    _check_flow(learning_rate, steps, record_every)
    checks.number("weight_decay", weight_decay)
    start = np.array(start, dtype=float)
    checks.shape("start", start, (3, 6), "six numbers a matrix")
    problems = population_problems(topics, masking, mixture, loss, mask_keys)
    S, root_d = spectrum(topics), (topics.V + 1) ** 0.5
    to_spectrum, from_spectrum = S / entry_counts(topics), np.linalg.inv(S)
    weights = np.array([1, 1, 1, 1, topics.T - 1, topics.T * (topics.v - 1)])  # of squares, in ||W||^2
    spectra, records = start @ S.T, []
    shrink = 1 - 2 * learning_rate * weight_decay
    for step in range(steps + 1):
        value, keys, queries = spectra
        scores = _product(_transpose(keys), queries) / root_d
        mean_loss, dV, dS = loss_and_gradients(problems, from_spectrum @ value, from_spectrum @ scores, loss)
        if step % record_every == 0 or step == steps:
            if not np.isfinite(mean_loss) or mean_loss > 1e6:
                raise FloatingPointError(f"the loss is {mean_loss:.3g} at step {step}: try a smaller learning rate")
            records.append((step, mean_loss, np.sqrt(spectra**2 @ weights), spectra @ from_spectrum.T))
        G = to_spectrum @ dS / root_d
        gradients = np.array([to_spectrum @ dV, _product(queries, _transpose(G)), _product(keys, G)])
        spectra = shrink * spectra - learning_rate * gradients
    at, losses, norms, numbers = (np.array(column) for column in zip(*records, strict=True))
    return Flow(at, losses, dict(zip(("W_V", "W_K", "W_Q"), norms.T, strict=True)), numbers)


def two_number_flow(
    topics: TopicModel, masking: Masking, tau: int, start, *, learning_rate: float, steps: int, record_every: int = 10
) -> TwoNumberFlow:
    """`reduced_flow` in closed form for squared loss, unchosen keys, 2 <= tau < T, no weight decay.

    start: (b, f, k), where W_K = W_Q = k x topic projector. With s = k^2 / (v sqrt(d)), x = tau m - 1 for the attention
    m = e^s / (e^s + tau - 1) to the query's topic, w = p_c + p_r tau / T (the query is a word of the document),
    y = tau (p_c + p_r / T) / w - 1, u = 1/tau - 1/T and c = w / (tau (tau - 1)), the loss is
        1 - 1 / (tau v) - c y^2 / v + (f - 1)^2 / V + (u (b - 1)^2 + c (b x - y)^2) / v,
    and b' = -(dL/db) / (T-1), f' = -dL/df, k' = -(dL/dk) / (2 (T-1)). So b = f = 1 and x = y (`fixed_point`) is its
    minimum. ValueError for another tau or impossible arguments.
    """
    _check_flow(learning_rate, steps, record_every)
    T, v, V, root_d = topics.T, topics.v, topics.V, (topics.V + 1) ** 0.5
    checks.integer("tau", tau, 2)
    w = masking.p_c + masking.p_r * tau / T
    y = tau * (masking.p_c + masking.p_r / T) / w - 1 if w else 0.0
    u, c = (T - 1) * FixedTopics(tau).kappa(T), w / (tau * (tau - 1))
    b, f, k = map(float, start)
    records = []
    for step in range(steps + 1):
        m = 1 / (1 + (tau - 1) * np.exp(-(k**2) / (v * root_d)))
        x = tau * m - 1
        if step % record_every == 0 or step == steps:
            loss = 1 - 1 / (tau * v) - c * y**2 / v + (f - 1) ** 2 / V + (u * (b - 1) ** 2 + c * (b * x - y) ** 2) / v
            records.append((step, loss, b, f, k, (tau - 1) * m / (1 - m)))
        db = 2 / v * (u * (b - 1) + c * x * (b * x - y)) / (T - 1)
        dk = k / (v * root_d) * 2 / v * c * b * (b * x - y) * tau * m * (1 - m) / (T - 1)
        b, f, k = b - learning_rate * db, f - learning_rate * 2 / V * (f - 1), k - learning_rate * dk
    at, loss, b, f, k, gamma = (np.array(column) for column in zip(*records, strict=True))
    key_norm = (T - 1) ** 0.5 * abs(k)
    norms = {"W_V": np.sqrt((T - 1) * b**2 + f**2), "W_K": key_norm, "W_Q": key_norm}
    return TwoNumberFlow(at, loss, norms, b, f, k, gamma)


def rise_step(steps, values, fraction: float = 0.1) -> float:
    """When a curve has made this fraction of its rise from the first value to the last; interpolated between records.

    steps, values: (records,). NaN for a curve that ends no higher than it began.
    """
    steps, values = np.asarray(steps, dtype=float), np.asarray(values, dtype=float)
    level = values[0] + fraction * (values[-1] - values[0])
    if not values[-1] > values[0]:
        return np.nan
    i = max(int(np.argmax(values >= level)), 1)
    return float(np.interp(level, values[i - 1 : i + 1], steps[i - 1 : i + 1]))


def _product(x, y):
    """The matrix product of two matrices in the basis of `modes.spectrum`, (6,) each."""
    return np.concatenate([(x[:4].reshape(2, 2) @ y[:4].reshape(2, 2)).ravel(), x[4:] * y[4:]])


def _transpose(x):
    return x[[0, 2, 1, 3, 4, 5]]


def _grouped(W_K, W_Q, topics):
    """(W_K + W_Q) / 2 on topic means (overall mean removed), (V+1, T), and on differences within topics, (V+1, V)."""
    checks.integer("T", topics.T, 2)
    words = (np.asarray(W_K, dtype=float) + np.asarray(W_Q, dtype=float))[:, 1:] / 2
    means = words @ topics.membership[1:] / topics.v
    between = means - means.mean(1, keepdims=True)
    return between * topics.v**0.5, words - means @ topics.membership[1:].T


def _check_flow(learning_rate, steps, record_every):
    checks.integer("steps", steps)
    checks.integer("record_every", record_every)
    checks.positive("learning_rate", learning_rate)
