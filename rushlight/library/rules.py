"""What is registered for an op of a user: kernels, a fake, a derivative, batching, casting, rules of modes.

Enters: an op (by name or as an object) and a function. Leaves: the op, which behaves so. Refuses: ops that nobody
defined, and fakes that would replace one unasked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd import Function
from ..dispatch import table
from ..dispatch.keys import DispatchKey, parse_key
from ..op import ops
from .definition import CustomOp, find, name_of, registered
from .registration import Library


def autograd_kernel(definition: CustomOp) -> Callable:
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


def _is_foreign(name: str) -> bool:
    """Whether a name belongs to a namespace in which nothing is defined:
    that of an extension whose native part is not loaded.

    Python parts of such extensions describe their ops all the same; the ops themselves are missing when called.
    """
    space = name.partition("::")[0]
    return "::" in name and not any(known.startswith(f"{space}::") for known in registered)


def register_kernel(op: Any, device_types: Any, func: Callable | None = None, /, *, lib: Library | None = None) -> Any:
    """Implement an op for device types."""
    definition = find(op)

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
    definition = find(op)

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
    definition = find(op)
    definition.backward, definition.setup_context = backward, setup_context
    table.register(definition.name, DispatchKey.Autograd, autograd_kernel(definition))


def register_vmap(op: Any, func: Callable | None = None, /, *, lib: Library | None = None) -> Any:
    """Give an op a batching rule."""
    definition = find(op)

    def register(rule: Callable) -> Callable:
        definition.vmap_rule = rule
        return rule

    return register if func is None else register(func)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Library | None = None) -> None:
    """In mixed precision on a device type, cast an op's floating-point tensors to `cast_inputs` and run it with
    autocasting off."""
    from ..dispatch import autocast  # noqa: PLC0415 - most programs never need it

    if not autocast.is_autocast_available(device_type):
        raise ValueError(f"Device type '{device_type}' does not support autocast.")
    if device_type == "cpu":   # the only device whose tensors are cast
        autocast.register(find(op).name, cast_inputs)


def register_torch_dispatch(
    op: Any, torch_dispatch_class: type, func: Callable | None = None, /, *, lib: Library | None = None
) -> Any:
    """What a mode or a subclass does for one op: func(mode, func, types, args, kwargs),
    or without mode for a subclass."""
    space, _, short = name_of(op).rpartition("::")

    def register(rule: Callable) -> Callable:
        table.python_rules[table.qualified(space or "aten", short.partition(".")[0]), torch_dispatch_class] = rule
        return rule

    return register if func is None else register(func)


def impl_abstract(
    qualname: str, func: Callable | None = None, *, lib: Library | None = None, _stacklevel: int = 1
) -> Any:
    """The older name of `register_fake`."""
    return register_fake(qualname, func, lib=lib, _stacklevel=_stacklevel + 1)


class FakeContext:
    """What a fake implementation may ask: sizes that depend on data are refused on meta tensors."""

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:  # noqa: A002
        raise RuntimeError(
            "new_dynamic_size: the size depends on data, and meta tensors have none. Trace with symbolic sizes instead."
        )


def get_ctx() -> FakeContext:
    """The context of the running fake implementation."""
    return FakeContext()
