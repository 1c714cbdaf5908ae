"""The truth that several tests share, written from the paper's definitions without topiclib. [MASK] is index 0."""

from itertools import combinations
from math import prod

import numpy as np
import torch
from scipy.special import roots_jacobi


def topic_sets(T, tau):
    """Topic weights of every set of tau topics, one row each, (sets, T)."""
    return np.array([[(t in chosen) / tau for t in range(T)] for chosen in combinations(range(T), tau)])


def theta_moment(mixture, T, sequence):
    """E[theta_s theta_t ...], the probability of a topic sequence: over all topic sets, or by rising factorials."""
    if hasattr(mixture, "tau"):
        return topic_sets(T, mixture.tau)[:, list(sequence)].prod(1).mean()

    def rising(x, n):
        return prod(x + i for i in range(n))

    return prod(rising(mixture.alpha, sequence.count(t)) for t in range(T)) / rising(T * mixture.alpha, len(sequence))


def word_frequencies(theta, v):
    """P_w of infinitely long documents with topic weights theta, (D, T); (D, V+1)."""
    return np.pad(np.repeat(theta, v, axis=1) / v, ((0, 0), (1, 0)))


def label_and_shown(theta, v, masking):
    """P(word to predict, word shown) at a chosen position of these documents, (D, V+1, V+1)."""
    P = word_frequencies(theta, v)[:, :, None]
    joint = masking.p_c * P * np.eye(P.shape[1])
    joint[:, :, 1:] += P * masking.p_r / (P.shape[1] - 1)
    joint[:, :, :1] += P * (1 - masking.p_c - masking.p_r)
    return joint


def key_frequencies(theta, v, masking, rule):
    """How often each word is a key in these documents, (D, V+1); under "attended", word frequencies after masking."""
    joint = label_and_shown(theta, v, masking)
    keys = (1 - masking.p_m) * joint.sum(2) + (rule != "unchosen") * masking.p_m * joint.sum(1)
    keys[:, 0] *= rule != "excluded"
    return keys


def projectors(T, v):
    """Orthogonal projectors on topic contrasts and on differences within topics, (V+1, V+1)."""
    same = np.kron(np.eye(T), np.full((v, v), 1 / v))
    return [np.pad(projector, ((1, 0), (1, 0))) for projector in (same - 1 / (T * v), np.eye(T * v) - same)]


def close(x, y, tol):
    """Equal up to this absolute error."""
    np.testing.assert_allclose(x, y, rtol=0, atol=tol)


def mixtures(topics, mixture):
    """All topic mixtures, (D, T), and their probabilities: topic sets, or Gauss quadrature of a Dirichlet, T <= 3."""
    if hasattr(mixture, "tau"):
        sets = topic_sets(topics.T, mixture.tau)
        return sets, np.full(len(sets), 1 / len(sets))

    def beta(a, b):
        x, w = roots_jacobi(24, b - 1, a - 1)
        return (1 + x) / 2, w / w.sum()

    if topics.T == 2:
        x, w = beta(mixture.alpha, mixture.alpha)
        return np.array([x, 1 - x]).T, w
    x, wx = beta(mixture.alpha, 2 * mixture.alpha)
    y, wy = beta(mixture.alpha, mixture.alpha)
    x, y = (grid.ravel() for grid in np.meshgrid(x, y, indexing="ij"))
    return np.array([x, (1 - x) * y, (1 - x) * (1 - y)]).T, np.outer(wx, wy).ravel()


def problems(topics, masking, mixture, rule):
    """Key frequencies (D, V+1) and the probability of each document, word shown and label (D, V+1, V+1)."""
    theta, share = mixtures(topics, mixture)
    joint = share[:, None, None] * label_and_shown(theta, topics.v, masking).swapaxes(1, 2)
    return torch.from_numpy(key_frequencies(theta, topics.v, masking, rule)), torch.from_numpy(joint)


def population_loss(W_V, S, keys, joint, loss):
    attention = keys[:, :, None] * torch.exp(S)  # document, key, query
    attention = attention / attention.sum(1, keepdim=True)
    f = torch.einsum("il,dlq->dqi", W_V, attention)
    if loss == "squared":
        return (joint.sum(2) * (f**2).sum(2)).sum() - 2 * (joint * f).sum() + joint.sum()
    return -(joint * torch.log_softmax(f, dim=2)).sum()


def gradients_at_zero(topics, masking, mixture, rule, loss, W_V):
    keys, joint = problems(topics, masking, mixture, rule)
    W = torch.tensor(W_V, requires_grad=True)
    S = torch.zeros_like(W).requires_grad_()
    return [g.numpy() for g in torch.autograd.grad(population_loss(W, S, keys, joint, loss), (W, S))]
