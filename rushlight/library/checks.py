"""`opcheck`: whether an op of a user is what its registrations say.

Enters: an op and arguments for it. Leaves: a word per check. Refuses, with `OpCheckError`: ops that write or return
what their schema does not say, fakes unlike the op, gradients that nothing computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._C import Tensor
from ..autograd import grad as gradients, no_grad
from ..base import late
from ..dispatch import table
from ..dispatch.keys import DispatchKey
from ..op import ops
from .definition import CustomOp, find
from .rules import UnknownSizeError

_CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


def opcheck(
    op: Any,
    args: tuple,
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = _CHECKS,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Check that a custom op is what its schema, fake and autograd registrations say; returns a word per check."""
    definition, kwargs = find(op), kwargs or {}
    checks = {
        "test_schema": _check_schema,
        "test_autograd_registration": _check_autograd,
        "test_faketensor": _check_fake,
        "test_aot_dispatch_dynamic": lambda *given: _check_compiled(*given, rtol, atol, is_dynamic=True),
        "test_aot_dispatch_static": lambda *given: _check_compiled(*given, rtol, atol, is_dynamic=False),
    }
    chosen = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    results: dict[str, Any] = {}
    for name in chosen:
        if name not in checks:
            raise ValueError(f"opcheck: invalid test name {name!r}; expected names among {', '.join(checks)}")
        try:
            checks[name](definition, args, kwargs)
            results[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed for {definition.name} with {error}") from error
            results[name] = error
    return results


class OpCheckError(Exception):
    """A custom op does not keep its promises."""


def _copies(args: tuple) -> tuple:
    return tuple(a.detach().clone().requires_grad_(a.requires_grad) if isinstance(a, Tensor) else a for a in args)


def _check_schema(definition: CustomOp, args: tuple, kwargs: dict[str, Any]) -> None:
    mine = _copies(args)
    before = [a.detach().clone() if isinstance(a, Tensor) else None for a in mine]
    with no_grad():
        result = ops[definition.name](*mine, **kwargs)
    for p, a, old in zip(definition.spec.params, mine, before, strict=False):
        if old is not None and not p.mutated and not bool(((a == old) | ((a != a) & (old != old))).all()):
            raise RuntimeError(f"argument {p.name} is not declared as mutated, but the op changed it")
    outs = result if isinstance(result, (tuple, list)) else (result,)
    for out in outs:
        for p, a in zip(definition.spec.params, mine, strict=False):
            if (
                isinstance(a, Tensor)
                and isinstance(out, Tensor)
                and out.numel()
                and out.untyped_storage().data_ptr() == a.untyped_storage().data_ptr()
            ):
                raise RuntimeError(f"the output aliases argument {p.name}; custom ops must return fresh tensors")


def _check_autograd(definition: CustomOp, args: tuple, kwargs: dict[str, Any]) -> None:
    mine = _copies(args)
    if not any(isinstance(a, Tensor) and a.requires_grad for a in mine):
        return
    result = ops[definition.name](*mine, **kwargs)
    outs = [
        o
        for o in (result if isinstance(result, (tuple, list)) else (result,))
        if isinstance(o, Tensor) and (o.is_floating_point() or o.is_complex())
    ]
    is_recorded = any(o.requires_grad for o in outs) and definition.node is None      # by the kernel itself
    if outs and definition.backward is None and not is_recorded:
        raise RuntimeError("inputs require grad but no derivative is registered; use register_autograd")


def _check_fake(definition: CustomOp, args: tuple, kwargs: dict[str, Any]) -> None:
    rule = definition.shape_rule()
    if rule == definition.run and not definition.spec.returns:
        return      # nothing comes back, so there are no shapes to say
    if rule == definition.run and table.find(definition.name, DispatchKey.CompositeImplicitAutograd) is None:
        raise RuntimeError("no fake implementation is registered; use register_fake")
    mine = _copies(args)
    with no_grad():
        real = ops[definition.name](*mine, **kwargs)
        if rule == definition.run:      # a body of other ops has its shapes
            return
        try:
            fake = rule(*[a.to("meta") if isinstance(a, Tensor) else a for a in args], **kwargs)
        except UnknownSizeError:      # elements decide: the compiled check below sees it with symbols
            return
    pairs = zip(real, fake, strict=True) if isinstance(real, (tuple, list)) else [(real, fake)]
    for r, f in pairs:
        if isinstance(r, Tensor) and (r.shape != f.shape or r.dtype is not f.dtype or r.stride() != f.stride()):
            raise RuntimeError(
                f"the fake gave {f.dtype.name}{list(f.shape)} strides {f.stride()}, the op"
                f" {r.dtype.name}{list(r.shape)} strides {r.stride()}"
            )


def _check_compiled(
    definition: CustomOp, args: tuple, kwargs: dict[str, Any], rtol: float | None, atol: float | None, *,
    is_dynamic: bool,
) -> None:
    """Results, gradients and written arguments are the same where the op is part of a compiled graph."""

    def call(*given: Any) -> Any:
        return ops[definition.name](*given, **kwargs)

    compiled = late.provided("compile_callable")(call, backend="aot_eager", fullgraph=True, dynamic=is_dynamic)
    here, there = _copies(args), _copies(args)
    expected, got = _outs(call(*here)), _outs(compiled(*there))
    if len(expected) != len(got):
        raise RuntimeError(f"compiled, the op gives {len(got)} results, not {len(expected)}")
    pairs = [("result", a, b) for a, b in zip(expected, got, strict=True)]
    pairs += [("argument", a, b) for a, b in zip(here, there, strict=True)]
    followed = [o.requires_grad for o in expected]
    if any(followed) and definition.backward is not None:
        pairs += [("gradient", a, b) for a, b in zip(
            _gradients(expected, here, followed), _gradients(got, there, followed), strict=True)]
    for what, a, b in pairs:
        if isinstance(a, Tensor):
            _same(what, a.detach(), b, rtol, atol)


def _outs(result: Any) -> list[Tensor]:
    return [r for r in (result if isinstance(result, (tuple, list)) else (result,)) if isinstance(r, Tensor)]


def _gradients(outs: list[Tensor], args: tuple, followed: list[bool]) -> tuple:
    """Of the sum of what is followed, to the arguments that ask for them."""
    asked = [a for a in args if isinstance(a, Tensor) and a.requires_grad]
    total = sum(o.abs().sum() if o.is_complex() else o.sum() for o, is_asked in zip(outs, followed, strict=True)
                if is_asked)
    return gradients(total, asked, allow_unused=True)


def _same(what: str, a: Tensor, b: Any, rtol: float | None, atol: float | None) -> None:
    if not isinstance(b, Tensor) or a.shape != b.shape or a.dtype is not b.dtype:
        raise RuntimeError(f"compiled, a {what} is {getattr(b, 'dtype', b)}{list(getattr(b, 'shape', ()))}, not"
                           f" {a.dtype}{list(a.shape)}")
    if not a.is_floating_point() and not a.is_complex():
        is_equal = bool((a == b).all())
    else:
        loose = 1e-2 if a.itemsize <= 2 else 1e-4
        is_equal = a.allclose(b.detach(), rtol=loose if rtol is None else rtol, atol=loose if atol is None else atol,
                              equal_nan=True)
    if not is_equal:
        raise RuntimeError(f"compiled, a {what} has other values")
