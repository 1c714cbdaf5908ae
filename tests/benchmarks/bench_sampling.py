"""Time per document: sampling counts with sample_documents against drawing token by token. Run by hand."""

from time import perf_counter

import numpy as np

from topiclib.data import DirichletTopics, TopicModel, sample_documents

TOPICS, MIXTURE, LENGTH = TopicModel(10, 10), DirichletTopics(0.1), (100, 150)


def sample_counts(n: int) -> float:
    """Seconds for n documents with sample_documents."""
    rng = np.random.default_rng(0)
    start = perf_counter()
    sample_documents(TOPICS, n, MIXTURE, LENGTH, rng)
    return perf_counter() - start


def sample_tokens(n: int) -> float:
    """Seconds for n documents, each token drawn with numpy.random.choice: a topic by theta, a word by the topic."""
    word_given_topic = TOPICS.membership.T / TOPICS.v
    start = perf_counter()
    for _ in range(n):
        theta = np.random.dirichlet(np.full(TOPICS.T, MIXTURE.alpha))  # noqa: NPY002
        document = []
        for _ in range(np.random.randint(LENGTH[0], LENGTH[1] + 1)):  # noqa: NPY002
            topic = np.random.choice(TOPICS.T, p=theta)  # noqa: NPY002
            document.append(np.random.choice(TOPICS.V + 1, p=word_given_topic[topic]))  # noqa: NPY002
    return perf_counter() - start


if __name__ == "__main__":
    counts = min(sample_counts(10_000) for _ in range(5)) / 10_000
    tokens = min(sample_tokens(20) for _ in range(5)) / 20
    print(f"sample_documents, 10,000 documents at once: {counts:.2e} s per document")
    print(f"numpy.random.choice, token by token:        {tokens:.2e} s per document")
    print(f"ratio: {tokens / counts:.0f}")
