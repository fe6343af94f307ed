"""NumPy on tensors: arrays that stand for tensors of the graph while a program is captured.

Enters: `tensor.numpy()`, and calls of NumPy with what it gives. An `Array` has the sizes and type of an ndarray,
elements that mean nothing, and a tensor of the graph. NumPy itself says, by its protocols, which function is called on
it; sizes and type of a result are what that function gives for elements of any value. Leaves: nodes that call NumPy
when the graph runs (ops of their own, between kernels), or views of the tensor where NumPy gives views. Refuses (breaks
the graph): functions whose results have sizes that elements decide, writes, random numbers, arrays from outside.
"""

from __future__ import annotations

import functools
import itertools
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

from ... import _C
from ..._C import Tensor
from ...library.definition import CustomOp
from ...op.schema import parse
from ...tensors import interop
from ...utils import _pytree as pytree
from ..record.breaks import GraphBreak, Raised, shown
from ..record.machine import Machine
from .natives import SPECIAL, detached, special, tensor_method

# Functions and methods whose results depend on sizes and types alone, but for their elements.
KNOWN = frozenset((
    "sum", "mean", "std", "var", "max", "min", "amax", "amin", "prod", "argmax", "argmin", "cumsum", "cumprod", "all",
    "any", "ptp", "median", "dot", "matmul", "inner", "outer", "tensordot", "einsum", "vdot", "kron", "trace", "where",
    "clip", "round", "around", "concatenate", "stack", "vstack", "hstack", "column_stack", "tile", "repeat", "roll",
    "sort", "argsort", "flip", "pad", "zeros_like", "ones_like", "full_like", "empty_like", "copy", "astype", "flatten",
    "nan_to_num", "isclose", "allclose", "diff", "cross", "linalg.norm", "norm", "triu", "tril", "real", "imag", "take",
    "average", "quantile", "percentile", "interp", "convolve", "conj", "conjugate", "searchsorted",
))
_BY_NUMBERS = frozenset(("repeat", "tile", "roll", "pad", "round", "around", "diff"))      # arguments that decide sizes
MAKERS = frozenset(("arange", "zeros", "ones", "full", "linspace", "logspace", "eye", "identity", "array", "asarray"))
_TYPES = frozenset((
    "float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "bool", "complex64", "complex128",
))
_names = itertools.count()


@functools.cache
def array_class() -> type:
    """The class of arrays without elements: made when NumPy is there."""
    import numpy  # noqa: PLC0415 - loaded by programs that use it

    class Array(numpy.ndarray):
        """An ndarray of some sizes and type, which stands for a tensor of the graph."""

        tensor: Any
        machine: Any
        is_scalar: bool

        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
            machine = next(x.machine for x in pytree.tree_leaves((inputs, kwargs)) if isinstance(x, Array))
            called = ufunc if method == "__call__" else getattr(ufunc, method)
            return call_numpy(machine, called, inputs, kwargs, is_known=method in ("__call__", "reduce"))

        def __array_function__(self, func: Any, types: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
            machine = next(x.machine for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Array))
            return call_numpy(machine, func, args, kwargs)

        def _refuse(self, *args: Any) -> Any:
            raise GraphBreak("elements", "an element of an array is needed")

        __bool__ = __float__ = __int__ = __index__ = __complex__ = __repr__ = __str__ = __format__ = _refuse
        __contains__ = __iter__ = item = tolist = tobytes = tofile = dump = dumps = __array__ = _refuse

        def _write(self, *args: Any, **kwargs: Any) -> Any:
            raise GraphBreak("mutation", "an array that shares memory with a tensor is written to")

        __setitem__ = fill = put = partition = resize = itemset = setflags = _write
        sort = _write

    for name in dir(numpy.ndarray):
        if name in KNOWN and name != "sort" and callable(getattr(numpy.ndarray, name)):
            setattr(Array, name, _method(getattr(numpy.ndarray, name)))
    for name, rule in VIEWS.items():
        setattr(Array, name, rule)
    Array.T = property(_transpose)  # type: ignore[attr-defined]
    return Array


def _method(function: Any) -> Callable:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return call_numpy(self.machine, function, (self, *args), kwargs)

    method.__name__ = function.__name__
    return method


# --- between tensors and arrays ---------------------------------------------------------------------------------------


def array_of(m: Machine, tensor: Tensor, is_scalar: bool = False) -> Any:
    """An array that stands for a tensor of the graph."""
    import numpy  # noqa: PLC0415

    if any(not isinstance(n, int) for n in tensor.shape):
        raise GraphBreak("not modelled", "NumPy on a tensor whose sizes are symbols")
    like = numpy.broadcast_to(numpy.ones((), tensor.dtype.name), tuple(tensor.shape))
    result = like.view(array_class())
    result.tensor, result.machine, result.is_scalar = tensor, m, is_scalar
    m.kept.append(result)
    return result


def is_array(value: Any) -> bool:
    """Whether a value is an array of a captured program."""
    return type(value).__name__ == "Array" and type(value).__module__ == __name__


def back(tensor: Tensor, is_scalar: bool) -> Any:
    """What the program gets for an array that leaves the frame."""
    return tensor.numpy()[()] if is_scalar else tensor.numpy()


def viewed(a: Any, function: Callable[..., Tensor], *args: Any) -> Any:
    """A view of an array: one of its tensor."""
    return array_of(a.machine, a.machine.record(function, (a.tensor, *args), {}))


def _item(a: Any, key: Any) -> Any:
    keys = key if isinstance(key, tuple) else (key,)
    if any(not isinstance(k, (int, slice, type(None), type(...))) or isinstance(k, bool) for k in keys) or any(
            isinstance(k, slice) and k.step is not None and k.step < 0 for k in keys):
        raise GraphBreak("not modelled", "an array is indexed by something else than numbers and slices")
    result = a.machine.record(operator.getitem, (a.tensor, key), {})
    whole = not any(isinstance(k, (slice, type(None), type(...))) for k in keys) and result.ndim == 0
    return array_of(a.machine, result, whole)


def _reshape(a: Any, *sizes: Any, order: str = "C") -> Any:
    shape = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    if order != "C":
        raise GraphBreak("not modelled", f"reshape(order={order!r})")
    return viewed(a, Tensor.reshape, tuple(shape))


def _transpose(a: Any, *axes: Any) -> Any:
    order = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
    order = tuple(order) if order and order != (None,) else tuple(reversed(range(a.ndim)))
    return viewed(a, Tensor.permute, order)


VIEWS: dict[str, Callable] = {
    "__getitem__": _item, "reshape": _reshape, "transpose": _transpose, "ravel": lambda a: _reshape(a, -1),
    "swapaxes": lambda a, i, j: viewed(a, Tensor.transpose, i, j),
}


@tensor_method("numpy")
def _numpy(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    tensor = args[0]
    force = kwargs.get("force", args[1] if len(args) > 1 else False)
    if tensor.requires_grad or force or tensor.dtype.name not in _TYPES:
        raise GraphBreak("elements", "numpy of a tensor is called")
    return array_of(m, tensor)


# --- calls ------------------------------------------------------------------------------------------------------------


class ArrayCall(CustomOp):
    """One call of NumPy, as an op on the tensors that its arrays stand for."""

    def __init__(self, function: Callable, leaves: Sequence[Any], spec: Any, results: Sequence[Any]) -> None:
        name = f"numpy_{getattr(function, '__name__', 'call')}_{next(_names)}"
        super().__init__(parse(f"{name}(Tensor[] tensors) -> Tensor[]"), f"rushlight::{name}")
        self.function, self.leaves, self.structure = function, list(leaves), spec
        self.results = [(tuple(r.shape), getattr(_C, r.dtype.name)) for r in results]

    def run(self, *args: Any) -> Any:
        import numpy  # noqa: PLC0415

        (tensors,) = args
        if any(t.is_meta for t in tensors):
            return [_C.empty(shape, None, dtype, _C.device("meta")) for shape, dtype in self.results]
        given = iter(tensors)
        filled = [next(given).detach().numpy() if leaf is _ARRAY else leaf for leaf in self.leaves]
        inner, named = pytree.tree_unflatten(filled, self.structure)
        results = pytree.tree_leaves(self.function(*inner, **named))
        return [interop.from_numpy(numpy.array(x, copy=True, order="C")) for x in results
                if isinstance(x, (numpy.ndarray, numpy.generic))]


class _Place:
    """Where an array is to be."""


_ARRAY = _Place()


def call_numpy(m: Machine, function: Any, args: tuple, kwargs: dict[str, Any], is_known: bool = False) -> Any:
    """A call of NumPy with arrays of the program among its arguments."""
    import numpy  # noqa: PLC0415

    name = getattr(function, "__name__", "")
    if (not is_known and name not in KNOWN) or kwargs.get("out") is not None:
        raise GraphBreak("native", f"numpy's {name or function} on tensors")
    if name in _BY_NUMBERS and any(is_array(x) for x in pytree.tree_leaves((args[1:], kwargs))):
        raise GraphBreak("elements", f"numpy's {name} with a number that an array holds")
    leaves, spec = pytree.tree_flatten((args, kwargs))
    arrays = [x for x in leaves if is_array(x)]
    if any(isinstance(x, Tensor) for x in leaves):
        raise GraphBreak("not modelled", "NumPy with tensors and arrays at once")
    inner, named = pytree.tree_unflatten([_dummy(x) if is_array(x) else x for x in leaves], spec)
    try:
        with numpy.errstate(all="ignore"):
            result = function(*inner, **named)
    except Exception as error:      # noqa: BLE001 - the program's own
        raise Raised(error) from None
    results, structure = pytree.tree_flatten(result)
    found = [x for x in results if isinstance(x, (numpy.ndarray, numpy.generic))]
    if not found or any(isinstance(x, bool) for x in results) or any(x.dtype.name not in _TYPES for x in found):
        raise GraphBreak("elements", f"numpy's {name} gives a Python value of elements")
    places = [_ARRAY if is_array(x) else x.copy() if isinstance(x, numpy.ndarray) else x for x in leaves]
    call = ArrayCall(function, places, spec, found)
    tensors = m.record(call.overload(), ([a.tensor for a in arrays],), {})
    given = iter(tensors)
    kinds = numpy.ndarray, numpy.generic
    filled = [array_of(m, next(given), isinstance(x, numpy.generic)) if isinstance(x, kinds) else x for x in results]
    return pytree.tree_unflatten(filled, structure)


def _dummy(a: Any) -> Any:
    import numpy  # noqa: PLC0415

    results = numpy.ones(a.shape, a.dtype)
    return results[()] if a.is_scalar else results


def is_numpy(function: Any) -> bool:
    """Whether a callable is one of NumPy's, or a method of an array of the program."""
    if is_array(getattr(function, "__self__", None)):
        return True
    module = getattr(function, "__module__", None) or type(function).__module__
    return (isinstance(module, str) and module.partition(".")[0] == "numpy") or type(function).__module__ == "numpy"


def call(m: Machine, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A call of one of NumPy's functions, or of a method of an array."""
    leaves = pytree.tree_leaves((args, kwargs))
    owner = getattr(function, "__self__", None)
    if is_array(owner) and isinstance(function, types.MethodType):
        return m.native(function, args, kwargs, is_watched=False)
    if any(is_array(x) for x in leaves):
        ufunc = type(function).__name__ == "ufunc"
        name = getattr(function, "__name__", "")
        if name in VIEWS and name != "__getitem__":
            return m.native(VIEWS[name], args, kwargs, is_watched=False)
        return m.native(function, args, kwargs, is_watched=False) if ufunc or name in KNOWN else _unknown(function)
    if getattr(function, "__name__", "") in MAKERS and not any(isinstance(x, Tensor) for x in leaves):
        return m.native(function, args, kwargs, is_watched=False)
    return _unknown(function)


def _unknown(function: Any) -> Any:
    raise GraphBreak("native", f"{shown(function)} is not known to be safe")


@special(interop.from_numpy)
def _from_numpy(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    if len(args) == 1 and is_array(args[0]) and not args[0].is_scalar:
        return m.record(detached, (args[0].tensor,), {})      # the same memory
    return _unknown(f)


_from_values = SPECIAL[interop.tensor]


@special(interop.tensor, interop.as_tensor, interop.asarray)
def _make_tensor(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    if args and is_array(args[0]):
        result = m.record(Tensor.clone if f is interop.tensor else detached, (args[0].tensor,), {})
        return _from_values(m, interop.as_tensor, (result, *args[1:]), kwargs) if kwargs or args[1:] else result
    return _from_values(m, f, args, kwargs)
