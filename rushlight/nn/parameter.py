"""Parameters and buffers: the tensors a module registers by itself, and those whose shape is not known yet.

Enters: a tensor (or, for the uninitialized kinds, nothing). Leaves: a leaf of a subclass the core keeps on its fast
path. Refuses: computing with a parameter that has no shape yet.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from .. import _C
from .._C import Tensor
from ..autograd.grad_mode import no_grad


class _MarkedMeta(type(Tensor)):
    """isinstance also holds for tensors of other classes that carry the class's mark."""

    def __instancecheck__(self, instance: Any) -> bool:
        return type.__instancecheck__(self, instance) or (
            isinstance(instance, Tensor) and getattr(instance, self._mark, False)
        )


class _ParameterMeta(_MarkedMeta):
    _mark = "_is_param"


class _BufferMeta(_MarkedMeta):
    _mark = "_is_buffer"


def _no_data() -> Tensor:
    return _C.empty((0,), None, _C.get_default_dtype(), None)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that is learned: requires grad unless told otherwise, and is printed as a parameter."""

    __torch_function__ = _C._disabled_torch_function_impl
    _prints_as_tensor = True

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = _no_data()
        if type(data) is not Tensor and not issubclass(type(data), Parameter):
            result = data.detach().requires_grad_(requires_grad)  # a tensor of a class of its own stays one
            if type(result) is not type(data):
                raise RuntimeError(
                    f"Parameter: detach() of a {type(data).__name__} must return an "
                    f"instance of the same type, but it returned one of {type(result).__name__}."
                )
            result._is_param = True
            return result
        result = _C.shallow_copy(data.detach() if data._keys else data, True, cls)
        result.requires_grad_(requires_grad)
        return result

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        return memo[id(self)]

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: int) -> tuple:
        from .. import _tensor  # these two bring sparse and nested tensors along
        from ..tensors import pickling

        state = pickling._get_obj_state(self)
        if self._backward_hooks:
            _tensor._warn_of_hooks(self)
        args = (self.data, self.requires_grad, OrderedDict())
        if state:
            return pickling._rebuild_parameter_with_state, (*args, state)
        return pickling._rebuild_parameter, args


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that belongs to a module's state but is not learned."""

    __torch_function__ = _C._disabled_torch_function_impl
    _pickled_as = Tensor    # marked by an attribute: PyTorch's buffers are of no class of their own

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Buffer:
        if data is None:
            data = _no_data()
        result = _C.shallow_copy(data.detach() if data._keys else data, True, cls)
        result.persistent = persistent
        result._is_buffer = True
        return result


_CONVERSIONS = frozenset(("to", "half", "float", "double", "bfloat16", "cpu", "cuda", "copy_", "is_complex",
                          "is_floating_point", "detach", "requires_grad_", "char", "short", "int", "long", "cfloat",
                          "cdouble", "chalf", "empty_like"))


class UninitializedTensorMixin:
    """A tensor without a shape: it knows dtype and device, converts between them, and refuses everything else."""

    cls_to_become: type

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become a real one of the given shape, in place; the elements are undefined."""
        wants = self.requires_grad
        with no_grad():
            data = _C.empty(
                tuple(shape), None, self.dtype if dtype is None else dtype, self.device if device is None else device
            )
        self.__class__ = self.cls_to_become
        self.data = data
        self.requires_grad_(wants)

    @property
    def shape(self) -> Any:
        raise RuntimeError("an uninitialized parameter or buffer has no shape yet. Run a forward of its module first: "
                           "the shape follows from the input.")

    def share_memory_(self) -> Any:
        raise RuntimeError(
            "an uninitialized parameter or buffer has no memory to share yet. Run a forward of its module first."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in _CONVERSIONS or name.startswith("__"):  # accessors of dtype, device and the like come as __get__
            return super().__torch_function__(func, types, args, kwargs or {})
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {func}. A lazy module must run its first forward before "
            "its parameters are used: the shape follows from the input."
        )


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape a lazy module finds out in its first forward."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        data = _C.empty((0,), None, _C.get_default_dtype() if dtype is None else dtype, _as_device(device))
        result = _C.shallow_copy(data, True, cls)
        result.requires_grad_(requires_grad)
        return result

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: int) -> tuple:
        return type(self), (self.requires_grad, self.device, self.dtype)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape a lazy module finds out in its first forward."""

    cls_to_become = Tensor
    persistent = True

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> UninitializedBuffer:
        data = _C.empty((0,), None, _C.get_default_dtype() if dtype is None else dtype, _as_device(device))
        result = _C.shallow_copy(data, True, cls)
        result.requires_grad_(requires_grad)
        result.persistent = persistent
        result._is_buffer = True
        return result

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedBuffer:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype, self.persistent)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: int) -> tuple:
        return type(self), (self.requires_grad, self.device, self.dtype, self.persistent)


def _as_device(device: Any) -> Any:
    return device if device is None or isinstance(device, _C.device) else _C.device(device)


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)
