"""Tensors and ops as pickles and copies: the reduce and deepcopy protocols,
under the names PyTorch gives their functions.

Enters: tensors. Leaves: what pickle and copy ask for; tensors over one storage stay over one storage. Refuses to
deepcopy tensors computed in a graph.
"""

from __future__ import annotations

import copy
import functools
import itertools
import warnings
from collections import OrderedDict
from typing import Any

from . import _C
from ._C import Tensor, UntypedStorage
from .autograd.grad_mode import no_grad
from .base import homes, late
from .base.quantizers import PerChannel, PerTensor
from .base.shape import sparse_coo, strided
from .definitions.nested import container as _nested
from .definitions.sparse import container as _sparse
from .devices.private_use import PRIVATE
from .dispatch.modes import DisableTorchFunctionSubclass
from .op import find_op
from .tensors import pickling
from .tensors.storages import STORAGE_NAMES, TypedStorage, deepcopy_storage, face_of

# --- pickling ---------------------------------------------------------------------------------------------------------


def _warn_of_hooks(t: Tensor) -> None:
    for hook in (t._backward_hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} of a tensor will not be serialized. Where that is meant, "
                "decorate it with @torch.utils.hooks.unserializable_hook and this warning stays away",
                stacklevel=4,
            )


def _reduce_plain(t: Tensor) -> tuple:
    """The function and the arguments that make `t` again, its class and attributes left out."""
    if type(t) is not Tensor:
        if isinstance(t, _sparse.SparseTensor):
            return _reduce_sparse(t)
        if isinstance(t, _nested.NestedTensor):
            return _reduce_nested(t)
    geometry = (tuple(t.shape), tuple(t.stride()))
    if t.is_meta:
        return pickling._rebuild_meta_tensor_no_storage, (t.dtype, *geometry, t.requires_grad)
    if (
        type(t) is not Tensor
        and t.numel()
        and hasattr(type(t), "__torch_dispatch__")
        and not t.data_ptr()
    ):
        args = (type(t), t.dtype, *geometry, t.storage_offset(), t.layout, t.device, t.requires_grad)
        return pickling._rebuild_wrapper_subclass, args
    if t._backward_hooks:
        _warn_of_hooks(t)
    where = (t.storage_offset(), *geometry, t.requires_grad, OrderedDict())
    bits = {name: True for name, is_set in (("conj", t.is_conj()), ("neg", t.is_neg())) if is_set}
    more = (bits,) if bits else ()
    if t.is_quantized:
        face = TypedStorage(wrap_storage=face_of(t), dtype=t.dtype)
        return pickling._rebuild_qtensor, (face, where[0], *geometry, _said_of(t._quantizer), *where[3:])
    if t.dtype in STORAGE_NAMES:
        return pickling._rebuild_tensor_v2, (TypedStorage(wrap_storage=face_of(t), dtype=t.dtype), *where, *more)
    return pickling._rebuild_tensor_v3, (face_of(t), *where, t.dtype, *more)


def _said_of(quantizer: Any) -> tuple:
    """What files say of a quantizer."""
    if isinstance(quantizer, PerTensor):
        return quantizer.scheme, quantizer.scale, quantizer.zero_point
    return PerChannel.scheme, quantizer.scales, quantizer.zero_points, quantizer.axis   # floats too, as PyTorch says it


def _reduce_sparse(t: Any) -> tuple:
    parts = (*t._index, t._held, t.shape)
    if t._layout is sparse_coo:
        parts = (*parts, t.is_coalesced())
    return pickling._rebuild_sparse_tensor, (t._layout, parts)


def _reduce_nested(t: Any) -> tuple:
    """Components one after another for the strided layout; values and offsets for the jagged one."""
    pickling.refuse_nested_in_old_format()
    if t._layout is not strided:
        parts = {"values": t._held, "offsets": t._starts, "lengths": t._sizes, "_ragged_idx": t._ragged,
                 "_metadata_cache": {}, "requires_grad": t.requires_grad}
        return _rebuild_from_type_v2, (pickling._rebuild_njt, type(t), (parts,), {})
    parts = [part.contiguous() for part in t.detach().unbind()]
    sizes, strides = [list(p.shape) for p in parts], [list(p.stride()) for p in parts]
    offsets = [*itertools.accumulate((p.numel() for p in parts), initial=0)][: len(parts)]
    buffer = find_op("cat")([p.reshape(-1) for p in parts]) if parts else _C.empty((0,), None, t.dtype, t.device)
    numbers = (_C.from_data(data, _C.int64, None) for data in (sizes, strides, offsets))
    return pickling._rebuild_nested_tensor, (buffer, *numbers)


def reduce_tensor(self: Tensor, protocol: int = 2) -> tuple:
    """`Tensor.__reduce_ex__`."""
    if pickling.ongoing.materialize_fake_tensors and hasattr(self, "fake_device"):    # whose bytes are left out anyway
        self = _C.empty(tuple(self.shape), tuple(self.stride()), self.dtype, self.fake_device)
    if self._keys & PRIVATE:      # elements travel by the host, and go to whatever back end is there then
        with DisableTorchFunctionSubclass():
            host = self.detach().cpu()
        return pickling._rebuild_device_tensor_from_cpu_tensor, (
            host, self.dtype, str(self.device), self.requires_grad)
    if type(self) is Tensor:
        state = self.__dict__
        if not state:
            return _reduce_plain(self)
    elif isinstance(self, (_sparse.SparseTensor, _nested.NestedTensor)):
        return _reduce_plain(self)
    else:
        state = pickling._get_obj_state(self)
    function, args = _reduce_plain(self)
    return _rebuild_from_type_v2, (function, getattr(type(self), "_pickled_as", type(self)), args, state)


def _rebuild_from_type_v2(func: Any, new_type: type, args: tuple, state: Any) -> Tensor:
    """A tensor of a subclass, or with attributes of its own."""
    result = func(*args)
    if isinstance(result, _nested.NestedTensor):    # complete already; the state speaks of PyTorch's own parts
        return result
    if type(result) is not new_type:
        result = result.as_subclass(new_type)
    setter = type(result).__setstate__
    if setter is not Tensor.__setstate__:
        setter(result, state)
        return result
    return pickling._set_obj_state(result, state)


def _rebuild_from_type(func: Any, type: type, args: tuple, dict: dict) -> Tensor:
    """As older files have it."""
    return _rebuild_from_type_v2(func, type, args, dict)


def set_state(self: Tensor, state: Any) -> None:
    """`Tensor.__setstate__`: attributes, or PyTorch's old (storage, offset, size, stride) form."""
    if isinstance(state, dict):
        self.__dict__.update(state)
        return
    if not self.is_leaf:
        raise RuntimeError("__setstate__: expected a leaf Tensor, got the result of an operation")
    if len(state) == 4:
        source, offset, size, stride = state
        if source.dtype is not self.dtype:
            raise RuntimeError(f"__setstate__: expected a storage of {self.dtype}, got one of {source.dtype}")
        self._set_storage(source._untyped_storage, offset, size, stride)
        return
    if len(state) == 5:    # how parameters were written once
        self.data = state[0]
        state = (state[3], state[4], state[2])
    self.requires_grad_(bool(state[0]))
    if state[2]:
        self._backward_hooks = state[2]


_NAMESPACES = ("nn.functional", "special", "linalg", "fft", "sparse")


def reduce_op(op: Any) -> Any:
    """Pickle an op by a public name, a function of one of PyTorch's modules."""
    for namespace in (*_NAMESPACES, ""):
        name = op.__name__.removeprefix(f"{namespace}_")
        if getattr(_module(namespace), name, None) is op:
            if op.__module__ != homes.public_name(f"{__package__}.{namespace}".rstrip(".")):
                homes.settle(op, namespace)
            return name
    return op.__reduce__()


def _module(namespace: str) -> Any:
    """A module of ops by its public name; "" is the package."""
    return functools.reduce(getattr, filter(None, namespace.split(".")), late.provided("package"))


# --- copying ----------------------------------------------------------------------------------------------------------


def _copy_of_wrapper(t: Tensor) -> Tensor:
    """A copy of a tensor without memory, as its class makes it."""
    with DisableTorchFunctionSubclass(), no_grad():
        result = t.clone()
    if type(result) is not type(t):
        raise RuntimeError(
            f"deepcopy: {type(t).__name__}.clone() made a {type(result).__name__}. A class without memory of its own "
            "must return its own kind from clone(), or define __deepcopy__."
        )
    return result


def deepcopy_tensor(self: Tensor, memo: dict) -> Tensor:
    """`Tensor.__deepcopy__`: views of one storage stay views of one storage."""
    if not self.is_leaf:
        raise RuntimeError(
            "deepcopy: only graph leaves can be copied, and this Tensor is the result of an operation. "
            "Copy tensor.detach() instead, or detach it before the object that holds it is copied."
        )
    if id(self) in memo:
        return memo[id(self)]
    if type(self) is not Tensor and self.is_cpu and self.numel() and not self.data_ptr():
        result = _copy_of_wrapper(self)
    elif self.is_quantized and self.is_cpu:
        face = TypedStorage(wrap_storage=deepcopy_storage(self.untyped_storage(), memo), dtype=self.dtype)
        where = (self.storage_offset(), tuple(self.shape), self.stride())
        result = pickling.quantized_over(face, *where, self._quantizer)
    elif self.is_cpu:
        result = _C.empty((0,), None, self.dtype, self.device)
        storage = deepcopy_storage(self.untyped_storage(), memo)
        result._set_storage(storage, self.storage_offset(), tuple(self.shape), self.stride())
        result = find_op("conj_physical")(result) if self.is_conj() else result
        result = result.neg() if self.is_neg() else result
    elif self.is_meta:
        result = _C.empty(tuple(self.shape), self.stride(), self.dtype, self.device)
    elif self._keys & PRIVATE:      # what it holds are attributes, which a copy has of its own
        memo[id(self)] = result = self.detach().clone()
        return result.requires_grad_() if self.requires_grad else result
    else:
        result = self.detach().clone()
    if type(self) is not type(result):
        result = _C.shallow_copy(result, True, type(self))
    if self.requires_grad:
        result.requires_grad_()
    memo[id(self)] = result
    if self.grad is not None:
        result.grad = copy.deepcopy(self.grad, memo)
    if self.__dict__:
        result.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return result


__all__ = ["Tensor", "UntypedStorage", "deepcopy_tensor", "reduce_tensor", "set_state"]
