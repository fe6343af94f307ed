"""What a model takes: arguments of a call, put into the graph's order and held against what the file says of them.

Enters: arguments in order and by name. Leaves: a list for the graph, and tensors that take a weight's place for this
call. Refuses, by the input's name: missing and surplus ones, other types, ranks and sizes than the file has, one
varying size with two values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ... import _C
from ...fx.proxy import Proxy
from ..kinds import ELEMENTS, STRING, Kind


@dataclasses.dataclass
class Arguments:
    """The inputs of a model, in order, and the weights that may be given by name."""

    names: list[str]
    kinds: list[Kind]
    floats: Any                                  # the type of the file's floats; those of the module may differ
    weights: dict[str, str] = dataclasses.field(default_factory=dict)      # the parameter of each

    def arranged(self, args: Sequence[Any], kwargs: Mapping[str, Any], anchor: Any) -> tuple[list[Any], dict[str, Any]]:
        """Arguments in the graph's order, and those that replace weights."""
        given: list[Any] = [_MISSING] * len(self.names)
        if len(args) > len(self.names):
            raise TypeError(f"onnx: the model takes {len(self.names)} inputs ({', '.join(self.names) or 'none'}), got"
                            f" {len(args)}: what should number {len(self.names) + 1} be?")
        given[: len(args)] = args
        replaced = {}
        for name, value in kwargs.items():
            if name in self.weights:
                replaced[self.weights[name]] = value
                continue
            place = self._place(name)
            if given[place] is not _MISSING:
                raise TypeError(f"onnx: input {name!r} is given twice, in order and by name")
            given[place] = value
        sizes: dict[str, tuple[int, str]] = {}
        for place, (name, kind) in enumerate(zip(self.names, self.kinds, strict=True)):
            value = given[place]
            if value is _MISSING:
                if kind.form != "optional":
                    raise TypeError(f"onnx: input {name!r} is missing; it should be {kind}")
                given[place] = value = None
            self.check(name, kind, value, anchor.dtype, sizes)
        return given, replaced

    def _place(self, name: str) -> int:
        if name in self.names:
            return self.names.index(name)
        plain = [_plain(n) for n in self.names]
        if name in plain:
            return plain.index(name)
        raise TypeError(f"onnx: the model has no input {name!r}; it takes {', '.join(self.names) or 'none'}")

    def check(self, name: str, kind: Kind, value: Any, floats: Any, sizes: dict[str, tuple[int, str]]) -> None:
        """Refuse what an input cannot be."""
        if kind.form == "optional" and value is None:
            return
        while kind.form == "optional" and kind.inner is not None:
            kind = kind.inner
        if kind.form == "sequence":
            if not isinstance(value, (list, tuple)):
                raise TypeError(f"onnx: input {name!r} should be a list ({kind}), got {_described(value)}")
            for k, part in enumerate(value):
                if kind.inner is not None:
                    self.check(f"{name}[{k}]", kind.inner, part, floats, {})
            return
        if kind.form != "tensor" or kind.number == STRING:
            return
        if not isinstance(value, _C.Tensor):
            if isinstance(value, Proxy):
                return
            how = " (torch.from_numpy makes one of it; onnx.run takes arrays)" if hasattr(value, "__array__") else ""
            raise TypeError(f"onnx: input {name!r} should be a tensor ({kind}), got {_described(value)}{how}")
        if kind.number:
            expected = ELEMENTS[kind.number].dtype
            if value.dtype is not expected and not (expected is self.floats and value.dtype is floats):
                raise TypeError(f"onnx: input {name!r} should have elements of {expected} ({kind}), got {value.dtype}")
        if kind.shape is None:
            return
        if value.ndim != len(kind.shape):
            raise ValueError(f"onnx: input {name!r} should have {len(kind.shape)} dims ({kind}), got shape"
                             f" {list(value.shape)}")
        for dim, (n, size) in enumerate(zip(kind.shape, value.shape, strict=True)):
            if isinstance(n, int) and size != n:
                raise ValueError(f"onnx: input {name!r} should have {n} elements in dim {dim} ({kind}), got shape"
                                 f" {list(value.shape)}")
            if isinstance(n, str) and n.isidentifier() and sizes.setdefault(n, (size, name))[0] != size:
                raise ValueError(f"onnx: dim {dim} of input {name!r} is {n!r}, which input {sizes[n][1]!r} has as"
                                 f" {sizes[n][0]}, got shape {list(value.shape)}")


class _Missing:
    def __repr__(self) -> str:
        return "missing"


_MISSING = _Missing()


def _described(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _plain(name: str) -> str:
    found = "".join([c if c.isascii() and c.isalnum() else "_" for c in name])
    return f"_{found}" if found[:1].isdigit() else found
