"""Speed against what one would write otherwise: `python -m pytest tests/benchmarks -n 0`, not among the default tests.

Times are processor seconds of one thread, so that other programs on the machine matter little. The two sides of a row
take turns in one run; their medians are compared, a first turn does not count. A slow side does part of the work and is
scaled up; the table says which part.
"""

import multiprocessing
import resource
import sys
from time import process_time

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM

import topiclib as tl
from topiclib.data import MaskedDocuments
from topiclib.model import batches, loss_sum

TOPICS, MASKING, MIXTURE, LENGTH = tl.TopicModel(), tl.Masking(), tl.DirichletTopics(), (100, 150)
DOCUMENTS, BATCH = 10_000, 40
STEPS = DOCUMENTS // BATCH  # in an epoch
PAD = TOPICS.V + 1
TRAINED = {"uniform": ("W_V",), "attention": ("W_V", "W_K", "W_Q")}


def turns(*sides, rounds=7):
    """Median processor seconds of each function."""
    taken = []
    for _ in range(rounds + 1):
        taken.append([])
        for side in sides:
            start = process_time()
            side()
            taken[-1].append(process_time() - start)
    return np.median(taken[1:], axis=0)


def three_digits(x):
    return f"{x:>10,.0f}" if x >= 100 else f"{x:>#10.3g}"


@pytest.fixture
def table(record_property):
    """A function that adds a row to the table and returns the ratio."""

    def add(work, ours, other, theirs, part=""):
        numbers = f"{three_digits(theirs)} s{three_digits(theirs / ours)} times   {part}".rstrip()
        record_property("row", f"{work:30}{three_digits(ours)} s   {other:46}{numbers}")
        return theirs / ours

    return add


@pytest.fixture(scope="module")
def documents():
    return tl.sample_documents(TOPICS, DOCUMENTS, MIXTURE, LENGTH, np.random.default_rng(0))


# Growth comes first, while the process is small: the memory that it holds would not be seen as needed.


def cost(documents, length, v, T):
    """Seconds to sample documents and of an epoch of each kind, and their peak of memory in MB, after a warm-up."""
    topics, rng = tl.TopicModel(T, v), np.random.default_rng(0)

    def run(n):
        start = process_time()
        sampled = tl.sample_documents(topics, n, MIXTURE, length, rng)
        yield process_time() - start
        for trained in TRAINED.values():
            start = process_time()
            tl.train(tl.TopicTransformer(topics, trained), sampled, MASKING, epochs=1, learning_rate=0.01)
            yield process_time() - start

    list(run(BATCH))
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = list(run(documents))
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return *seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held) / unit


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_growth(record_property):
    usual = {"documents": DOCUMENTS, "length": LENGTH, "v": TOPICS.v, "T": TOPICS.T}
    sizes = {"documents": (5_000, 10_000, 20_000, 40_000), "length": (30, 60, 120, 240, 480)}
    sizes |= {"v": (5, 10, 20, 40), "T": (5, 10, 20, 40)}
    peak = {}
    record_property("row", f"\n{'':18}{'sampling':>12}{'uniform':>12}{'attention':>12}{'memory':>12}")
    for name, values in sizes.items():
        for value in values:
            with multiprocessing.get_context("fork").Pool(1) as pool:
                *seconds, peak[name, value] = pool.apply(cost, kwds=usual | {name: value})
            times = "".join(f"{s:>10.3f} s" for s in seconds)
            record_property("row", f"{name:10}{value:>8,}{times}{peak[name, value]:>9.0f} MB")
    record_property("row", "")
    assert peak["documents", 40_000] < 10 * peak["documents", 5_000]
    assert peak["length", 480] < 4 * peak["length", 30]


def test_sampling(table):
    """Each word drawn by numpy.random.choice: a topic by theta, a word by the topic."""
    part, rng = 20, np.random.default_rng(0)
    word_given_topic = TOPICS.membership.T / TOPICS.v

    def word_by_word():
        for _ in range(part):
            theta = rng.dirichlet(np.full(TOPICS.T, MIXTURE.alpha))
            for _ in range(np.random.randint(LENGTH[0], LENGTH[1] + 1)):  # noqa: NPY002
                topic = np.random.choice(TOPICS.T, p=theta)  # noqa: NPY002
                np.random.choice(TOPICS.V + 1, p=word_given_topic[topic])  # noqa: NPY002

    ours, theirs = turns(lambda: tl.sample_documents(TOPICS, DOCUMENTS, MIXTURE, LENGTH, rng), word_by_word)
    theirs *= DOCUMENTS / part
    assert table("10,000 documents", ours, "numpy.random.choice, word by word", theirs, f"{part} documents") >= 1000


def padded(documents):
    """Documents as words in random order, filled up with PAD, (n, longest)."""
    words = [torch.from_numpy(np.repeat(np.arange(TOPICS.V + 1), counts)) for counts in documents.counts]
    words = [w[torch.randperm(len(w))] for w in words]
    return torch.nn.utils.rnn.pad_sequence(words, batch_first=True, padding_value=PAD)


def masked_words(words):
    """What is shown, and the words to predict, -100 at positions that were not chosen; (n, longest) each."""
    chosen = (torch.rand(words.shape) < MASKING.p_m) & (words != PAD)
    fate = torch.rand(words.shape)
    shown = torch.where(chosen & (fate >= MASKING.p_c), torch.randint(1, TOPICS.V + 1, words.shape), words)
    shown = torch.where(chosen & (fate >= MASKING.p_c + MASKING.p_r), tl.MASK, shown)
    return shown, torch.where(chosen, words, -100)


def bert_loss():
    """The BERT of `transformers` with one layer and head, as wide as the paper's one-hot model, and its loss."""
    config = BertConfig(
        vocab_size=TOPICS.V + 2,
        hidden_size=TOPICS.V + 1,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=4 * (TOPICS.V + 1),  # BERT's own proportion
        max_position_embeddings=LENGTH[1],
        pad_token_id=PAD,
    )
    bert = BertForMaskedLM(config).train()

    def loss(shown, labels):
        return bert(input_ids=shown, attention_mask=(shown != PAD).long(), labels=labels).loss

    return list(bert.parameters()), loss


def position_loss(model, dtype=torch.float32):
    """Equations 4 to 6 position by position, N x N attention, with copies of the count model's parts, and its loss."""
    parts = [model.W_K, model.W_Q, model.W_V]
    W_K, W_Q, W_V = (part.detach().to(dtype).requires_grad_(part.requires_grad) for part in parts)

    def loss(shown, labels):
        Z = torch.nn.functional.one_hot(shown, TOPICS.V + 2)[..., :-1].to(dtype)  # (B, N, V+1)
        scores = (Z @ W_Q.T) @ (Z @ W_K.T).transpose(1, 2) / model.d**0.5  # (B, N, N): query, key
        A = torch.softmax(scores.masked_fill((shown == PAD)[:, None], -torch.inf), dim=2)  # (B, N, N)
        f = A @ (Z @ W_V.T)  # (B, N, V+1)
        return torch.nn.functional.cross_entropy(f.flatten(0, 1), labels.flatten())

    return [part for part in (W_K, W_Q, W_V) if part.requires_grad], loss


def steps(parts, loss, words, number):
    """A function that does so many steps of SGD, with fresh masks."""
    update = torch.optim.SGD(parts, lr=0.1)

    def run():
        for batch in words[: number * BATCH].split(BATCH):
            update.zero_grad()
            loss(*masked_words(batch)).backward()
            update.step()

    return run


def as_counts(shown, labels):
    """The same masked documents as counts."""
    document, position = torch.nonzero(labels >= 0, as_tuple=True)
    order = np.lexsort((shown[document, position], document))
    query, label = (x[document, position].numpy()[order] for x in (shown, labels))
    keys, chosen, predicted = (
        np.array([np.bincount(row[row >= 0], minlength=PAD + 1)[:PAD] for row in rows.numpy()])
        for rows in (shown, torch.where(labels >= 0, shown, -100), labels)
    )
    return MaskedDocuments(keys, chosen, predicted, document.numpy()[order], query, label)


@pytest.mark.parametrize("kind, wanted", [("uniform", 60), ("attention", 25)])
def test_epoch(table, documents, kind, wanted):
    """Against a small BERT, which trains all its parts, and against the same parts trained position by position."""
    torch.manual_seed(0)
    model = tl.TopicTransformer(TOPICS, TRAINED[kind])
    words = padded(documents[:200])
    shown, labels = masked_words(words)
    by_position = position_loss(model, torch.float64)[1](shown, labels).item()
    assert abs(by_position - tl.evaluate(model, as_counts(shown, labels), "cross-entropy")) < 1e-12

    bert_steps, position_steps = 2, 5
    options = {"loss": "cross-entropy", "epochs": 1, "batch_size": BATCH, "learning_rate": 0.1}
    ours, bert, position = turns(
        lambda: tl.train(model, documents, MASKING, **options),
        steps(*bert_loss(), words, bert_steps),
        steps(*position_loss(model), words, position_steps),
    )
    work, of = f"an epoch, {kind}", f"of {STEPS} steps"
    position *= STEPS / position_steps
    table(work, ours, "the same in torch, N x N attention, float32", position, f"{position_steps} {of}")
    assert table(work, ours, "one-layer BERT, float32", bert * STEPS / bert_steps, f"{bert_steps} {of}") >= wanted


def test_direct_solution(table, documents):
    """The exact optimum of the corpus, against training until its matrix is within 5%."""
    optimum, trained = [], []

    def solve():
        optimum.append(tl.corpus_optimum(tl.corpus_moments(documents.counts, MASKING), 1e-3))

    def train():
        trained.append(tl.TopicTransformer(TOPICS))
        tl.train(trained[-1], documents, MASKING, learning_rate=3, epochs=5, weight_decay=1e-3, decay="linear")

    ours, theirs = turns(solve, train, rounds=3)
    distance = tl.relative_distance(trained[0].numpy("W_V"), optimum[0])
    assert distance < 0.05
    table("optimum of 10,000 documents", ours, f"5 epochs of SGD on counts, still {distance:.1%} off", theirs)


def test_landscape(table):
    """A grid of attention weights, against the sum over all sets of topics, query words and labels at each point."""
    tau, points, value = 2, 400, tl.stage1_optimum(TOPICS, MASKING)
    weights = np.linspace(0.1, 40, points)
    population = tl.population(TOPICS, MASKING, tl.FixedTopics(tau), "excluded")
    same_topic = TOPICS.membership @ TOPICS.membership.T > 0
    grid, enumerated = [], []

    def enumerate_all(alpha=weights[7], beta=weights[300]):
        attention = np.where(same_topic, alpha, 1.0)
        np.fill_diagonal(attention, beta)
        initial = {"W_V": value, "W_K": np.log(attention).T, "W_Q": PAD**0.5 * np.eye(PAD)}
        model = tl.TopicTransformer(TOPICS, (), initial=initial, mask_keys="excluded")
        enumerated.append(loss_sum(model(population), population.labels, "squared").item())

    def formula():
        grid.append(tl.stage2_loss(weights[:, None], weights, TOPICS, tau, MASKING))

    ours, theirs = turns(formula, enumerate_all)
    assert abs(grid[0][7, 300] - enumerated[0]) < 1e-12
    other = "sum over all topic sets, queries and labels"
    table("landscape, 400 x 400 points", ours, other, theirs * points**2, "1 point")


def test_gradient(table, documents):
    """Autograd against the least that one gradient needs: the formula by hand, on tensors made ready, in place.

    That is six matrix products (three of P x V x V for f and its gradients in W_V and A, three of V x V x V for S and
    its gradients in W_K and W_Q), one softmax, and one pass over (P, V+1) for every other operation. It does without
    the value of the loss, documents without keys, and the logarithms and sums of counts.
    """
    model = tl.TopicTransformer(TOPICS, TRAINED["attention"], scale=0.3)
    parts = [model.W_K, model.W_Q, model.W_V]
    W_K, W_Q, W_V = (part.detach() for part in parts)
    masked = tl.mask_documents(documents[: 50 * BATCH], MASKING, np.random.default_rng(1))
    problems = [(q, q.keys.log(), q.labels.sum(1, keepdim=True)) for q in batches(masked, model, BATCH)]

    def autograd(queries, *_):
        return torch.autograd.grad(loss_sum(model(queries), queries.labels, "squared") / queries.labels.sum(), parts)

    def by_hand(queries, log_keys, number):
        S = (W_Q.T @ W_K).div_(model.d**0.5)  # (V+1, V+1): query, key
        logits = S.index_select(0, queries.query).add_(log_keys.index_select(0, queries.document))  # (P, V+1)
        A = torch.softmax(logits, dim=1)  # (P, V+1)
        df = (A @ W_V.T).mul_(number).sub_(queries.labels).mul_(2 / number.sum())  # (P, V+1)
        dA = (df @ W_V).mul_(A)  # (P, V+1)
        dA.addcmul_(A, dA.sum(1, keepdim=True), value=-1)
        dS = torch.zeros_like(S).index_add_(0, queries.query, dA).div_(model.d**0.5)  # (V+1, V+1)
        return W_Q @ dS, W_K @ dS.T, df.T @ A

    def products(queries, log_keys, number):
        P = queries.labels
        return P @ W_V.T, P @ W_V, P.T @ P, W_Q.T @ W_K, W_Q @ W_K, W_K @ W_Q.T

    for got, wanted in zip(autograd(*problems[0]), by_hand(*problems[0]), strict=True):
        assert (got - wanted).abs().max() < 1e-14
    sides = [lambda f=f: [f(*problem) for problem in problems] for f in (autograd, by_hand, products)]
    ours, least, matrices = turns(*sides, rounds=15)
    gradients = f"{len(problems)} gradients, attention"
    table(gradients, ours, "their matrix products alone", matrices)
    assert table(gradients, ours, "the formula by hand, in place", least) >= 1 / 2.5
