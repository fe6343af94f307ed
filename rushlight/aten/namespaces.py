"""`ops.<namespace>.<name>`: every op by its qualified name, overloads included.

Enters: attribute names. Leaves: namespaces and packets. Built-in ops are in `aten` (and `rushlight`); ops of
`library` in the namespace they were defined in.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from .. import _C
from ..base import late
from ..base.tables import rows
from ..op import ops
from ..op.registry import tables
from . import overload_rules
from .adapters import ADAPTERS
from .overloads import AtenOverload, custom_schema, overload_of, schemas_of
from .plain import PLAIN, PRIMS
from .tags import Tag, tags_of

BUILTIN = ("aten", "rushlight", "prims")
QUANTIZED = ("quantized", "_quantized", "quantized_decomposed", "onednn", "sparse")      # filled when first asked


@cache
def pytorch_overloads() -> dict[str, frozenset[str]]:
    """Names of PyTorch's overloads, by op; "default" is not among them, since every op here has one of its own."""
    pairs = (row.split(": ") for row in rows(__file__, "overload_names"))
    return {name: frozenset(labels.split()) for name, labels in pairs}


class OpOverloadPacket:
    """One op of a namespace: callable, with its overloads as attributes."""

    def __init__(self, namespace: str, name: str, op: Any) -> None:
        self._namespace, self.__name__, self.op = namespace, name, op
        self._qualified_op_name = f"{namespace}::{name}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.op(*args, **kwargs)

    def overloads(self) -> list[str]:
        """Names of the overloads."""
        return _labels(self.op.overload_list)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = self.op.overload_list
        if self.__name__ in ADAPTERS and self._namespace in BUILTIN:
            other = overload_of(self, name)
            if other is not None:
                return other
        for overload, label in zip(found, _labels(found), strict=True):
            if label == name:
                # PyTorch's may take arguments for which we have another overload
                other = overload_of(self, name) if self._namespace in BUILTIN else None
                is_own = other is None or (other.counterpart is overload and overload.name == self.__name__)
                return overload if is_own else other
        # one schema here stands for several there
        if self._namespace in BUILTIN:
            other = overload_of(self, name)
            if other is not None:
                return other
            if name in pytorch_overloads().get(self.__name__, ()):
                return found[0]
        raise AttributeError(
            f"The underlying op of '{self}' has no overload name '{name}'. Overloads: {self.overloads()}"
        )

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self.overloads()]

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self._namespace}.{self.__name__}')>"

    def __str__(self) -> str:
        return f"{self._namespace}.{self.__name__}"


class DerivativePacket:
    """`relu_vjp`: the gradient of a pointwise op; `default_of_0` is that of overload `default` for parameter 0."""

    def __init__(self, forward: Any, name: str) -> None:
        self.forward, self.__name__ = forward, name
        self._qualified_op_name = f"aten::{name}"
        self._made: dict[str, Any] = {}

    def __getattr__(self, label: str) -> Any:
        forward_label, found, wanted = label.rpartition("_of_")
        if label.startswith("_") or not found:
            raise AttributeError(label)
        if label not in self._made:
            from ..op.pointwise import PointwiseVjp

            forward = getattr(self.forward, forward_label)
            self._made[label] = PointwiseVjp(forward.definition, tuple(map(int, wanted.split("_")))).overload()
        return self._made[label]


def _alias(name: str) -> Any:
    """The op that a public function, or a tensor's method, of this name is: `arctan`, `special_expit`."""
    for space in ("", "special", "linalg", "fft"):
        prefix = f"{space}_" if space else ""
        found = tables.functions.get(space, {}).get(name[len(prefix) :]) if name.startswith(prefix) else None
        if found is not None:
            return ops[found]
    method, position = tables.methods.get(name, ("", 1))
    return ops[method] if position == 0 else None


class OpNamespace:
    """The ops of one namespace."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._packets: dict[str, OpOverloadPacket | DerivativePacket] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found: Any = self._packets.get(name)
        if found is None and self.name == "higher_order":      # ops over functions: no packets, and no overloads
            found = late.provided("higher-order ops").get(name)
            if found is None:
                raise AttributeError(f"'_OpNamespace' 'higher_order' object has no attribute '{name}'")
        if found is None and self.name == "aten":
            found = PLAIN.get(name)
        if found is None and self.name == "prims":
            found = PRIMS.get(name)
        if found is None and self.name == "c10d":
            found = late.provided("c10d ops").get(name)
        if found is None:
            if self.name in QUANTIZED:
                late.provided("quantized ops")(self.name)
            op = (ops.get(name) or _alias(name)) if self.name in BUILTIN else ops.get(f"{self.name}::{name}")
            if op is None and self.name in BUILTIN and name.endswith("_vjp"):
                found = self._packets[name] = DerivativePacket(getattr(self, name.removesuffix("_vjp")), name)
                return found
            if op is None:
                raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
            found = self._packets[name] = OpOverloadPacket(self.name, name, op)
        return found

    def __dir__(self) -> list[str]:
        prefix = f"{self.name}::"
        if self.name in QUANTIZED:
            late.provided("quantized ops")(self.name)
        names = (
            [n for n in ops if "::" not in n]
            if self.name in BUILTIN
            else [n[len(prefix) :] for n in ops if n.startswith(prefix)]
        )
        return sorted(names)

    def forget(self, name: str) -> None:
        """Drop a cached packet: its op is gone or was defined anew."""
        self._packets.pop(name, None)

    def __repr__(self) -> str:
        return f"<module 'rushlight.ops.{self.name}'>"


_namespaces: dict[str, OpNamespace] = {}


def namespace(name: str) -> OpNamespace:
    """The namespace called `name`, made when first asked for."""
    return _namespaces.setdefault(name, OpNamespace(name))


# --- what an overload says of itself ----------------------------------------------------------------------------------


def _split(overload: Any) -> tuple[str, str]:
    space, _, name = str(overload.name).rpartition("::")
    return space or "aten", name


def _labels(overloads: list[Any]) -> list[str]:
    """Names of the overloads of one op; those of one name are numbered."""
    seen: dict[str, int] = {}
    result = []
    for o in overloads:
        name = o.definition.spec.overload or "default"
        result.append(f"{name}_{seen[name]}" if name in seen else name)
        seen[name] = seen.get(name, 0) + 1
    return result


def _label(overload: Any) -> str:
    definition = overload.definition
    known = ops[overload.name].overload_list if overload.name in ops else []
    if overload in known:
        return _labels(known)[known.index(overload)]
    if hasattr(definition, "forward") and hasattr(definition, "wanted"):   # the gradient of a pointwise op
        return f"{_forward_label(definition.forward)}_of_{'_'.join(map(str, definition.wanted))}"
    return "batched" if known else definition.spec.overload or "default"


def _forward_label(definition: Any) -> str:
    if hasattr(definition, "forward") and hasattr(definition, "wanted"):
        return f"{_forward_label(definition.forward)}_of_{'_'.join(map(str, definition.wanted))}"
    known = ops[definition.name].overload_list if definition.name in ops else []
    at = next((i for i, o in enumerate(known) if o.definition is definition), None)
    return definition.spec.overload or "default" if at is None else _labels(known)[at]


def _overload_text(self: Any) -> str:
    space, name = _split(self)
    return f"{space}.{name}.{_label(self)}"


def _overload_repr(self: Any) -> str:
    space, name = _split(self)
    return f"<OpOverload(op='{space}.{name}', overload='{_label(self)}')>"


def _schema_of(overload: Any) -> Any:
    """PyTorch's signature where it has the op, else our own."""
    space, name = _split(overload)
    if space != "aten":
        text = getattr(overload.definition, "text", None) or overload.definition.spec.text
        return custom_schema(space, text.rpartition("::")[2])
    label = _label(overload)
    found = next((s for s in schemas_of(name) if (s.overload_name or "default") == label), None)
    return overload.definition.spec if found is None else found


def _tags(overload: Any) -> list[Tag]:
    """What can be said of an overload: what its definer said, or what follows."""
    definition = overload.definition
    if definition.custom:
        return list(definition.tags)
    return list(tags_of(definition, _split(overload)[1], _label(overload), overload.inplace, False))


def install() -> None:
    """Give the core's overload objects the names graph code and handlers ask for."""
    kind: Any = _C.Overload
    overload_rules.install(kind)
    overload_rules.install(AtenOverload)
    kind.__str__ = _overload_text
    kind.__repr__ = _overload_repr
    kind.namespace = property(lambda self: _split(self)[0])
    kind.overloadpacket = property(lambda self: getattr(namespace(_split(self)[0]), _split(self)[1]))
    kind._schema = property(_schema_of)
    kind.tags = property(_tags)
    kind._qualified_op_name = property(lambda self: "::".join(_split(self)))
    kind._overloadname = property(_label)
    kind._opname = property(lambda self: _split(self)[1])
