"""rushlight.library: define ops, implement them per key, give them shape rules and derivatives, check them.

Enters: schemas and Python functions. Leaves: ops callable as `rushlight.ops.<namespace>.<name>` that take part in
autograd, meta tensors, modes and subclasses like built-in ones. Refuses: redefinition, unknown keys, signatures it
cannot express.
"""

from __future__ import annotations

import inspect
import types
import typing
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import _C
from ._C import Tensor
from .aten.namespaces import namespace
from .autograd import Function, no_grad
from .devices import device_of
from .dispatch import table
from .dispatch.keys import DispatchKey, backend_of, parse_key
from .dispatch.table import fallthrough_kernel
from .op import OpDefinition, ops
from .op.schema import Schema, parse

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "fallthrough_kernel", "get_ctx", "impl", "infer_schema", "opcheck",
    "register_autograd", "register_fake", "register_kernel", "register_torch_dispatch", "register_vmap",
]  # fmt: skip

_registered: dict[str, CustomOp] = {}
_TAGS = (
    "core",
    "pointwise",
    "view_copy",
    "needs_fixed_stride_order",
    "needs_exact_strides",
    "flexible_layout",
    "pt2_compliant_tag",
)


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
        self.node: Any = None   # the Function that records it, once a derivative is registered

    def run(self, *args: Any) -> Any:
        device = device_of(args)
        before = [
            a._version for a, p in zip(args, self.spec.params, strict=True) if p.mutated and isinstance(a, Tensor)
        ]
        result = self.kernel(device)(*args)
        mutated = [a for a, p in zip(args, self.spec.params, strict=True) if p.mutated and isinstance(a, Tensor)]
        for a, version in zip(mutated, before, strict=True):
            if a._version == version:
                _C.bump_version(a)
        return result

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


def _file(definition: CustomOp) -> None:
    name = definition.name
    overload = definition.overload()
    ops[name] = _C.Op(name, lambda: [overload])
    _registered[name] = definition
    space, _, short = name.partition("::")
    namespace(space).forget(short)


def _split(qualname: str) -> tuple[str, str]:
    space, colons, name = qualname.partition("::")
    if not colons or not space or not name:
        raise ValueError(f"expected a name like 'namespace::name', got {qualname!r}")
    return space, name.partition(".")[0]


class Library:
    """Registrations in a namespace; they end when the object is destroyed (or `_destroy` is called).

    kind: "DEF" to define ops of a new namespace, "FRAGMENT" to add to one, "IMPL" to implement existing ops.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise ValueError(f"Unsupported library kind: {kind!r}; expected 'DEF', 'FRAGMENT' or 'IMPL'")
        if kind == "DEF" and ns in ("prim", "prims"):
            raise ValueError(f"Library: the namespace {ns} is reserved. Choose another.")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._defined: list[str] = []
        self._implemented: list[tuple[str, Any]] = []
        self._fallbacks: list[Any] = []
        self._finalizer = weakref.finalize(self, _undo, self._defined, self._implemented, self._fallbacks)

    def define(self, schema: str, alias_analysis: str = "", *, tags: Sequence[Any] = ()) -> str:
        """Define `name(Type arg, ...) -> Type` in this namespace; returns the name."""
        if self.kind == "IMPL":
            raise RuntimeError("define: an IMPL library can only implement ops; use DEF or FRAGMENT")
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        parsed = parse(_named_first(schema))
        name = f"{self.ns}::{parsed.name}"
        if name in ops:
            raise RuntimeError(f"define: {name} has already been registered")
        _file(CustomOp(parsed, name))
        self._defined.append(name)
        return parsed.name

    def impl(
        self,
        op_name: Any,
        fn: Callable,
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """Implement an op for a key (the library's own if none is given)."""
        if not callable(fn):
            raise TypeError(f"impl: expected a callable, got {type(fn).__name__}")
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        name = (
            op_name
            if isinstance(op_name, str)
            else str(getattr(op_name, "_opname", getattr(op_name, "__name__", op_name)))
        )
        short = name.rpartition("::")[2].partition(".")[0]
        full = table.qualified(self.ns, short)
        parsed = parse_key(key)
        if full not in ops:
            raise RuntimeError(f"impl: {self.ns}::{short} is not defined. Define it first with Library.define.")
        if (full, parsed) in table.kernels and not allow_override:
            raise RuntimeError(
                f"impl: {short} of namespace {self.ns} has a Python kernel for the dispatch key {key} already. Pass"
                " allow_override=True to replace it."
            )
        table.register(full, parsed, fn, with_keyset)
        self._implemented.append((full, parsed))

    def fallback(self, fn: Callable, dispatch_key: str = "", *, with_keyset: bool = False) -> None:
        """Handle every op that has no implementation for a key."""
        key = parse_key(dispatch_key or self.dispatch_key)
        if self.ns != "_":
            raise RuntimeError(
                "Fallbacks can only be registered using a library fragment on the global namespace '_', but it is"
                f" {self.ns}"
            )
        table.fallbacks[key] = fn
        self._fallbacks.append(key)

    def _destroy(self) -> None:
        self._finalizer()


def _undo(defined: list[str], implemented: list[tuple[str, Any]], fallback_keys: list[Any]) -> None:
    for name, key in implemented:
        table.unregister(name, key)
    for name in defined:
        ops.pop(name, None)
        _registered.pop(name, None)
        space, _, short = name.partition("::")
        namespace(space).forget(short)
    for key in fallback_keys:
        table.fallbacks.pop(key, None)


def _named_first(schema: str) -> str:
    return schema if "->" in schema else schema + " -> ()"


_default_libraries: dict[str, Library] = {}


def _library(ns: str) -> Library:
    """The library that holds registrations made without one; it lives as long as the process."""
    return _default_libraries.setdefault(ns, Library(ns, "FRAGMENT"))


def define(qualname: str, schema: str | None = None, *, lib: Library | None = None, tags: Sequence[Any] = ()) -> None:
    """define("ns::name", "(Tensor x) -> Tensor")."""
    space, name = _split(qualname)
    if schema is None:
        raise TypeError("define: expected a schema such as '(Tensor x) -> Tensor'")
    (lib or _library(space)).define(name + schema, tags=tags)


def impl(qualname: str, types: str | Sequence[str], func: Callable | None = None, *, lib: Library | None = None) -> Any:
    """Implement an op for device types (or "default" for all); usable as a decorator."""
    space, name = _split(qualname)

    def register(fn: Callable) -> Callable:
        for kind in (types,) if isinstance(types, str) else types:
            key = "CompositeExplicitAutograd" if kind == "default" else kind
            (lib or _library(space)).impl(name, fn, key if key in DispatchKey.__members__ else kind)
        return fn

    return register if func is None else register(func)


# --- custom_op --------------------------------------------------------------------------------------------------------

_ANNOTATIONS: dict[Any, str] = {
    Tensor: "Tensor", int: "int", float: "float", bool: "bool", str: "str", complex: "Scalar", _C.dtype: "dtype",
    _C.device: "device", int | float | bool: "Scalar",
}  # fmt: skip


def _annotation_text(note: Any) -> str:
    if note in _ANNOTATIONS:
        return _ANNOTATIONS[note]
    origin, inside = typing.get_origin(note), typing.get_args(note)
    if origin in (typing.Union, types.UnionType):
        rest = [a for a in inside if a is not type(None)]
        if len(rest) < len(inside) and len(rest) == 1:
            return _annotation_text(rest[0]) + "?"
        if set(rest) <= {int, float, bool}:
            return "Scalar" + ("?" if len(rest) < len(inside) else "")
    if origin in (list, Sequence, typing.Sequence, Iterable, tuple):
        return _annotation_text(inside[0]) + "[]"
    raise ValueError(
        f"infer_schema: unsupported type annotation {note!r}. Use Tensor, int, float, bool, str, dtype, device,"
        " Optional or Sequence of them, or pass schema=."
    )


def infer_schema(
    prototype_function: Callable,
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
    tags: Sequence[Any] = (),
) -> str:
    """The schema a function's annotations describe: "(Tensor x, int n=2) -> Tensor"."""
    notes = typing.get_type_hints(prototype_function)
    if mutates_args == "unknown":
        raise ValueError("infer_schema: mutates_args='unknown' is not supported; name the arguments the op writes")
    written = set((mutates_args,) if isinstance(mutates_args, str) else mutates_args)
    parts, keyword_only = [], False
    for name, p in inspect.signature(prototype_function).parameters.items():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise ValueError(f"infer_schema: *args and **kwargs cannot be part of a schema (parameter {name})")
        if name not in notes:
            raise ValueError(f"infer_schema: parameter {name} must have a type annotation")
        if p.kind is p.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            parts.append("*")
        kind = _annotation_text(notes[name])
        if name in written:
            if not kind.startswith("Tensor"):
                raise ValueError(f"infer_schema: {name} is in mutates_args but is not a Tensor")
            kind = kind.replace("Tensor", f"Tensor(a{len(parts)}!)", 1)
        parts.append(
            f"{kind} {name}" if p.default is p.empty else f"{kind} {name}={p.default!r}".replace("rushlight.", "")
        )
    unknown = written - set(inspect.signature(prototype_function).parameters)
    if unknown:
        raise ValueError(f"infer_schema: mutates_args names {sorted(unknown)}, which are not parameters")
    note = notes.get("return", inspect.Parameter.empty)
    if note is inspect.Parameter.empty and "return" not in notes:
        raise ValueError("infer_schema: the function must have a return annotation")
    if note in (None, type(None)):
        result = "()"
    elif typing.get_origin(note) is tuple:
        result = "(" + ", ".join(_annotation_text(a) for a in typing.get_args(note)) + ")"
    else:
        result = _annotation_text(note)
    return f"{op_name or ''}({', '.join(parts)}) -> {result}"


class CustomOpDef:
    """A user's op: call it, and register kernels, a fake, autograd and vmap rules on it."""

    def __init__(self, qualname: str, schema: str, function: Callable, device_types: Any) -> None:
        space, name = _split(qualname)
        # the op outlives this object, as a defined function would
        self._qualname, self._lib = qualname, _library(space)
        self._name, self._namespace = name, space
        if qualname in ops:   # redefinition in a notebook replaces
            ops.pop(qualname)
            _registered.pop(qualname, None)
            for key in [k for n, k in table.kernels if n == qualname]:
                table.unregister(qualname, key)
        self._lib.define(name + schema)
        self._definition = _registered[qualname]
        self.register_kernel(device_types)(function)
        self.__name__, self.__doc__ = name, function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return ops[self._qualname](*args, **kwargs)

    @property
    def _opoverload(self) -> Any:
        return ops[self._qualname].overload_list[0]

    def register_kernel(self, device_types: Any, fn: Callable | None = None, /) -> Any:
        """Implement the op for device types, or for all with None."""

        def register(function: Callable) -> Callable:
            kinds = (
                ["CompositeExplicitAutograd"]
                if device_types is None
                else [device_types] if isinstance(device_types, str) else list(device_types)
            )
            for kind in kinds:
                table.register(self._qualname, parse_key(kind), function)
            return function

        return register if fn is None else register(fn)

    def register_fake(self, fn: Callable, /) -> Callable:
        """The op on tensors without data: shapes, dtypes, devices."""
        self._definition.fake = fn
        return fn

    register_meta = register_fake

    def register_autograd(self, backward: Callable, /, *, setup_context: Callable | None = None) -> None:
        """backward(ctx, *grads) -> gradients; setup_context(ctx, inputs, output) saves what it needs."""
        mutated = [p.name for p in self._definition.spec.params if p.mutated]
        if mutated:
            raise RuntimeError(
                f"register_autograd: {self._qualname} mutates {mutated}; only functional operators take a formula"
            )
        self._definition.backward, self._definition.setup_context = backward, setup_context
        table.register(self._qualname, DispatchKey.Autograd, _autograd_kernel(self._definition))

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """In mixed precision, cast floating-point tensors to `cast_inputs` and run with autocasting off."""
        register_autocast(self._qualname, device_type, cast_inputs)

    def register_vmap(self, func: Callable | None = None) -> Any:
        """func(info, in_dims, *args) -> (result, out_dims)."""

        def register(rule: Callable) -> Callable:
            self._definition.vmap_rule = rule
            return rule

        return register if func is None else register(func)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"


def _autograd_kernel(definition: CustomOp) -> Callable:
    """The op wrapped in a Function whose backward is the user's."""
    names = [p.name for p in definition.spec.params]
    keyword_only = [p.name for p in definition.spec.params if p.keyword_only]

    split = len(names) - len(keyword_only)

    def forward(*args: Any) -> Any:
        return ops[definition.name](*args[:split], **dict(zip(keyword_only, args[split:], strict=True)))

    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        if definition.setup_context is None:
            return
        if keyword_only:
            definition.setup_context(
                ctx=ctx,
                inputs=inputs[:split],
                keyword_only_inputs=dict(zip(keyword_only, inputs[split:], strict=True)),
                output=output,
            )
        else:
            definition.setup_context(ctx=ctx, inputs=inputs, output=output)

    def backward(ctx: Any, *grads: Any) -> Any:
        result = definition.backward(ctx, *grads)
        result = result if isinstance(result, tuple) else (result,)
        return result + (None,) * (len(names) - len(result))

    rules = {"forward": forward, "setup_context": setup_context, "backward": backward}
    node = type(
        f"{definition.spec.name.title()}", (Function,), {name: staticmethod(rule) for name, rule in rules.items()}
    )
    definition.node = node

    def call(*args: Any, **kwargs: Any) -> Any:
        filled = list(args) + [
            kwargs[p.name] if p.name in kwargs else p.default for p in definition.spec.params[len(args) :]
        ]
        return node.apply(*filled)

    return call


def custom_op(
    name: str,
    fn: Callable | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make a function an op: `@custom_op("ns::name", mutates_args=())`."""

    def make(function: Callable) -> CustomOpDef:
        text = schema if schema is not None else infer_schema(function, mutates_args=mutates_args)
        return CustomOpDef(name, text, function, device_types)

    return make if fn is None else make(fn)


def _find(op: Any) -> CustomOp:
    name = (
        op
        if isinstance(op, str)
        else getattr(op, "_qualname", None) or getattr(op, "_qualified_op_name", None) or op.name
    )
    if name.partition(".")[0] in _registered:
        return _registered[name.partition(".")[0]]
    raise RuntimeError(f"operator {name} does not exist. Define it with custom_op, define or Library.define first.")


def _is_foreign(name: str) -> bool:
    """Whether a name belongs to a namespace in which nothing is defined:
    that of an extension whose native part is not loaded.

    Python parts of such extensions describe their ops all the same; the ops themselves are missing when called.
    """
    space = name.partition("::")[0]
    return "::" in name and not any(known.startswith(f"{space}::") for known in _registered)


def register_kernel(op: Any, device_types: Any, func: Callable | None = None, /, *, lib: Library | None = None) -> Any:
    """Implement an op for device types."""
    definition = _find(op)

    def register(fn: Callable) -> Callable:
        for kind in (
            [None] if device_types is None else [device_types] if isinstance(device_types, str) else device_types
        ):
            table.register(
                definition.name, DispatchKey.CompositeExplicitAutograd if kind is None else parse_key(kind), fn
            )
        return fn

    return register if func is None else register(func)


def register_fake(
    op: Any,
    func: Callable | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = True,
) -> Any:
    """The op on tensors without data."""
    if isinstance(op, str) and _is_foreign(op):
        return (lambda fn: fn) if func is None else func
    definition = _find(op)

    def register(fn: Callable) -> Callable:
        if definition.fake is not None and not allow_override:
            raise RuntimeError(f"register_fake(...): the operator {definition.name} already has a fake impl registered")
        definition.fake = fn
        return fn

    return register if func is None else register(func)


def register_autograd(
    op: Any, backward: Callable, /, *, setup_context: Callable | None = None, lib: Library | None = None
) -> None:
    """Give an op a derivative."""
    definition = _find(op)
    definition.backward, definition.setup_context = backward, setup_context
    table.register(definition.name, DispatchKey.Autograd, _autograd_kernel(definition))


def register_vmap(op: Any, func: Callable | None = None, /, *, lib: Library | None = None) -> Any:
    """Give an op a batching rule."""
    definition = _find(op)

    def register(rule: Callable) -> Callable:
        definition.vmap_rule = rule
        return rule

    return register if func is None else register(func)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Library | None = None) -> None:
    """In mixed precision on a device type, cast an op's floating-point tensors to `cast_inputs` and run it with
    autocasting off."""
    from .dispatch import autocast  # noqa: PLC0415 - most programs never need it

    if not autocast.is_autocast_available(device_type):
        raise ValueError(f"Device type '{device_type}' does not support autocast.")
    if device_type == "cpu":   # the only device whose tensors are cast
        autocast.register(_find(op).name, cast_inputs)


def register_torch_dispatch(
    op: Any, torch_dispatch_class: type, func: Callable | None = None, /, *, lib: Library | None = None
) -> Any:
    """What a mode or a subclass does for one op: func(mode, func, types, args, kwargs),
    or without mode for a subclass."""
    name = (
        op
        if isinstance(op, str)
        else getattr(op, "_qualname", None) or getattr(op, "_qualified_op_name", None) or op.name
    )
    space, _, short = name.rpartition("::")

    def register(rule: Callable) -> Callable:
        table.python_rules[table.qualified(space or "aten", short.partition(".")[0]), torch_dispatch_class] = rule
        return rule

    return register if func is None else register(func)


class FakeContext:
    """What a fake implementation may ask: sizes that depend on data are refused on meta tensors."""

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:  # noqa: A002
        raise RuntimeError(
            "new_dynamic_size: the size depends on data, and meta tensors have none. Trace with symbolic sizes instead."
        )


def get_ctx() -> FakeContext:
    """The context of the running fake implementation."""
    return FakeContext()


# --- opcheck ----------------------------------------------------------------------------------------------------------

_CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor")


def opcheck(
    op: Any,
    args: tuple,
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = _CHECKS,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Check that a custom op is what its schema, fake and autograd registrations say; returns a word per check."""
    definition, kwargs = _find(op), kwargs or {}
    checks = {
        "test_schema": _check_schema,
        "test_autograd_registration": _check_autograd,
        "test_faketensor": _check_fake,
    }
    chosen = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    results: dict[str, Any] = {}
    for name in chosen:
        if name not in checks:
            raise ValueError(f"opcheck: invalid test name {name!r}; expected names among {', '.join(checks)}")
        try:
            checks[name](definition, args, kwargs)
            results[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed for {definition.name} with {error}") from error
            results[name] = error
    return results


class OpCheckError(Exception):
    """A custom op does not keep its promises."""


def _copies(args: tuple) -> tuple:
    return tuple(a.detach().clone().requires_grad_(a.requires_grad) if isinstance(a, Tensor) else a for a in args)


def _check_schema(definition: CustomOp, args: tuple, kwargs: dict[str, Any]) -> None:
    mine = _copies(args)
    before = [a.detach().clone() if isinstance(a, Tensor) else None for a in mine]
    with no_grad():
        result = ops[definition.name](*mine, **kwargs)
    for p, a, old in zip(definition.spec.params, mine, before, strict=False):
        if old is not None and not p.mutated and not bool(((a == old) | ((a != a) & (old != old))).all()):
            raise RuntimeError(f"argument {p.name} is not declared as mutated, but the op changed it")
    outs = result if isinstance(result, (tuple, list)) else (result,)
    for out in outs:
        for p, a in zip(definition.spec.params, mine, strict=False):
            if (
                isinstance(a, Tensor)
                and isinstance(out, Tensor)
                and out.numel()
                and out.untyped_storage().data_ptr() == a.untyped_storage().data_ptr()
            ):
                raise RuntimeError(f"the output aliases argument {p.name}; custom ops must return fresh tensors")


def _check_autograd(definition: CustomOp, args: tuple, kwargs: dict[str, Any]) -> None:
    mine = _copies(args)
    if not any(isinstance(a, Tensor) and a.requires_grad for a in mine):
        return
    result = ops[definition.name](*mine, **kwargs)
    outs = [
        o
        for o in (result if isinstance(result, (tuple, list)) else (result,))
        if isinstance(o, Tensor) and (o.is_floating_point() or o.is_complex())
    ]
    if outs and not any(o.requires_grad for o in outs) and definition.backward is None:
        raise RuntimeError("inputs require grad but no derivative is registered; use register_autograd")


def _check_fake(definition: CustomOp, args: tuple, kwargs: dict[str, Any]) -> None:
    if definition.fake is None:
        raise RuntimeError("no fake implementation is registered; use register_fake")
    mine = _copies(args)
    with no_grad():
        real = ops[definition.name](*mine, **kwargs)
        fake = definition.fake(*[a.to("meta") if isinstance(a, Tensor) else a for a in args], **kwargs)
    pairs = zip(real, fake, strict=True) if isinstance(real, (tuple, list)) else [(real, fake)]
    for r, f in pairs:
        if isinstance(r, Tensor) and (r.shape != f.shape or r.dtype is not f.dtype or r.stride() != f.stride()):
            raise RuntimeError(
                f"the fake gave {f.dtype.name}{list(f.shape)} strides {f.stride()}, the op"
                f" {r.dtype.name}{list(r.shape)} strides {r.stride()}"
            )


def impl_abstract(
    qualname: str, func: Callable | None = None, *, lib: Library | None = None, _stacklevel: int = 1
) -> Any:
    """The older name of `register_fake`."""
    return register_fake(qualname, func, lib=lib, _stacklevel=_stacklevel + 1)


def get_kernel(op: Any, dispatch_key: Any) -> Callable:
    """The function registered for an op under a key."""
    name = op if isinstance(op, str) else getattr(op, "_qualname", None) or op.name
    key = parse_key(dispatch_key) if isinstance(dispatch_key, str) else dispatch_key
    found = table.find(name, key)
    if found is None:
        raise RuntimeError(f"get_kernel: no kernel is registered for {name} under {dispatch_key}")
    return found


def triton_op(
    name: str, fn: Callable | None = None, /, *, mutates_args: str | Iterable[str], schema: str | None = None
) -> Callable:
    """Refused: an op made of Triton kernels, which need a GPU."""
    raise NotImplementedError("triton_op: there is no GPU to run Triton kernels on. Use custom_op.")


def wrap_triton(triton_kernel: Callable, /) -> Any:
    """Refused: a Triton kernel in a graph."""
    raise NotImplementedError("wrap_triton: there is no GPU to run Triton kernels on")
