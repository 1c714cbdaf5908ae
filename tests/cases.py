"""Settings that several tests share."""

from pytest import mark

from topiclib.data import KEY_RULES, FixedTopics, Masking, TopicModel
from topiclib.model import LOSSES

PAPER, HEAVY, NO_RANDOM = Masking(0.15, 0.1, 0.1), Masking(0.4, 0.25, 0.25), Masking(0.3, 0.2, 0.0)
UNEVEN = Masking(0.4, 0.25, 0.2)
CASES = [(TopicModel(2, 3), FixedTopics(1)), (TopicModel(3, 2), FixedTopics(2)), (TopicModel(4, 1), FixedTopics(2))]
CASES += [(TopicModel(5, 2), FixedTopics(3)), (TopicModel(5, 2), FixedTopics(4)), (TopicModel(3, 3), FixedTopics(1))]
cases = mark.parametrize(("topics", "mixture"), CASES, ids=str)
rules = mark.parametrize("rule", KEY_RULES)
losses = mark.parametrize("loss", LOSSES)
