"""Which sizes may vary: `Dim`, hints, collections, and how a description in the user's words meets the arguments.

Enters: `dynamic_shapes` as it was given, and the arguments. Leaves: for every leaf of the arguments what each of its
dims is: a `Dim`, a hint, or nothing. Refuses: descriptions that do not fit the arguments, naming the place.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from enum import Enum, auto
from typing import Any

from .._C import Tensor
from ..dynamo.errors import UserError
from ..nn import Module
from ..symbols import ConstraintViolationError
from ..utils import _pytree as pytree

__all__ = ["AdditionalInputs", "Constraint", "Dim", "ShapesCollection", "dims",
           "refine_dynamic_shapes_from_suggested_fixes"]


class _DimHintType(Enum):
    AUTO = auto()
    STATIC = auto()
    DYNAMIC = auto()


@dataclasses.dataclass(frozen=True)
class _DimHint:
    """A size without a name: AUTO may turn out fixed, DYNAMIC may not, STATIC is."""

    type: _DimHintType
    min: int | None = None
    max: int | None = None

    def __call__(self, min: int | None = None, max: int | None = None) -> _DimHint:
        """The same within limits."""
        if self.type is _DimHintType.STATIC:
            raise TypeError("Dim.STATIC: a fixed size has no limits")
        if self.min is not None or self.max is not None:
            raise TypeError(f"{self!r} has limits already")
        _check_limits("Dim", min, max)
        return _DimHint(self.type, min, max)

    def __repr__(self) -> str:
        limits = [f"{k}={v}" for k, v in (("min", self.min), ("max", self.max)) if v is not None]
        return f"Dim.{self.type.name}" + (f"({', '.join(limits)})" if limits else "")


def _check_limits(name: str, low: int | None, high: int | None) -> None:
    if low is not None and low < 0:
        raise AssertionError(f"{name}: min must not be negative, got {low}")
    if low is not None and high is not None and high <= low:
        raise AssertionError(f"{name}: max must be larger than min, got min={low}, max={high}")


class Dim:
    """A named size that may vary, between `min` and `max`. `2*d`, `d + 1` and their like depend on it."""

    AUTO = _DimHint(_DimHintType.AUTO)
    STATIC = _DimHint(_DimHintType.STATIC)
    DYNAMIC = _DimHint(_DimHintType.DYNAMIC)

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not name.isidentifier():
            raise AssertionError(f"Dim: the name must be an identifier, got {name!r}")
        _check_limits(f"Dim({name!r})", min, max)
        self.__name__ = name
        self.min, self.max = 0 if min is None else min, max

    def __add__(self, other: int) -> _Derived:
        return _Derived(self, 1, _int("+", other))

    def __sub__(self, other: int) -> _Derived:
        return _Derived(self, 1, -_int("-", other))

    def __mul__(self, other: int) -> _Derived:
        if _int("*", other) <= 0:
            raise NotImplementedError(f"Dim: {self.__name__} can only be multiplied by a positive integer, got {other}")
        return _Derived(self, other, 0)

    __radd__, __rmul__ = __add__, __mul__

    @property
    def root(self) -> Dim:
        return self

    factor, offset = 1, 0

    def __repr__(self) -> str:
        limits = [f"{k}={v}" for k, v in (("min", self.min or None), ("max", self.max)) if v is not None]
        return f"Dim({', '.join([repr(self.__name__), *limits])})"


def _int(operation: str, value: Any) -> int:
    if type(value) is not int:
        raise NotImplementedError(f"Dim {operation}: expected an integer, got {value!r}")
    return value


class _Derived(Dim):
    """factor * root + offset."""

    def __init__(self, root: Dim, factor: int, offset: int) -> None:
        self._root, self.factor, self.offset = root, factor, offset
        scaled = root.__name__ if factor == 1 else f"{factor}*{root.__name__}"
        self.__name__ = scaled + ("" if not offset else f" {'+' if offset > 0 else '-'} {abs(offset)}")
        self.min = factor * root.min + offset
        self.max = None if root.max is None else factor * root.max + offset

    @property
    def root(self) -> Dim:
        return self._root

    def __add__(self, other: int) -> _Derived:
        return _Derived(self._root, self.factor, self.offset + _int("+", other))

    def __sub__(self, other: int) -> _Derived:
        return self + -_int("-", other)

    def __mul__(self, other: int) -> _Derived:
        if _int("*", other) <= 0:
            raise NotImplementedError(f"Dim: {self.__name__} can only be multiplied by a positive integer, got {other}")
        return _Derived(self._root, self.factor * other, self.offset * other)

    __radd__, __rmul__ = __add__, __mul__

    def __repr__(self) -> str:
        return self.__name__


Constraint = Dim


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several `Dim`s with the same limits."""
    return tuple(Dim(name, min=min, max=max) for name in names)


class _IntWrapper:
    """An integer argument as something that a ShapesCollection can tell from its equals."""

    def __init__(self, val: int) -> None:
        self.val = val


class ShapesCollection:
    """Descriptions by tensor: `shapes[x] = {0: batch}`, for arguments that are nested or repeated."""

    def __init__(self) -> None:
        self._shapes: dict[int, tuple[Any, Any]] = {}

    def __setitem__(self, t: Any, shape: Any) -> None:
        if not isinstance(t, (Tensor, _IntWrapper)):
            raise TypeError(f"ShapesCollection: expected a tensor as key, got {type(t).__name__}")
        known = self._shapes.get(id(t))
        if known is not None and known[1] != shape:
            raise AssertionError(f"ShapesCollection: the tensor has shapes {known[1]} already, got {shape} too")
        self._shapes[id(t)] = (t, shape)

    def __getitem__(self, t: Any) -> Any:
        if id(t) not in self._shapes:
            self._shapes[id(t)] = (t, {})
        return self._shapes[id(t)][1]

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(self, m: Any, args: tuple, kwargs: dict[str, Any] | None = None) -> Any:
        """The description as nested as the arguments are."""
        found = set()

        def shape_of(t: Any) -> Any:
            known = self._shapes.get(id(t))
            if known is not None:
                found.add(id(t))
                return known[1]
            return None

        combined = named_arguments(m, args, kwargs or {})
        result = pytree.tree_map(shape_of, combined, is_leaf=lambda x: isinstance(x, _IntWrapper))
        if set(self._shapes) - found:
            raise ValueError(
                f"ShapesCollection: {len(set(self._shapes) - found)} of its {len(self)} tensors are no arguments. "
                "Use the very tensors that export is given."
            )
        return result


class AdditionalInputs:
    """Examples: sizes that differ between them are dynamic."""

    def __init__(self) -> None:
        self._examples: list[tuple[tuple, dict[str, Any]]] = []

    def add(self, args: tuple, kwargs: dict[str, Any] | None = None) -> None:
        """One more set of arguments."""
        if not isinstance(args, tuple):
            raise TypeError(f"AdditionalInputs.add: args must be a tuple, got {type(args).__name__}")
        self._examples.append((args, dict(kwargs or {})))

    def dynamic_shapes(self, m: Any, args: tuple, kwargs: dict[str, Any] | None = None) -> Any:
        """The description that admits all examples."""
        trees = [named_arguments(m, *given) for given in ((args, kwargs or {}), *self._examples)]
        leaves, spec = pytree.tree_flatten(trees[0])
        others = [pytree.tree_flatten(tree) for tree in trees[1:]]
        for _, other in others:
            if other != spec:
                raise ValueError(f"AdditionalInputs: examples differ in structure: {spec} and {other}")
        columns = list(zip(leaves, *[found for found, _ in others], strict=True))
        return pytree.tree_unflatten([self._merged(column) for column in columns], spec)

    @staticmethod
    def _merged(column: Sequence[Any]) -> Any:
        if isinstance(column[0], Tensor):
            if any(not isinstance(t, Tensor) or t.ndim != column[0].ndim for t in column):
                raise ValueError("AdditionalInputs: examples of one argument differ in kind or number of dims")
            sizes = zip(*(t.shape for t in column), strict=True)
            return tuple(Dim.DYNAMIC if len(set(s)) > 1 else None for s in sizes)
        if all(type(v) is int for v in column):
            return Dim.DYNAMIC if len(set(column)) > 1 else None
        if any(v != column[0] for v in column):
            raise ValueError(f"AdditionalInputs: an argument that is no tensor must be fixed, got {list(column)}")
        return None

    def verify(self, ep: Any) -> None:
        """Run the exported program on every example."""
        for args, kwargs in self._examples:
            ep.module()(*args, **kwargs)


# --- descriptions and arguments ---------------------------------------------------------------------------------------


def signature_of(m: Any) -> inspect.Signature:
    """How a module's forward, or a function, is called."""
    return inspect.signature(m.forward if isinstance(m, Module) else m)


def named_arguments(m: Any, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by the names of parameters; those of `*args` are a tuple, those of `**kwargs` stand beside the rest."""
    signature = signature_of(m)
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        raise TypeError(f"export: the arguments do not fit forward{signature}: {error}") from error
    named: dict[str, Any] = {}
    for name, value in bound.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            named.update(value)
        else:
            named[name] = value
    order = [n for n in named if n not in kwargs]
    return {n: named[n] for n in (*order, *kwargs)}


def leaf_shapes(m: Any, args: tuple, kwargs: dict[str, Any], dynamic_shapes: Any) -> list[Any]:
    """For every leaf of the arguments: None, a tuple of what its dims are, or for an integer what it is."""
    combined = named_arguments(m, args, kwargs)
    if isinstance(dynamic_shapes, (ShapesCollection, AdditionalInputs)):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(m, args, kwargs)
    if not dynamic_shapes:
        return [None] * len(pytree.tree_leaves(combined))
    if isinstance(dynamic_shapes, (tuple, list)):
        if len(dynamic_shapes) != len(combined):
            raise UserError(
                f"dynamic_shapes: expected one entry for each argument ({', '.join(combined)}), "
                f"got {len(dynamic_shapes)}"
            )
        dynamic_shapes = dict(zip(combined, dynamic_shapes, strict=True))
    if not isinstance(dynamic_shapes, dict):
        raise UserError(f"dynamic_shapes: expected a dict, tuple or list, got {type(dynamic_shapes).__name__}")
    if set(dynamic_shapes) != set(combined):
        inside = list(dynamic_shapes)
        if len(combined) == 1 and isinstance(next(iter(combined.values())), dict):
            return _walk("", combined, {next(iter(combined)): dynamic_shapes})
        raise UserError(
            f"dynamic_shapes: expected entries for the arguments {list(combined)}, got {inside}. "
            "Write None for an argument whose sizes are fixed."
        )
    return _walk("", combined, dynamic_shapes)


def _walk(path: str, value: Any, shape: Any) -> list[Any]:
    if isinstance(value, Tensor):
        return [_of_tensor(path, value, shape)]
    if pytree.tree_is_leaf(value):
        if type(value) is int and isinstance(shape, (Dim, _DimHint)):
            return [shape]
        if shape is not None and shape is not Dim.STATIC:
            raise UserError(f"dynamic_shapes{path}: {type(value).__name__} has no sizes; expected None, got {shape!r}")
        return [None]
    if shape is None:
        return [None] * len(pytree.tree_leaves(value))
    children, _ = pytree.SUPPORTED_NODES[pytree._get_node_type(value)].flatten_fn(value)
    if isinstance(value, dict):
        if not isinstance(shape, dict) or set(shape) != set(value):
            raise UserError(f"dynamic_shapes{path}: expected a dict with the keys {list(value)}, got {shape!r}")
        parts = [(f"{path}[{k!r}]", value[k], shape[k]) for k in value]
    else:
        given = list(shape.values()) if isinstance(shape, dict) else shape
        if not isinstance(given, (list, tuple)) or len(given) != len(children):
            raise UserError(
                f"dynamic_shapes{path}: expected {len(children)} entries for a {type(value).__name__}, got {shape!r}"
            )
        parts = [(f"{path}[{i}]", v, s) for i, (v, s) in enumerate(zip(children, given, strict=True))]
    return [leaf for part in parts for leaf in _walk(*part)]


def _of_tensor(path: str, t: Tensor, shape: Any) -> tuple | None:
    """One entry for each dim."""
    if shape is None:
        return None
    if isinstance(shape, dict):
        wrong = [d for d in shape if type(d) is not int or not -t.ndim <= d < t.ndim]
        if wrong:
            raise IndexError(f"dynamic_shapes{path}: the tensor has {t.ndim} dims, got entries for {wrong}")
        entries = [shape.get(d, shape.get(d - t.ndim)) for d in range(t.ndim)]
    elif isinstance(shape, (list, tuple)):
        if len(shape) != t.ndim:
            raise UserError(f"dynamic_shapes{path}: the tensor has {t.ndim} dims, got {len(shape)} entries: {shape!r}")
        entries = list(shape)
    else:
        raise UserError(f"dynamic_shapes{path}: expected a dict, tuple or list of dims, got {shape!r}")
    for d, (entry, size) in enumerate(zip(entries, t.shape, strict=True)):
        _check_entry(f"{path}, dim {d}", entry, size)
    return tuple(entries)


def _check_entry(path: str, entry: Any, size: int) -> None:
    if type(entry) is int and entry != size:
        raise UserError(f"dynamic_shapes{path}: declared to be {entry}, but the example has size {size}")
    if entry is not None and not isinstance(entry, (int, Dim, _DimHint)):
        raise UserError(f"dynamic_shapes{path}: expected a Dim, a hint of Dim, an integer or None, got {entry!r}")
    if isinstance(entry, (Dim, _DimHint)):
        low, high = entry.min, entry.max
        if (low is not None and size < low) or (high is not None and size > high):
            raise ConstraintViolationError(
                f"dynamic_shapes{path}: {entry!r} does not admit the example's own size {size}"
            )


def refine_dynamic_shapes_from_suggested_fixes(msg: str, dynamic_shapes: Any) -> Any:
    """`dynamic_shapes` with the fixes that an error of export suggests."""
    _, found, lines = msg.partition("Suggested fixes:")
    if not found:
        raise ValueError("the message suggests no fixes")
    scope: dict[str, Any] = {}
    for line in lines.strip().splitlines():
        name, equals, text = line.strip().partition(" = ")
        if equals and name.isidentifier():
            scope[name] = _suggested(name, text, scope)

    def exchange(entry: Any) -> Any:
        if not isinstance(entry, Dim):
            return entry
        new = scope.get(entry.root.__name__)
        if new is None:
            return entry
        if isinstance(entry, _Derived):
            return new * entry.factor + entry.offset
        return new

    return pytree.tree_map(exchange, dynamic_shapes, is_leaf=lambda x: isinstance(x, (Dim, _DimHint)) or x is None)


def _suggested(name: str, text: str, scope: dict[str, Any]) -> Any:
    """The value of one suggestion: an integer, `Dim(...)`, another name, or a multiple of a new one."""
    text = text.partition("#")[0].strip()
    if text.lstrip("-").isdigit():
        return int(text)
    if text.startswith("Dim("):
        limits = dict(p.strip().split("=") for p in text[4:-1].split(",")[1:])
        return Dim(name, **{k: int(v) for k, v in limits.items()})
    factor, star, other = text.rpartition("*")
    root = scope.setdefault(other, Dim(other))
    return root * int(factor) if star else root

