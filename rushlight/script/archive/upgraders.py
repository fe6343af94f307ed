"""Old programs at their old meaning: ops that changed since the version an archive was written in.

Enters: the kind of an op and a version. Leaves: something to call in its place, None where the op means what it meant.
The old meanings are written in the language of archives below, matched by their signatures and put in where they are
called. `CHANGED_AT` says which signatures changed with which version.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..frontend.sugared import Builtin, Simple, Sugared
from ..ir import Value, insert_graph
from ..matching import Mismatch, _undo, match
from ..source import Range
from ..unit import Unit
from .imports import Importer

if TYPE_CHECKING:
    from ..frontend.emitter import Emitter

_DIV = {"Tensor": 4, "Scalar": 4, "Tensor_mode": 4, "Scalar_mode": 4}
CHANGED_AT: dict[str, dict[str, int]] = {       # op -> overload -> the version that changed it
    "aten::div": {**_DIV, "out": 4, "out_mode": 4}, "aten::div_": _DIV, "aten::full": {"": 5, "out": 5},
    "aten::linspace": {"": 8, "out": 8}, "aten::logspace": {"": 9, "out": 9}, "aten::gelu": {"": 10, "out": 10},
}
NEWEST = 10                                     # the version that all ops have their meaning of today in
_MEMBER = "__torch__.upgraders"
_MADE_AS = """dtype: Optional[int]=None, layout: Optional[int]=None, device: Optional[Device]=None,
    pin_memory: Optional[bool]=None) -> Tensor:"""
# Division of integers cut off, full made floats, linspace and logspace had a default of 100 steps, gelu was exact.
_OLD = """
def div__tensor(self: Tensor, other: Tensor) -> Tensor:
  if torch.__or__(torch.is_floating_point(self), torch.is_floating_point(other)):
    made = torch.div_(self, other)
  else:
    made = torch.div_(self, other, rounding_mode="trunc")
  return made
def div__float(self: Tensor, other: float) -> Tensor:
  return torch.div_(self, other)
def div__number(self: Tensor, other: number) -> Tensor:
  if torch.is_floating_point(self):
    made = torch.div_(self, other)
  else:
    made = torch.div_(self, other, rounding_mode="trunc")
  return made
def div_tensor(self: Tensor, other: Tensor) -> Tensor:
  if torch.__or__(torch.is_floating_point(self), torch.is_floating_point(other)):
    made = torch.div(self, other)
  else:
    made = torch.div(self, other, rounding_mode="trunc")
  return made
def div_float(self: Tensor, other: float) -> Tensor:
  return torch.div(self, other)
def div_number(self: Tensor, other: number) -> Tensor:
  if torch.is_floating_point(self):
    made = torch.div(self, other)
  else:
    made = torch.div(self, other, rounding_mode="trunc")
  return made
def div_out(self: Tensor, other: Tensor, out: Tensor) -> Tensor:
  is_float = torch.__or__(torch.is_floating_point(self), torch.is_floating_point(other))
  if torch.__or__(is_float, torch.is_floating_point(out)):
    made = torch.div(self, other, out=out)
  else:
    made = torch.div(self, other, rounding_mode="trunc", out=out)
  return made
def full(size: List[int], fill_value: number, MADE_AS
  if torch.__is__(dtype, None):
    made = torch.full(size, float(fill_value), dtype=None, layout=layout, device=device, pin_memory=pin_memory)
  else:
    made = torch.full(size, fill_value, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)
  return made
def full_out(size: List[int], fill_value: number, out: Tensor) -> Tensor:
  return torch.full(size, fill_value, out=out)
def linspace(start: number, end: number, steps: Optional[int]=None, MADE_AS
  if torch.__is__(steps, None):
    count = 100
  else:
    count = unchecked_cast(int, steps)
  return torch.linspace(start, end, count, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)
def logspace(start: number, end: number, steps: Optional[int]=None, base: float=10., MADE_AS
  if torch.__is__(steps, None):
    count = 100
  else:
    count = unchecked_cast(int, steps)
  return torch.logspace(start, end, count, base, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)
def gelu(self: Tensor) -> Tensor:
  return torch.gelu(self, approximate="none")
"""
_WAYS = {"aten::div": ("div_tensor", "div_float", "div_number", "div_out"),
         "aten::div_": ("div__tensor", "div__float", "div__number"),
         "aten::full": ("full", "full_out"), "aten::linspace": ("linspace",), "aten::logspace": ("logspace",),
         "aten::gelu": ("gelu",)}


@functools.cache
def _importer() -> Importer:
    path = f"code/{_MEMBER.replace('.', '/')}.py"
    text = _OLD.replace("MADE_AS", _MADE_AS).lstrip()
    return Importer(Unit(), NEWEST, lambda asked: text if asked == path else None, list)


def upgraded(kind: str, version: int) -> Sugared | None:
    """What a call of an op means in a program of a version; None where nothing changed since."""
    changed = CHANGED_AT.get(kind)
    return None if changed is None or version >= max(changed.values()) else Upgraded(kind)


class Upgraded(Sugared):
    """An op with its meaning of then. Calls that no old signature takes are calls of the op as it is."""

    def __init__(self, kind: str) -> None:
        self.name = kind

    def kind(self) -> str:
        return "builtin"

    def call(self, e: Emitter, at: Range, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Sugared:
        for name in _WAYS[self.name]:
            function = _importer().function(f"{_MEMBER}.{name}")
            mark = e.graph.insert_at.prev_
            try:
                matched = match(e.graph, function.schema, args, kwargs, convert=False)
            except Mismatch:
                _undo(e.graph, mark)  # type: ignore[arg-type]
                continue
            return Simple(insert_graph(e.graph, function.graph, matched.inputs)[0])
        return Builtin(self.name).call(e, at, args, kwargs)
