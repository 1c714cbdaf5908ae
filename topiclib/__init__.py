"""A companion to "How Do Transformers Learn Topic Structure" (Li, Li & Risteski, ICML 2023).

Notation. Symbols are the paper's where it has one; where it uses one twice, this decides.

T, v, V       topics, words per topic, words V = T v; T is never a length
tau, N        topics of a document (Section 3.1), its length
0             [MASK]: row and column 0 of every matrix; words are 1..V
W_V, W_K,     f = W_V X A with A = softmax((W_K X)' (W_Q X) / sqrt(d)), columns summing to 1;
W_Q, W_E      row of W_V = word predicted, column = word seen; columns of W_E are words
mu, a, eps    p_m (1-p_c-p_r), 1 - (1-p_c) p_m, p_m p_r / V: after masking [MASK] has frequency mu and
              word i has a P_w(i) + eps
c1, c2, c3    eps / (a mu), 1/mu - 1, 1/a of Theorem 2; not those of Assumption 2, whose ratios are alpha and beta
alpha, beta,  Assumption 2: attention of a word to another word of its topic, to the same word, and the mean over its
gamma         topic, ((v-1) alpha + beta) / v, where a word of another topic gets 1
c4, kappa     1/a, so c4 = c3; kappa = 1 + c4 p_m p_r
kappa_theta,  theta: topic weights of a document, Cov(theta) = kappa_theta (I - 11'/T); kappa_B = kappa_theta / v
kappa_B
lambda        weight_decay: loss + lambda ||W||^2, over all trained parts
squared loss  equation 3, ||f - x||^2 summed over the vocabulary, averaged over chosen positions
keys          attended: all (equation 5); excluded: all but [MASK] (Appendix D); unchosen: of positions not chosen
              (released code)
"""

from .book.explore import explore
from .book.parallel import in_parallel
from .book.statements import begin
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
    resample,
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
    block_means,
    block_statistics,
    effect_size,
    relative_distance,
    repeats,
    shuffle_topics,
)
from .model import TopicTransformer, loss_sum, population
from .modes import critical_weight_decay, mode_rates, stage1_numbers, to_matrix, value_rate
from .plots import COLOURS, THEORY, heat_map_rows, heat_maps
from .theory import (
    constants,
    corpus_loss,
    corpus_moments,
    corpus_optimum,
    corpus_optimum_with_bias,
    diagonal_optimum,
    embedding_optimum,
    mode_moments,
    ridge_optimum,
    stage1_family,
    stage1_optimum,
    theorem1_embedding,
    theorem3_interval,
    theorem5_interval,
)
from .train import History, evaluate, train
