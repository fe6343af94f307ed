"""`_saved_self` and its like: what PyTorch's nodes say they saved, read from what ours kept.

Enters: a node (or a step that a node takes) and the name of an attribute. Leaves: the tensor, number or sizes that
PyTorch's node has there; for `_raw_saved_`, a handle that can be given hooks. A tensor that nobody needs for the
backward pass is None, in PyTorch and here. Refuses (AttributeError) what the node would have and ours did not keep.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ... import _C
from ..._C import Tensor
from ...op import find_op
from ..overloads import aten_name, schemas_of
from .nodes import Call, Operand, Step, chain_of, edge_names, saved_names
from .rules import index_steps

_SIZES = re.compile(r"^(\w+?)_sym_(sizes|strides|numel|argsize_(\d+))$")
_UNSIGNED = frozenset(("dim", "dim0", "dim1", "dims", "padding_idx", "ignore_index"))   # so PyTorch shows negative ones
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
_NEAR = 8       # nodes of a body that are looked at
# PyTorch's names of results; the rest is called as it is here
_RESULTS = {"result0": "result", "values": "result", "indices": "result1"}


class SavedTensor:
    """A saved tensor before it is unpacked: `register_hooks` lets hooks pack it after all."""

    def __init__(self, node: Any, place: int) -> None:
        self._node, self._place = node, place

    def register_hooks(self, pack_hook: Callable, unpack_hook: Callable) -> None:
        """Replace what is saved by `pack_hook(t)`, and restore it by `unpack_hook` when backward reads it."""
        if not callable(pack_hook) or not callable(unpack_hook):
            raise TypeError("register_hooks: both hooks must be callable")
        self._node._pack_again(self._place, pack_hook, unpack_hook)

    @property
    def data(self) -> Any:
        """The tensor."""
        return self._node._kept(self._place)


def saved_attribute(node: Any, attribute: str | None) -> Any:
    """The value of an attribute; without one, the names there are."""
    if attribute is None:
        return _Reader(node).names()
    raw = attribute.startswith("_raw_")
    name = attribute.removeprefix("_raw").removeprefix("_saved_")
    if name not in saved_names().get(type(node).__name__, ()):
        raise AttributeError(f"{type(node).__name__!r} object has no attribute {attribute!r}")
    reader = _Reader(node)
    return reader.handle(name) if raw else reader.value(name)


class _Reader:
    """Saved values of one node, by PyTorch's names."""

    def __init__(self, node: Any) -> None:
        owner, step = node._step
        self.node = node
        self.owner = node if step is None else owner()
        if self.owner is None:
            raise RuntimeError(f"{type(node).__name__}: the node that this is a step of is gone")
        self.kept = _places(self.owner._kept_names())
        self.call = Call(self.owner)
        self.chain: Step | None = step or chain_of(self.call)
        self.is_first = step is None
        self.schemas = schemas_of(self.call.name.removesuffix("_"))

    def names(self) -> list[str]:
        """The attributes that can be read."""
        found, raw = [], []
        for name in saved_names().get(type(self.node).__name__, ()):
            try:
                self.value(name)
            except AttributeError:
                continue
            except RuntimeError:       # freed since
                pass
            found.append(f"_saved_{name}")
            if self.is_tensor(name):
                raw.append(f"_raw_saved_{name}")
        return found + raw

    def ours(self, name: str) -> str | None:
        """Our parameter that PyTorch calls `name`."""
        edges = edge_names().get(type(self.node).__name__, ())
        if self.chain is not None and name in edges and edges.index(name) < len(self.chain.next):
            part = self.chain.next[edges.index(name)]
            return part if isinstance(part, str) else None
        if not self.is_first:
            return None
        params = [p.name for p in self.call.overload.definition.spec.params]
        for param in params:
            if param == name or any(aten_name(param, schema) == name for schema in self.schemas):
                return param
        return params[0] if name == "self" else None

    def place(self, name: str) -> int | None:
        """Where our node keeps it."""
        if self.call.is_made:
            return None
        found = _RESULTS.get(name, name)
        if self.is_first and self.chain is None and found in self.kept and found not in self.call.values:
            return self.kept[found]
        return self.kept.get(self.ours(name) or "")

    def is_tensor(self, name: str) -> bool:
        """Whether a tensor of that name was saved."""
        place = self.place(name)
        return place is not None and isinstance(self.owner._kept_meta(place), _C.TensorMeta)

    def handle(self, name: str) -> SavedTensor:
        place = self.place(name)
        if place is None:
            raise AttributeError(f"{type(self.node).__name__}: {name!r} is not among what was saved")
        return SavedTensor(self.owner, place)

    def value(self, name: str) -> Any:
        index = self._index_step()
        if index is not None:
            return index[name]
        place = self.place(name)
        if place is not None:
            found = self.owner._kept(place)
            if isinstance(found, _C.TensorMeta):      # sizes were enough
                raise self._missing(name)
            return self._as_theirs(name, found)
        sizes = _SIZES.match(name)
        if sizes is not None:
            return self._size(name, sizes)
        if name in edge_names().get(type(self.node).__name__, ()) and self.ours(name) is None:
            return self._operand(name)
        return self._argument(name)

    def _missing(self, name: str) -> AttributeError:
        return AttributeError(f"{type(self.node).__name__}: {name!r} was not kept")

    def _argument(self, name: str) -> Any:
        """An argument that our node did not keep: of an op with a body it may be known, or kept inside."""
        ours = self.ours(name)
        value = self.call.values.get(ours or "")
        if isinstance(value, Operand):
            return self._inside(name, ours or "", value) if self.call.is_made else None      # or nobody needs it
        if ours in self.call.values:
            return self._as_theirs(name, value)
        if self.chain is not None and name in ("alpha", "beta"):
            return 1                    # of a product that is part of another op
        raise self._missing(name)

    def _inside(self, theirs: str, ours: str, operand: Operand) -> Any:
        """A tensor argument as a node of the op's body kept it."""
        waiting: list[Any] = [self.owner]
        seen: set[Any] = set()
        while waiting and len(seen) < _NEAR:
            node = waiting.pop(0)
            seen.add(node)
            for place, name in enumerate(node._kept_names()):
                meta = node._kept_meta(place)
                fits = isinstance(meta, _C.TensorMeta) and tuple(meta.shape) == operand.shape
                if name == ours and fits and isinstance(node._kept(place), Tensor):
                    return node._kept(place)
            waiting += [n for n, _ in node._edges if n is not None and n not in seen]
        raise self._missing(theirs)

    def _index_step(self) -> dict[str, Any] | None:
        """What a step of `x[...]` keeps."""
        if "index" not in self.kept or self.call.overload.definition.spec.name != "_basic_index":
            return None
        shape, index = (self.owner._kept_meta(self.kept[k]) for k in ("input", "index"))
        depth, part = 0, self.chain
        while isinstance(part, Step):
            depth, part = depth + 1, part.next[0]
        return index_steps(index, tuple(shape.shape))[depth - 1][1]

    def _as_theirs(self, name: str, value: Any) -> Any:
        """A value in the form that PyTorch's node has it."""
        if isinstance(value, str) and name == "reduction":
            return _REDUCTIONS[value]
        if isinstance(value, (int, float)) and name in ("self", "other"):
            return find_op("full")((), value)          # PyTorch makes tensors of numbers first
        if isinstance(value, (list, tuple)) and not any(isinstance(v, Tensor) for v in value):
            return tuple(self._as_theirs(name, v) for v in value)
        if type(value) is int and value < 0 and name in _UNSIGNED:
            return value + 2**64
        return value

    def _size(self, name: str, match: re.Match) -> Any:
        """Sizes of an argument: known wherever a gradient of it is wanted."""
        part, turned = self._part(match[1])
        operand = self.call.values.get(part or "")
        if not isinstance(operand, Operand) or operand.meta is None:
            raise self._missing(name)
        if match[3] is not None:
            return operand.shape[int(match[3])]
        if match[2] == "numel":
            return operand.meta.numel()
        found = operand.strides if match[2] == "strides" else operand.shape
        return found[::-1] if turned else found

    def _part(self, name: str) -> tuple[str | None, bool]:
        """(our parameter, whether it is transposed first) that goes into this step under PyTorch's name."""
        ours = self.ours(name)
        edges = edge_names().get(type(self.node).__name__, ())
        if ours is not None or self.chain is None or name not in edges:
            return ours, False
        part = self.chain.next[edges.index(name)]
        plain = isinstance(part, Step) and part.name == "TBackward0" and isinstance(part.next[0], str)
        return (part.next[0], True) if plain else (None, False)

    def _operand(self, name: str) -> Any:
        """What went into a step: the transpose of an argument that was kept."""
        part, turned = self._part(name)
        if part is None or part not in self.kept or not turned:
            raise AttributeError(f"{type(self.node).__name__}: {name!r} is inside a computation that runs as one here")
        return self.owner._kept(self.kept[part]).t()


def _places(names: list[str]) -> dict[str, int]:
    """Places by name; of several results `result`, `result1`, ..."""
    found: dict[str, int] = {}
    results = 0
    for place, name in enumerate(names):
        if name == "result":
            name, results = f"result{results or ''}", results + 1
        found[name] = place
    return found
