"""Block programs: one step of a plan made of many kernel calls on blocks of its operands.

Enters: statements (`Loop`, `When`, `Call`) over named loop variables, the first of which are the parallel range. Leaves:
a plan step for the core's `block_kernel`, which replays the program on every thread with scratch memory of its own.
Refuses: more variables, operands or parameters than the core holds.

Sizes and addresses are `Form`s, a constant plus a factor per variable, or a tuple of forms of which the least counts:

    i, j = Form.var("i"), Form.var("j")
    Call(kernel, operands=[Block(0, i * 4096), Block(SCRATCH, 0)], params=[(64, 500 - i * 64)], extent=(64, 500 - i * 64))

The words the core reads, in order:  loop: 0 var length count body | when: 1 length value body
| call: 2 address extent operands (which, offset)... params value...
where a value is 0 constant, or forms (constant, factors...)...
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from .. import _C
from ..codegen import tiled_products
from ..loops.record import Record

SCRATCH = -1


class Form(Record):
    """A constant plus a factor per variable."""

    constant: int
    factors: dict[str, int] = MappingProxyType({})

    @staticmethod
    def var(name: str) -> Form:
        return Form(0, {name: 1})

    def __add__(self, other: Form | int) -> Form:
        other = other if isinstance(other, Form) else Form(other)
        names = {**self.factors, **other.factors}
        return Form(self.constant + other.constant, {n: self.factors.get(n, 0) + other.factors.get(n, 0) for n in names})

    def __mul__(self, number: int) -> Form:
        return Form(self.constant * number, {n: f * number for n, f in self.factors.items()})

    __radd__, __rmul__ = __add__, __mul__

    def __sub__(self, other: Form | int) -> Form:
        return self + other * -1

    def __rsub__(self, other: int) -> Form:
        return self * -1 + other


Amount = int | Form | tuple


class Block(Record):
    """Where an operand of a call begins: a slot of the step (or SCRATCH) and a byte offset."""

    slot: int
    offset: int | Form

    def after(self, offset: int | Form) -> Block:
        """The block so many bytes further on."""
        return Block(self.slot, offset + self.offset)


class Call(Record):
    kernel: int
    operands: Sequence[Block]
    params: Sequence[Amount]
    extent: Amount = 1


class Loop(Record):
    var: str
    count: Amount
    body: Sequence[Any]


class When(Record):
    """Run the body if `value` is above 0."""

    value: Amount
    body: Sequence[Any]


def product(code: str, a: Block, b: Block, c: Block, sizes: tuple[Amount, Amount, Amount], leading: tuple[int, int, int], turned: bool = False, alpha: float = 1.0, beta: float = 0.0) -> Call:
    """c = alpha * a @ b + beta * c, with sizes (m, n, k) and row strides; `turned` reads a transposed. Sizes that fit the caches."""
    bits = struct.unpack("<qq", struct.pack("<dd", alpha, beta))
    return Call(tiled_products.product_kernel(code, turned).address, [a, b, c, c], [*sizes, *leading, int(turned), 0, 0, 0, 0, *bits, leading[2], 0])


def step(slots: Sequence[int], parallel: Sequence[tuple[str, int]], serial: Sequence[str], scratch: int, body: Sequence[Any], grain: int = 1) -> tuple:
    """The plan step: `slots` are what blocks count, `parallel` the variables (and extents) whose product is the parallel range."""
    names = [name for name, _ in parallel] + list(serial)
    most_vars, most_operands, most_params = _C.block_limits()
    assert len(names) <= most_vars, f"a block program has at most {most_vars} variables, got {names}"
    assert all(len(c.operands) <= most_operands and len(c.params) <= most_params for c in _calls(body)), "a call of a block program has too many operands or parameters"
    words = _encode(body, names)
    extent = 1
    for _, size in parallel:
        extent *= size
    head = [len(words), len(names), scratch, len(parallel), *(size for _, size in parallel)]
    return (_C.block_kernel(), list(slots), head + words, extent, grain, -1)


def _calls(body: Sequence[Any]) -> list[Call]:
    return [c for s in body for c in ([s] if isinstance(s, Call) else _calls(s.body))]


def _amount(value: Amount, names: list[str]) -> list[int]:
    if isinstance(value, int):
        return [0, value]
    forms = [f if isinstance(f, Form) else Form(f) for f in (value if isinstance(value, tuple) else (value,))]
    return [len(forms), *(w for f in forms for w in (f.constant, *(f.factors.get(n, 0) for n in names)))]


def _encode(body: Sequence[Any], names: list[str]) -> list[int]:
    words: list[int] = []
    for s in body:
        if isinstance(s, Call):
            words += [2, s.kernel, *_amount(s.extent, names), len(s.operands)]
            words += [w for b in s.operands for w in (b.slot, *_amount(b.offset, names))]
            words += [len(s.params), *(w for p in s.params for w in _amount(p, names))]
            continue
        inner = _encode(s.body, names)
        if isinstance(s, Loop):
            words += [0, names.index(s.var), len(inner), *_amount(s.count, names), *inner]
        else:
            words += [1, len(inner), *_amount(s.value, names), *inner]
    return words
