"""flex_attention and block masks: equal to PyTorch's, with gradients, and clear refusals."""

from __future__ import annotations

import numpy
import pytest

import rushlight
from rushlight.nn.attention import flex_attention as flex

torch = pytest.importorskip("torch")
from torch.nn.attention import flex_attention as torch_flex  # noqa: E402


def causal(b, h, q, kv):
    return q >= kv


def inputs(framework):
    framework.manual_seed(0)
    return [framework.randn(2, heads, 70, 8) for heads in (4, 2, 2)]


@pytest.mark.parametrize("with_mask", [False, True])
def test_scores_and_masks_match_pytorch(with_mask: bool) -> None:
    results = []
    for framework, module in ((rushlight, flex), (torch, torch_flex)):
        slopes = framework.arange(4) * 0.1
        mask = module.create_block_mask(causal, 2, None, 70, 70, BLOCK_SIZE=32, device="cpu") if with_mask else None
        score = lambda s, b, h, q, kv, slopes=slopes: s + slopes[h] * (kv - q)  # noqa: E731
        with_lse = module.AuxRequest(lse=True)
        out, aux = module.flex_attention(*inputs(framework), score, mask, enable_gqa=True, return_aux=with_lse)
        results.append((out.numpy(), aux.lse.numpy()))
    for ours, theirs in zip(*results):
        numpy.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [32, (16, 64)])
def test_block_masks_match_pytorch(size: object) -> None:
    document = [i // 20 for i in range(70)]
    masks = []
    for framework, module in ((rushlight, flex), (torch, torch_flex)):
        which = framework.tensor(document)
        both = module.and_masks(causal, lambda b, h, q, kv: which[q] == which[kv])  # noqa: B023
        masks.append(module.create_block_mask(both, 2, 3, 70, 70, BLOCK_SIZE=size, device="cpu"))
    ours, theirs = masks
    for name in flex.BlockMask._TENSORS:
        assert getattr(ours, name).tolist() == getattr(theirs, name).tolist(), name
    assert ours.shape == tuple(theirs.shape) and ours.sparsity() == pytest.approx(theirs.sparsity())
    assert ours.to_dense().tolist() == theirs.to_dense().tolist()
    assert ours[0, 1:].kv_indices.tolist() == theirs[0, 1:].kv_indices.tolist()
    assert ours._adjust(40, 40).kv_num_blocks.tolist() == theirs._adjust(40, 40).kv_num_blocks.tolist()


def test_gradients_reach_inputs_and_captured_tensors() -> None:
    rushlight.manual_seed(0)
    q, k, v = (rushlight.randn(1, 2, 5, 4, dtype=rushlight.float64, requires_grad=True) for _ in range(3))
    bias = rushlight.randn(5, 5, dtype=rushlight.float64, requires_grad=True)

    def attend(q, k, v, bias):
        return flex.flex_attention(
            q, k, v, lambda s, b, h, i, j: s + bias[i, j], flex.create_block_mask(causal, None, None, 5, 5)
        )

    assert rushlight.autograd.gradcheck(attend, (q, k, v, bias))


def test_misuse_is_refused() -> None:
    q = rushlight.randn(1, 2, 8, 4)
    mask = flex.create_block_mask(causal, None, None, 16, 16)
    with pytest.raises(ValueError, match="lengths"):
        flex.flex_attention(q, q, q, block_mask=mask)
    with pytest.raises(RuntimeError, match="sliced"):
        flex.flex_attention(q, q, q, block_mask=mask[0])
    with pytest.raises(ValueError, match="enable_gqa"):
        flex.flex_attention(q, q[:, :1], q[:, :1])
    with pytest.raises(AssertionError, match="mask_mod"):
        flex.create_block_mask(lambda s, b, h, q, kv: s, None, None, 8, 8)
