"""`opcheck`: whether an op of a user is what its registrations say.

Enters: an op and arguments for it. Leaves: a word per check. Refuses, with `OpCheckError`: ops that write or return
what their schema does not say, fakes unlike the op, gradients that nothing computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._C import Tensor
from ..autograd import no_grad
from ..op import ops
from .definition import CustomOp, find

_CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor")


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
    if outs and not any(o.requires_grad for o in outs) and definition.backward is None:
        raise RuntimeError("inputs require grad but no derivative is registered; use register_autograd")


def _check_fake(definition: CustomOp, args: tuple, kwargs: dict[str, Any]) -> None:
    if definition.fake is None:
        raise RuntimeError("no fake implementation is registered; use register_fake")
    mine = _copies(args)
    with no_grad():
        real = ops[definition.name](*mine, **kwargs)
        fake = definition.fake(*[a.to("meta") if isinstance(a, Tensor) else a for a in args], **kwargs)
    pairs = zip(real, fake, strict=True) if isinstance(real, (tuple, list)) else [(real, fake)]
    for r, f in pairs:
        if isinstance(r, Tensor) and (r.shape != f.shape or r.dtype is not f.dtype or r.stride() != f.stride()):
            raise RuntimeError(
                f"the fake gave {f.dtype.name}{list(f.shape)} strides {f.stride()}, the op"
                f" {r.dtype.name}{list(r.shape)} strides {r.stride()}"
            )
