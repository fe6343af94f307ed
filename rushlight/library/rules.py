"""What is registered for an op of a user: kernels, a fake, a derivative, batching, casting, rules of modes.

Enters: an op (by name or as an object) and a function. Leaves: the op, which behaves so. Refuses: ops that nobody
defined, and fakes that would replace one unasked.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..autograd import Function
from ..base.assertions import _check, _check_is_size
from ..dispatch import table
from ..dispatch.keys import DispatchKey, parse_key
from ..op import ops
from .definition import CustomOp, find, name_of, registered
from .registration import Library


class _Lists:
    """Which arguments and results of a call are lists, and how long: a Function sees tensors, not lists of them."""

    inputs: tuple[int | None, ...] = ()
    outputs: tuple[int | None, ...] = ()

    @staticmethod
    def opened(values: Any, kinds: tuple[str, ...]) -> tuple[tuple[int | None, ...], list[Any]]:
        """Lengths of the lists of tensors, None for other values; and the values with those lists opened."""
        lengths: list[int | None] = []
        flat: list[Any] = []
        for value, kind in zip(values, kinds, strict=True):
            is_list = kind.startswith("Tensor") and "[" in kind and isinstance(value, (list, tuple))
            lengths.append(len(value) if is_list else None)
            flat += value if is_list else [value]
        return tuple(lengths), flat

    @staticmethod
    def closed(flat: Any, lengths: tuple[int | None, ...]) -> list[Any]:
        """The values as they were before `opened`."""
        rest = iter(flat)
        return [next(rest) if n is None else [next(rest) for _ in range(n)] for n in lengths]


def autograd_kernel(definition: CustomOp) -> Callable:
    """The op wrapped in a Function whose backward is the user's; where there is none, a backward that says so."""
    params, returns = definition.spec.params, definition.spec.returns
    types = tuple(p.type for p in params)
    names = [p.name for p in params]
    keyword_only = [p.name for p in params if p.keyword_only]
    split = len(names) - len(keyword_only)

    def forward(lists: _Lists, *flat: Any) -> Any:
        args = _Lists.closed(flat, lists.inputs)
        return noted(ops[definition.name](*args[:split], **dict(zip(keyword_only, args[split:], strict=True))), lists)

    def noted(result: Any, lists: _Lists) -> Any:
        lists.outputs, opened = _Lists.opened(result if len(returns) > 1 else (result,), returns or ("",))
        return opened[0] if lists.outputs == (None,) else tuple(opened)

    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        lists = ctx._lists = inputs[0]
        if definition.setup_context is None:
            return
        args = tuple(_Lists.closed(inputs[1:], lists.inputs))
        given = {"output": restored(output, lists)}
        if keyword_only:
            given["keyword_only_inputs"] = dict(zip(keyword_only, args[split:], strict=True))
        definition.setup_context(ctx=ctx, inputs=args[:split], **given)

    def restored(output: Any, lists: _Lists) -> Any:
        if lists.outputs == (None,):
            return output
        closed = _Lists.closed(output if isinstance(output, tuple) else (output,), lists.outputs)
        return tuple(closed) if len(returns) > 1 else closed[0]

    def backward(ctx: Any, *grads: Any) -> Any:
        if definition.backward is None:
            raise RuntimeError(
                f"{definition.name}: a gradient was asked for, and the op has no derivative. Give it one with"
                " register_autograd, or detach its inputs."
            )
        result = definition.backward(ctx, *_Lists.closed(grads, ctx._lists.outputs))
        result = result if isinstance(result, tuple) else (result,)
        flat: list[Any] = [None]     # the first argument says where lists are
        for i, length in enumerate(ctx._lists.inputs):
            given = result[i] if i < len(result) else None
            if length is None:
                flat.append(given)
                continue
            given = [None] * length if given is None else given
            if not isinstance(given, (list, tuple)) or len(given) != length:
                raise RuntimeError(
                    f"{definition.name}: expected {length} gradients in a list for argument '{names[i]}', got"
                    f" {len(given) if isinstance(given, (list, tuple)) else type(given).__name__}"
                )
            flat += given
        return tuple(flat)

    rules = {"forward": forward, "setup_context": setup_context, "backward": backward}
    node = type(
        f"{definition.spec.name.title()}", (Function,), {name: staticmethod(rule) for name, rule in rules.items()}
    )
    definition.node = node

    def record(args: tuple, result: Any) -> Any:
        lists = _Lists()
        lists.inputs, flat = _Lists.opened(args, types)
        return restored(node._record((lists, *flat), noted(result, lists)), lists)

    definition.record = record

    def call(*args: Any, **kwargs: Any) -> Any:
        filled = list(args) + [kwargs[p.name] if p.name in kwargs else p.default for p in params[len(args) :]]
        lists = _Lists()
        lists.inputs, flat = _Lists.opened(filled, types)
        return restored(node.apply(lists, *flat), lists)

    vars(call).update(records_only=True, takes_every_argument=True)
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


class UnknownSizeError(NotImplementedError, RuntimeError):
    """A fake asked for a size that depends on data where sizes have no symbols."""


class FakeContext:
    """What a fake implementation may ask: a size that depends on data, as a symbol of the program that is traced."""

    def __init__(self, env: Any = None) -> None:
        self.env = env

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> Any:  # noqa: A002
        """A size that only elements can tell, within bounds."""
        if not isinstance(min, int) or not (max is None or isinstance(max, int)):
            raise ValueError(f"new_dynamic_size: the bounds must be ints, got min={min!r} and max={max!r}")
        if min < 0:
            raise ValueError(f"new_dynamic_size: sizes are not negative, got min={min}")
        if self.env is None or not self.env.allow_dynamic_output_shape_ops:
            raise UnknownSizeError(
                "new_dynamic_size: the size depends on data, and meta tensors have none. Trace with symbolic sizes"
                " instead."
            )
        made = self.env.create_unbacked_symint()
        check_size(made, min, max)
        return made

    def create_unbacked_symint(self, *, min: int = 2, max: int | None = None) -> Any:  # noqa: A002
        """The older name, whose lower bound was never held to."""
        warnings.warn("create_unbacked_symint: use new_dynamic_size instead", FutureWarning, stacklevel=2)
        return self.new_dynamic_size(min=0 if min == 2 else min, max=max)


def check_size(size: Any, low: int, high: int | None) -> None:
    """Let a size that is made be known to lie within bounds."""
    _check_is_size(size)
    _check(size >= low)
    if high is not None:
        _check(size <= high)


_contexts: list[FakeContext] = []


@contextmanager
def fake_context(env: Any) -> Iterator[None]:
    """Within, fakes are told sizes by the symbols of `env`."""
    _contexts.append(FakeContext(env))
    try:
        yield
    finally:
        _contexts.pop()


def get_ctx() -> FakeContext:
    """The context of the running fake implementation."""
    return _contexts[-1] if _contexts else FakeContext()
