"""Attention as nests of tiles: what the nests say, what kernels make of them, and that every processor has them."""

from __future__ import annotations

import ctypes
import functools
import math
import struct

import pytest
from interpreter import Interpreter

from rushlight import codegen
from rushlight.codegen.schedule.cpu.attention import Cut, dense_nest, forward_nest, forward_params
from rushlight.codegen.schedule.cpu.attention_backward import backward_nest, backward_params, inner_nest
from rushlight.codegen.text.targets import TARGETS
from rushlight.loops.nest import Nest

np = pytest.importorskip("numpy")

pytestmark = pytest.mark.share(2)   # of each test that has several cases

KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
KINDS = [(False, None), (True, None), (False, "f32"), (False, "b1")]
CPUS = [name for name, t in TARGETS.items() if not t.is_gpu and name != "riscv64"]


def compiled(nest: Nest, arrays: list, params: list[int], count: int) -> None:
    pointers = (ctypes.c_int64 * len(arrays))(*(x.ctypes.data for x in arrays))
    KERNEL(codegen.compile(nest).address)(pointers, (ctypes.c_int64 * len(params))(*params), 0, count)


def interpreted(nest: Nest, arrays: list, params: list[int], count: int, bits: int = 0) -> None:
    Interpreter(nest, [x.reshape(-1) for x in arrays], params, Cut("f32", bits).unit).run(0, count)


class Case:
    """Operands of a call: batch 1, `group` query heads to a head of keys, rows of whole vectors with gaps. `wide`: bits
    of the vectors that nests are made for, if not this processor's."""

    def __init__(
        self, length: int, keys: int, width: int, value_width: int, group: int, causal: bool, mask: str | None,
        wide: int = 0,
    ) -> None:
        random = np.random.default_rng(length * keys + width)
        self.wide, lanes = wide, Cut("f32", wide).lanes
        self.sizes = (length, keys, width, value_width, group)
        self.causal, self.mask_code = causal, mask

        def rows(heads: int, count: int, size: int):
            whole = random.standard_normal((1, heads, count, -(-size // lanes) * lanes)).astype("f4")
            return whole[..., :size]

        self.query, self.key, self.value = rows(group, length, width), rows(1, keys, width), rows(1, keys, value_width)
        self.gradient = rows(group, length, value_width)
        self.mask = None
        if mask == "b1":
            self.mask = random.random((length, keys)) > 0.3
            self.mask[0] = False                                       # a query that sees nothing
        elif mask is not None:
            self.mask = random.standard_normal((length, keys)).astype("f4")
        self.scale = 0.4
        self.bits = struct.unpack("<q", struct.pack("<d", self.scale))[0]

    def strides(self, *arrays) -> list[int]:
        return [s // 4 for x in arrays for s in x.strides[:3]]

    def mask_strides(self) -> list[int]:
        return [] if self.mask is None else [0, 0, *(s // self.mask.itemsize for s in self.mask.strides)]

    def given(self, *arrays) -> list:
        """Memory of the operands: where rows have gaps, from the first element on."""
        return [x if x.base is None else x.base for x in arrays]

    def forward(self, run, form: str = "tiles"):
        length, keys, width, value_width, group = self.sizes
        out, log = np.full((1, group, length, value_width), 7, "f4"), np.zeros((1, group, length), "f4")
        block = 1 if form == "rows" else 2 * Cut("f32", self.wide).height
        blocks = -(-length // block)
        params = [group, group, length, keys, width, value_width, block, blocks, self.bits]
        params += [*self.strides(self.query, self.key, self.value, out), *self.mask_strides()]
        masks = [] if self.mask is None else [self.mask]
        nest = forward_nest("f32", self.causal, self.mask_code, form, self.wide)
        assert len(params) == len(forward_params(self.mask_code))
        run(nest, [*self.given(self.query, self.key, self.value), *masks, out, log], params, group * blocks)
        return out, log

    def backward(self, run, log, inner):
        length, keys, width, value_width, group = self.sizes
        shapes = ((group, length, width), (1, keys, width), (1, keys, value_width))
        made = [np.full((1, *shape), 7, "f4") for shape in shapes]
        params = [1, group, length, keys, width, value_width, self.bits]
        params += [*self.strides(self.gradient, self.query, self.key, self.value, *made), *self.mask_strides()]
        masks = [] if self.mask is None else [self.mask]
        assert len(params) == len(backward_params(self.mask_code))
        nest = backward_nest("f32", self.causal, self.mask_code, self.wide)
        run(nest, [*self.given(self.gradient, self.query, self.key, self.value), log, inner, *masks, *made], params, 1)
        return made

    def wanted(self):
        """Result, logarithms, inner products and gradients in double precision."""
        q, k, v, g = (x.astype("f8") for x in (self.query, self.key, self.value, self.gradient))
        scores = q @ k.swapaxes(2, 3) * self.scale
        if self.mask_code == "b1":
            scores = np.where(self.mask, scores, -np.inf)
        elif self.mask is not None:
            scores = scores + self.mask
        if self.causal:
            scores = np.where(np.arange(scores.shape[2])[:, None] >= np.arange(scores.shape[3]), scores, -np.inf)
        top = scores.max(3, keepdims=True)
        top = np.where(np.isinf(top), 0, top)
        powers = np.exp(scores - top)
        total = powers.sum(3, keepdims=True)
        weights = powers / np.where(total == 0, 1, total)
        out = weights @ v
        with np.errstate(divide="ignore"):
            log = np.where(total == 0, 0, top + np.log(total))[..., 0]
        inner = (out * g).sum(3)
        slopes = weights * (g @ v.swapaxes(2, 3) - inner[..., None]) * self.scale
        d_key, d_value = slopes.swapaxes(2, 3) @ q, weights.swapaxes(2, 3) @ g
        return out, log, inner, [slopes @ k, d_key.sum(1, keepdims=True), d_value.sum(1, keepdims=True)]


def close(got, want, tolerance: float = 2e-5) -> None:
    assert np.abs(got - want).max() <= tolerance * max(1.0, np.abs(want).max())


@pytest.mark.share(2)
@pytest.mark.parametrize("wide", [128, 256, 512])
@pytest.mark.parametrize(("causal", "mask"), KINDS[1:3])
def test_nests_say_what_attention_is(causal: bool, mask: str | None, wide: int) -> None:
    """Statement by statement: small, with edges of strips in every direction and a group of heads."""
    case = Case(Cut("f32", wide).height + 2, 5, 3, 4, 2, causal, mask, wide)
    run = functools.partial(interpreted, bits=wide)
    out, log, inner, gradients = case.wanted()
    for got, want in zip(case.forward(run), (out, log), strict=True):
        close(got, want)
    for got, want in zip(case.backward(run, log.astype("f4"), inner.astype("f4")), gradients, strict=True):
        close(got, want)


@pytest.mark.parametrize(("causal", "mask"), KINDS)
def test_a_row_at_a_time_says_the_same(causal: bool, mask: str | None) -> None:
    case = Case(2, 5, 3, 4, 2, causal, mask)
    for got, want in zip(case.forward(interpreted, "rows"), case.wanted()[:2], strict=True):
        close(got, want)


SIZES = [(1, 1, 1, 1, 1), (1, 700, 64, 64, 3), (60, 600, 5, 33, 1), (130, 70, 70, 16, 2), (57, 257, 300, 520, 1)]


@pytest.mark.parametrize("sizes", SIZES, ids=["x".join(map(str, s)) for s in SIZES])
@pytest.mark.parametrize(("causal", "mask"), KINDS)
def test_kernels_around_the_edges_of_blocks(sizes: tuple[int, ...], causal: bool, mask: str | None) -> None:
    """Several blocks of keys and of queries, heads wider than a slice, widths that are no whole vectors."""
    case = Case(*sizes, causal, mask)
    out, log, inner, gradients = case.wanted()
    for form in ("tiles", "rows"):
        for got, want in zip(case.forward(compiled, form), (out, log), strict=True):
            close(got, want, 5e-5)
    for got, want in zip(case.backward(compiled, log.astype("f4"), inner.astype("f4")), gradients, strict=True):
        close(got, want, 2e-4)


def test_rows_are_copied_and_multiplied() -> None:
    random = np.random.default_rng(0)
    source = random.standard_normal((2, 7, 3, 10)).astype("f4")       # [batch, rows, heads, width]
    result = np.zeros((2, 3, 7, 16), "f4")
    compiled(dense_nest("f32"), [source, result], [3, 7, 10, 210, 10, 30, 16], 6)
    assert (result[..., :10] == source.swapaxes(1, 2)).all() and (result[..., 10:] == 0).all()
    sums = np.zeros((2, 3, 7), "f4")
    compiled(inner_nest("f32"), [source, source, sums], [3, 7, 10, *[210, 10, 30] * 2], 6)
    close(sums, (source.swapaxes(1, 2).astype("f8") ** 2).sum(3))


@pytest.mark.share(2)
@pytest.mark.parametrize("target", CPUS)
@pytest.mark.parametrize("make", [forward_nest, backward_nest])
def test_every_target_has_attention(make, target: str) -> None:
    bits = TARGETS[target].vector_bits
    assert codegen.emit_object(make("f64", True, "b1", bits=bits), target)
    fused = {"aarch64": "fmla", "wasm32": "f32x4"}.get(target, "vfmadd")
    assert fused in codegen.emit_asm(make("f32", False, None, bits=bits), target)


@pytest.mark.parametrize("function", ["exp_of_negative", "weight_of_score"])
def test_powers_below_one_are_exact_near_it_and_end_in_zero(function: str) -> None:
    from rushlight.loops.expr import arg, call
    from rushlight.loops.nest import pointwise_nest

    x = np.concatenate([np.linspace(-87, 0, 1001), [-104.5, -1000, -math.inf, math.nan]]).astype("f4")
    result = np.zeros_like(x)
    nest = pointwise_nest("powers", ["f32"], ["f32"], [call(function, arg(0, "f32"))])
    compiled(nest, [x, result], [len(x), 4, 4, 0, 0], 1)
    want = np.exp(x[:1001].astype("f8"))
    assert (np.abs(result[:1001] - want) <= (1.2e-7 + 1.3e-8 * np.abs(x[:1001])) * want).all()
    assert (result[1001:1004] == 0).all() and np.isnan(result[1004])


@pytest.mark.parametrize("code", ["f32", "f64"])
def test_weights_are_normal_numbers_or_zero(code: str) -> None:
    from rushlight.loops.expr import arg, call
    from rushlight.loops.nest import pointwise_nest

    dtype, size, end = ("f4", 4, 87.3) if code == "f32" else ("f8", 8, 708.3)
    x = np.concatenate([np.linspace(-end, 0, 997), -np.linspace(1.03 * end, 1.3 * end, 50), [-math.inf]]).astype(dtype)
    result = np.ones_like(x)
    nest = pointwise_nest("weights", [code], [code], [call("weight_of_score", arg(0, code))])
    compiled(nest, [x, result], [len(x), size, size, 0, 0], 1)
    want = np.exp(x[:997].astype("f8"))
    assert (np.abs(result[:997] - want) <= (1.2e-7 + 1.3e-8 * np.abs(x[:997])) * want).all()
    assert (result[997:] == 0).all()
