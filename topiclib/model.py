"""The paper's one-layer transformer (equations 5 to 7), computed on word counts instead of positions.

f(X) = W_pred W_V Z A(Z) + b_pred with Z = W_E X and A(Z) = softmax((W_K Z)' (W_Q Z) / sqrt(d)), columns summing to 1.
Attention sees a position only through its word, so with n_l keys showing word l a query word q puts the weight
n_l exp(S[l, q]) / sum on word l, S = (W_K W_E)' (W_Q W_E) / sqrt(d): exactly the N x N computation, at V + 1 words.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn.functional import linear

from .data import KEY_RULES, MASK, FixedTopics, MaskedDocuments, Masking, TopicModel, check_integer

LOSSES = ("squared", "cross-entropy")


class Queries(NamedTuple):
    """A batch of prediction problems, one row for each document and query word.

    keys: counts of the attended keys, (B, V+1). labels: how often each word is to be predicted, (P, V+1).
    document, query: row of `keys` and query word of each problem, (P,) each; None under uniform attention, where the
    query does not matter and each document is one problem, P = B.
    """

    keys: torch.Tensor
    labels: torch.Tensor
    document: torch.Tensor | None = None
    query: torch.Tensor | None = None


class TopicTransformer(nn.Module):
    """Equations 5 to 7: one layer, one head, no residual, no normalisation, no positions; float64.

    trained: names of the trained parts, of W_E, W_K, W_Q, W_V, W_pred, b_K, b_Q, b_V, b_pred.
    initial: starting values by name (arrays in the paper's orientation). A trained matrix without one starts at
        N(0, scale^2), a trained bias at 0. A part neither trained nor given is neutral: W_E = I (one-hot words),
        W_V = I, W_K = W_Q = 0 (uniform attention), W_pred = W_E' (tied), biases 0.
    d: embedding dimension; V + 1 by default, and always for one-hot words.
    d_head: dimension of keys and queries; d by default. Narrow ones, as in heads, make a step cheaper.
    mask_keys: which keys are attended: all ("attended", equation 5 as written), all but [MASK] ("excluded", the rule
        behind Theorems 3 and 5), or those of positions that were not chosen ("unchosen", the released code).
        A query without any key gets attention 0, so f = b_pred.

    Shapes: W_E (d, V+1); W_K, W_Q (d_head, d); W_V (d, d); W_pred (V+1, d);
    b_K, b_Q (d_head,); b_V (d,); b_pred (V+1,).
    ValueError for an unknown name or rule, or a wrong shape.
    """

    def __init__(
        self,
        topics: TopicModel,
        trained: tuple[str, ...] = ("W_V",),
        *,
        d: int | None = None,
        d_head: int | None = None,
        initial: Mapping[str, np.ndarray] | None = None,
        scale: float = 0.02,
        mask_keys: str = "attended",
        seed: int = 0,
    ):
        super().__init__()
        width, initial = topics.V + 1, dict(initial or {})
        d = width if d is None else d
        d_head = d if d_head is None else d_head
        check_integer("d", d, 1)
        check_integer("d_head", d_head, 1)
        shapes = {"W_E": (d, width), "W_K": (d_head, d), "W_Q": (d_head, d), "W_V": (d, d), "W_pred": (width, d)}
        shapes |= {"b_K": (d_head,), "b_Q": (d_head,), "b_V": (d,), "b_pred": (width,)}
        trained = (trained,) if isinstance(trained, str) else tuple(trained)
        named = set(trained) | set(initial)
        for name in sorted(named - set(shapes)):
            raise ValueError(f"{name!r} is not a part of the model: choose among {', '.join(shapes)}")
        if mask_keys not in KEY_RULES:
            raise ValueError(f"mask_keys = {mask_keys!r} is not allowed: choose one of {', '.join(KEY_RULES)}")
        if "W_E" not in named and d != width:
            raise ValueError(f"d = {d} is not allowed with one-hot words: d = V + 1 = {width}, or train W_E")

        self.topics, self.d, self.d_head, self.mask_keys = topics, d, d_head, mask_keys
        self.one_hot, self.tied, self.identity_value = ("W_E" not in named, "W_pred" not in named, "W_V" not in named)
        self.uniform, self.biased = (not named & {"W_K", "W_Q", "b_K", "b_Q"}, bool(named & {"b_K", "b_Q", "b_V"}))
        rng = np.random.default_rng(seed)
        # Narrow keys and queries have a stream of their own: the other parts do not change with d_head.
        narrow = rng if d_head == d else np.random.default_rng([seed, 5])
        for name, shape in shapes.items():
            if name in initial:
                value = np.array(initial[name], dtype=float)
                if value.shape != shape:
                    raise ValueError(f"{name} of shape {value.shape} is not allowed: {shape} is wanted")
            elif name in trained and name.startswith("W"):
                value = scale * (narrow if name in ("W_K", "W_Q") else rng).standard_normal(shape)
            else:
                value = np.eye(*shape) if name in ("W_E", "W_V") else np.zeros(shape)
            if name != "W_pred" or not self.tied:
                self.register_parameter(name, nn.Parameter(torch.from_numpy(value), requires_grad=name in trained))

    def numpy(self, name: str) -> np.ndarray:
        """A copy of one part, such as "W_V", in the paper's orientation."""
        return getattr(self, name).detach().numpy().copy()

    def scores(self) -> torch.Tensor:
        """S, (V+1, V+1): the score of key word l (row) for query word q (column), 1/sqrt(d_head) included."""
        keys, queries = (self.W_K, self.W_Q) if self.one_hot else (self.W_K @ self.W_E, self.W_Q @ self.W_E)
        if self.biased:
            keys, queries = keys + self.b_K[:, None], queries + self.b_Q[:, None]
        return keys.T @ queries / self.d_head**0.5  # (V+1, V+1)

    def values(self) -> torch.Tensor:
        """U = W_pred (W_V W_E + b_V), (V+1, V+1): column l is the prediction that attention to word l alone gives."""
        value = self.W_E if self.identity_value else self.W_V if self.one_hot else self.W_V @ self.W_E  # (d, V+1)
        if self.biased:
            value = value + self.b_V[:, None]
        if self.tied:
            return value if self.one_hot else self.W_E.T @ value  # (V+1, V+1)
        return self.W_pred @ value  # (V+1, V+1)

    def attention(self, queries: Queries) -> torch.Tensor:
        """Attention mass on each key word, all its positions together; rows sum to 1 (0 without keys); (P, V+1)."""
        keys = queries.keys  # (B, V+1)
        if self.uniform:
            mass = keys / keys.sum(1, keepdim=True).clamp(min=1)  # (B, V+1)
            return mass if queries.document is None else mass[queries.document]  # (P, V+1)
        empty = keys.sum(1, keepdim=True) == 0  # (B, 1)
        log_keys = keys.log().masked_fill(empty, 0.0)  # (B, V+1)
        logits = self.scores().T.index_select(0, queries.query) + log_keys.index_select(0, queries.document)  # (P, V+1)
        mass = torch.softmax(logits, dim=1)  # (P, V+1)
        return mass.masked_fill(empty[queries.document], 0.0) if empty.any() else mass

    def forward(self, queries: Queries) -> torch.Tensor:
        """f(X) for every prediction problem, (P, V+1)."""
        return linear(self.attention(queries), self.values(), self.b_pred)  # (P, V+1)


def loss_sum(f: torch.Tensor, labels: torch.Tensor, loss: str) -> torch.Tensor:
    """The loss summed over chosen positions: ||f - x||^2 (equation 3) or cross-entropy in nats (equation 4).

    f, labels: predictions and label counts, (P, V+1) each. ValueError for another loss.
    """
    if loss == "squared":
        number = labels.sum(1, keepdim=True)  # (P, 1)
        return ((number * f - 2 * labels) * f).sum() + number.sum()
    if loss == "cross-entropy":
        return -(labels * torch.log_softmax(f, dim=1)).sum()
    raise ValueError(f"loss = {loss!r} is not allowed: choose one of {', '.join(LOSSES)}")


def batches(masked: MaskedDocuments, model: TopicTransformer, batch_size: int) -> Iterator[Queries]:
    """The prediction problems of `batch_size` documents at a time, in order, with the keys that the model attends."""
    counts = masked.keys - masked.chosen if model.mask_keys == "unchosen" else masked.keys
    keys = torch.from_numpy(counts.astype(np.float64))  # (n, V+1)
    if model.mask_keys == "excluded":
        keys[:, MASK] = 0
    starts = np.arange(0, len(masked), batch_size)
    if model.uniform:
        labels = torch.from_numpy(masked.labels.astype(np.float64))  # (n, V+1)
        yield from (Queries(keys[i : i + batch_size], labels[i : i + batch_size]) for i in starts)
        return
    width = counts.shape[1]
    new = np.diff(masked.document * width + masked.query, prepend=-1) != 0  # where another (document, query) begins
    problem = np.cumsum(new) - 1  # which problem each chosen position belongs to
    bounds = np.searchsorted(masked.document, np.append(starts, len(masked)))
    for start, i, j in zip(starts, bounds[:-1], bounds[1:], strict=True):
        cells = (problem[i:j] - problem[i]) * width + masked.label[i:j]
        total = problem[j - 1] - problem[i] + 1
        labels = np.bincount(cells, minlength=total * width).reshape(total, width).astype(np.float64)
        document, query = masked.document[i:j][new[i:j]] - start, masked.query[i:j][new[i:j]]
        yield Queries(keys[start : start + batch_size], *map(torch.from_numpy, (labels, document, query)))


def population(topics: TopicModel, masking: Masking, mixture: FixedTopics, mask_keys: str = "attended") -> Queries:
    """All documents of a small topic model, infinitely long, as one batch whose labels are probabilities (sum 1).

    So `loss_sum` of it is the expected loss, exactly. There are T choose tau sets of topics, all equally likely.
    """
    sets = list(combinations(range(topics.T), mixture.tau))
    P = np.array([topics.membership[:, list(members)].sum(axis=1) for members in sets]) / (mixture.tau * topics.v)
    keys = P.copy()  # of positions that were not chosen; (sets, V+1)
    if mask_keys != "unchosen":
        keys = masking.a * P + masking.p_m * masking.p_r / topics.V
        keys[:, MASK] = masking.mu if mask_keys == "attended" else 0
    labels = masking.p_r / topics.V * P[:, None] + masking.p_c * P[:, None] * np.eye(
        topics.V + 1
    )  # (sets, query, label)
    labels[:, MASK] = (1 - masking.p_c - masking.p_r) * P
    document, query = np.nonzero(labels.sum(axis=2))
    return Queries(*map(torch.from_numpy, (keys, labels[document, query] / len(sets), document, query)))
