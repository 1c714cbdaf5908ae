"""Real text and pretrained transformers: a Wikipedia corpus, its LDA topics, and what models make of word pairs.

Nothing here needs the network unless a model or corpus other than the bundled one is asked for.
"""

from .cache import clear_cache
from .corpus import chunk_corpus, load_corpus
from .encoders import check_model_names, load_encoder, random_twin, word_embeddings
from .pairs import (
    Means,
    Pairs,
    among,
    attention_means,
    attention_pairs,
    bootstrap_ratio,
    cosines,
    head_average,
    matched_means,
    pair_means,
    with_partner,
)
from .small_bert import train_small_bert
from .topics import fit_lda, shuffle_membership, top_cooccurring, topic_relations, topic_words
