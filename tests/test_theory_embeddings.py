"""The embeddings that minimise the loss of a corpus: nothing nearby is better, and Theorem 1 on synthetic text."""

import numpy as np
import pytest

from topiclib.data import DirichletTopics, FixedTopics, Masking, TopicModel, sample_documents
from topiclib.measure import block_statistics
from topiclib.theory import corpus_loss, corpus_moments, embedding_optimum


def test_embedding_optimum():
    """With d = V + 1, and no decay, nothing symmetric and positive is better; the gradient vanishes at any d."""
    moments = corpus_moments(
        sample_documents(TopicModel(4, 3), 200, DirichletTopics(0.3), (4, 20), np.random.default_rng(0)).counts,
        Masking(0.3, 0.2, 0.1),
    )
    for d in (2, 13):
        W, b = embedding_optimum(moments, d, 1e-3)
        best = corpus_loss(moments, W.T @ W + b[:, None]) + 1e-3 * np.sum(W**2)
        rng = np.random.default_rng(d)
        for _ in range(20):
            U = W + 0.05 * rng.normal(size=W.shape)
            bias = moments.XP.sum(axis=1) - U.T @ (U @ moments.PP.sum(axis=1))
            assert corpus_loss(moments, U.T @ U + bias[:, None]) + 1e-3 * np.sum(U**2) > best
            assert (
                corpus_loss(moments, W.T @ W + (b + 0.01 * rng.normal(size=13))[:, None]) + 1e-3 * np.sum(W**2) > best
            )
    for d, decay, wrong in ((0, 0.1, "d = 0"), (2, -1, "weight_decay = -1")):
        with pytest.raises(ValueError, match=f"^{wrong} is not allowed"):
            embedding_optimum(moments, d, decay)


def test_embedding_optimum_is_theorem_1_on_synthetic_text():
    topics = TopicModel(3, 4)
    documents = sample_documents(topics, 20_000, FixedTopics(1), 100, np.random.default_rng(3))
    W, _ = embedding_optimum(corpus_moments(documents.counts, Masking()), 2, 1e-6)
    E = W.T @ W
    stats = block_statistics(E, topics.topic_of)
    # With a trained bias T - 1 dimensions do: E is 1/(a v) times the topic contrasts.
    assert stats.contrast == pytest.approx(1 / Masking().a / topics.v, rel=0.05)
    assert abs(stats.excess) < 0.02
