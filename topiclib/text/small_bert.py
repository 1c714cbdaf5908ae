"""A small BERT trained from scratch, for Figure 5."""

from typing import NamedTuple

import numpy as np
import torch

from .libraries import library


class SmallRun(NamedTuple):
    """A small BERT in training: what `train_small_bert` recorded."""

    steps: np.ndarray  # (records,)
    norms: dict[str, np.ndarray]  # W_V, W_K, W_Q -> Frobenius norms, (records, layers)
    loss: np.ndarray  # (steps,) cross-entropy of each batch, before its update


def train_small_bert(
    ids: np.ndarray,
    vocabulary_size: int,
    mask_id: int,
    masking,
    *,
    layers: int = 3,
    width: int = 64,
    initial_std: float = 1e-5,
    epsilon: float = 1e-6,
    steps: int = 200,
    seed: int = 0,
) -> SmallRun:
    """A BERT with two heads and W_K, W_Q, W_V near zero, trained from scratch by masked language modelling with Adam.

    ids: (n, tokens), ids below vocabulary_size; batches of 16, in random order. masking: `topiclib.Masking`.
    initial_std: of the entries of these three matrices; the rest, as in BERT, has 0.02. No dropout.
    epsilon: Adam's; it divides by the root mean square of recent gradients plus this. RuntimeError on divergence.
    """
    transformers, batch = library("transformers"), 16
    config = transformers.BertConfig(
        vocab_size=vocabulary_size,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=4 * width,
        max_position_embeddings=ids.shape[1],
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    rng, text = np.random.default_rng(seed), torch.from_numpy(ids)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = transformers.BertForMaskedLM(config)
        attention = [layer.attention.self for layer in model.bert.encoder.layer]
        with torch.no_grad():
            for layer in attention:
                for matrix in (layer.query, layer.key, layer.value):
                    matrix.weight.normal_(0, initial_std)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=epsilon)
    order = np.concatenate([rng.permutation(len(ids)) for _ in range(-(-steps * batch // len(ids)))])
    recorded, norms, losses = [], {"W_V": [], "W_K": [], "W_Q": []}, []
    for step in range(steps + 1):
        if step % 5 == 0 or step == steps:
            recorded.append(step)
            for name, part in (("W_V", "value"), ("W_K", "key"), ("W_Q", "query")):
                norms[name].append([getattr(layer, part).weight.detach().norm().item() for layer in attention])
        if step == steps:
            break
        labels = text[order[step * batch : (step + 1) * batch]]
        chosen = torch.from_numpy(rng.random(labels.shape) < masking.p_m)
        chosen[0, 0] |= not chosen.any()
        how = torch.from_numpy(rng.random(labels.shape))
        random_ids = torch.from_numpy(rng.integers(vocabulary_size, size=labels.shape))
        shown = torch.where(chosen & (how >= masking.p_c), random_ids, labels)
        shown = torch.where(chosen & (how >= masking.p_c + masking.p_r), mask_id, shown)
        hidden = model.bert(input_ids=shown).last_hidden_state[chosen]  # (chosen, width): only these are predicted
        loss = torch.nn.functional.cross_entropy(model.cls(hidden), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if not np.isfinite(losses[-1]):
            raise RuntimeError(f"training diverged at step {step}: the loss is {losses[-1]}")
    return SmallRun(np.array(recorded), {name: np.array(rows) for name, rows in norms.items()}, np.array(losses))
