"""The small BERT of Figure 5."""

import numpy as np
import pytest
import torch

import topiclib as tl
from topiclib import text as wiki


def small_run(**options):
    ids = np.random.default_rng(0).integers(2, 20, size=(40, 8))
    ids[:, 1::2] = ids[:, ::2]  # every word stands twice
    return wiki.train_small_bert(ids, 20, 1, tl.Masking(), width=16, layers=2, steps=32, **options)


def test_small_bert_records_norms_and_starts_near_zero():
    run = small_run()
    assert run.steps.tolist() == [0, 5, 10, 15, 20, 25, 30, 32] and run.loss.shape == (32,)
    for norms in run.norms.values():
        assert norms.shape == (8, 2)
        np.testing.assert_allclose(norms[0], 16e-5, rtol=0.2)
    assert run.norms["W_V"][-1].min() > 100 * run.norms["W_V"][0].max()
    assert run.loss[-10:].mean() < run.loss[:5].mean()


def test_small_bert_depends_on_its_seed_alone():
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, again, other = small_run(seed=1), small_run(seed=1), small_run(seed=2)
    assert torch.equal(torch.random.get_rng_state(), before)
    np.testing.assert_array_equal(first.loss, again.loss)
    assert not np.array_equal(first.loss, other.loss)


def test_small_bert_divergence_is_said():
    with pytest.raises(RuntimeError, match=r"training diverged at step 0: the loss is nan"):
        small_run(initial_std=1e30)
