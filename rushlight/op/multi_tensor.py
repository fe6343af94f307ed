"""Multi-tensor updates: one scalar expression run over lists of tensors by one kernel.

Enters: names of state, a function giving the numbers of a step, and a body in the scalar vocabulary. Leaves: a
`_C.MultiTensorUpdate`, which walks parameters and launches; kernels are made per combination of element types. Refuses
(leaving the tensors to the caller): element types that are not real floating point.

Kernels take the tensors in order, then one array of numbers, and run over a range of elements. Halves compute in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _C, codegen
from ..loops.expr import Value, const, load, var
from ..loops.nest import Local, Nest, Operand, Store, rows
from ..loops.vocabulary import Scalars

AHEAD = 512   # bytes; where tensors lie at unlucky distances, AdamW took 1.40 ns an element without and takes 1.22 (Neoverse N1)
FLOATS = ("f16", "bf16", "f32", "f64")
Body = Callable[[Scalars, list[Value], list[Value]], dict[int, Value]]


def update_nest(name: str, codes: list[str], compute: str, num_numbers: int, body: Body) -> Nest:
    """The kernel: `body(s, tensors, numbers)` gives the new value of each operand it writes."""
    s, at = Scalars(), var("i")
    numbers = [load(len(codes), const(k, "i64"), compute) for k in range(num_numbers)]
    # Every element is read before any is written: an operand written early may be read late in the expression. The order is
    # the machine's: what the new parameter waits for longest comes first, its square root (AdamW: 1.22 to 1.16 ns an element).
    reads = [Local(f"x{k}", s.cast(load(k, at, codes[k]), compute)) for k in (1, *range(len(codes) - 1, 1, -1), 0)]
    made = body(s, [var(f"x{k}", compute) for k in range(len(codes))], numbers)
    writes = [w for k in sorted(made, reverse=True) for w in (Local(f"y{k}", made[k]), Store(k, at, s.cast(var(f"y{k}", compute), codes[k])))]
    return Nest(name, tuple(Operand(code) for code in (*codes, compute)), (), rows(*reads, *writes, vector=True, ahead=AHEAD))


def multi_tensor_update(name: str, tensor_keys: tuple[str, ...], scalar_keys: tuple[str, ...], num_numbers: int,
                        numbers: Callable[..., tuple], body: Body) -> Any:  # fmt: skip
    """An update rule for the core: update(params, grads or None, state, hyper) -> places left, or None."""

    def compile(dtypes: tuple) -> tuple[int, bool] | None:
        codes = [d.code for d in dtypes]
        if any(code not in FLOATS for code in codes):
            return None
        compute = "f64" if "f64" in codes else "f32"
        return codegen.compile(update_nest(name, codes, compute, num_numbers, body)).address, compute == "f64"

    return _C.MultiTensorUpdate(tensor_keys, scalar_keys, numbers, compile)
