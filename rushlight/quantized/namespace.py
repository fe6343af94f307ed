"""Ops of the quantized namespaces: a schema and a Python function each.

Enters: `@define("quantized::add(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc")` over functions.
Leaves: ops with all their overloads, filed by name. Packed weights are any objects in schemas: the class in the text is
what PyTorch calls it.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable
from typing import Any

from .. import _C
from ..aten.namespaces import namespace
from ..base import late
from ..library.definition import CustomOp, registered
from ..op import ops
from ..op.schema import Schema, parse

_overloads: dict[str, list[Any]] = {}
_opened: list[bool] = []


class NamespaceOp(CustomOp):
    """An op whose kernel is one Python function for every device."""

    def __init__(self, schema: Schema, qualified: str, text: str, function: Callable) -> None:
        super().__init__(schema, qualified)
        self.text, self.function_of_all, self.fake = text, function, function

    def kernel(self, device: Any) -> Callable:
        return self.function_of_all

    def overload(self) -> Any:
        """Calls that no mode, level or subclass sees, and no kernel of a user's, run the function at once."""
        result = super().overload()
        result.overridden = False
        return result

    @property
    def run(self) -> Callable:
        """The function; ops that write to arguments count these writes."""
        return super().run if any(p.mutated for p in self.spec.params) else self.function_of_all


def define(text: str) -> Callable:
    """Decorator: the function is what `ops.<namespace>.<name>` of this schema does. Schemas may share a name."""
    space, _, rest = text.partition("::")
    schema = parse(re.sub(r"__torch__[\w.]+|Any\b", "any", re.sub(r"-> .*", _results, rest)))

    def register(function: Callable) -> Callable:
        name = f"{space}::{schema.name}"
        known = _overloads.setdefault(name, [])
        definition = NamespaceOp(schema, name, text, function)
        known.append(definition.overload())
        ops[name] = _C.Op(name, lambda: known)
        registered[name] = definition
        namespace(space).forget(schema.name)
        return function

    return register


def _results(found: re.Match) -> str:
    """Results without their names and classes, which `op.schema` has no words for."""
    text = re.sub(r"__torch__[\w.]+", "any", found.group())
    return re.sub(r"(\w[\w\[\]?()!]*) \w+(?=[,)]|$)", r"\1", text)


def open_namespace(name: str) -> None:
    """Import the files of this room, whose functions fill the namespaces."""
    if _opened:
        return
    _opened.append(True)
    package = __package__ or ""
    for info in pkgutil.iter_modules(late.import_module(package).__path__):
        if info.name not in ("namespace", "packed"):
            late.import_module(f".{info.name}", package)
