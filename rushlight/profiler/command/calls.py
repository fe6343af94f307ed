"""What calls cost: from an op and the arguments it was called with to floating-point operations and bytes.

Enters: an overload and its bound arguments as a recording keeps them, with lists (sizes, strides, dtype, …) in the
place of tensors (csrc/profile.cpp). Leaves: the `Work` of the plan such a call runs, found afterwards, once for each
combination of op and arguments: the op's own `lower` is asked, as planning asks it, or its row program, or its
`flops` where a library call has loops of its own. None where the op has no cost of its own: its body's calls have.
Refuses: guesses.
"""

from __future__ import annotations

import contextlib
from math import prod
from typing import Any

from ... import _C
from ...fake import FakeTensor, FakeTensorMode
from ...loops.lowered import Lowered, NotLowerable
from ...op import find_op, ops
from ...op.extern import Extern, Spec
from ...op.factory import Factory
from ...op.fused import Fused
from ...op.indexed import Scattered, flatten
from .counting import Work, itemsize, work_of_lowered, work_of_rows

NOTHING = Work(0, 0)


class Costs:
    """The work of calls, each kind of them asked about once."""

    def __init__(self) -> None:
        self.fake = FakeTensorMode()

    def work(self, call: tuple) -> Work | None:
        """The cost of one call, (overload, op, arguments, out); None where its body's calls, or nobody, can tell."""
        overload, _, kept, _ = call
        if isinstance(overload, str):
            return by_name(overload.rpartition("::")[2], kept)
        definition = getattr(overload, "definition", None)
        if definition is None or is_body(overload):
            return None
        if has_no_data(kept):
            return NOTHING
        if definition.is_view():
            return NOTHING
        # Whatever a definition raises for arguments that a mode or a subclass handled before it: no cost is known.
        try:
            args = tuple([self.restored(a) for a in kept])
            return work_of_call(definition, args)
        except NotImplementedError:      # results of a size that only the op itself tells
            with contextlib.suppress(Exception), self.fake:
                return moved(overload.call(*args), args)
        except Exception:
            return None
        return None

    def restored(self, a: Any) -> Any:
        """An argument as definitions take it: what was kept of a tensor becomes one without data."""
        if isinstance(a, list):
            sizes, strides, dtype = a[:3]
            with self.fake:
                return find_op("empty_strided")(sizes, strides, dtype=dtype, device=_C.device("cpu"))
        return tuple([self.restored(x) for x in a]) if type(a) is tuple else a


def is_body(called: Any) -> bool:
    """Whether an op, or a function that looks like one, is what its body calls and nothing besides."""
    definition = getattr(called, "definition", called)
    return bool(getattr(definition, "is_composite", True) or getattr(definition, "body", False))


def has_no_data(kept: tuple) -> bool:
    """Whether a call was made with tensors that have no elements to compute with: a tracer's, a fake's."""
    return any(
        (isinstance(a, list) and (a[3].type == "meta" or issubclass(a[4], FakeTensor)))
        or (isinstance(a, tuple) and has_no_data(a))
        for a in kept
    )


def by_name(name: str, kept: tuple) -> Work | None:
    """The cost of a call that the core makes itself, of which a recording knows the name alone."""
    moved = [prod(a[0]) * a[2].itemsize for a in kept if isinstance(a, list)]
    if name in ("item", "is_nonzero", "ones_like") and moved:
        return Work(0, moved[0])
    found = ops.get(name)
    is_view = name == "detach" or (found is not None and any(o.definition.is_view() for o in found.overload_list))
    return NOTHING if is_view else None


def work_of_call(definition: Any, args: tuple) -> Work | None:
    """The cost of one call of a definition; None where it has no plan, or none that tells."""
    if isinstance(definition, Fused):
        return fused(definition, args)
    if isinstance(definition, Factory):
        return made(definition, args)
    if definition.law is not None:
        return Work(None, held(args[0]))
    try:
        own = work_of_lowered(definition.lower(args))
    except NotLowerable:
        return library(definition, args) if isinstance(definition, Extern) else None
    if isinstance(definition, Scattered) and not definition.is_inplace:      # into a copy of its first argument
        own += Work(0, 2 * held(args[0]))
    return own


def fused(definition: Fused, args: tuple) -> Work | None:
    """The cost of a row program."""
    count = definition.row_dims(*args)
    main = definition.main(args)
    if count <= 0 or not main.numel():
        return None
    columns = prod(main.shape[main.ndim - count :])
    tensors = [(i, a) for i, a in enumerate(args) if isinstance(a, _C.Tensor)]
    return work_of_rows(definition.program(args, tensors, count).rows, main.numel() // columns, columns)


def library(definition: Extern, args: tuple) -> Work:
    """The cost of a library's call: what it computes by its own count, and every operand moved once."""
    specs = definition.meta(*args)
    outs = (specs,) if isinstance(specs, Spec) else specs
    written = sum([prod(s.shape) * itemsize(s.dtype.code) for s in outs])
    return Work(definition.flops(*args), written + sum([held(t) for t in flatten(args)]))


def made(definition: Factory, args: tuple) -> Work:
    """The cost of a new tensor: what fills it, which is nothing where memory stays as it was."""
    own, dtype, _, _ = definition.split(args)
    spec, content = definition.spec_and_content(own, dtype, _C.device("cpu"))
    if isinstance(content, Lowered):
        return work_of_lowered(content)
    filled = prod(spec.shape) * itemsize(spec.dtype.code)
    if content is None:
        return NOTHING
    return Work(0 if isinstance(content, (int, float, complex)) else None, filled)


def moved(result: Any, args: tuple) -> Work:
    """Every operand and every result moved once, by a library that does not say what it computes."""
    return Work(None, sum([held(t) for t in (*flatten(args), *flatten((result,)))]))


def held(t: Any) -> int:
    """Bytes of a tensor's elements; those that are repeated count once."""
    return prod([n for n, stride in zip(t.shape, t.stride(), strict=True) if stride]) * itemsize(t.dtype.code)
