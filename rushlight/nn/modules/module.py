"""nn.Module: a tree of named parameters, buffers and submodules, with a `forward` to call.

Enters: what a user's `__init__` assigns. Leaves: iteration over names, conversion of everything at once, state (see
state.py), hooks (see hooks.py), a call. Refuses: assignments before `__init__` ran, names that cannot be paths.
Calling and reading attributes have quick paths (`csrc/extras/quick_module.cpp`); this file says what they mean.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self, TypeVar, get_type_hints

from ... import _C
from ..._C import Tensor
from ...autograd.grad_mode import no_grad
from ...base import late
from ...op import find_op
from ...tensors.plain_functions import _has_compatible_shallow_copy_type
from ...utils._python_dispatch import is_traceable_wrapper_subclass
from ...utils.swapping import swap_tensors
from ..parameter import Buffer, Parameter
from . import hooks as _hooks
from .hooks import (
    Hooks,
    call_with_hooks,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
    registered,
)
from .state import _EXTRA_STATE_KEY_SUFFIX, State, _IncompatibleKeys, _WrappedHook  # noqa: F401 - others look here

# PyTorch's place for these names, whatever file of ours makes them.
__all__ = [
    "Module", "_IncompatibleKeys", "register_module_backward_hook", "register_module_buffer_registration_hook",
    "register_module_forward_hook", "register_module_forward_pre_hook", "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook", "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

_LAYOUT_OF_DIMS = {"channels_last": 4, "channels_last_3d": 5}


def _forward_unimplemented(self: Any, *input: Any) -> None:
    """What the call runs; every subclass defines it."""
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


def _addindent(text: str, spaces: int) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *(" " * spaces + line for line in rest)])


def _fresh() -> dict[str, Any]:
    """What every module starts with, under the names PyTorch pickles. Hook tables are ordered dicts:
    handles refer to them weakly."""
    return {
        "training": True, "_parameters": {}, "_buffers": {}, "_non_persistent_buffers_set": set(),
        "_backward_pre_hooks": OrderedDict(), "_backward_hooks": OrderedDict(), "_is_full_backward_hook": None,
        "_forward_hooks": OrderedDict(), "_forward_hooks_with_kwargs": OrderedDict(),
        "_forward_hooks_always_called": OrderedDict(), "_forward_pre_hooks": OrderedDict(),
        "_forward_pre_hooks_with_kwargs": OrderedDict(), "_state_dict_hooks": OrderedDict(),
        "_state_dict_pre_hooks": OrderedDict(), "_load_state_dict_pre_hooks": OrderedDict(),
        "_load_state_dict_post_hooks": OrderedDict(), "_modules": {},
    }


class Module(State, Hooks):
    """The base of all neural network modules: assign parameters and modules in `__init__`, define `forward`."""

    T_destination = TypeVar("T_destination", bound=dict[str, Any])

    dump_patches: ClassVar[bool] = False
    _version: ClassVar[int] = 1
    training: bool
    call_super_init: ClassVar[bool] = False
    _compiled_call_impl: Callable | None = None

    forward: Callable[..., Any] = _forward_unimplemented

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _C.quick_paths(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            what = (
                f"an unexpected keyword argument '{next(iter(kwargs))}'"
                if kwargs
                else f"{len(args) + 1} positional arguments, it takes 1"
            )
            raise TypeError(f"{type(self).__name__}.__init__() got {what}")
        self.__dict__.update(_fresh())
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # the core stands in for this: without hooks, it goes straight to forward
        return (self._compiled_call_impl or self._call_impl)(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        return call_with_hooks(self, args, kwargs)

    def _wrapped_call_impl(self, *args: Any, **kwargs: Any) -> Any:
        return self(*args, **kwargs)

    # Registration

    def _check_name(self, what: str, name: Any) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but not learned; with persistent=False it stays out of the state_dict."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name)
        if hasattr(self, name) and name not in self._buffers:
            raise KeyError(f"attribute '{name}' already exists")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = registered(_hooks._global_buffer_registration_hooks, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a learned tensor, or None: a name without a parameter, left out of iteration and state."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name)
        if hasattr(self, name) and name not in self._parameters:
            raise KeyError(f"attribute '{name}' already exists")
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{type(param).__name__}' object to parameter '{name}' (torch.nn.Parameter or None"
                    " required)"
                )
            if param.grad_fn is not None:
                raise ValueError(f"parameter '{name}' must be a leaf Tensor, got one computed from others. "
                                 f"Where '{name}' depends on another Tensor, compute it inside forward().")
        self._parameters[name] = registered(_hooks._global_parameter_registration_hooks, self, name, param)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under a name."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name("module", name)
        if hasattr(self, name) and name not in self._modules:
            raise KeyError(f"attribute '{name}' already exists")
        self._modules[name] = registered(_hooks._global_module_registration_hooks, self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Another name of add_module."""
        self.add_module(name, module)

    # Attributes

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for table in ("_parameters", "_buffers", "_modules"):
            if table in own and name in own[table]:
                return own[table][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self)

    def _forget(self, name: str, *keep: str) -> None:
        """Take a name out of every place but `keep`: it is about to be registered there."""
        own = self.__dict__
        own.pop(name, None)
        for table in ("_parameters", "_buffers", "_modules"):
            if table not in keep:
                own[table].pop(name, None)
        if "_buffers" not in keep:
            own["_non_persistent_buffers_set"].discard(name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        params = own.get("_parameters")
        if isinstance(value, Parameter):
            if params is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, "_parameters")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if params is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            if name in params:
                raise _cannot_assign(value, "parameter", name, "torch.nn.Parameter or None")
            self._forget(name, "_modules")
            own["_modules"][name] = registered(_hooks._global_module_registration_hooks, self, name, value)
        elif params is None:
            if isinstance(value, Buffer):
                raise AttributeError("cannot assign buffer before Module.__init__() call")
            object.__setattr__(self, name, value)
        elif name in params:
            if value is not None:
                raise _cannot_assign(value, "parameter", name, "torch.nn.Parameter or None")
            self.register_parameter(name, None)
        elif name in own["_modules"]:
            if value is not None:
                raise _cannot_assign(value, "child module", name, "torch.nn.Module or None")
            own["_modules"][name] = registered(_hooks._global_module_registration_hooks, self, name, None)
        elif name in own["_buffers"] or isinstance(value, Buffer):
            self._set_buffer(name, value)
        else:
            object.__setattr__(self, name, value)

    def _set_buffer(self, name: str, value: Any) -> None:
        if value is not None and not isinstance(value, Tensor):
            raise _cannot_assign(value, "buffer", name, "torch.nn.Buffer, torch.Tensor or None")
        if isinstance(value, Buffer):
            self._forget(name, "_buffers")
            self.register_buffer(name, value, value.persistent)
        else:
            self._buffers[name] = registered(_hooks._global_buffer_registration_hooks, self, name, value)

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers}
        return sorted(name for name in names if not name[0].isdigit())

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Modules pickled by older versions lack the newer hook tables.
        fresh = _fresh()
        self.__dict__.update(
            {name: fresh[name] for name in fresh if "hook" in name or name == "_non_persistent_buffers_set"}
        )
        self.__dict__.update(state)

    # Paths

    def get_submodule(self, target: str) -> Module:
        """The submodule at a dotted path; "" is the module itself."""
        module: Any = self
        for part in target.split(".") if target else ():
            if not hasattr(module, part):
                raise AttributeError(f"{module._get_name()} has no attribute `{part}`")
            module = getattr(module, part)
            if not isinstance(module, Module):
                raise AttributeError(f"`{part}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a dotted path. strict: something must be there already."""
        if target == "":
            raise ValueError("set_submodule: the target's name is empty")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, last = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, last):
            raise AttributeError(f"{parent._get_name()} has no attribute `{last}`")
        if hasattr(parent, last) and not isinstance(getattr(parent, last), Module):
            raise AttributeError(f"`{last}` is not an nn.Module")
        setattr(parent, last, module)

    def _at_path(self, target: str) -> tuple[Module, str]:
        path, _, last = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, last):
            raise AttributeError(f"{module._get_name()} has no attribute `{last}`")
        return module, last

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path."""
        module, name = self._at_path(target)
        param = getattr(module, name)
        if not isinstance(param, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return param

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path."""
        module, name = self._at_path(target)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return module._buffers[name]

    # Iteration

    def _named_members(
        self, members: Callable, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        seen: set = set()
        for path, module in (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        ):
            for name, value in members(module):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """(full name, parameter) pairs, each parameter once unless remove_duplicate is off."""
        yield from self._named_members(
            lambda m: m._parameters.items(), prefix=prefix, recurse=recurse, remove_duplicate=remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters."""
        # Training loops ask for them at every step: names are put together only where a class has its own idea of them.
        found: dict[Parameter, None] = {}
        if recurse and _lists_as_all(self) and _collect(self, set(), found):
            yield from found
            return
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """(full name, buffer) pairs."""
        yield from self._named_members(
            lambda m: m._buffers.items(), prefix=prefix, recurse=recurse, remove_duplicate=remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """(name, module) of direct submodules, each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The direct submodules."""
        for _, module in self.named_children():
            yield module

    def named_modules(
        self, memo: set | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """(path, module) of the module itself and everything in it, each once unless remove_duplicate is off."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """The module itself and everything in it."""
        for _, module in self.named_modules():
            yield module

    # Changing everything at once

    def apply(self, fn: Callable[[Module], None]) -> Self:
        """Call `fn` on every submodule, then on the module itself."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace every parameter, gradient and buffer by `fn` of it; parameters keep their identity where they can."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, param in self._parameters.items():
            if param is not None:
                self._parameters[name] = _converted(param, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move and convert: to(device), to(dtype), to(device, dtype), to(tensor),
        each with non_blocking and memory_format."""
        device, dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"Module.to: dtype must be a floating point or complex one, got {dtype}")

        def convert(t: Tensor) -> Tensor:
            wanted = dtype if dtype is not None and (t.is_floating_point() or t.is_complex()) else None
            options = {} if device is None else {"device": device}
            if memory_format is not None and t.dim() == _LAYOUT_OF_DIMS.get(str(memory_format).rpartition(".")[2]):
                options["memory_format"] = memory_format
            return t.to(dtype=t.dtype if wanted is None else wanted, non_blocking=non_blocking, **options)

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move to a device without copying: the elements are undefined."""
        return self._apply(lambda t: find_op("empty_like")(t, device=device), recurse=recurse)

    def cpu(self) -> Self:
        """Move to the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Any = None) -> Self:
        """Move to a GPU."""
        return self._apply(lambda t: t.cuda(device))

    def ipu(self, device: Any = None) -> Self:
        """Move to an IPU, of which there is none."""
        return self._apply(lambda t: t.ipu(device))

    def xpu(self, device: Any = None) -> Self:
        """Move to an XPU, of which there is none."""
        return self._apply(lambda t: t.xpu(device))

    def mtia(self, device: Any = None) -> Self:
        """Move to an MTIA device, of which there is none."""
        return self._apply(lambda t: t.mtia(device))

    def type(self, dst_type: Any) -> Self:
        """Convert all parameters and buffers to a type."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self) -> Self:
        """Convert floating-point parameters and buffers to float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self) -> Self:
        """Convert floating-point parameters and buffers to float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self) -> Self:
        """Convert floating-point parameters and buffers to float16."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self) -> Self:
        """Convert floating-point parameters and buffers to bfloat16."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def share_memory(self) -> Self:
        """Move every tensor into memory that child processes can share."""
        return self._apply(lambda t: t.share_memory_())

    def train(self, mode: bool = True) -> Self:
        """Set training mode here and in every submodule."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Whether autograd records operations on the parameters."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop (or zero) the gradients of all parameters."""
        for param in self.parameters():
            if set_to_none:
                param.grad = None
            elif param.grad is not None:
                if param.grad.grad_fn is not None:
                    param.grad.detach_()
                else:
                    param.grad.requires_grad_(False)
                param.grad.zero_()

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile calls of this module in place, with the options of `compile()`. Copies are not compiled."""
        self.__dict__["_compiled_call_impl"] = late.provided("compile calls")(self, *args, **kwargs)

    # Text

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What stands between the parentheses; overridden by layers with settings."""
        return ""

    def __repr__(self) -> str:
        """Children before their parents, without recursion: modules may be nested more deeply than Python calls."""
        texts: dict[int, str] = {}
        waiting: list[tuple[Any, bool]] = [(self, False)]
        around: set[int] = set()
        while waiting:
            module, has_children_shown = waiting.pop()
            if has_children_shown:
                around.discard(id(module))
                texts[id(module)] = module._own_repr(texts)
            elif id(module) in around:
                raise RecursionError(f"{type(module).__name__} contains itself: it cannot be shown")
            elif module is not self and getattr(type(module), "__repr__", None) is not Module.__repr__:
                texts[id(module)] = repr(module)
            elif id(module) not in texts:
                around.add(id(module))
                waiting.append((module, True))
                waiting += [(child, False) for child in reversed(module._modules.values())]
        return texts[id(self)]

    def _repr_html_(self) -> str:
        """What a notebook shows: the modules in it, and how many parameters each has."""
        from .pages import module_page  # for notebooks alone

        return module_page(self)

    def _own_repr(self, texts: dict[int, str]) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {_addindent(texts[id(module)], 2)}" for name, module in self._modules.items()]
        body = (
            lines[0]
            if len(lines) == 1 and not children
            else "\n  " + "\n  ".join(lines + children) + "\n" if lines + children else ""
        )
        return f"{self._get_name()}({body})"


# Libraries read these from the modules of their own (fastai does), where the names in their text mean nothing.
Module.__annotations__ = get_type_hints(Module)


def _cannot_assign(value: Any, what: str, name: str, expected: str) -> TypeError:
    kind = type(value)
    shown = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return TypeError(f"cannot assign '{shown}' as {what} '{name}' ({expected} expected)")


def _lists_as_all(module: Module) -> bool:
    """Whether names of parameters are found as `Module` finds them: nothing of it is a subclass's or the instance's."""
    kind, own = type(module), module.__dict__
    return (
        kind.named_parameters is Module.named_parameters
        and kind._named_members is Module._named_members
        and "named_parameters" not in own
        and "named_modules" not in own
    )


def _collect(module: Module, seen: set[Module], found: dict[Parameter, None]) -> bool:
    """Add the parameters of a module and of everything in it to `found`, each once, in the order of `named_parameters`;
    False where a class lists its submodules itself."""
    if type(module).named_modules is not Module.named_modules:
        return False
    seen.add(module)
    for param in module._parameters.values():
        if param is not None:
            found[param] = None
    for inner in module._modules.values():
        if inner is not None and inner not in seen and not _collect(inner, seen, found):
            return False
    return True


def _converted(param: Any, fn: Callable[[Tensor], Tensor]) -> Any:
    """`fn` of a parameter, in place unless it comes from (or goes to) the meta device or another layout: modules that
    share it, and optimizers that hold it, keep sharing it."""
    with no_grad():
        result = fn(param)
    grad = param.grad
    if grad is not None:
        with no_grad():
            grad = fn(grad)
    wants = param.requires_grad
    if is_traceable_wrapper_subclass(result):     # of several tensors: nobody can say `data =` of it
        if result is not param:
            param.grad = None
            swap_tensors(param, Parameter(result, wants))
    elif _has_compatible_shallow_copy_type(param, result):
        if result is not param:
            param.grad = None  # a gradient of another dtype or shape may not stay while the data changes
            param.data = result
    else:
        param = Parameter(result, wants)
    if grad is not None:
        param.grad = grad.requires_grad_(grad.requires_grad)
    return param


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """(device, dtype, non_blocking, memory_format) from the arguments of `to`."""
    memory_format = kwargs.pop("memory_format", None)
    names = ["device", "dtype", "non_blocking", "copy"]
    if args and isinstance(args[0], Tensor):
        args = (args[0].device, args[0].dtype, *args[1:])
    elif args and isinstance(args[0], _C.dtype):
        args = (None, *args)
    elif "tensor" in kwargs:
        other = kwargs.pop("tensor")
        args = (other.device, other.dtype, *args)
    if len(args) > len(names):
        raise TypeError(f"to: expected at most {len(names)} positional arguments, got {len(args)}")
    found = dict(zip(names, args))
    for name, value in kwargs.items():
        if name not in names or found.get(name) is not None:
            raise TypeError(f"to: got an unexpected or repeated argument {name!r}")
        found[name] = value
    device, dtype = found.get("device"), found.get("dtype")
    if dtype is not None and not isinstance(dtype, _C.dtype):
        raise TypeError(f"to: dtype must be a dtype, got {type(dtype).__name__}")
    if device is not None and not isinstance(device, _C.device):
        device = _C.device(device) if isinstance(device, str) else _C.device("cuda", device)
    return device, dtype, bool(found.get("non_blocking", False)), memory_format


_C.set_module_class(Module, _hooks.GLOBAL_CALL_HOOKS)
