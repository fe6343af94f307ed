"""Random expressions: machine code and the interpreter agree bit for bit (the interpreter is the meaning)."""

from __future__ import annotations

import random

import numpy as np
import pytest
from harness import NUMPY, run_pointwise

from rushlight.loops import expr as e
from rushlight.loops.interpret import evaluate
from rushlight.loops.nest import pointwise_nest

INTS = ["u8", "i16", "i32", "u32", "i64", "u64"]
FLOATS = ["f32", "f64"]
FLOAT_BINARY = ["add", "sub", "mul", "div", "min", "max", "copysign"]
INT_BINARY = ["add", "sub", "mul", "idiv", "irem", "min", "max", "and", "or", "xor"]


class Grower:
    """Grows expressions over four inputs, one of each of f32, f64, i32 and i64."""

    INPUTS = ("f32", "f64", "i32", "i64")

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.pool = {code: [e.arg(k, code)] for k, code in enumerate(self.INPUTS)}

    def pick(self, code: str) -> e.Value:
        known = self.pool.setdefault(code, [])
        if not known or self.random.random() < 0.1:
            known.append(e.const(self.random.choice([0, 1, 2, 3, 7]), code))
        return self.random.choice(known)

    def grow(self) -> None:
        code = self.random.choice([*INTS, *FLOATS, "f32", "f64"])
        kind = self.random.random()
        if kind < 0.15:
            result = self.convert(code)
        elif kind < 0.3:
            op = self.random.choice(["lt", "le", "gt", "ge", "eq", "ne"])
            result = e.select(e.BUILD[op](self.pick(code), self.pick(code)), self.pick(code), self.pick(code))
        elif code in FLOATS and kind < 0.5:
            op = self.random.choice(["neg", "abs", "floor", "ceil", "trunc", "rint", "sqrt"])
            result = e.BUILD[op](self.pick(code))
        elif code in FLOATS and kind < 0.6:
            result = e.fma(self.pick(code), self.pick(code), self.pick(code))
        else:
            op = self.random.choice(FLOAT_BINARY if code in FLOATS else INT_BINARY)
            result = e.BUILD[op](self.pick(code), self.pick(code))
        self.pool.setdefault(result.dtype, []).append(result)

    def convert(self, code: str) -> e.Value:
        source = self.random.choice([c for c in self.pool if c != code and self.pool[c]])
        value = self.pick(source)
        if source in FLOATS and code not in FLOATS:
            # Out-of-range conversions are the hardware's choice: keep to what every type holds.
            value = e.select(e.lt(e.abs_(value), 100.0), e.abs_(value), e.const(5, source))
        return e.cast(value, code)


@pytest.mark.parametrize("seed", range(40))
def test_machine_code_means_what_the_interpreter_says(seed):
    grower = Grower(seed)
    for _ in range(30):
        grower.grow()
    outputs = [grower.pool[code][-1] for code in ("f32", "f64", "i32", "i64")]
    nest = pointwise_nest(f"random{seed}", list(Grower.INPUTS), [v.dtype for v in outputs], outputs)
    rng = np.random.default_rng(seed)
    inputs = [
        rng.normal(size=(2, 37)).astype(np.float32) * 10,
        rng.normal(size=(2, 37)) * 10,
        rng.integers(-50, 50, (2, 37)).astype(np.int32),
        rng.integers(-(2**40), 2**40, (2, 37)),
    ]
    outs = [np.zeros((2, 37), NUMPY[v.dtype]) for v in outputs]
    run_pointwise(nest, inputs, outs)
    with np.errstate(all="ignore"):
        expected = evaluate(outputs, inputs)
    for got, want in zip(outs, expected, strict=True):
        np.testing.assert_array_equal(got, np.broadcast_to(want, got.shape))
