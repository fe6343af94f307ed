"""ATen's overloads that back ends are told of and no op of ours has under that name: forms with out=, and methods.

Enters: names. Leaves: `Form`s, callable on tensors of any device, with PyTorch's names and signatures; and, of each
overload, what PyTorch has for it on every back end. The table beside this file is by
tools/composite_kernels.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from ..._C import Tensor
from ...aten.calls import aten_overload
from ...aten.namespaces import namespace
from ...aten.overloads import AtenParam, AtenSchema, custom_schema, schemas_of
from ...base import late
from ...base.tables import rows
from ...devices import private_use
from ...devices.private_use import PRIVATE
from ...dispatch.dispatcher import tensors_of


class Row(NamedTuple):
    """What PyTorch has for an overload on every back end, and its form with out=."""

    kind: str = "-"
    out: str = ""
    names: tuple[str, ...] = ()
    is_copied: bool = False


NOTHING = Row()


@cache
def row_table() -> dict[str, Row]:
    found = {}
    for row in rows(__file__):
        name, _, rest = row.partition(": ")
        kind, out, names, copied = (*rest.split(), "", "", "")[:4]
        found[name] = Row(kind, out, tuple(names.split(",")) if names else (), bool(copied))
    return found


def full_name(func: Any) -> str:
    """An overload as kernels are filed: `add.Tensor`, `relu.default`."""
    return f"{func._opname}.{func._overloadname}"


# --- overloads that no op of ours has under their name ----------------------------------------------------------------


class Form:
    """One of ATen's overloads as back ends are told of it, where our ops do its work under another name: forms with
    out=, and methods that are no ops here."""

    namespace = "aten"

    functional: Any = None               # of a form with out=: the overload without
    writes: tuple[str, ...] = ()         # and the names of what it writes to
    is_copied = False                    # whether PyTorch makes it of the overload without, by a copy

    def __init__(self, op: str, label: str, schema: AtenSchema, compute: Callable) -> None:
        self._opname, self._overloadname, self._schema = op, label, schema
        self.__name__ = self.__qualname__ = f"{op}.{label}"
        self.__module__ = "torch._ops.aten"
        self._compute = compute

    @property
    def overloadpacket(self) -> Any:
        return getattr(namespace("aten"), self._opname)

    def name(self) -> str:
        return f"aten::{self._opname}" + ("" if self._overloadname == "default" else f".{self._overloadname}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if any(t._keys & PRIVATE for t in tensors_of((*args, *kwargs.values()))):
            return late.provided("private call")(self, args, kwargs)
        return self._compute(*args, **kwargs)

    def __str__(self) -> str:
        return f"aten.{self._opname}.{self._overloadname}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='aten.{self._opname}', overload='{self._overloadname}')>"


@cache
def out_form(name: str) -> Form | None:
    """The form with out= of an overload, in place or not; None where PyTorch has none."""
    row = row_table().get(name, NOTHING)
    if not row.out:
        return None
    op = name.partition(".")[0]
    plain = op[:-1] if op.endswith("_") and schemas_of(op[:-1]) else op
    functional = next((n for n, r in row_table().items() if n.partition(".")[0] == plain and r.out == row.out), name)
    target = aten_overload(*functional.split("."))
    schema = next((s for s in schemas_of(plain) if (s.overload_name or "default") == functional.partition(".")[2]),
                  None)
    if target is None or schema is None:
        return None

    def compute(*args: Any, **kwargs: Any) -> Any:
        outs = [kwargs.pop(n) for n in row.names]
        result = target(*args, **kwargs)
        for out, value in zip(outs, result if isinstance(result, (tuple, list)) else (result,), strict=True):
            if out.shape != value.shape:
                out.resize_(value.shape)
            out.copy_(value)
        return outs[0] if len(outs) == 1 else tuple(outs)

    given = tuple([p for p in schema.arguments if p.name not in ("dtype", "layout", "device", "pin_memory")
                   or not _makes(schema)])
    outs = tuple([AtenParam(n, "Tensor", True, is_write=True, alias="abcdef"[i]) for i, n in enumerate(row.names)])
    text = _text(plain, row.out, (*given, *outs))
    form = Form(plain, row.out, AtenSchema(plain, row.out, (*given, *outs), outs, text), compute)
    form.functional, form.writes, form.is_copied = target, row.names, row.is_copied
    return form


def _makes(schema: AtenSchema) -> bool:
    return not any("Tensor" in p.type for p in schema.arguments)


def _text(op: str, label: str, params: Sequence[AtenParam]) -> str:
    shown = [f"{p.type}({p.alias}!) {p.name}" if p.is_write else f"{p.type} {p.name}" for p in params]
    first = next((i for i, p in enumerate(params) if p.kwarg_only), len(params))
    return f"{op}.{label}({', '.join([*shown[:first], '*', *shown[first:]])}) -> Tensor(a!)"


_METHODS = {
    "_copy_from": "_copy_from(Tensor self, Tensor dst, bool non_blocking=False) -> Tensor",
    "_copy_from_and_resize": "_copy_from_and_resize(Tensor self, Tensor dst) -> Tensor",
    "equal": "equal(Tensor self, Tensor other) -> bool",
    "resize_": "resize_(Tensor(a!) self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor(a!)",
    "set_.source_Tensor": "set_.source_Tensor(Tensor(a!) self, Tensor source) -> Tensor(a!)",
    "set_.source_Storage": "set_.source_Storage(Tensor(a!) self, Storage source) -> Tensor(a!)",
    "set_.source_Storage_storage_offset": (
        "set_.source_Storage_storage_offset(Tensor(a!) self, Storage source, SymInt storage_offset, SymInt[] size,"
        " SymInt[] stride=[]) -> Tensor(a!)"),
    "set_": "set_(Tensor(a!) self) -> Tensor(a!)",
}


@cache
def method(name: str) -> Form:
    """A method of tensors that is one of ATen's overloads: `set_.source_Tensor`."""
    op, _, label = name.partition(".")

    def compute(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if op.startswith("_copy_from"):
            target = args[0]
            if op == "_copy_from_and_resize" and target.shape != self.shape:
                target.resize_(self.shape)
            return target.copy_(self)
        return getattr(Tensor, op)(self, *args, **kwargs)

    return Form(op, label or "default", custom_schema("aten", _METHODS[name]), compute)



# --- calls by name ----------------------------------------------------------------------------------------------------


@cache
def target(name: str) -> Any:
    """What a back end is told of an overload: `add.Tensor`, `empty.memory_format`, `fill_.Scalar`, `_copy_from`."""
    short = name.removesuffix(".default")
    if short in _METHODS:
        return method(short)
    op, _, label = name.partition(".")
    found = aten_overload(op, label or "default")
    return found if found is not None else next(
        f for n, r in row_table().items() if n.partition(".")[0] == op and r.out == label for f in (out_form(n),) if f)


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    """A call below autograd, of tensors on the device or not."""
    func = target(name)
    values = (*args, *kwargs.values())
    if any(t._keys & PRIVATE for t in tensors_of(values)) or any(map(private_use.is_private, values)):
        return late.provided("private call")(func, args, kwargs)
    return func(*args, **kwargs)
