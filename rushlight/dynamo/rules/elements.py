"""Reads of elements in the captured program: `item()`, `int(t)`, `tolist()`, and what is said of the numbers.

Enters: calls on tensors and on numbers from elements. Leaves: symbols without a value (`u0`), which are numbers of the
graph (hidden.py), and checks that the graph makes. Refuses (breaks the graph): complex elements, lists of many, and
texts, which show the number.
"""

from __future__ import annotations

import operator
from typing import Any

from ..._C import Tensor
from ...base import assertions
from ...fake import FakeTensor
from ...symbols import SymBool, SymInt, sym_float, sym_int
from ..record.breaks import GraphBreak, Raised
from ..record.hidden import is_hidden
from ..record.machine import Machine
from ..values.attributes import on_class, python_method
from .natives import special, tensor_method

MOST_LISTED = 64      # elements of a tensor that tolist() makes numbers of the graph



def element(m: Machine, t: Tensor, said: str) -> Any:
    """The only element of a tensor, as a number of the graph."""
    env = m.recorder.env
    if env is None or not env.allow_scalar_outputs or t.dtype.is_complex or type(t) is not FakeTensor:
        raise GraphBreak("elements", said)
    count = t.numel()
    if is_hidden(count):
        require(m, RuntimeError, count == 1, f"a tensor with {count!r} elements is no number")
    elif count != 1:
        raise Raised(RuntimeError(f"a Tensor with {count} elements cannot be converted to Scalar"))
    return m.native(FakeTensor.item, (t,))


@tensor_method("item")
def _item(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    return element(m, args[0], "item of a tensor is called")


@tensor_method("__int__", "__index__", "__float__")
def _method(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    return number(m, float if f.__name__ == "__float__" else int, args[0])


@tensor_method("tolist")
def _tolist(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    t, said = args[0], "tolist of a tensor is called"
    if is_hidden(t.numel()) or t.numel() > MOST_LISTED:
        raise GraphBreak("elements", said)
    return _listed(m, t, said)


def _listed(m: Machine, t: Tensor, said: str) -> Any:
    if not t.ndim:
        return element(m, t, said)
    return [_listed(m, m.get_item(t, i), said) for i in range(int(t.shape[0]))]


@special(int, float)
def _number(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    if len(args) == 1 and (isinstance(args[0], Tensor) or is_hidden(args[0])):
        return number(m, f, args[0])
    if args and isinstance(args[0], SymInt) and f is int:
        return args[0]
    for name in ("__int__", "__index__", "__trunc__") if f is int else ("__float__", "__index__"):
        if args and python_method(args[0], name):
            return m.native(f, (m.call(on_class(type(args[0]), name), (args[0],), {}),))
    return m.native(f, args, kwargs)


@special(bool)
def _bool(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """bool(value): a truth of the graph where only elements tell it, and what is done with it is still to come."""
    value = args[0] if args else False
    if type(value) is FakeTensor and (is_hidden(value.numel()) or value.numel() != 0):
        value = element(m, value, "bool() of a tensor needs its element")
    if not is_hidden(value):
        return m.truth(value)
    return value if isinstance(value, SymBool) else value != 0


def number(m: Machine, kind: type, value: Any) -> Any:
    """int(value) or float(value), of a tensor or of a number from elements."""
    if isinstance(value, Tensor):
        value = element(m, value, f"{kind.__name__}() of a tensor needs its element")
    if isinstance(value, SymBool):
        value = value._as_int()
    return m.native(sym_int if kind is int else sym_float, (value,))


# --- what is known of them --------------------------------------------------------------------------------------------

_ERRORS = {
    assertions._check: RuntimeError, assertions._check_index: IndexError, assertions._check_value: ValueError,
    assertions._check_type: TypeError, assertions._check_not_implemented: NotImplementedError,
}


def require(m: Machine, error: type[Exception], condition: Any, message: str) -> None:
    """A check that the graph makes where it stands."""
    condition = condition if isinstance(condition, SymBool) else bool(condition)
    if condition is True:
        return
    formula = condition if condition is False else condition.expression      # before it is known to hold
    if condition is False or not condition.expect_true():
        raise Raised(error(message))
    m.recorder.note_check(formula, error, message)


@special(*_ERRORS)
def _check(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    condition = args[0] if args else kwargs.get("cond")
    if not is_hidden(condition):
        m.native(f, tuple(map(m.wrapped, args)), {k: m.wrapped(v) for k, v in kwargs.items()})
        return
    message = args[1] if len(args) > 1 else kwargs.get("message")
    text = f"Expected cond to be True, but got False. ({condition!r} at {m.location()})"
    if message is not None:
        try:
            text = str(m.call(message, (), {}))
        except GraphBreak:      # it shows the number itself
            pass
    require(m, _ERRORS[f], condition, text)


@special(assertions._check_is_size)
def _check_is_size(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    given = dict(zip(("i", "message"), args, strict=False), **kwargs)
    most, message = given.get("max"), given.get("message")
    said = () if message is None else (message,)
    m.call(assertions._check, (m.binary(operator.ge, given["i"], 0), *said), {})
    if most is not None:
        m.call(assertions._check, (m.binary(operator.le, given["i"], most), *said), {})
