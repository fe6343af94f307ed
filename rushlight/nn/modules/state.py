"""State of modules: dictionaries of tensors out of a tree of modules, and back into it.

Enters: a module tree; for loading, a mapping of full names to tensors. Leaves: an ordered dict with `_metadata`
(versions per module); for loading, the missing and unexpected keys. Refuses, naming every key: with `strict` missing
and unexpected keys, and always tensors of another shape.
"""

from __future__ import annotations

import functools
import warnings
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

from ..._C import Tensor
from ...autograd.grad_mode import no_grad
from ...autograd.hooks import RemovableHandle
from ..parameter import Parameter, is_lazy

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What load_state_dict answers."""

    __slots__ = ()

    def __repr__(self) -> str:
        return super().__repr__() if self.missing_keys or self.unexpected_keys else "<All keys matched successfully>"

    __str__ = __repr__


class _WrappedHook:
    """A hook that is given its module, which it holds weakly: hooks must not keep modules alive."""

    def __init__(self, hook: Callable, module: Any = None) -> None:
        self.hook = hook
        functools.update_wrapper(self, hook)
        self.with_module = module is not None
        if module is not None:
            self.module = weakref.ref(module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("the module this hook belongs to no longer exists")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state = {"hook": self.hook, "with_module": self.with_module}
        if self.with_module:
            state["module"] = self.module()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.hook = state["hook"]
        self.with_module = state["with_module"]
        if self.with_module:
            if state["module"] is None:
                raise RuntimeError(
                    "the module this hook belonged to no longer exists, so the hook cannot be brought back"
                )
            self.module = weakref.ref(state["module"])


def _added(hooks: OrderedDict, hook: Callable) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


class State:
    """The saving and loading half of `Module`."""

    def get_extra_state(self) -> Any:
        """What else than tensors belongs into the state_dict; overridden together with set_extra_state."""
        raise RuntimeError(f"{type(self).__name__}.get_extra_state: not defined, though the state has an extra part. "
                           "Define get_extra_state and set_extra_state in the class.")

    def set_extra_state(self, state: Any) -> None:
        """Take back what get_extra_state answered."""
        raise RuntimeError(f"{type(self).__name__}.set_extra_state: not defined, though the state has an extra part. "
                           "Define get_extra_state and set_extra_state in the class.")

    def _register_state_dict_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after this module wrote its state;
        it may answer another dict."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError("this function is a hook of register_state_dict_post_hook already: register another")
        return _added(self._state_dict_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after this module wrote its state;
        it changes the dict in place."""
        hook._from_public_api = True
        return _added(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before this module writes its state."""
        return _added(self._state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(self, hook: Callable, with_module: bool = False) -> RemovableHandle:
        return _added(self._load_state_dict_pre_hooks, _WrappedHook(hook, self if with_module else None))

    def register_load_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)`
        before loading."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after loading; it may change the lists in place."""
        return _added(self._load_state_dict_post_hooks, hook)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Write this module's own tensors, not those of its submodules."""
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if keep_vars else param.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not State.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Every parameter and persistent buffer by its full name, detached unless keep_vars."""
        if args:
            warnings.warn(
                "give destination, prefix and keep_vars by name: positions are deprecated.", FutureWarning, stacklevel=2
            )
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            answer = hook(self, destination, prefix, local_metadata)
            if getattr(hook, "_from_public_api", False):
                if answer is not None:
                    raise RuntimeError("state_dict post-hook must return None")
            elif answer is not None:
                destination = answer
        return destination

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:
        """Read this module's own tensors, not those of its submodules; problems go into the three lists."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        persistent = {k: b for k, b in self._buffers.items() if k not in self._non_persistent_buffers_set}
        own = {k: v for k, v in (*self._parameters.items(), *persistent.items()) if v is not None}
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, tensor in own.items():
            key = prefix + name
            if key in state_dict:
                problem = self._load_one(name, key, tensor, state_dict[key], assign)
                if problem is not None:
                    error_msgs.append(problem)
            elif strict:
                missing_keys.append(key)
        extra_key = prefix + _EXTRA_STATE_KEY_SUFFIX
        if type(self).set_extra_state is not State.set_extra_state:
            if extra_key in state_dict:
                self.set_extra_state(state_dict[extra_key])
            elif strict:
                missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra_key:
                    first, *rest = key[len(prefix) :].split(".", 1)
                    if first not in (self._modules if rest else own):
                        unexpected_keys.append(key)

    def _load_one(self, name: str, key: str, tensor: Any, given: Any, assign: bool) -> str | None:
        """Copy (or assign) one tensor; what went wrong, in words, otherwise."""
        if not isinstance(given, Tensor):
            return (f'parameter "{key}": expected a Tensor in the state dict, '
                    f"got {type(given)}")
        lazy = is_lazy(tensor)
        if not lazy and tensor.dim() == 0 and given.dim() == 1 and given.numel() == 1:
            given = given[0]  # scalars were saved as vectors of one once
        if not lazy and given.shape != tensor.shape:
            return (f"size mismatch for {key}: the checkpoint has shape {_plain(given.shape)}, "
                    f"the model has {_plain(tensor.shape)}.")
        if tensor.is_meta and not given.is_meta and not assign:
            warnings.warn(f"{key}: the model's parameter is on the meta device, so copying the checkpoint's into it "
                          "does nothing. load_state_dict(..., assign=True) "
                          "puts the checkpoint's tensors in its place.", stacklevel=4)
        try:
            with no_grad():
                if not assign:
                    tensor.copy_(given)
                    return None
                if isinstance(tensor, Parameter):
                    if isinstance(given, Parameter):
                        given.requires_grad_(tensor.requires_grad)
                    else:
                        given = Parameter(given, requires_grad=tensor.requires_grad)
                setattr(self, name, given)
        except Exception as problem:
            action = "assigning" if assign else "copying"
            return (
                f'While {action} the parameter named "{key}", whose dimensions in the model are {tensor.size()} and '
                f"whose dimensions in the checkpoint are {given.size()}, an exception occurred : {problem.args}."
            )
        return None

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy tensors into this module and its submodules, by full name.

        strict: the keys must be exactly those of `state_dict()`. assign: take the given tensors themselves.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"state_dict: expected a mapping, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata

        def load(module: Any, local: Mapping[str, Any], prefix: str) -> None:
            local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                local_metadata["assign_to_params_buffers"] = assign
            module._load_from_state_dict(local, prefix, local_metadata, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    inner = f"{prefix}{name}."
                    load(child, {k: v for k, v in local.items() if k.startswith(inner)}, inner)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, _IncompatibleKeys(missing, unexpected)) is not None:
                    raise AssertionError("a hook of register_load_state_dict_post_hook returns nothing: "
                                         "to change incompatible_keys, change them in place.")

        load(self, state_dict, "")
        if strict:
            for kind, keys in (("Unexpected", unexpected), ("Missing", missing)):  # each goes in front
                if keys:
                    errors.insert(0, f"{kind} key(s) in state_dict: {_quoted(keys)}. ")
        if errors:
            raise RuntimeError(
                "Error(s) in loading state_dict for {}:\n\t{}".format(type(self).__name__, "\n\t".join(errors))
            )
        return _IncompatibleKeys(missing, unexpected)


def _plain(shape: Any) -> str:
    """A shape as error messages show it."""
    return f"torch.Size({list(shape)})"


def _quoted(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)
