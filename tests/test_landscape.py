"""topiclib.landscape against full matrices over all topic sets, token by token attention, and a global search."""

from fractions import Fraction
from functools import partial
from inspect import signature
from itertools import product
from math import lcm
from timeit import repeat

import numpy as np
import pytest
from cases import HEAVY, NO_RANDOM, PAPER, rules
from scipy.optimize import minimize, minimize_scalar
from truth import key_frequencies, label_and_shown, topic_sets

from topiclib.data import KEY_RULES, Masking, TopicModel
from topiclib.landscape import bayes_loss, minimise_stage2, stage2_loss
from topiclib.theory import diagonal_optimum, stage1_optimum

UNEVEN, DRAWN, HIDDEN = Masking(0.5, 0.125, 0.25), Masking(0.3, 0.0, 0.2), Masking(0.25, 0.0, 0.0)
VALUES = ["block", "diagonal", (0.13, -0.71, 0.64, 0.26)]
DOCUMENTS = [(TopicModel(T, v), tau) for T, v in [(2, 1), (3, 2), (4, 3)] for tau in range(1, T + 1)]
WEIGHTS = [(0, 0), (0, 3), (0.7, 0), (2.5, 40), (300, 0.02)]
LARGE, SMALL = TopicModel(100, 300), TopicModel(3, 2)
pytestmark = pytest.mark.filterwarnings("error")
values = pytest.mark.parametrize("value", VALUES, ids=["block", "diagonal", "numbers"])
rates = pytest.mark.parametrize("masking", [PAPER, HEAVY, UNEVEN, NO_RANDOM, DRAWN, HIDDEN], ids=str)
papers_rates = pytest.mark.parametrize("masking", [PAPER, HEAVY], ids=str)

# The truth, from the definitions: no groups of words, no frequencies worked out by hand


def topic(word, v):
    """Topic 1..T of words 1..V, and 0 for [MASK]."""
    return np.ceil(np.asarray(word) / v)


def by_relation(rows, columns, v, same_word, same_topic, other):
    """The matrix that holds one of three numbers, by how the words of its row and column are related."""
    rows = np.asarray(rows)[:, None]
    return np.where(rows == columns, same_word, np.where(topic(rows, v) == topic(columns, v), same_topic, other))


def value_matrix(value, topics, masking):
    """The whole W_V, (V+1, V+1)."""
    if isinstance(value, str):
        return {"block": stage1_optimum, "diagonal": diagonal_optimum}[value](topics, masking)
    tokens = np.arange(topics.V + 1)
    W = by_relation(tokens, tokens, topics.v, *value[1:])
    W[:, 0], W[0] = value[0], 0
    return W


def expected_loss(W, alpha, beta, topics, theta, masking, rule):
    """The loss of infinite documents with these topics, summed over labels and words shown; NaN without a key."""
    (joint,), (keys,) = label_and_shown(theta, topics.v, masking), key_frequencies(theta, topics.v, masking, rule)
    tokens = np.arange(topics.V + 1)
    joint, shown = joint[:, joint.sum(0) > 0], tokens[joint.sum(0) > 0]
    A = keys[:, None] * by_relation(tokens, shown, topics.v, beta, alpha, 1.0)
    if not A.sum(0).all():
        return np.nan
    f = W @ (A / A.sum(0))
    return 1 + (joint * ((f**2).sum(0) - 2 * f)).sum()


def token_loss(W, alpha, beta, topics, document, masking, rule):
    """The loss of one finite document whose masked word frequencies are exactly the infinite one's, by equation 5."""
    p_m, p_c, p_r = (Fraction(str(p)) for p in (masking.p_m, masking.p_c, masking.p_r))
    shares = {"unchosen": 1 - p_m, "kept": p_m * p_c, "drawn": p_m * p_r / topics.V, "mask": p_m * (1 - p_c - p_r)}
    n, tokens = lcm(*(share.denominator for share in shares.values())), []
    for word in range(1, topics.V + 1):
        if topic(word, topics.v) in document:
            fates = [(word, False, "unchosen"), (word, True, "kept"), (0, True, "mask")]
            fates += [(drawn, True, "drawn") for drawn in range(1, topics.V + 1)]
            for shown, chosen, fate in fates:
                tokens += [(word, shown, chosen)] * int(n * shares[fate])
    label, shown, chosen = np.array(tokens).T
    assert len(tokens) == n * topics.v * len(document) <= 1000
    A = by_relation(shown, shown, topics.v, beta, alpha, 1.0)  # (N, N)
    A *= {"attended": shown >= 0, "excluded": shown > 0, "unchosen": chosen == 0}[rule][:, None]
    words = np.eye(topics.V + 1)
    f = W @ words[:, shown] @ (A / A.sum(0))
    return ((f - words[:, label]) ** 2).sum(0)[chosen == 1].mean()


def search(loss):
    """The least loss over alpha, beta >= 0: a fine grid, then a simplex let loose from its two best valleys."""

    def at(a, b):
        return loss(10.0**a - 1e-9, 10.0**b - 1e-9 + 1e-14)  # 0 to 1e10, not both 0

    x = np.linspace(-9, 10, 191)
    L = at(x[:, None], x)
    padded = np.pad(L, 1, constant_values=np.inf)
    around = [padded[1 + i : 192 + i, 1 + j : 192 + j] for i, j in product((-1, 0, 1), repeat=2)]
    valleys, best = np.argwhere(np.min(around, axis=0) >= L), L.min()
    for i, j in valleys[np.argsort(L[tuple(valleys.T)])[:2]]:
        options = {"xatol": 1e-3, "fatol": 1e-14, "initial_simplex": x[[[i, j], [i, j - 1], [i - 1, j]]]}
        result = minimize(lambda u: at(*u), x[[i, j]], method="Nelder-Mead", bounds=[(-9, 10)] * 2, options=options)
        best = min(best, result.fun)
    return best


def settings(number):
    """(topics, tau, masking, value, rule): every value with every rule, often v = 1, tau = 1 or T, a rate of zero."""
    rng = np.random.default_rng(5)
    for n in range(number):
        topics = TopicModel(int(rng.choice([2, 3, 10, 100])), int(rng.choice([1, 2, 10, 300])))
        tau = int(rng.choice([1, 2, topics.T, rng.integers(1, topics.T + 1)]))
        p_m, p_c, p_r = rng.choice([0.05, 0.15, 0.8]), *rng.choice([0, 0.1, 0.4], 2, p=[0.15, 0.5, 0.35])
        W = (rng.normal() / topics.V, rng.uniform(1.3, 3), rng.uniform(0, 0.5), rng.normal() / topics.V)
        value = ["block", "diagonal", tuple(round(float(w), 4) for w in W)][n % 3]
        yield topics, tau, Masking(float(p_m), float(p_c), float(p_r)), value, KEY_RULES[n // 3 % 3]


@rules
@values
@rates
def test_loss_is_the_expectation_over_all_topic_sets(rule, value, masking):
    for (topics, tau), (alpha, beta) in product(DOCUMENTS, WEIGHTS):
        W, sets = value_matrix(value, topics, masking), topic_sets(topics.T, tau)
        expected = np.mean([expected_loss(W, alpha, beta, topics, theta[None], masking, rule) for theta in sets])
        if np.isnan(expected):
            with pytest.raises(ValueError, match="alpha = beta = 0 is not allowed here"):
                stage2_loss(alpha, beta, topics, tau, masking, value, rule)
        else:
            assert stage2_loss(alpha, beta, topics, tau, masking, value, rule) == pytest.approx(expected, abs=1e-12)


@rules
@values
@pytest.mark.parametrize("masking", [HEAVY, UNEVEN, HIDDEN], ids=str)
@pytest.mark.parametrize(("topics", "document"), [(TopicModel(3, 2), (1, 3)), (TopicModel(2, 3), (2,))], ids=str)
def test_loss_is_that_of_a_finite_document_token_by_token(topics, document, masking, value, rule):
    W, tau = value_matrix(value, topics, masking), len(document)
    for alpha, beta in [(0.7, 0), (2.5, 40)]:
        expected = token_loss(W, alpha, beta, topics, document, masking, rule)
        assert stage2_loss(alpha, beta, topics, tau, masking, value, rule) == pytest.approx(expected, abs=1e-12)


@rules
@rates
def test_same_gamma_same_loss_for_the_block_unless_masks_are_attended(rule, masking):
    beta = np.linspace(0, 15, 7)
    block, diagonal = (stage2_loss((15 - beta) / 4, beta, TopicModel(4, 5), 2, masking, W, rule) for W in VALUES[:2])
    assert (np.ptp(block) < 1e-14) == (rule != "attended")
    assert np.ptp(diagonal) > 1e-5 or masking is HIDDEN


@rules
@values
def test_weights_and_tau_broadcast(rule, value):
    alpha, beta, tau, topics = np.array([[0.5], [2], [0]]), [1, 3, 0.2, 7], np.array([[[1]], [[3]]]), TopicModel(4, 3)
    loss, bayes = stage2_loss(alpha, beta, topics, tau, PAPER, value, rule), bayes_loss(topics, tau, PAPER)
    assert loss.shape == (2, 3, 4) and bayes.shape == (2, 1, 1)
    for i, j, k in np.ndindex(loss.shape):
        one = stage2_loss(alpha[j, 0], beta[k], topics, int(tau[i, 0, 0]), PAPER, value, rule)
        assert np.ndim(one) == 0 and one == pytest.approx(loss[i, j, k], rel=1e-15)
        assert bayes_loss(topics, int(tau[i, 0, 0]), PAPER) == bayes[i, 0, 0]


@pytest.mark.parametrize(
    ("topics", "tau", "masking", "value", "rule"),
    [*settings(27), (TopicModel(10, 2), 1, HEAVY, "diagonal", "unchosen")],
)
def test_minimum_against_a_global_search(topics, tau, masking, value, rule):
    def loss(alpha, beta):
        return stage2_loss(alpha, beta, topics, tau, masking, value, rule)

    alpha, beta, gamma, least = minimise_stage2(topics, tau, masking, value, rule)
    assert min(alpha, beta) >= 0 and gamma == pytest.approx(((topics.v - 1) * alpha + beta) / topics.v, rel=1e-14)
    assert least == pytest.approx(loss(alpha, beta), rel=1e-14, abs=1e-15)
    assert least <= search(loss) * (1 + 1e-9) + 1e-13
    assert alpha == beta or (topics.v > 1 and (value != "block" or rule == "attended"))
    for size in (1e-5, 1e-3, 0.1):  # no neighbour is better; of 0, the neighbours inside
        near = [[w * (1 - size), w, w * (1 + size)] if w else [0, size, size**2] for w in (alpha, beta)]
        assert loss(np.array(near[0])[:, None], near[1]).min() > least * (1 - 1e-14) - 1e-15
    for along in (lambda h: loss(alpha * np.exp(h), beta), lambda h: loss(alpha, beta * np.exp(h))):
        assert (along(1e-4) - along(-1e-4)) / 2e-4 == pytest.approx(0, abs=1e-8 * max(1, least))


@pytest.mark.parametrize(
    ("masking", "tau", "value", "rule", "expected"),
    [
        (PAPER, 20, "block", "excluded", {"gamma": "53.304076", "loss": "0.99960517944"}),
        (PAPER, 20, "diagonal", "excluded", {"alpha": "0", "beta": "14918.4790", "loss": "0.91652488083"}),
        (PAPER, 20, "block", "attended", {"beta": "1.000000", "gamma": "58.641"}),
        (HEAVY, 80, "block", "excluded", {"gamma": "52.85"}),
        (HEAVY, 40, "diagonal", "excluded", {"beta": "12474"}),
        (HEAVY, 60, "diagonal", "excluded", {"beta": "14326"}),
        (HEAVY, 80, "diagonal", "excluded", {"beta": "15371"}),
    ],
)
def test_minimum_in_numbers(masking, tau, value, rule, expected):
    minimum = minimise_stage2(LARGE, tau, masking, value, rule)
    for name, number in expected.items():
        assert f"{getattr(minimum, name):.{len(number.partition('.')[2])}f}" == number


def test_alpha_of_the_diagonal_optimum():
    """With excluded keys 0 for middling tau only: it rises to 1 at tau = T, where no word is outside the document."""
    alpha = {tau: minimise_stage2(LARGE, tau, PAPER, "diagonal").alpha for tau in (7, 8, 20, 80, 90, 99, 100)}
    assert alpha[8] == alpha[20] == alpha[80] == 0
    assert 0.1 < alpha[7] < 1 and 0 < alpha[90] < alpha[99] < 1 and alpha[100] == pytest.approx(1, abs=1e-9)
    minimum = minimise_stage2(TopicModel(10, 10), 2, PAPER, "diagonal")
    forced = stage2_loss(0, np.geomspace(1, 1e3, 10**4), TopicModel(10, 10), 2, PAPER, "diagonal").min()
    assert round(minimum.alpha, 2) == 0.98 and f"{forced - minimum.loss:.1e}" == "4.8e-04"


@pytest.mark.parametrize("masking", [PAPER, HEAVY, NO_RANDOM, DRAWN, Masking(1e-4, 0.1, 0.0)], ids=str)
@pytest.mark.parametrize("value", ["block", "diagonal"])
@pytest.mark.parametrize(("T", "v", "tau"), [(100, 300, 20), (100, 10, 1), (10, 10, 10), (3, 2, 2)])
def test_minimum_in_closed_form_when_keys_are_unchosen(T, v, tau, value, masking):
    if tau == 1 and value == "block":
        pytest.skip("one topic, no word told from another: any gamma will do")
    number, choices = (tau, T) if value == "block" else (tau * v, T * v)
    certainty = (masking.p_c + masking.p_r / choices) / (masking.p_c + masking.p_r * tau / T)
    x = 1 / number + masking.a * (certainty - 1 / number)
    beta = (number - 1) * x / (1 - x)
    alpha = beta if value == "block" else 1
    minimum = minimise_stage2(TopicModel(T, v), tau, masking, value, "unchosen")
    loss = stage2_loss(alpha, beta, TopicModel(T, v), tau, masking, value, "unchosen")
    assert minimum.loss == pytest.approx(loss, rel=1e-12)
    np.testing.assert_allclose(minimum[:2], (alpha, beta), rtol=1e-5)  # with one topic only the ratio matters: 1, beta


@papers_rates
@pytest.mark.parametrize("v", [2, 10, 300])
def test_limit_of_many_topics_few_of_them_in_a_document(masking, v):
    """tau = sqrt(T): losses and weights near their limits at the rate 1/tau, and alpha is o(tau)."""
    slope, off = (1 - masking.mu) / masking.a / (1 / masking.a - 1), []
    for tau in (10**3, 10**4, 10**5):
        topics = TopicModel(tau**2, v)
        block, diagonal = (minimise_stage2(topics, tau, masking, value) for value in ("block", "diagonal"))
        losses = [block.loss - (1 - masking.p_c / v), diagonal.loss - (1 - masking.p_c)]
        off.append([*losses, block.gamma / tau / slope - 1, diagonal.beta / tau / v / slope - 1])
    assert np.abs(off[-1]).max() < 1e-4 and diagonal.alpha < 1
    np.testing.assert_allclose(np.divide(off[1:], off[:-1]), 0.1, rtol=0.1)


@papers_rates
@pytest.mark.parametrize("rho", [0.05, 0.2, 0.5, 0.9])
def test_limit_of_many_topics_a_share_rho_of_them_in_a_document(masking, rho):
    p_c, p_r, noise, c4 = masking.p_c, masking.p_r, masking.p_m * masking.p_r, 1 / masking.a
    K1, K2 = rho * (1 - masking.mu) / (masking.a + noise * rho), (1 - masking.mu) / noise

    def limit(u):
        x, y = 1 / (1 + K1 * np.exp(-u)), 1 / (1 + K2 * np.exp(-u))
        return -2 * c4 * p_c * x + c4**2 * ((p_c + p_r * rho) * x**2 + p_r * (1 - rho) * y**2)

    g = np.exp(minimize_scalar(limit, bounds=(-10, 10), method="bounded", options={"xatol": 1e-10}).x)
    for T in (10**4, 10**6):
        assert minimise_stage2(TopicModel(T, 10), round(rho * T), masking).gamma / T == pytest.approx(g, rel=8 / T)
    m1 = p_c / (c4 * (p_c + p_r * rho))
    assert 1e-4 < K1 * m1 / (1 - m1) / g - 1 < 0.016


@rates
def test_bayes_loss_is_that_of_the_posterior(masking):
    for topics, tau in DOCUMENTS:
        (joint,) = label_and_shown(topic_sets(topics.T, tau)[:1], topics.v, masking)
        joint = joint[:, joint.sum(0) > 0]
        assert bayes_loss(topics, tau, masking) == pytest.approx(1 - (joint**2 / joint.sum(0)).sum(), abs=1e-12)
    assert bayes_loss(TopicModel(9, 1), 1, masking) == pytest.approx(0, abs=1e-15)


def test_bayes_loss_is_below_every_stage2_loss():
    weights = np.array([0, 0.3, 1, 4, 50, 1e3, 1e5])
    for topics, tau, masking, value, rule in settings(200):
        least = stage2_loss(weights[:, None], weights[1:], topics, tau, masking, value, rule).min()
        assert bayes_loss(topics, tau, masking) <= least + 1e-14
    diagonal, block = (minimise_stage2(LARGE, 20, PAPER, value).loss for value in ("diagonal", "block"))
    assert f"{diagonal - bayes_loss(LARGE, 20, PAPER):.1e}" == "1.1e-05"  # nearly reached
    assert f"{stage2_loss(1, 1, LARGE, 20, PAPER) - block:.5f}" == "0.00026"  # the block's gain over uniform attention


def test_cost_does_not_grow_with_the_model():
    """A 400 x 400 grid, at V = 100 and at V = 3e8, where one vector over the words would take 2.4 GB."""
    alpha, beta = np.linspace(0, 9, 400)[:, None], np.linspace(1, 900, 400)

    def seconds(topics):
        call = partial(stage2_loss, alpha, beta, topics, 5, PAPER, "diagonal", "attended")
        return min(repeat(call, number=1, repeat=7))

    small, large = seconds(TopicModel(10, 10)), seconds(TopicModel(10**6, 300))
    assert max(small, large) < 0.2 and large < 3 * small + 0.01


BAD = {
    "alpha": [-1, -1e-300, np.nan, np.inf, "x", "3", None, [1, -1]],
    "beta": [-1, np.nan, -np.inf, "x", "3", None, [0, np.nan]],
    "tau": [0, 4, -1, 1.5, np.nan, np.inf, "x", "2", None, [1, 4], [2, 2.5]],
    "value": ["Block", None, 3, (1, 2, 3), (1, 2, 3, 4, 5), [[1, 2, 3, 4]], (1, 2, 3, np.inf), tuple("1234")],
    "mask_keys": ["Excluded", None, 0],
}


@pytest.mark.parametrize(("name", "bad"), [(name, bad) for name in BAD for bad in BAD[name]], ids=repr)
def test_impossible_arguments(name, bad):
    arguments = {"alpha": 1, "beta": 1, "topics": SMALL, "tau": 2, "masking": PAPER, name: bad}
    for call in (stage2_loss, minimise_stage2, bayes_loss):
        known = signature(call).parameters.keys() & arguments.keys()
        if name in known:
            with pytest.raises(ValueError, match=rf"{name} = .* is not allowed"):
                call(**{key: arguments[key] for key in known})
    with pytest.raises(ValueError, match=r"tau = \[1, 2\] is not allowed"):
        minimise_stage2(SMALL, [1, 2], PAPER)


def test_no_key_left():
    weights = np.array([0.0, 1.0])
    for tau, masking, rule in product((1, 2), (PAPER, HIDDEN), KEY_RULES):
        if (tau, masking, rule) != (1, PAPER, "unchosen"):
            assert np.isfinite(stage2_loss(weights, weights, SMALL, tau, masking, "block", rule)).all()
    with pytest.raises(ValueError, match="alpha = beta = 0 is not allowed here"):
        stage2_loss(weights, weights, SMALL, 1, PAPER, "block", "unchosen")
    with pytest.raises(ValueError, match="p_m = 1 is not allowed with unchosen keys"):
        stage2_loss(1, 1, SMALL, 2, Masking(1, 0.3, 0.2), "block", "unchosen")


def test_no_minimum():
    """Predictions of .01 at most: never enough attention. A valley where alpha and beta grow together for ever."""
    for arguments in (
        (SMALL, 2, NO_RANDOM, (0, 0.01, 0, 0), "unchosen"),
        (TopicModel(3, 10), 3, HEAVY, (-0.02616, 1.37307, -0.09614, 0.00688)),
    ):
        with pytest.raises(ValueError, match="no minimum"):
            minimise_stage2(*arguments)


@pytest.mark.parametrize("rule", ["excluded", "unchosen"])
def test_no_attention_to_the_own_topic_where_it_says_another_word(rule):
    assert minimise_stage2(SMALL, 2, NO_RANDOM, (0, -0.01, -0.01, 0), rule)[:3] == (0, 0, 0)


@rules
def test_where_no_word_is_ever_a_query(rule):
    """alpha does not matter; beta only to [MASK], and a block wants uniform attention there."""
    minimum = minimise_stage2(TopicModel(10, 10), 2, HIDDEN, "block", rule)
    assert minimum[:3] == pytest.approx((1, 1, 1), abs=1e-9)
