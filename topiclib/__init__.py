"""A companion to "How Do Transformers Learn Topic Structure" (Li, Li & Risteski, ICML 2023)."""

import torch
from threadpoolctl import threadpool_limits

from .book.claims import Claim, check, write_table
from .data import (
    MASK,
    DirichletTopics,
    Documents,
    FixedTopics,
    MaskedDocuments,
    Masking,
    TopicModel,
    length_range,
    mask_documents,
    sample_documents,
    scramble_documents,
)
from .dynamics import (
    fixed_point,
    flow_start,
    onset_steps,
    reduced_flow,
    rise_step,
    topic_amplitude,
    two_number_flow,
)
from .landscape import Minimum, bayes_loss, minimise_stage2, stage2_loss
from .measure import (
    AttentionStatistics,
    BlockStatistics,
    assumption2_weights,
    attention_by_relation,
    block_statistics,
    relative_distance,
    shuffle_topics,
)
from .model import TopicTransformer, loss_sum, population
from .book.parameters import check_parameters
from .modes import critical_weight_decay, mode_rates, stage1_numbers, to_matrix, value_rate
from .plots import COLOURS, THEORY, heat_map_rows, heat_maps
from .theory import (
    constants,
    corpus_loss,
    corpus_moments,
    corpus_optimum,
    corpus_optimum_with_bias,
    diagonal_optimum,
    mode_moments,
    ridge_optimum,
    stage1_family,
    stage1_optimum,
    theorem1_embedding,
    theorem3_interval,
    theorem5_interval,
)
from .train import History, evaluate, train

# The matrices are small: a second thread costs more than it brings, several times more on a busy machine.
torch.set_num_threads(1)
threadpool_limits(1)

__all__ = [
    "COLOURS",
    "MASK",
    "THEORY",
    "AttentionStatistics",
    "BlockStatistics",
    "Claim",
    "DirichletTopics",
    "Documents",
    "FixedTopics",
    "History",
    "MaskedDocuments",
    "Masking",
    "Minimum",
    "TopicModel",
    "TopicTransformer",
    "assumption2_weights",
    "attention_by_relation",
    "bayes_loss",
    "block_statistics",
    "check",
    "check_parameters",
    "constants",
    "corpus_loss",
    "corpus_moments",
    "corpus_optimum",
    "corpus_optimum_with_bias",
    "critical_weight_decay",
    "diagonal_optimum",
    "evaluate",
    "fixed_point",
    "flow_start",
    "heat_map_rows",
    "heat_maps",
    "length_range",
    "loss_sum",
    "mask_documents",
    "minimise_stage2",
    "mode_moments",
    "mode_rates",
    "onset_steps",
    "population",
    "reduced_flow",
    "relative_distance",
    "ridge_optimum",
    "rise_step",
    "sample_documents",
    "scramble_documents",
    "shuffle_topics",
    "stage1_family",
    "stage1_numbers",
    "stage1_optimum",
    "stage2_loss",
    "theorem1_embedding",
    "theorem3_interval",
    "theorem5_interval",
    "to_matrix",
    "topic_amplitude",
    "train",
    "two_number_flow",
    "value_rate",
    "write_table",
]
