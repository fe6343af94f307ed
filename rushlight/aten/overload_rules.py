"""What PyTorch's overloads can be told and asked beside being called: rules in Python, kernels by key, bodies.

Enters: overloads, of this package's making or ATen's. Leaves: functions that `install` makes their methods: `py_impl`,
`py_kernels`, `decompose`, `redispatch`, `has_kernel_for_dispatch_key`. Refuses: a second rule for one key, and rules
for levels of function transforms, which are the ops' own here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _C
from ..base import late
from ..dispatch import table
from ..dispatch.dispatcher import is_composite
from ..dispatch.keys import AUTOGRAD_OF, BACKENDS, DispatchKey, DispatchKeySet

ABOVE_BACKENDS = (DispatchKey.Autograd, *AUTOGRAD_OF.values())


def qualified(overload: Any) -> str:
    """The name under which registrations of an overload's op are filed."""
    return overload.definition.name


def py_impl(self: Any, k: Any) -> Callable[[Callable], Callable]:
    """A decorator: what happens with calls of this op for a key, or for a mode or a class of tensors with
    `__torch_dispatch__`. The rule of a mode is given it first; other rules only what the call is given."""
    name = qualified(self)
    is_class = isinstance(k, type) and hasattr(k, "__torch_dispatch__")
    if not is_class and not isinstance(k, (DispatchKey, str)):
        raise NotImplementedError(f"py_impl: expected a DispatchKey, a mode or a class of tensors, got {k!r}")

    def register(function: Callable) -> Callable:
        if k in py_kernels(self):
            raise RuntimeError(f"py_impl: {self} has a rule in Python for {k} already")
        if not is_class:
            table.register(name, k, function)
        elif issubclass(k, _C.Tensor):
            table.python_rules[name, k] = lambda func, types, args, kwargs: function(*args, **(kwargs or {}))
        else:
            table.python_rules[name, k] = lambda mode, func, types, args, kwargs: function(
                mode, *args, **(kwargs or {}))
        return function

    return register


def py_kernels(self: Any) -> dict[Any, Callable]:
    """Rules and kernels in Python that were registered, by key, mode or class."""
    name = qualified(self)
    found = {key: kernel for (n, key), kernel in table.kernels.items() if n == name and kernel is not table.FALLTHROUGH}
    found.update({kind: rule for (n, kind), rule in table.python_rules.items() if n == name})
    fake = getattr(self.definition, "fake", None)
    return found if fake is None else {DispatchKey.Meta: fake, **found}


def can_decompose(self: Any) -> bool:
    """Whether the op is a body of other ops."""
    return has_kernel_for_dispatch_key(self, DispatchKey.CompositeImplicitAutograd)


def decompose(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The op's body run on the arguments, for ops that are one; NotImplemented for others."""
    kernel = table.find(qualified(self), DispatchKey.CompositeImplicitAutograd)
    if kernel is not None and kernel is not table.FALLTHROUGH:
        return kernel(*args, **kwargs)
    if self.definition.custom or not is_composite(_ours(self)):
        return NotImplemented
    named = dict(kwargs)
    if _ours(self) is not self:      # PyTorch's names of parameters may be others
        found = self.ours(args, kwargs, lambda own: own)
        if found is None or found[0] is not _ours(self):
            return NotImplemented
        args, named = (), found[1]
    params = self.definition.spec.params
    return self.definition.run(*args, *[named.get(p.name, None if p.required else p.default)
                                        for p in params[len(args) :]])


def _ours(self: Any) -> Any:
    return getattr(self, "counterpart", self)


def redispatch(self: Any, keyset: Any, *args: Any, **kwargs: Any) -> Any:
    """A call that begins at the first of the keys: below autograd where none of autograd's is among them."""
    if not isinstance(keyset, DispatchKeySet):
        raise TypeError(f"redispatch: expected a DispatchKeySet first, got {type(keyset).__name__}")
    if any(key in ABOVE_BACKENDS for key in keyset):
        return self(*args, **kwargs)
    with late.provided("below autograd")():
        return self(*args, **kwargs)


def has_kernel_for_dispatch_key(self: Any, k: Any) -> bool:
    """Whether the op has a kernel of its own for a key."""
    kernel = table.find(qualified(self), k)
    if kernel is not None:
        return kernel is not table.FALLTHROUGH
    definition = self.definition
    if definition.custom:
        return k is DispatchKey.Meta and definition.fake is not None
    is_body = is_composite(_ours(self))
    if k is DispatchKey.CompositeImplicitAutograd:
        return is_body
    if k is DispatchKey.Autograd:
        return bool(definition.records)
    return not is_body and (k in (DispatchKey.CPU, DispatchKey.Meta, DispatchKey.CUDA) or k in BACKENDS.values())


def has_kernel_for_any_dispatch_key(self: Any, ks: Any) -> bool:
    """Whether the op has a kernel of its own for one of the keys."""
    return any(has_kernel_for_dispatch_key(self, key) for key in ks)


def install(kind: Any) -> None:
    """Make these methods of a class of overloads. `redispatch` of the core's own takes no keys: it stays for calls
    without."""
    own = vars(kind).get("redispatch")

    def redispatch_either(self: Any, *args: Any, **kwargs: Any) -> Any:
        if own is not None and not (args and isinstance(args[0], DispatchKeySet)):
            return own(self, *args, **kwargs)
        return redispatch(self, *args, **kwargs)

    kind.py_impl, kind.decompose, kind.redispatch = py_impl, decompose, redispatch_either
    kind.py_kernels = property(py_kernels)
    kind.has_kernel_for_dispatch_key = has_kernel_for_dispatch_key
    kind.has_kernel_for_any_dispatch_key = has_kernel_for_any_dispatch_key
    kind._can_decompose = can_decompose
    kind._defined_in_python = property(lambda self: bool(self.definition.custom))
