"""Random numbers between kernels: steps that draw from the default generator without Python.

Enters: a node that fills its argument, or a new tensor, with random numbers by a law of its own (`Definition.law`).
Leaves: a step over the core's samplers, which draws what the op itself would, in its place among others that draw;
None for generators of the program's own, laws that the op refuses (it says so when it runs), and sizes that stand for
others.
"""

from __future__ import annotations

import struct
from typing import Any

from .. import _C
from .read_graph import Node
from .values import Value

FILLS = ("bernoulli_", "uniform_", "normal_")
LIKE = ("rand_like", "randn_like")


def drawn(node: Node, device: Any) -> tuple[Value, int, list[int]] | None:
    """What the node fills, and the kernel and the parameters of the step that does."""
    definition, args = node.definition, node.args
    if definition.name not in (*FILLS, *LIKE) or device.type != "cpu" or len(node.inputs) != 1:
        return None
    given = dict(zip([p.name for p in definition.spec.params], args, strict=True))
    target, numbers = (args[0], args[1:-1]) if definition.name in FILLS else (node.results[0], ())
    if given.get("generator") is not None or target.varies or target.dtype.is_complex:
        return None
    if not all(isinstance(n, (int, float)) for n in numbers):
        return None
    try:
        name, *given = definition.law(target.dtype, *numbers)
    except (RuntimeError, NotImplementedError, ValueError):
        return None
    address, sampler, kind = _C.drawing_step(name, target.dtype.code)
    bits = [struct.unpack("<q", struct.pack("<d", x))[0] for x in (*given, 0.0, 0.0)[:2]]
    strides = [s * target.dtype.itemsize for s in target.strides]
    return target, address, [sampler, kind, *bits, len(target.sizes), *target.sizes, *strides]
