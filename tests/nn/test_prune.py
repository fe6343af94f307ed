"""Pruning, and the small names other libraries import, against PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
pytest.importorskip("torch.nn.utils.prune")


def test_pruning_step_by_step():
    def program(t):
        prune = t.nn.utils.prune
        m = t.nn.Sequential(t.nn.Linear(6, 5), t.nn.Conv2d(2, 4, 3))
        prune.l1_unstructured(m[0], "weight", 0.3)
        prune.ln_structured(m[0], "weight", 2, n=2, dim=0)
        prune.custom_from_mask(m[0], "bias", t.tensor([1, 0, 1, 1, 0]))
        log = [sorted(m.state_dict()), m[0].weight, m[0](t.ones(1, 6)), prune.is_pruned(m)]
        prune.global_unstructured([(m[0], "weight"), (m[1], "weight")], prune.L1Unstructured, amount=20)
        m[0](t.ones(1, 6)).sum().backward()
        log += [m[0].weight_mask, m[1].weight_mask, m[0].weight_orig.grad]
        prune.remove(m[0], "weight")
        return [*log, sorted(m[0].state_dict()), m[0].weight, m[0].weight.is_leaf]

    result = []
    for t in (torch, rl):
        t.manual_seed(1)
        result.append([x.detach().numpy() if hasattr(x, "detach") else x for x in program(t)])
    for theirs, ours in zip(*result, strict=True):
        if isinstance(theirs, np.ndarray):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        else:
            assert ours == theirs


def test_random_pruning_keeps_the_rest():
    m = rl.nn.utils.prune.random_unstructured(rl.nn.Linear(5, 4), "weight", 7)
    assert int(m.weight_mask.sum()) == 13
    rl.nn.utils.prune.random_structured(m, "weight", 1, dim=0)
    assert (m.weight_mask.sum(1) == 0).sum().item() >= 1
    with pytest.raises(ValueError):
        rl.nn.utils.prune.l1_unstructured(rl.nn.Linear(2, 2), "weight", 5)


def test_small_public_names():
    for t in (torch, rl):
        assert t.nn.modules.utils._pair(3) == (3, 3) and t.nn.modules.utils._triple([1, 2, 3]) == (1, 2, 3)
        assert t.nn.modules.utils._reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
        state = t.nn.DataParallel(t.nn.Linear(1, 1)).state_dict()
        t.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
        assert list(state) == ["weight", "bias"] and "" in state._metadata
        assert t.nn.factory_kwargs({"device": "cpu", "factory_kwargs": {"dtype": t.float64}}) == {
            "device": "cpu",
            "dtype": t.float64,
        }
        with pytest.raises(TypeError):
            t.nn.factory_kwargs({"colour": 1})
        conv = t.nn.utils.convert_conv2d_weight_memory_format(t.nn.Conv2d(2, 3, 2), t.channels_last)
        assert conv.weight.is_contiguous(memory_format=t.channels_last)
