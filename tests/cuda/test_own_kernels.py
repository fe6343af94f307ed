"""Kernels of the CUDA device's own: elements by rank, alignments, dropout in one; what a host can tell of them, and on
the card against the CPU."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.nvptx import philox
from rushlight.devices import handlers, register
from rushlight.devices.cuda import alignments, rank_rows, tiled_attention
from rushlight.nn.attention.flex_attention import create_block_mask, flex_attention
from tests.cuda.test_philox import bits, run
from tests.devices.reference_device import ReferenceDevice

F = rl.nn.functional
card = pytest.mark.skipif(not rl.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_texts_compile(tmp_path):
    texts = [rank_rows.source("f16"), rank_rows.source("i64"), alignments.source("f32"),
             *tiled_attention.sources_of("bf16", 128).values()]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.cu").write_text(text)
    command = ["nvcc", "-arch=sm_90", "-cubin", *[f"{number}.cu" for number in range(len(texts))]]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("code", "dtype", "vector"), [
    ("f32", np.float32, 4), ("f32", np.float32, 2), ("f64", np.float64, 2), ("f16", np.float16, 8),
    ("f16", np.float16, 2),
])
def test_dropout_in_one_kernel(code, dtype, vector):
    """The flags that the kernel for flags alone draws, and the elements that belong to them."""
    count, keep = 1024, 0.75
    x = np.random.default_rng(vector).standard_normal(count).astype(dtype)
    x[5], x[9] = np.inf, np.nan
    flags, kept, out = np.zeros(count, np.bool_), np.zeros(count, np.bool_), np.zeros(count, dtype)
    params = [count, count, 1, 42, bits(keep), bits(1 / keep)]
    run(philox.dropout_nest(vector), [flags], params, count // vector)
    run(philox.dropout_nest(vector, code), [x, kept, out], params, count // vector)
    assert (kept == flags).all() and 0 < kept.sum() < count
    wide = np.float64 if code == "f64" else np.float32
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(out, (x.astype(wide) * np.where(kept, wide(1 / keep), wide(0))).astype(dtype))


def test_rows_that_need_few_bits_are_ordered_at_once():
    rows = rl.tensor([[3, -1, 2], [3, -2, 9], [0, 5, 5], [3, -1, 2], [0, 5, -7]])
    found, where, counts = rows.unique(dim=0, return_inverse=True, return_counts=True)
    assert found.tolist() == [[0, 5, -7], [0, 5, 5], [3, -2, 9], [3, -1, 2]]
    assert where.tolist() == [3, 2, 1, 3, 0] and counts.tolist() == [1, 1, 1, 2]
    wide = rl.tensor([[2**63 - 1, 4, 1], [-(2**63), 4, 1], [2**63 - 1, 3, 2], [-(2**63), 4, 0]])
    assert wide.unique(dim=0).tolist() == [[-(2**63), 4, 0], [-(2**63), 4, 1], [2**63 - 1, 3, 2], [2**63 - 1, 4, 1]]


@card
@pytest.mark.parametrize("dtype", [rl.float32, rl.float16, rl.bfloat16, rl.float64, rl.int32, rl.int64])
@pytest.mark.parametrize("length", [65, 1000, 4096, 5000, 9000])
def test_ranks(dtype, length):
    rl.manual_seed(length)
    x = (rl.randn(40, length) * 20).round() if length == 1000 else rl.randn(40, length) * 100
    x = x.to(dtype)
    if dtype.is_floating_point:
        x[3, 7] = x[3, 40] = float("nan")
        x[5] = float("nan")
        x[6, ::2], x[6, 1::2] = 0.0, -0.0
    there = x.cuda()
    for ask in (lambda t: t.median(1), lambda t: t.kthvalue(17, 1), lambda t: t.kthvalue(length, 1),
                lambda t: t.nanmedian(1), lambda t: t.view(8, 5, length).transpose(0, 2).median(0)):
        want, found = ask(x), ask(there)
        rl.testing.assert_close(found.values.cpu(), want.values, rtol=0, atol=0, equal_nan=True)
        assert (found.indices.cpu() == want.indices).all()


@card
@pytest.mark.parametrize("dtype", [rl.float32, rl.float64])
@pytest.mark.parametrize(("classes", "longest"), [(30, 12), (200, 300), (10, 600)])
def test_alignments(dtype, classes, longest):
    rl.manual_seed(classes)
    x, results = rl.randn(longest + 40, 6, classes, dtype=dtype), []
    targets = rl.randint(1, classes, (6, longest))
    inputs, lengths = rl.tensor([longest + 40, longest + 30, longest, longest + 40, 5, longest + 1]), rl.tensor(
        [longest, longest // 2, 3, 0, longest, 1])
    for place in ("cpu", "cuda"):
        logits = x.to(place).detach().requires_grad_()
        loss = F.ctc_loss(logits.log_softmax(-1), targets.to(place), inputs, lengths, reduction="none",
                          zero_infinity=True)
        (loss * rl.arange(1.0, 7.0, dtype=dtype, device=place)).sum().backward()
        results.append((loss.detach().cpu(), logits.grad.cpu()))
    for want, found in zip(*results, strict=True):
        rl.testing.assert_close(found, want, rtol=1e-3 if dtype is rl.float32 else 1e-9, atol=1e-4)


@card
@pytest.mark.parametrize("dtype", [rl.float32, rl.bfloat16, rl.float16, rl.float64])
@pytest.mark.parametrize("shape", [(64, 1024), (33, 7), (5, 2)])
def test_dropout(dtype, shape):
    x = rl.randn(shape, device="cuda", dtype=dtype).requires_grad_()
    rl.cuda.manual_seed(3)
    out = F.dropout(x, 0.3)
    rl.cuda.manual_seed(3)
    other, kept = rl.native_dropout(x.detach(), 0.3, True)
    assert (out == other).all()
    rl.testing.assert_close(out, rl.where(kept, x / 0.7, 0 * x).detach(), rtol=1e-2, atol=1e-2)
    out.sum().backward()
    assert ((x.grad != 0) == kept).all()


@card
def test_classes_are_checked():
    assert F.one_hot(rl.tensor([2, 0], device="cuda"), 3).tolist() == [[0, 0, 1], [1, 0, 0]]
    with pytest.raises((RuntimeError, IndexError)):
        F.one_hot(rl.tensor([3], device="cuda"), 3)
        rl.cuda.synchronize()
    assert F.one_hot(rl.tensor([1], device="cuda"), 2).tolist() == [[0, 1]]


class Skipping(ReferenceDevice):
    """Attention under masks, by the host's."""

    done: list = []

    def implementation(self, op):
        return self.attend if op == "_hidden_attention" else None

    def attend(self, outs, query, key, value, mask, scale):
        self.done.append(tuple(mask.shape))
        q, k, v, seen = (t.cpu() for t in (query, key, value, mask))
        scores = (q.float() @ k.float().mT * scale).masked_fill(~seen, -float("inf"))
        outs[0].copy_((scores.softmax(-1).nan_to_num() @ v.float()).to(q.dtype))
        outs[1].copy_(scores.logsumexp(-1))
        return True


def test_flexible_attention_is_handed_over_with_its_mask():
    if "skipping" not in handlers:
        register(Skipping("skipping"))
    q, k, v = (rl.randn(2, 3, 16, 8).half() for _ in range(3))
    for mod, shape in ((lambda b, h, q, k: (q >= k) & (q - k < 4), (1, 1)), (lambda b, h, q, k: q >= k + h, (1, 3))):
        block = create_block_mask(mod, None, None if shape[1] == 1 else 3, 16, 16, device="cpu")
        want = flex_attention(q, k, v, block_mask=block)
        there = [t.to("skipping") for t in (q, k, v)]
        found = flex_attention(*there, block_mask=block.to("skipping"))
        rl.testing.assert_close(found.cpu(), want, rtol=1e-2, atol=1e-2)
        assert Skipping.done[-1] == (*shape, 16, 16)


@card
@pytest.mark.parametrize("dtype", [rl.bfloat16, rl.float16])
@pytest.mark.parametrize(("queries", "keys", "width", "own"), [
    (200, 200, 64, 4), (130, 333, 128, 2), (64, 1024, 64, 1),
])
def test_tiles_of_attention(dtype, queries, keys, width, own):
    rl.manual_seed(width)
    given = [rl.randn(2, heads, length, width).to(dtype) for heads, length in ((4, queries), (own, keys), (own, keys))]
    for mod in (lambda b, h, q, k: (q >= k) & (q - k < 40), lambda b, h, q, k: (k < 70) | (k % 7 == h),
                lambda b, h, q, k: (q < 100) & (k >= 64) & (k < 128)):
        block = create_block_mask(mod, None, 4, queries, keys, device="cpu")
        results = []
        for place, kind in (("cpu", rl.float32), ("cuda", dtype)):
            tensors = [t.to(place, kind).detach().requires_grad_() for t in given]
            out = flex_attention(*tensors, block_mask=block.to(place), enable_gqa=True)
            (out.float() * rl.linspace(-1, 1, out.numel(), device=place).view(out.shape)).sum().backward()
            results.append([t.float().cpu().detach() for t in (out, *[t.grad for t in tensors])])
        for want, found in zip(*results, strict=True):
            assert (want - found).norm() <= 2e-2 * want.norm()
