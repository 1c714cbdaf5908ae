"""What is read off a matrix, and how a figure is saved."""

import numpy as np
import pytest

import topiclib as tl
from topiclib.measure import attention_by_relation

TOPICS = tl.TopicModel(T=3, v=4)


def test_block_statistics_by_hand():
    W = np.random.default_rng(0).normal(size=(13, 13))
    got = tl.block_statistics(W, TOPICS.topic_of)
    same, different, diagonal = [], [], []
    for i in range(1, 13):
        for j in range(1, 13):
            kind = diagonal if i == j else same if (i - 1) // 4 == (j - 1) // 4 else different
            kind.append(W[i, j])
    wanted = (np.mean(diagonal), np.mean(same), np.mean(different), W[1:, 0].mean())
    assert got == pytest.approx(wanted)
    assert got.contrast == pytest.approx(wanted[1] - wanted[2]) and got.excess == pytest.approx(wanted[0] - wanted[1])


def test_block_statistics_leaves_out_words_without_a_topic():
    W = np.ones((13, 13))
    W[:, 5] = W[5, :] = 100
    topic_of = TOPICS.topic_of.copy()
    topic_of[5] = -1
    assert tl.block_statistics(W, topic_of)[:3] == (1, 1, 1)


def test_block_statistics_wants_one_row_a_token():
    with pytest.raises(ValueError, match=r"W of shape \(20, 20\) is not allowed: a row and a column for each token"):
        tl.block_statistics(np.eye(20), TOPICS.topic_of)


def test_no_same_topic_pair_is_nan():
    assert np.isnan(tl.block_statistics(np.eye(4), tl.TopicModel(3, 1).topic_of).same_topic)


def test_shuffled_topics_keep_sizes_and_lose_the_blocks():
    topics = tl.TopicModel()
    W = tl.stage1_optimum(topics, tl.Masking())
    shuffled = tl.shuffle_topics(topics.topic_of, np.random.default_rng(0))
    assert shuffled[0] == -1 and np.array_equal(np.bincount(shuffled[1:]), np.full(10, 10))
    contrast = tl.block_statistics(W, topics.topic_of).contrast
    assert abs(tl.block_statistics(W, shuffled).contrast) < 0.1 * contrast


def attention_pair_by_pair(model, keys, queries, topic_of):
    """Mean N A_ij by relation from the explicit attention matrix of every document; keys, queries: lists of words."""
    scores = model.scores().detach().numpy()
    found = {"same word": [], "same topic": [], "different": []}
    for key_words, query_words in zip(keys, queries, strict=True):
        if len(key_words) == 0:
            continue
        A = np.exp(scores[np.ix_(key_words, query_words)])
        A /= A.sum(axis=0)  # every column of the attention matrix sums to 1
        for i, key in enumerate(key_words):
            for j, query in enumerate(query_words):
                if min(topic_of[key], topic_of[query]) < 0:
                    continue
                same = topic_of[key] == topic_of[query]
                relation = "same word" if key == query else "same topic" if same else "different"
                found[relation].append(len(key_words) * A[i, j])
    return [np.mean(values) if values else np.nan for values in found.values()]


def words_of(counts):
    return [np.repeat(np.arange(len(row)), row) for row in counts]


@pytest.mark.parametrize("mask_keys", ["attended", "excluded", "unchosen"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shuffled", [False, True])
def test_attention_by_relation_is_the_mean_over_all_pairs(mask_keys, masked, shuffled):
    rng = np.random.default_rng(0)
    documents = tl.sample_documents(TOPICS, 12, tl.FixedTopics(2), (1, 9), rng)
    model = tl.TopicTransformer(TOPICS, ("W_K", "W_Q", "b_K", "b_Q"), scale=1.5, mask_keys=mask_keys)
    topic_of = tl.shuffle_topics(TOPICS.topic_of, rng) if shuffled else TOPICS.topic_of
    if masked:
        documents = tl.mask_documents(documents, tl.Masking(0.5, 0.3, 0.3), rng)
        queries = documents.keys
        keys = queries - documents.chosen if mask_keys == "unchosen" else queries.copy()
        if mask_keys == "excluded":
            keys[:, tl.MASK] = 0
        assert mask_keys == "attended" or (keys.sum(axis=1) == 0).any(), "a document without keys is among them"
    else:
        keys = queries = documents.counts
    wanted = attention_pair_by_pair(model, words_of(keys), words_of(queries), topic_of)
    got = attention_by_relation(model, documents, topic_of)
    assert got == pytest.approx(wanted, rel=1e-12, nan_ok=True)
    assert got.ratio == pytest.approx(wanted[1] / wanted[2], rel=1e-12)


def test_uniform_attention_is_one():
    documents = tl.sample_documents(TOPICS, 30, tl.FixedTopics(2), (5, 9), np.random.default_rng(0))
    got = attention_by_relation(tl.TopicTransformer(TOPICS), documents, TOPICS.topic_of)
    assert got == pytest.approx((1, 1, 1), abs=1e-12)


def test_attention_over_no_pair_is_nan():
    topics = tl.TopicModel(3, 1)
    documents = tl.sample_documents(topics, 5, tl.FixedTopics(2), 8, np.random.default_rng(0))
    got = attention_by_relation(tl.TopicTransformer(topics), documents, topics.topic_of)
    assert np.isnan(got.same_topic) and got.same_word == pytest.approx(1), "one word a topic: no other word of it"


def test_relative_distance():
    A = np.arange(6.0).reshape(2, 3)
    assert tl.relative_distance(A, A) == 0 and tl.relative_distance(2 * A, A) == pytest.approx(1)


def test_figures_are_the_same_bytes_each_time(tmp_path):
    saved = []
    for run in ("a", "b"):
        (tmp_path / run).mkdir()
        figure = tl.heat_maps({"one": np.eye(13), "two": -np.eye(13)}, TOPICS)
        assert tl.save_figure(figure, tmp_path / run, "fig") is None, "the last line of a cell must not print"
        saved.append({path.name: path.read_bytes() for path in (tmp_path / run).iterdir()})
    assert saved[0].keys() == {"fig.png", "fig.pdf"}, f"PNG and PDF, and no temporary file left: {list(saved[0])}"
    assert saved[0] == saved[1]


def test_a_failed_save_leaves_the_old_figure(tmp_path, monkeypatch):
    figure = tl.heat_maps({"one": np.eye(13)}, TOPICS)
    tl.save_figure(figure, tmp_path, "fig")
    before = (tmp_path / "fig.png").read_bytes()

    def full_disk(*args, **kwargs):
        raise OSError("no space left on device")

    monkeypatch.setattr(figure, "savefig", full_disk)
    with pytest.raises(OSError):
        tl.save_figure(figure, tmp_path, "fig")
    assert (tmp_path / "fig.png").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"fig.png", "fig.pdf"}


def test_the_weights_of_assumption_2_are_read_off_the_scores():
    topics, alpha, beta = tl.TopicModel(4, 3), 2.5, 7.0
    weights = np.where(topics.membership @ topics.membership.T > 0, alpha, 1.0) + (beta - alpha) * np.eye(topics.V + 1)
    weights *= 10 ** np.random.default_rng(0).normal(size=topics.V + 1)  # a factor for each query word does not matter
    initial = {"W_K": np.log(weights).T, "W_Q": (topics.V + 1) ** 0.5 * np.eye(topics.V + 1)}
    model = tl.TopicTransformer(topics, (), initial=initial)
    expected = (alpha, beta, (2 * alpha + beta) / 3)
    assert tl.assumption2_weights(model, topics.topic_of) == pytest.approx(expected, rel=1e-12)
    dealt = tl.shuffle_topics(topics.topic_of, np.random.default_rng(0))
    assert tl.assumption2_weights(model, dealt)[0] < 1.5, "expected little of alpha with topics dealt to other words"


def test_a_table_is_written_as_markdown(tmp_path):
    tl.save_table(["a", "b"], [["1", "2"]], tmp_path, "tab0", "A note.")
    assert (tmp_path / "tab0.md").read_text() == "| a | b |\n| --- | --- |\n| 1 | 2 |\n\nA note.\n"
    assert [path.name for path in tmp_path.iterdir()] == ["tab0.md"]
