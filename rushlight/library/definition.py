"""The definition behind a user's op, and the table of them.

Enters: schemas and qualified names. Leaves: ops callable as `rushlight.ops.<namespace>.<name>`, and their definitions,
found by name. Refuses: devices that no kernel is registered for, and names that nobody defined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _C
from .._C import Tensor
from ..aten.namespaces import namespace
from ..devices import device_of
from ..dispatch import table
from ..dispatch.keys import DispatchKey, backend_of
from ..op import OpDefinition, ops
from ..op.schema import Schema

registered: dict[str, CustomOp] = {}


class CustomOp(OpDefinition):
    """The definition behind a user's op: its kernels are found by device when it runs."""

    custom = True

    def __init__(self, schema: Schema, qualified: str) -> None:
        super().__init__(schema)
        self.name = qualified
        self.setup_context: Callable | None = None
        self.backward: Callable | None = None
        self.fake: Callable | None = None
        self.vmap_rule: Callable | None = None
        self.tags: tuple[Any, ...] = ()
        self.effect: Any = None      # library/effects.py
        self.plain: dict[str, Any] = {}      # type of device -> what plain calls run (dispatch/dispatcher.py)
        self.taught: set[str] = set()        # types of device whose kernels the core was told
        self.node: Any = None   # the Function that records it, once a derivative is registered
        self.record: Callable | None = None   # arguments, results computed elsewhere -> the results, recorded by it
        # functions of users get lists, as from PyTorch: they write `sizes + [1]`
        self.lists = tuple(i for i, p in enumerate(self.spec.params) if "[" in p.type)

    def run(self, *args: Any) -> Any:
        device = device_of(args)
        before = [
            a._version for a, p in zip(args, self.spec.params, strict=True) if p.mutated and isinstance(a, Tensor)
        ]
        result = self.kernel(device)(*self.listed(args))
        mutated = [a for a, p in zip(args, self.spec.params, strict=True) if p.mutated and isinstance(a, Tensor)]
        for a, version in zip(mutated, before, strict=True):
            if a._version == version:
                _C.bump_version(a)
        return result

    def listed(self, args: tuple) -> tuple:
        """Bound arguments with sequences as lists."""
        if not self.lists:
            return args
        found = list(args)
        for place in self.lists:
            if isinstance(found[place], tuple):
                found[place] = list(found[place])
        return tuple(found)

    def shape_rule(self) -> Callable:
        """What says the shapes of its results: its fake, else a kernel for meta tensors, else itself."""
        found = self.fake or table.find(self.name, DispatchKey.Meta)
        return self.run if found is None or found is table.FALLTHROUGH else found

    def kernel(self, device: Any) -> Callable:
        if device.type == "meta" and self.fake is not None:
            return self.fake
        key = backend_of(device)
        for k in (key, DispatchKey.CompositeExplicitAutograd, DispatchKey.CompositeImplicitAutograd):
            found = table.find(self.name, k)
            if found is not None and found is not table.FALLTHROUGH:
                return found
        if key in table.fallbacks:
            return lambda *args: table.fallbacks[key](ops[self.name].overload_list[0], *args)
        known = sorted(k if isinstance(k, str) else k.name for n, k in table.kernels if n == self.name)
        raise NotImplementedError(
            f"{self.name}: no implementation for device '{device.type}'. Registered: {', '.join(known) or 'none'}. Add"
            " one with register_kernel or Library.impl."
        )

    def records(self) -> bool:
        return False   # derivatives of custom ops are autograd Functions around them

    def overload(self) -> Any:
        result = super().overload()
        result.overridden = True
        return result


def file_op(definition: CustomOp) -> None:
    """Make a definition the op of its name."""
    name = definition.name
    overload = definition.overload()
    ops[name] = _C.Op(name, lambda: [overload])
    registered[name] = definition
    space, _, short = name.partition("::")
    namespace(space).forget(short)


def forget(name: str) -> None:
    """Take an op out again."""
    ops.pop(name, None)
    registered.pop(name, None)
    space, _, short = name.partition("::")
    namespace(space).forget(short)


def name_of(op: Any) -> str:
    """The qualified name of an op, given by that name, as an op, an overload or a `CustomOpDef`."""
    if isinstance(op, str):
        return op
    return getattr(op, "_qualname", None) or getattr(op, "_qualified_op_name", None) or op.name


def find(op: Any) -> CustomOp:
    """The definition of a user's op."""
    name = name_of(op)
    if name.partition(".")[0] in registered:
        return registered[name.partition(".")[0]]
    raise RuntimeError(f"operator {name} does not exist. Define it with custom_op, define or Library.define first.")
