"""Functions made ops: `custom_op`, and the object it returns.

Enters: functions with annotations or a schema. Leaves: `CustomOpDef`, on which the op's rules are registered. Refuses:
derivatives of ops that write their arguments.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

from ..aten.tags import Tag
from ..dispatch import table
from ..dispatch.keys import DispatchKey, parse_key
from ..op import ops
from .definition import registered
from .effects import register_effect
from .registration import default_library, split_name
from .rules import autograd_kernel, register_autocast, register_torch_dispatch
from .schemas import infer_schema


class CustomOpDef:
    """A user's op: call it, and register kernels, a fake, autograd and vmap rules on it."""

    def __init__(
        self, qualname: str, schema: str, function: Callable, device_types: Any, tags: Sequence[Any] = ()
    ) -> None:
        space, name = split_name(qualname)
        # the op outlives this object, as a defined function would
        self._qualname, self._lib = qualname, default_library(space)
        self._name, self._namespace = name, space
        if qualname in ops:   # redefinition in a notebook replaces
            ops.pop(qualname)
            registered.pop(qualname, None)
            for key in [k for n, k in table.kernels if n == qualname]:
                table.unregister(qualname, key)
        self._lib.define(name + schema, tags=(Tag.pt2_compliant_tag, *tags))
        self._first, self._disabled = function, set()
        self._kinds: set[str | None] = set()
        self._definition = registered[qualname]
        self.register_kernel(device_types)(function)
        if self._definition.spec.returns and not any(p.mutated for p in self._definition.spec.params):
            # until a derivative is registered: a gradient that went missing in silence would train something else
            table.register(qualname, DispatchKey.Autograd, autograd_kernel(self._definition))
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
                device = None if kind == "CompositeExplicitAutograd" else kind
                self._kinds.add(device)
                table.register(self._qualname, parse_key(kind), self._switched(function, device))
            return function

        return register if fn is None else register(fn)

    def _switched(self, function: Callable, device: str | None) -> Callable:
        """A kernel that steps back for the op's first function while its device is disabled."""
        if function is self._first:
            return function

        @wraps(function)
        def kernel(*args: Any, **kwargs: Any) -> Any:
            return (self._first if device in self._disabled else function)(*args, **kwargs)

        return kernel

    @contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Within, the kernel registered for a device runs (or not: then the function the op was made of does)."""
        if device_type not in self._kinds:
            warnings.warn(
                f"set_kernel_enabled: {self._qualname} has no kernel of its own for {device_type!r}, so nothing"
                f" changes. Registered for: {', '.join(sorted(k or 'all devices' for k in self._kinds))}", stacklevel=3)
        before = device_type in self._disabled
        (self._disabled.discard if enabled else self._disabled.add)(device_type)
        try:
            yield
        finally:
            (self._disabled.add if before else self._disabled.discard)(device_type)

    def register_torch_dispatch(self, torch_dispatch_class: type, fn: Callable | None = None, /) -> Callable:
        """What a mode or a subclass with `__torch_dispatch__` does for this op."""
        return register_torch_dispatch(self._qualname, torch_dispatch_class, fn)

    def register_effect(self, effect: Any) -> None:
        """Say that calls do something beside giving results: graphs then keep every one, in its place
        (`EffectType.ORDERED`). None takes that back."""
        register_effect(self._qualname, effect)

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
        table.register(self._qualname, DispatchKey.Autograd, autograd_kernel(self._definition))

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
    """Make a function an op: `@custom_op("ns::name", mutates_args=())`.

    Arguments:
        name: "namespace::name"
        fn: the function; None to use it as a decorator
        mutates_args: names of the arguments that it writes to; () for none
        device_types: the devices that the function serves; None for all
        schema: its types, if annotations do not say them
        tags: what else is known of the op

    Example:
        >>> @rl.library.custom_op("example::twice", mutates_args=())
        ... def twice(x: rl.Tensor) -> rl.Tensor:
        ...     return x + x
        >>> twice(rl.ones(2))
        tensor([2., 2.])
    """

    def make(function: Callable) -> CustomOpDef:
        text = schema if schema is not None else infer_schema(function, mutates_args=mutates_args)
        given = () if tags is None else tags if isinstance(tags, Sequence) else (tags,)
        return CustomOpDef(name, text, function, device_types, given)

    return make if fn is None else make(fn)

