"""Vectors of other processors' widths on this one: LLVM splits them, so what they compute can be checked here."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from harness import NUMPY, SIGNATURE
from interpreter import Interpreter
from test_random_expressions import Grower as ExpressionGrower
from test_random_nests import PARAMS, REGION, Grower

from rushlight._C import load_object
from rushlight.codegen.llvm.cpu import compile_ir, host_target
from rushlight.codegen.llvm.lower import lower_nest
from rushlight.codegen.llvm.vectorize import choose_width
from rushlight.codegen.text.targets import Target
from rushlight.loops.expr import bitcast, cast, const, load, var
from rushlight.loops.interpret import evaluate
from rushlight.loops.nest import Nest, Store, operands, pointwise_nest, rows

WIDTHS = [0, 256, 512]


def run_wide(nest: Nest, bits: int, arrays: list[np.ndarray], params: list[int], begin: int, end: int) -> None:
    host = host_target()
    target = Target("host", host.triple, host.cpu, host.features, bits, 16)
    address = load_object(compile_ir(lower_nest(nest, target), target))[nest.name]
    pointers = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
    SIGNATURE(address)(pointers, (ctypes.c_int64 * len(params))(*params), begin, end)


def test_numbers_for_all_elements_do_not_narrow_a_loop():
    """A double among the parameters is one register; it was counted as if every element were a double."""
    number = cast(bitcast(var("scale"), "f64"), "f32")
    x = load(0, var("i"), "f32")
    host = Target("host", "aarch64-unknown-linux-gnu", vector_bits=128, registers=32)
    for value in (x * number, x * const(2.0, "f32")):
        nest = Nest("scaled", operands(["f32"], ["f32"]), ("scale",), rows(Store(1, var("i"), value), vector=True))
        assert choose_width(nest.loop, nest, host) == (4, 4)


def test_chains_go_eight_vectors_at_a_time_where_registers_hold_them():
    x = load(0, var("i"), "f32")
    value = x
    for k in range(8):
        value = value * x - const(float(k), "f32")
    nest = Nest("chain", operands(["f32"], ["f32"]), (), rows(Store(1, var("i"), value), vector=True))
    for registers, unroll in ((32, 8), (16, 8), (8, 4)):
        assert choose_width(nest.loop, nest, Target("t", "aarch64", vector_bits=128, registers=registers))[1] == unroll
    divided = Nest("chain", operands(["f32"], ["f32"]), (), rows(Store(1, var("i"), value / x), vector=True))
    assert choose_width(divided.loop, divided, Target("t", "aarch64", vector_bits=128, registers=32))[1] == 4


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("seed", range(200, 206))
def test_nests(seed, bits):
    grower = Grower(seed)
    body = grower.block([], ["i"], 0, False)
    nest = Nest("wide", operands(["f32", "i64"], ["f32", "i64"]), tuple(PARAMS), rows(*body))
    params = {**PARAMS, "long": 75}
    rng = np.random.default_rng(seed)
    data = [rng.integers(-9, 9, 900).astype(np.float32), rng.integers(-9, 9, 900)]
    outs = [np.zeros(REGION * (grower.stores + 1), dtype) for dtype in (np.float32, np.int64)]
    expected = [out.copy() for out in outs]
    run_wide(nest, bits, [*data, *outs], list(params.values()), 0, 1)
    with np.errstate(all="ignore"):
        Interpreter(nest, [*data, *expected], list(params.values())).run(0, 1)
    for got, want in zip(outs, expected, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=str(nest))


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("seed", range(300, 306))
def test_expressions(seed, bits):
    grower = ExpressionGrower(seed)
    for _ in range(30):
        grower.grow()
    outputs = [grower.pool[code][-1] for code in ("f32", "f64", "i32", "i64")]
    nest = pointwise_nest("wide", list(ExpressionGrower.INPUTS), [v.dtype for v in outputs], outputs)
    rng = np.random.default_rng(seed)
    size = 150
    inputs = [rng.normal(size=size).astype(np.float32), rng.normal(size=size),
              rng.integers(-50, 50, size).astype(np.int32), rng.integers(-(2**40), 2**40, size)]
    outs = [np.zeros(size, NUMPY[v.dtype]) for v in outputs]
    arrays = [*inputs, *outs]
    run_wide(nest, bits, arrays, [size, *[a.itemsize for a in arrays], *[0] * len(arrays)], 0, 1)
    with np.errstate(all="ignore"):
        expected = evaluate(outputs, inputs)
    for got, want in zip(outs, expected, strict=True):
        np.testing.assert_array_equal(got, np.broadcast_to(want, got.shape))
