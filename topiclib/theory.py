"""The paper's closed forms for Stage 1 and the embeddings, and the exact optima beyond them (NumPy, float64).

Matrices are (V+1) x (V+1), index 0 is [MASK]; row = predicted word, column = word seen, as in f = W_V X A.
Letters: mu = p_m (1-p_c-p_r), a = 1 - (1-p_c) p_m, epsilon = p_m p_r / V; after masking a word i has frequency
a P_w(i) + epsilon and [MASK] has mu.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from . import checks
from .data import MASK, Masking, TopicModel, length_range


class Constants(NamedTuple):
    """c1 = p_r / ((1-p_c-p_r) a V), c2 = 1/mu - 1, c3 = 1/a (Theorem 2)."""

    c1: float
    c2: float
    c3: float


def constants(topics: TopicModel, masking: Masking) -> Constants:
    """Theorem 2's constants c1, c2, c3. ValueError when every position is hidden (p_m = 1, p_c = 0), where a = 0."""
    _check_learnable(topics, masking)
    c1 = masking.p_r / ((1 - masking.p_c - masking.p_r) * masking.a * topics.V)
    return Constants(c1, 1 / masking.mu - 1, 1 / masking.a)


def stage1_optimum(topics: TopicModel, masking: Masking) -> np.ndarray:
    """Theorem 2: the Stage 1 minimiser of least Frobenius norm, the limit of vanishing weight decay; (V+1, V+1).

    Uniform attention, squared loss, no bias, infinitely long documents of tau topics, 1 <= tau < T.
    """
    c1, c2, c3 = constants(topics, masking)
    u = np.full(topics.V + 1, -(c1 * c2 + c3) / (c2**2 + topics.V))
    u[MASK] = 0
    return stage1_family(topics, masking, u)


def stage1_family(topics: TopicModel, masking: Masking, u) -> np.ndarray:
    """Theorem 4: the Stage 1 minimiser with free numbers u, shape (V+1,); topic sums spread evenly over the words.

    Row i >= 1 has topic sums u_i v + [t = topic(i)] / a and W_i0 = -c1 - c2 u_i; row 0 has u_0 v and W_00 = -c2 u_0.
    ValueError when u has another shape.
    """
    c1, c2, c3 = constants(topics, masking)
    u = np.asarray(u, dtype=float)
    checks.shape("u", u, (topics.V + 1,), "one number per token")
    W = _same_topic(topics) * c3 / topics.v + u[:, None]
    W[:, MASK] = -c2 * u
    W[1:, MASK] -= c1
    return W


def diagonal_optimum(topics: TopicModel, masking: Masking) -> np.ndarray:
    """Definition 2: the diagonal member of Theorem 4's family, W_ii = c3, W_i0 = -c1, zero elsewhere; (V+1, V+1)."""
    c1, _, c3 = constants(topics, masking)
    W = np.diag(np.full(topics.V + 1, c3))
    W[:, MASK] = -c1
    W[MASK, MASK] = 0
    return W


def theorem1_embedding(topics: TopicModel, masking: Masking) -> np.ndarray:
    """Theorem 1: the optimal E = W_E' W_E of least rank (T) and least ||W_E||_F, c3/v within topics; (V+1, V+1)."""
    return _same_topic(topics) * constants(topics, masking).c3 / topics.v


class ModeMoments(NamedTuple):
    """Second moments of p, the word frequencies of the masked document, and of x, the one-hot word to predict.

    X_B, Y_B: E[p p'] and E[x p'] on topic contrasts (vectors alike within topics, summing to 0);
    X_C, Y_C: the same on differences within a topic; m_0 = E[p_0], m_00 = E[p_0^2]: the share of [MASK].
    """

    X_B: float
    Y_B: float
    X_C: float
    Y_C: float
    m_0: float
    m_00: float


def mode_moments(topics: TopicModel, masking: Masking, mixture, length=None) -> ModeMoments:
    """The moments that decide Stage 1, for infinitely long documents (length=None), N, or N uniform on a range.

    Every chosen position counts once. ValueError as for `ridge_optimum`.
    """
    _check_learnable(topics, masking)
    kappa_B = mixture.kappa(topics.T) / topics.v
    if length is None:
        return ModeMoments(masking.a**2 * kappa_B, masking.a * kappa_B, 0.0, 0.0, masking.mu, masking.mu**2)
    p_m, p_c, q = masking.p_m, masking.p_c, 1 - masking.p_c - masking.p_r
    low, high = length_range(length)
    N = np.arange(low, high + 1, dtype=float)
    k = 1 + (N - 1) * p_m  # E[k]: chosen positions, as seen from one of them, k = 1 + Binomial(N-1, p_m)
    kk = k**2 + (N - 1) * p_m * (1 - p_m)  # E[k^2]
    others = N - k, N**2 - 2 * N * k + kk  # E[N-k], E[(N-k)^2]
    true_pairs = p_c**2 * (kk - k) + 2 * p_c * (N * k - kk) + others[1] - others[0]  # both show their own word
    X_C = (k * (1 - q) + others[0]) / (N**2 * topics.V)
    X_B = X_C + kappa_B * true_pairs / N**2
    Y_C = p_c / (N * topics.V)
    Y_B = Y_C + kappa_B * (p_c * (k - 1) + others[0]) / N
    m_0, m_00 = q * k / N, (q * k + q**2 * (kk - k)) / N**2
    share = N / N.sum()
    return ModeMoments(*(float(share @ moment) for moment in (X_B, Y_B, X_C, Y_C, m_0, m_00)))


def ridge_optimum(topics: TopicModel, masking: Masking, mixture, weight_decay: float, length=None) -> np.ndarray:
    """The minimiser of E||W_V p - x||^2 + weight_decay ||W_V||_F^2, uniform attention to all keys; (V+1, V+1).

    mixture: FixedTopics(tau) or DirichletTopics(alpha). length: None for infinitely long documents, else N or
    (N_min, N_max). Beyond the paper, whose Theorem 2 is the limit length=None, weight_decay -> 0. By symmetry W is a
    sum of three projectors and a [MASK] column, so four numbers w_A, w_B, w_C, W_i0 describe it. At weight_decay = 0
    it is the minimiser of least norm. ValueError for a negative weight_decay, tau >= T, or nothing to learn from.
    """
    checks.number("weight_decay", weight_decay)
    moments = mode_moments(topics, masking, mixture, length)
    V, v = topics.V, topics.v
    cross = (moments.m_0 - moments.m_00) / V**0.5
    pair = np.array([[moments.m_00, cross], [cross, (1 - 2 * moments.m_0 + moments.m_00) / V]])
    target = np.array([moments.m_0 / V**0.5, (1 - moments.m_0) / V])
    scaled_mask, w_A = np.linalg.pinv(pair + weight_decay * np.eye(2), rcond=1e-12, hermitian=True) @ target
    w_B = _divide(moments.Y_B, moments.X_B + weight_decay)
    w_C = _divide(moments.Y_C, moments.X_C + weight_decay)

    same = _same_topic(topics)[1:, 1:] / v  # projects on vectors that are alike within each topic
    everywhere = np.full((V, V), 1 / V)  # projects on vectors that are alike everywhere
    W = np.zeros((V + 1, V + 1))
    W[1:, 1:] = w_A * everywhere + w_B * (same - everywhere) + w_C * (np.eye(V) - same)
    W[1:, MASK] = scaled_mask / V**0.5
    return W


class CorpusMoments(NamedTuple):
    """PP = E[p p'] and XP = E[x p'] over the masks of given documents; (V+1, V+1) each."""

    PP: np.ndarray
    XP: np.ndarray


def corpus_moments(counts, masking: Masking) -> CorpusMoments:
    """The Stage 1 moments of these very documents, in closed form: no mask is drawn. Beyond the paper.

    counts: word counts, shape (documents, V+1), column 0 zero, as in `Documents.counts`; any lengths. One position of
    a document is chosen, the others are masked independently, and every position of the corpus counts once. That is
    what training with fresh masks sees on average (redrawing masks that choose no position changes the weight of a
    document by a factor 1 / (1 - (1-p_m)^N) only). ValueError for counts of [MASK], or an empty document or corpus.
    """
    n = np.asarray(counts, dtype=float)
    N = n.sum(axis=1, keepdims=True)
    if not (len(n) and (n >= 0).all() and N.all()) or n[:, MASK].any():
        raise ValueError("counts are not allowed: at least 0, column 0 ([MASK]) empty, no empty document or corpus")
    p_c, p_m, a, width = masking.p_c, masking.p_m, masking.a, n.shape[1]
    rho = np.full(width, masking.p_r / (width - 1))  # what a chosen position shows when it does not keep its word
    rho[MASK] = 1 - masking.p_c - masking.p_r
    b = p_m * rho  # the same for the other positions: each shows a (its word) + b on average
    m = rho + (N - 1) * b + a * n  # E[N p] is m + delta (the chosen word), (D, V+1)
    delta = p_c - a
    nu = n / N
    w = N / N.sum() / N**2  # weight of a document, over N^2, (D, 1)

    def symmetric(x, y):
        return np.outer(x, y) + np.outer(y, x)

    XP = (w * n).T @ m + delta * np.diag((w * n).sum(0))
    cross = (w * m).T @ nu
    PP = (w * m).T @ m + delta * (cross + cross.T)
    PP += np.diag((w * (m + (delta + delta**2 - p_c**2 - (N - 1) * a**2) * nu)).sum(0))
    PP -= w.sum() * np.outer(rho, rho) + p_c * symmetric(rho, (w * nu).sum(0))  # a position does not pair with itself
    PP -= (w * (N - 1)).sum() * np.outer(b, b) + a * symmetric(b, (w * (N - 1) * nu).sum(0))
    return CorpusMoments(PP, XP)


def corpus_optimum(moments: CorpusMoments, weight_decay: float) -> np.ndarray:
    """The minimiser of E||W p - x||^2 + weight_decay ||W||_F^2 for these documents, of least norm; (V+1, V+1)."""
    checks.number("weight_decay", weight_decay)
    A = moments.PP + weight_decay * np.eye(len(moments.PP))
    if weight_decay > 0:  # A is positive definite, and symmetric
        return np.linalg.solve(A, moments.XP.T).T
    return moments.XP @ np.linalg.pinv(A, rcond=1e-12, hermitian=True)


def corpus_optimum_with_bias(moments: CorpusMoments, weight_decay: float) -> tuple[np.ndarray, np.ndarray]:
    """The minimiser (W, b) of E||W p + b - x||^2 + weight_decay ||W||_F^2, the bias b free; (V+1, V+1) and (V+1,).

    As p sums to 1, its mean and that of x are row sums of the moments, and W p + b = (W + b 1') p: the loss with the
    bias is `corpus_loss` of W + b[:, None].
    """
    p, x = moments.PP.sum(axis=1), moments.XP.sum(axis=1)
    W = corpus_optimum(CorpusMoments(moments.PP - np.outer(p, p), moments.XP - np.outer(x, p)), weight_decay)
    return W, x - W @ p


def corpus_loss(moments: CorpusMoments, W) -> float:
    """E||W p - x||^2 for these documents: the squared loss of equation 3 under uniform attention, without penalty."""
    return float(1 - 2 * np.sum(W * moments.XP) + np.sum((W @ moments.PP) * W))


def theorem3_interval(topics: TopicModel, masking: Masking, tau) -> tuple:
    """Theorem 3 as the paper states it: lambda_1 (tau-1) < gamma < lambda_2 T for the block W_V; returns (low, high).

    lambda_1 = (a + p_m p_r)(2 - a) / (2 a), lambda_2 = 100 (a / (p_m p_r) + 1); tau may be an array.
    ValueError unless 1 <= tau <= T and p_r > 0.
    """
    tau, noise = _check_attention(topics, masking, tau)
    a = masking.a
    return (a + noise) * (2 - a) / (2 * a) * (tau - 1), 100 * (a / noise + 1) * topics.T * np.ones_like(tau)


def theorem5_interval(topics: TopicModel, masking: Masking, tau) -> tuple:
    """Theorem 5, for the diagonal W_V: low < beta < high and alpha < ratio beta; returns (low, high, ratio).

    With c4 = 1/a, c7 = 1 / (c4 sqrt(v-1) - 1 - c4): low = (1 + c4 p_m p_r) v tau / (100 c4),
    high = c7 (1 / (c4 p_m p_r) + 1) v T, ratio = c4 / (v-1); tau may be an array.
    ValueError unless 1 <= tau <= T, p_r > 0 and v is large enough for c7 > 0.
    """
    tau, noise = _check_attention(topics, masking, tau)
    c4 = 1 / masking.a
    gap = c4 * (topics.v - 1) ** 0.5 - 1 - c4
    if not gap > 0:
        bound = (1 + masking.a) ** 2 + 1
        raise ValueError(f"v = {topics.v} is not allowed: Theorem 5 wants v > (1 + 1/c4)^2 + 1 = {bound:.2f}")
    low = (1 + c4 * noise) * topics.v * tau / (100 * c4)
    high = (1 / (c4 * noise) + 1) * topics.v * topics.T / gap
    return low, high * np.ones_like(tau), c4 / (topics.v - 1) * np.ones_like(tau)


def _divide(x, y):
    """x / y, and 0 where both vanish: the least-norm solution of y w = x."""
    return x / y if y else 0.0


def _same_topic(topics):
    return topics.membership @ topics.membership.T


def _check_learnable(topics, masking):
    if not masking.a > 0:
        raise ValueError("p_m = 1 with p_c = 0 is not allowed: every word is hidden, nothing is left to predict from")
    if topics.T < 2:
        raise ValueError(f"T = {topics.T} is not allowed: at least 2 topics, or there is nothing to tell apart")


def _check_attention(topics, masking, tau):
    _check_learnable(topics, masking)
    tau = checks.integers("tau", tau, 1, topics.T)[()]
    if not masking.p_r > 0:
        raise ValueError("p_r = 0 is not allowed: the interval's upper end is infinite without random words")
    return tau, masking.p_m * masking.p_r


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
