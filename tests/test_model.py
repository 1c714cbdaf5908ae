"""The count model against the obvious position-by-position computation."""

import itertools

import numpy as np
import pytest
import torch
from cases import losses, rules

import topiclib as tl
from topiclib.data import MaskedDocuments
from topiclib.model import KEY_RULES, batches, loss_sum

TOPICS = tl.TopicModel(T=3, v=2)
NAMES = ("W_E", "W_K", "W_Q", "W_V", "W_pred", "b_K", "b_Q", "b_V", "b_pred")
WEIGHTS = ("W_K", "W_Q", "W_V")
BIASES = ("b_K", "b_Q", "b_V", "b_pred")


def token_documents(rng, n=6, length=(1, 9)):
    """Masked documents position by position: a list of (tokens shown, is chosen, original words)."""
    documents = []
    for _ in range(n):
        N = rng.integers(length[0], length[1] + 1)
        words = rng.integers(1, TOPICS.V + 1, N)
        chosen = rng.random(N) < 0.5
        chosen[rng.integers(N)] = True
        shown = np.where(chosen & (rng.random(N) < 0.6), 0, words)
        shown = np.where(chosen & (rng.random(N) < 0.2), rng.integers(1, TOPICS.V + 1, N), shown)
        documents.append((shown, chosen, words))
    return documents


def as_counts(documents):
    """The same documents as counts and chosen positions."""
    width = TOPICS.V + 1
    keys = np.array([np.bincount(shown, minlength=width) for shown, _, _ in documents])
    chosen = np.array([np.bincount(shown[is_chosen], minlength=width) for shown, is_chosen, _ in documents])
    labels = np.array([np.bincount(words[is_chosen], minlength=width) for _, is_chosen, words in documents])
    positions = sorted(
        (d, int(q), int(x))
        for d, (shown, is_chosen, words) in enumerate(documents)
        for q, x in zip(shown[is_chosen], words[is_chosen], strict=True)
    )
    return MaskedDocuments(keys, chosen, labels, *np.array(positions).T)


def position_by_position(model, documents, loss):
    """Equations 3 to 6 as they stand, one N x N attention matrix a document; the mean loss over chosen positions."""
    part = {name: getattr(model, name) for name in NAMES if name != "W_pred" or not model.tied}
    W_pred = part["W_E"].T if model.tied else part["W_pred"]
    total, number = 0.0, 0
    for shown, chosen, words in documents:
        X = torch.eye(TOPICS.V + 1, dtype=torch.float64)[:, shown]  # (V+1, N)
        Z = part["W_E"] @ X  # (d, N)
        K, Q = part["W_K"] @ Z + part["b_K"][:, None], part["W_Q"] @ Z + part["b_Q"][:, None]  # (d_head, N)
        score = K.T @ Q / len(K) ** 0.5  # (N, N): key i, query j
        allowed = {"attended": shown >= 0, "excluded": shown != 0, "unchosen": ~chosen}[model.mask_keys]
        weight = torch.exp(score) * torch.from_numpy(allowed.astype(float))[:, None]  # (N, N)
        A = weight / weight.sum(0) if allowed.any() else weight  # (N, N), columns sum to 1
        f = W_pred @ (part["W_V"] @ Z + part["b_V"][:, None]) @ A + part["b_pred"][:, None]  # (V+1, N)
        for j in np.flatnonzero(chosen):
            x = torch.eye(TOPICS.V + 1, dtype=torch.float64)[words[j]]
            if loss == "squared":
                total = total + ((f[:, j] - x) ** 2).sum()
            else:
                total = total - (x * torch.log_softmax(f[:, j], 0)).sum()
            number += 1
    return total / number


def on_counts(model, masked, loss, batch_size):
    total = sum(loss_sum(model(queries), queries.labels, loss) for queries in batches(masked, model, batch_size))
    return total / len(masked.label)


@rules
@losses
@pytest.mark.parametrize(
    ("trained", "d_head"),
    [
        (WEIGHTS, None),
        (WEIGHTS + BIASES, None),
        (WEIGHTS + BIASES, 2),
        (("W_E", *WEIGHTS), None),
        (("W_E", *WEIGHTS), 1),
        (("W_E", "W_pred", *WEIGHTS, *BIASES), 6),
        (("W_E",), None),
        (("W_V", "b_V", "b_pred"), None),
    ],
    ids=str,
)
def test_counts_equal_positions(trained, d_head, loss, rule):
    rng = np.random.default_rng(1)
    documents = token_documents(rng) + token_documents(rng, 3, (1, 1))  # the last have one position
    d = 4 if "W_E" in trained else None
    model = tl.TopicTransformer(TOPICS, trained, d=d, d_head=d_head, scale=0.8, mask_keys=rule, seed=3)
    with torch.no_grad():
        for name in set(BIASES) & set(trained):
            getattr(model, name).copy_(torch.from_numpy(rng.normal(size=getattr(model, name).shape)))
    parts = [getattr(model, name) for name in trained]
    slow = position_by_position(model, documents, loss)
    slow_gradients = torch.autograd.grad(slow, parts, allow_unused=True)
    masked = as_counts(documents)
    (queries,) = batches(masked, model, 100)
    assert (queries.keys.sum(1) == 0).any() == (rule != "attended")
    for batch_size in (1, 4, 100):
        fast = on_counts(model, masked, loss, batch_size)
        gradients = torch.autograd.grad(fast, parts, allow_unused=True)
        assert abs(fast - slow) < 1e-10
        for name, got, wanted in zip(trained, gradients, slow_gradients, strict=True):
            assert (got - wanted).abs().max() < 1e-10, name


def test_key_rules_differ():
    """The test above could not tell the rules apart if they gave the same loss."""
    documents = token_documents(np.random.default_rng(1))
    models = [tl.TopicTransformer(TOPICS, WEIGHTS, scale=0.8, mask_keys=rule, seed=3) for rule in KEY_RULES]
    losses = [position_by_position(model, documents, "squared") for model in models]
    assert all(abs(x - y) > 1e-3 for x, y in itertools.combinations(losses, 2)), losses


@rules
def test_uniform_attention_is_zero_scores(rule):
    """Leaving W_K and W_Q out is the same as giving zeros; only the batches differ (no query words)."""
    masked = as_counts(token_documents(np.random.default_rng(2), n=20))
    zeros = np.zeros((TOPICS.V + 1, TOPICS.V + 1))
    plain = tl.TopicTransformer(TOPICS, ("W_V",), mask_keys=rule, seed=5)
    scored = tl.TopicTransformer(TOPICS, ("W_V",), mask_keys=rule, seed=5, initial={"W_K": zeros, "W_Q": zeros})
    assert plain.uniform and not scored.uniform
    assert tl.evaluate(plain, masked) == pytest.approx(tl.evaluate(scored, masked), abs=1e-13)


def test_attention_rows_sum_to_one_and_need_a_key():
    hidden = (np.array([0, 0]), np.array([True, True]), np.array([1, 2]))
    visible = (np.array([0, 3, 4]), np.array([True, False, False]), np.array([1, 3, 4]))
    model = tl.TopicTransformer(TOPICS, WEIGHTS, mask_keys="excluded", scale=1.0)
    (queries,) = batches(as_counts([hidden, visible]), model, 10)
    assert model.attention(queries).sum(1).tolist() == pytest.approx([0, 1])
    assert torch.equal(model(queries)[0], model.b_pred), "a query without keys predicts the bias alone"


def test_huge_scores_pick_one_key():
    """Scores of which no exponential can be taken: all attention on the key of the highest one that is present."""
    scores = 1000.0 * np.arange(TOPICS.V + 1)[:, None] * np.ones(TOPICS.V + 1)
    initial = {"W_K": scores.T, "W_Q": (TOPICS.V + 1) ** 0.5 * np.eye(TOPICS.V + 1)}
    model = tl.TopicTransformer(TOPICS, ("W_V",), initial=initial, mask_keys="unchosen")
    documents = token_documents(np.random.default_rng(6), n=20, length=(3, 9))
    (queries,) = batches(as_counts(documents), model, 100)
    attention = model.attention(queries)
    some = queries.keys.sum(1)[queries.document] > 0
    highest = (queries.keys > 0).mul(torch.arange(TOPICS.V + 1)).amax(1)[queries.document]
    assert torch.equal(attention[some].argmax(1), highest[some]) and (attention[some].amax(1) == 1).all()
    (gradient,) = torch.autograd.grad(loss_sum(model(queries), queries.labels, "squared"), [model.W_V])
    assert gradient.isfinite().all()


def test_narrow_keys_and_queries_leave_the_other_parts_as_they_are():
    full, same, narrow = (tl.TopicTransformer(TOPICS, WEIGHTS, d_head=h, seed=3) for h in (None, TOPICS.V + 1, 2))
    assert narrow.W_K.shape == narrow.W_Q.shape == (2, TOPICS.V + 1)
    assert all(np.array_equal(full.numpy(name), same.numpy(name)) for name in WEIGHTS)
    others = [tl.TopicTransformer(TOPICS, ("W_V",), d_head=h, seed=3) for h in (2, 3)]
    assert all(np.array_equal(narrow.numpy("W_V"), other.numpy("W_V")) for other in others)


def test_neutral_parts():
    model = tl.TopicTransformer(TOPICS, ("b_pred",))
    identity = np.eye(TOPICS.V + 1)
    assert np.array_equal(model.numpy("W_E"), identity) and np.array_equal(model.numpy("W_V"), identity)
    assert not model.numpy("W_K").any() and not model.numpy("W_Q").any()
    assert [name for name, part in model.named_parameters() if part.requires_grad] == ["b_pred"]
    assert model.mask_keys == "attended" and model.uniform


@pytest.mark.parametrize(("options", "scale"), [({}, 0.02), ({"scale": 3.0}, 3.0), ({"scale": 3.0, "d_head": 50}, 3.0)])
def test_trained_matrices_start_at_the_scale_and_biases_at_0(options, scale):
    model = tl.TopicTransformer(tl.TopicModel(10, 10), WEIGHTS + BIASES, **options)
    assert all(model.numpy(name).std() == pytest.approx(scale, rel=0.05) for name in WEIGHTS)
    assert not any(model.numpy(name).any() for name in BIASES)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"trained": ("W_X",)}, "'W_X' is not a part of the model: choose among W_E, W_K"),
        ({"initial": {"W_O": 1}}, "'W_O' is not a part"),
        ({"mask_keys": "none"}, "mask_keys = 'none' is not allowed: choose one of attended, excluded, unchosen"),
        ({"d": 5}, "d = 5 is not allowed with one-hot words: d = V \\+ 1 = 7"),
        ({"initial": {"W_V": np.eye(3)}}, "W_V of shape \\(3, 3\\) is not allowed: \\(7, 7\\) is wanted"),
        ({"trained": ("W_E",), "d": 0}, "^d = 0 is not allowed"),
        ({"d_head": 0}, "d_head = 0 is not allowed"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        tl.TopicTransformer(TOPICS, **arguments)
    with pytest.raises(ValueError, match="loss = 'hinge' is not allowed: choose one of squared, cross-entropy"):
        loss_sum(torch.zeros(1, 2), torch.zeros(1, 2), "hinge")


@rules
@pytest.mark.parametrize("tau", [1, 2, 3])
def test_population_is_every_document_once(rule, tau):
    """Its loss is the Stage 2 loss in closed form, for attention of the two weights alpha, beta."""
    topics, masking = tl.TopicModel(3, 2), tl.Masking(0.3, 0.2, 0.1)
    batch = tl.population(topics, masking, tl.FixedTopics(tau), rule)
    assert batch.labels.sum().item() == pytest.approx(1, abs=1e-14)
    alpha, beta, d, value = 2.5, 7.0, topics.V + 1, (0.13, -0.71, 0.64, 0.26)
    same = topics.membership @ topics.membership.T > 0
    weights, W_V = np.where(same, alpha, 1.0), np.where(same, value[2], value[3])
    np.fill_diagonal(weights, beta)
    np.fill_diagonal(W_V, value[1])
    W_V[:, 0], W_V[0] = value[0], 0
    initial = {"W_V": W_V, "W_K": np.log(weights).T, "W_Q": d**0.5 * np.eye(d)}
    model = tl.TopicTransformer(topics, (), initial=initial, mask_keys=rule)
    loss = loss_sum(model(batch), batch.labels, "squared").item()
    assert loss == pytest.approx(tl.stage2_loss(alpha, beta, topics, tau, masking, value, rule), rel=1e-12)
