"""Parametrizations: a parameter computed by modules from tensors that are learned in its place.

Enters: a module, the name of a parameter or buffer, a module to compute it. Leaves: the module, of a class made for it,
whose attribute of that name is computed when read; the learned tensors are under `module.parametrizations`. Refuses:
names that are no tensors, parametrizations that change dtype or shape (unless `unsafe`), pickling (state_dict works).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..._C import Tensor
from ...autograd.grad_mode import no_grad
from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter


class _Cache:
    """Values computed while `cached()` is active; one for the process, as the switch is."""

    def __init__(self) -> None:
        self.depth = 0
        self.values: dict[tuple[int, str], Tensor] = {}


_cache = _Cache()


@contextmanager
def cached() -> Iterator[None]:
    """Within it, a parametrized tensor is computed once and then remembered."""
    _cache.depth += 1
    try:
        yield
    finally:
        _cache.depth -= 1
        if not _cache.depth:
            _cache.values.clear()


def _register(module: Module, name: str, value: Tensor) -> None:
    if isinstance(value, Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)


def _inverted(steps: Any, value: Any) -> Any:
    """What the learned tensors must be for the parametrization to give `value`;
    steps without an inverse are left out."""
    for step in reversed(list(steps)):
        if hasattr(step, "right_inverse"):
            try:
                value = step.right_inverse(value)
            except NotImplementedError:
                pass
    return value


class ParametrizationList(ModuleList):
    """The modules that compute one tensor, and the tensors (`original`, or `original0`, …) they compute it from."""

    original: Tensor

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not len(modules):
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with no_grad():
            new = _inverted(self, original)
        if not isinstance(new, (Tensor, Sequence)):
            raise ValueError(f"right_inverse: expected a Tensor or a sequence of them, got {type(new).__name__}")
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            if original.dtype is not new.dtype:
                raise ValueError(
                    f"right_inverse changes the dtype of its one tensor.\noriginal.dtype: {original.dtype}\n"
                    f"right_inverse(original).dtype: {new.dtype}"
                )
            if new is not original:
                original.data = new.detach()
            _register(self, "original", original)
        else:
            for i, part in enumerate(new):
                if not isinstance(part, Tensor):
                    raise ValueError(f"right_inverse: expected a Tensor or a sequence of them. "
                                     f"Got element {i} of the sequence with type {type(part).__name__}.")
                if isinstance(original, Parameter):
                    part = Parameter(part, original.requires_grad)
                _register(self, f"original{i}", part)
        if not unsafe:
            self._check_result(shape, dtype)

    def _check_result(self, shape: Any, dtype: Any) -> None:
        with no_grad():
            result = self()
        if not isinstance(result, Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
        if result.dtype is not dtype:
            raise ValueError(f"the parametrization changes the dtype of the tensor; unsafe=True allows that.\n"
                             f"unparametrized dtype: {dtype}\nparametrized dtype: {result.dtype}")
        if result.shape != shape:
            raise ValueError(
                "the parametrization changes the shape of the tensor; unsafe=True allows that.\n"
                f"unparametrized shape: {tuple(shape)}\nparametrized shape: {tuple(result.shape)}"
            )

    def _originals(self) -> list[Tensor]:
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Set the learned tensors so that the parametrized one becomes `value`, as far as the inverses say."""
        with no_grad():
            for step in reversed(list(self)):
                if not hasattr(step, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(step).__name__} does not implement right_inverse.")
                value = step.right_inverse(value)
            parts = [value] if self.is_tensor else list(value)
            if len(parts) != self.ntensors:
                raise ValueError(f"right_inverse: expected {self.ntensors} tensors, got {len(parts)}.")
            for original, part in zip(self._originals(), parts):
                if part.dtype is not original.dtype:
                    raise ValueError(f"right_inverse returned dtype {part.dtype}, the original is of {original.dtype}")
                original.data = part.detach().clone()

    def forward(self) -> Tensor:
        value = self[0](*self._originals())
        for step in list(self)[1:]:
            value = step(value)
        return value


def _inject_new_class(module: Module) -> None:
    """Give the module a class of its own, on which properties can be put."""
    cls = type(module)

    def deepcopy(self: Any, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            other = memo[id(self)] = self.__new__(type(self))
            other.__dict__ = copy.deepcopy(self.__dict__, memo)
        return memo[id(self)]

    def getstate(self: Any) -> Any:
        raise RuntimeError(
            "a parametrized module can be saved only as its state_dict(). "
            "Save `module.state_dict()`, and load it into a module parametrized in the same way."
        )

    body: dict[str, Any] = {"__getstate__": getstate, "__module__": cls.__module__}
    if not hasattr(cls, "__deepcopy__"):
        body["__deepcopy__"] = deepcopy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), body)


def _inject_property(module: Module, tensor_name: str) -> None:
    def get(self: Any) -> Tensor:
        steps = self.parametrizations[tensor_name]
        if not _cache.depth:
            return steps()
        key = (id(self), tensor_name)
        if key not in _cache.values:
            _cache.values[key] = steps()
        return _cache.values[key]

    def set_(self: Any, value: Tensor) -> None:
        self.parametrizations[tensor_name].right_inverse(value)

    setattr(type(module), tensor_name, property(get, set_))


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute `module.tensor_name` by `parametrization` from now on; several are applied one after the other."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        steps = module.parametrizations[tensor_name]
        before = getattr(module, tensor_name)
        steps.append(parametrization)
        try:
            if not (unsafe or steps.unsafe):
                steps._check_result(before.shape, before.dtype)
        except ValueError:
            del steps[-1]
            raise
        steps.unsafe |= unsafe
        if hasattr(parametrization, "right_inverse"):
            try:
                steps.right_inverse(before.detach())
            except (NotImplementedError, RuntimeError):
                pass  # the new value then follows from the tensors as they are
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        steps = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = steps
    else:
        raise ValueError(f"'{module}' has no parameter, buffer or parametrized tensor named '{tensor_name}'")
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the module (or one tensor of it) is parametrized."""
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make the tensor an ordinary one again: with its computed value, or the original one."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    steps = module.parametrizations[tensor_name]
    if not steps.is_tensor and not leave_parametrized:
        raise ValueError(
            "leave_parametrized=False: the value is computed from several tensors, so there is no single original to"
            " put back."
        )
    original = steps._originals()[0]
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name)
        if steps.is_tensor:
            original.data = value.detach()
        else:
            original = Parameter(value.detach(), original.requires_grad) if isinstance(original, Parameter) else value
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class the module had."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give another module the parametrizations of this one, and its tensors."""
    if not is_parametrized(from_module):
        return to_module
    names = [tensor_name] if tensor_name is not None else list(from_module.parametrizations)
    for name in names:
        steps = from_module.parametrizations[name]
        if (
            name not in to_module._parameters
            and name not in to_module._buffers
            and not is_parametrized(to_module, name)
        ):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for step in steps:
            register_parametrization(to_module, name, step, unsafe=steps.unsafe)
        for mine, given in zip(to_module.parametrizations[name]._originals(), steps._originals()):
            mine.data = given.detach()
    return to_module
