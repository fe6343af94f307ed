"""Attention of bfloat16 on tile registers: the kernels compile for a processor that has them, and give the right
results on any, with functions for its instructions."""

from __future__ import annotations

import ctypes
import functools
import math
import struct

import emulated_tiles
import pytest

import rushlight as rl
from rushlight.codegen.library.attention import backward, forward
from rushlight.planners.attention import tiles as attention_tiles

pytestmark = pytest.mark.share(2)   # of each test that has several cases

CASES = [  # batch, heads, group, length, keys, width, value_width, causal, scale
    (1, 1, 1, 32, 32, 32, 32, False, 0.2),
    (1, 2, 1, 70, 70, 64, 64, True, 0.125),
    (2, 1, 2, 33, 45, 40, 24, False, 0.3),
    (1, 1, 1, 5, 300, 16, 128, False, -0.4),
    (1, 2, 3, 40, 20, 128, 8, True, 0.1),
    (1, 1, 1, 33, 35, 32, 32, True, 0.0),
    (1, 1, 1, 290, 290, 32, 48, True, 1.0),
    (1, 2, 2, 33, 90, 40, 40, False, 0.3),
]
PLANNED = [case for case in CASES[1:] if case[5] == case[6]]


@pytest.fixture(scope="module")
def machine():
    return emulated_tiles.processor()


@functools.cache
def kernel(nest_of):
    nest = nest_of()
    return emulated_tiles.compiled(forward.DECLARED + nest.text(), nest.name)


def call(nest_of, tensors, params, count):
    assert len(params) == len(nest_of().params)
    pointers = (ctypes.c_int64 * len(tensors))(*(t.data_ptr() for t in tensors))
    kernel(nest_of)(pointers, (ctypes.c_int64 * len(params))(*params), 0, count)


def ceil(n):
    return -(-n // 32)


def packed(t, *orders):
    """Blocks of the rows of `t` in each order."""
    batch, heads, rows, width = t.shape
    count = batch * heads * ceil(rows)
    outs = [rl.full((count * ceil(width) * 1024 + 32,), 7.0).bfloat16() for _ in orders]
    places = {order: aligned(out) for order, out in zip(orders, outs, strict=True)}
    params = [heads, rows, width, *t.stride()[:3], *(int(order in orders) for order in forward.ORDERS)]
    call(forward.pack_nest, [t, *(places.get(order, t) for order in forward.ORDERS)], params, count)
    return [places[order] for order in orders]


def aligned(t):
    """The elements of `t` from a whole line of the cache on."""
    return t[-t.data_ptr() % 64 // t.element_size() :]


def bits_of(number):
    return struct.unpack("<q", struct.pack("<d", number))[0]


def made(batch, heads, group, length, keys, width, value_width, is_causal, scale):
    rl.manual_seed(length + keys)
    query, key, value, grad = (
        rl.randn(batch, n, h, d).bfloat16().transpose(1, 2)
        for n, h, d in (
            (length, heads * group, width), (keys, heads, width), (keys, heads, value_width),
            (length, heads * group, value_width),
        )
    )
    return query, key, value, grad


def reference(query, key, value, grad, is_causal, scale, mask=None):
    """Result, logarithms and gradients in double precision; zeros for queries that see nothing."""
    leaves = [t.double().detach().requires_grad_() for t in (query, key, value)]
    group = query.shape[1] // key.shape[1]
    q, k, v = leaves[0], *(t.repeat_interleave(group, 1) for t in leaves[1:])
    scores = q @ k.transpose(-2, -1) * scale
    if is_causal:
        scores = scores.masked_fill(~rl.ones(scores.shape[-2:], dtype=rl.bool).tril(), -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype is rl.bool else scores + mask.double()
    nothing = scores.detach().amax(-1, keepdim=True) == -math.inf
    out = scores.masked_fill(nothing, 0.0).softmax(-1).masked_fill(nothing, 0.0) @ v
    out.backward(grad.double())
    logs = scores.detach().logsumexp(-1).masked_fill(nothing.squeeze(-1), 0.0)
    return out.detach(), logs, [t.grad for t in leaves]


def forward_of(query, key, value, is_causal, scale):
    batch, heads, length, width = query.shape
    own, keys, value_width = key.shape[1], key.shape[2], value.shape[3]
    (k,), (q,), (v,) = packed(key, "rows"), packed(query, "words"), packed(value, "turned")
    out, log = rl.full((batch, length, heads, value_width), 7.0).bfloat16().transpose(1, 2), rl.zeros(query.shape[:3])
    params = [heads, heads // own, length, keys, value_width, ceil(length), ceil(keys), ceil(width), ceil(value_width)]
    params += [int(is_causal), bits_of(scale), 0, 0, 0, 0, *out.stride()[:3]]
    call(forward.forward_nest, [k, q, v, q, out, log], params, batch * heads * ceil(length))
    return out, log


@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_are_right_whatever_the_sizes(case):
    query, key, value, grad = made(*case)
    out, log = forward_of(query, key, value, *case[-2:])
    wanted, logs, _ = reference(query, key, value, grad, *case[-2:])
    assert (out.double() - wanted).abs().max() <= 0.01 * wanted.abs().max()
    assert (log.double() - logs).abs().max() < 1e-4


def backward_of(grad, query, key, value, out, log, is_causal, scale):
    batch, heads, length, width = query.shape
    own, keys, value_width = key.shape[1], key.shape[2], value.shape[3]
    (k, turned), (v,) = packed(key, "rows", "turned"), packed(value, "rows")
    given = [k, turned, v, *packed(query, "words", "pairs"), *packed(grad, "words", "pairs")]
    inner = (grad.float() * out.float()).sum(-1)
    sums = aligned(rl.full((batch * heads * ceil(length) * ceil(width) * 1024 + 16,), 7.0))
    outs = [rl.full((*t.shape[:3:2], t.shape[1], t.shape[3]), 7.0).bfloat16().transpose(1, 2)
            for t in (query, key, value)]
    params = [own, heads // own, length, keys, width, value_width, ceil(length), ceil(keys), ceil(width)]
    params += [ceil(value_width), int(is_causal), bits_of(scale), 0, 0, 0, 0]
    params += [s for t in outs for s in t.stride()[:3]]
    call(backward.backward_nest, [*given, k, log, inner, sums, *outs], params, batch * own)
    return outs


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_are_right_whatever_the_sizes(case):
    query, key, value, grad = made(*case)
    wanted, logs, gradients = reference(query, key, value, grad, *case[-2:])
    found = backward_of(grad, query, key, value, wanted.bfloat16(), logs.float(), *case[-2:])
    for ours, right in zip(found, gradients, strict=True):
        assert (ours.double() - right).abs().max() <= 0.015 * right.abs().max()


@pytest.fixture
def on_tiles(monkeypatch):
    """Plans of this process as if its processor had tiles."""

    def compiled(self):
        return Address(ctypes.cast(kernel(NESTS[self.name]), ctypes.c_void_p).value)

    monkeypatch.setattr(attention_tiles, "has_tiles", lambda: True)
    monkeypatch.setattr(forward.TileNest, "compiled", compiled)
    rl.set_num_threads(1)  # the registers are one array
    yield
    rl.set_num_threads(THREADS)


THREADS = rl.get_num_threads()
KERNELS = (
    forward.pack_nest, forward.forward_nest, backward.backward_nest, forward.held_forward_nest,
    backward.held_backward_nest,
)
NESTS = {nest_of().name: nest_of for nest_of in KERNELS}


def definition_of(name, monkeypatch):
    """An op's definition, without the kernels it knows: none is kept."""
    definition = getattr(rl.ops.aten, name).default.definition
    monkeypatch.setitem(vars(definition), "kernels", {})
    return definition


class Address:
    def __init__(self, address):
        self.address = address


MASKS = {
    "none": lambda *shape: None,
    "bool": lambda *shape: (rl.rand(*shape[2:]) > 0.3).index_fill(0, rl.tensor([1]), False),   # a query sees nothing
    "keys": lambda *shape: (rl.rand(shape[0], 1, 1, shape[3]) > 0.3),
    "added": lambda *shape: rl.randn(shape[0], 1, *shape[2:]).bfloat16(),
    "heads": lambda *shape: rl.randn(1, *shape[1:]),
    "expanded": lambda *shape: rl.randn(shape[2], 1).bfloat16().expand(shape),
}


@pytest.mark.parametrize("heads", [1, 1000], ids=["held", "packed first"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("case", PLANNED, ids=str)
def test_plans_give_the_kernels_what_they_expect(case, mask, heads, on_tiles, monkeypatch):
    monkeypatch.setattr(attention_tiles, "HEADS", heads)
    query, key, value, grad = made(*case)
    is_causal, scale = case[-2:]
    mask = MASKS[mask](*query.shape[:3], key.shape[2])
    wanted, logs, gradients = reference(query, key, value, grad, is_causal, scale, mask)
    ops = [definition_of("_scaled_dot_product_flash_attention_for_cpu" + end, monkeypatch) for end in ("", "_backward")]
    given = (mask,) if mask is not None else ()
    out, log = ops[0].plan((query, key, value, 0.0, is_causal, mask, scale))(query, key, value, *given)
    assert out.dtype is rl.bfloat16 and log.dtype is rl.float32 and out.stride()[-1] == 1
    assert (out.double() - wanted).abs().max() <= 0.01 * wanted.abs().max()
    assert (log.double() - logs).abs().max() < 1e-4
    args = (grad, query, key, value, out, log)
    found = ops[1].plan((*args, 0.0, is_causal, mask, scale))(*args, *given)
    for ours, right, of in zip(found, gradients, (query, key, value), strict=True):
        assert ours.shape == of.shape and ours.dtype is rl.bfloat16
        assert (ours.double() - right).abs().max() <= 0.015 * right.abs().max()


def test_what_tiles_do_not_serve_is_known(on_tiles):
    query = rl.randn(1, 2, 8, 64).bfloat16()
    assert attention_tiles.fits(query, query)
    assert not attention_tiles.fits(query.half(), query.half())
    wide = rl.randn(1, 2, 8, 129).bfloat16()
    assert not attention_tiles.fits(wide, wide)
    assert not attention_tiles.fits(query, query[..., :32])


@pytest.mark.parametrize("nest_of", KERNELS)
def test_kernels_compile_for_a_processor_with_tiles(machine, nest_of):
    import llvmlite.binding as llvm

    text = machine.emit_assembly(llvm.parse_assembly(forward.DECLARED + nest_of().text()))
    assert "zmm" in text and "__truncsfbf2" not in text
