"""Random numbers between kernels: steps that draw from the default generator without Python.

Enters: a node that fills a tensor with random numbers by a law of its own (`Definition.law`). Leaves: a step over the
core's samplers, which draws what the op itself would, in its place among others that draw; None for generators of the
program's own, laws that the op refuses (it says so when it runs), and sizes that stand for others.
"""

from __future__ import annotations

import struct
from typing import Any

from .. import _C
from .read_graph import Node
from .values import Value


def drawn(node: Node, device: Any) -> tuple[int, list[int]] | None:
    """The kernel and the parameters of the step that fills the node's first argument."""
    definition, args = node.definition, node.args
    if definition.law is None or device.type != "cpu" or len(node.inputs) != 1 or args[-1] is not None:
        return None
    target, numbers = args[0], args[1:-1]
    if not isinstance(target, Value) or target.varies or target.dtype.is_complex:
        return None
    if not all(isinstance(n, (int, float)) for n in numbers):
        return None
    try:
        name, *given = definition.law(target.dtype, *numbers)
    except (RuntimeError, NotImplementedError, ValueError):
        return None
    address, sampler, kind = _C.drawing_step(name, target.dtype.code)
    bits = [struct.unpack("<q", struct.pack("<d", x))[0] for x in (*given, 0.0, 0.0)[:2]]
    size = target.dtype.itemsize
    return address, [sampler, kind, *bits, len(target.sizes), *target.sizes, *[s * size for s in target.strides]]
