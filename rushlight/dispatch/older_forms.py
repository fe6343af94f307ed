"""Calls with a factor among the positions, as programs older than PyTorch 1.5 write them: `p.add_(-0.1, p.grad)`.

Enters: an op and arguments that fit none of its signatures. Leaves: the same call with the factors by name, or None.
PyTorch still takes these forms and warns; a published training loop or optimizer of that time is full of them.
"""

from __future__ import annotations

import warnings
from typing import Any

from .. import _C

_SUM = (("input", "alpha", "other"),)
_QUOTIENT = (("input", "value", "tensor1", "tensor2"),)


def _product(first: str, second: str) -> tuple[tuple[str, ...], ...]:
    """The forms of a product that is added: functions begin with `beta`, methods with the tensor."""
    rests = (("alpha", first, second), (first, second))
    return tuple((*start, *rest) for rest in rests for start in (("beta", "input"), ("input", "beta")))


# By the name of the op: its older forms, each as parameters in order. Which one is meant shows in the types.
OLDER_FORMS = {
    "add": _SUM, "sub": _SUM, "addcmul": _QUOTIENT, "addcdiv": _QUOTIENT,
    "addmm": _product("mat1", "mat2"), "addbmm": _product("batch1", "batch2"),
    "baddbmm": _product("batch1", "batch2"), "addmv": _product("mat", "vec"), "addr": _product("vec1", "vec2"),
}
_FACTORS = ("alpha", "beta", "value")


def respelled_older(op: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]] | None:
    """Arguments of today's signature for a call in an older form, after PyTorch's warning; None for any other call."""
    name = op.__name__ if isinstance(op, _C.Op) else ""
    for form in OLDER_FORMS.get(name.removesuffix("_"), ()):
        named = dict(zip(form, args, strict=False))
        rest = {key: value for key, value in kwargs.items() if key != "out"}
        if len(args) > len(form) or named.keys() & rest.keys() or {*named, *rest} != {*form}:
            continue
        named |= rest
        if all(_fits(key, value) for key, value in named.items()):
            factors = {key: named.pop(key) for key in form if key in _FACTORS}
            today = tuple(named[key] for key in form if key in named)
            _warn(name, [*factors])
            return today, {**factors, **({"out": kwargs["out"]} if "out" in kwargs else {})}
    return None


def _fits(name: str, value: Any) -> bool:
    """A factor is a number or a tensor without dimensions; of the others only `other` may be a number too."""
    if name in _FACTORS:
        return isinstance(value, int | float | complex) or (isinstance(value, _C.Tensor) and value.ndim == 0)
    return isinstance(value, _C.Tensor) or (name == "other" and isinstance(value, int | float | complex))


def _warn(name: str, factors: list[str]) -> None:
    words = " and ".join(factors)
    warnings.warn(
        f"{name}: {words} among the positional arguments is a form PyTorch has deprecated. Pass"
        f" {', '.join(f'{factor}=...' for factor in factors)} after the tensors.",
        UserWarning,
        stacklevel=4,
    )
