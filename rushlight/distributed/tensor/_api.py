"""`DTensor`: one tensor whose elements lie on the processes of a mesh, and programs that treat it as one.

Enters: this process's part (`from_local`), or a whole tensor that one process has (`distribute_tensor`). Leaves: a
`Tensor` with the sizes of the whole. Ops on it go through `_dispatch.py`; `redistribute` changes how it lies,
`to_local` and `full_tensor` give plain tensors back. All of them have gradients.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ... import _C
from ..._C import Tensor
from ...autograd.function import Function
from ...base.shape import Size
from ...dispatch.dispatcher import ask_overrides
from ...dispatch.modes import state as mode_state
from ...dynamo.record import marks
from ...fake import FakeTensor
from ...op.factory import check_options
from ...rules.batch_overloads import PythonMeta
from .. import collectives
from ..device_mesh import DeviceMesh, current_mesh
from ..groups import get_global_rank
from . import _dispatch
from ._dtensor_spec import DTensorSpec, TensorMeta, check_placements, global_meta, local_shape, replicated
from ._redistribute import Redistribute, gradient_placements, moved, redistribute_local_tensor
from .placement_types import Partial, Placement, is_cut

__all__ = ["DTensor", "distribute_tensor"]


def _in_graphs(function: Callable) -> Callable:
    """A function that modes see whole, and that a captured program keeps as one call: its gradient is its own."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if mode_state.function_modes:
            answer = ask_overrides(call, _dispatch.tensors_of(args), args, kwargs)
            if answer is not NotImplemented:
                return answer
        return function(*args, **kwargs)

    marks.mark(call, marks.IN_GRAPH)
    return call


class DTensor(Tensor):
    """A tensor spread over the processes of a mesh: `device_mesh`, `placements`, and this process's part."""

    _local_tensor: Any
    _spec: DTensorSpec
    __torch_function__ = _C._disabled_torch_function_impl
    _is_elsewhere = True     # bodies of ops must not look at elements
    _told_apart_by = ("device_mesh", "placements")      # besides sizes and type: what compiled graphs are made for

    def __new__(cls, local_tensor: Any, spec: DTensorSpec, *, requires_grad: bool) -> DTensor:
        result = _C.make_wrapper(cls, tuple(spec.shape), tuple(spec.stride), local_tensor.dtype, local_tensor.device)
        result._local_tensor, result._spec = local_tensor, spec
        return result.requires_grad_() if requires_grad else result

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        return _dispatch.call(func, args, kwargs or {})

    own_ops = True
    # the same with arguments bound to the op's parameters, where no one else is asked
    __bound_dispatch__ = staticmethod(_dispatch.call_bound)

    @classmethod
    def __compose__(cls, overload: Any, args: tuple) -> Any:
        name = overload.name
        if name in ("new_empty", "new_zeros", "new_ones", "new_full") and isinstance(args[0], DTensor):
            return _new(name, *args)
        definition = overload.definition
        if definition.batch == "random" and definition.is_composite and isinstance(args[0], DTensor):
            return _drawn(overload, *args)
        return NotImplemented

    # --- plain tensors in and out -------------------------------------------------------------------------------------

    @staticmethod
    @_in_graphs
    def from_local(
        local_tensor: Tensor, device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None, *,
        run_check: bool = False, shape: Any = None, stride: Any = None,
        grad_placements: Sequence[Placement] | None = None,
    ) -> DTensor:
        """A distributed tensor of everyone's `local_tensor`. Parts that are not all as long as this one need the
        `shape` and `stride` of the whole. `run_check` compares them, and makes copies equal the first process's."""
        if isinstance(local_tensor, DTensor):
            raise RuntimeError("DTensor.from_local: local_tensor must be a plain tensor, got a DTensor")
        if (shape is None) != (stride is None):
            raise RuntimeError(f"DTensor.from_local: give shape and stride together, got {shape} and {stride}")
        mesh = device_mesh or current_mesh()
        if local_tensor.device.type not in (mesh.device_type, "meta"):
            local_tensor = local_tensor.to(mesh.device_type)
        placements = replicated(mesh) if placements is None else placements
        placements = check_placements("DTensor.from_local", placements, mesh, local_tensor.ndim)
        back = None if grad_placements is None else tuple(grad_placements)
        meta = None if shape is None else TensorMeta(Size(shape), tuple(stride), local_tensor.dtype)
        return _FromLocal.apply(local_tensor, mesh, placements, run_check, meta, back)

    @_in_graphs
    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """This process's part. `grad_placements` says how its gradient will lie, where that is not as the tensor."""
        if _C.is_grad_enabled():
            result = _ToLocal.apply(self, None if grad_placements is None else tuple(grad_placements))
        else:
            result = self._local_tensor
        if getattr(self, "_is_param", False) and not getattr(result, "_is_param", False):
            result = result.view_as(result) if result is self._local_tensor else result
            result._is_param = True
        return result

    @_in_graphs
    def redistribute(
        self, device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None, *,
        async_op: bool = False, forward_dtype: Any = None, backward_dtype: Any = None,
    ) -> DTensor:
        """The same tensor in other placements. Types, where given, are those that are sent. (`async_op`: collectives
        here have ended when they return.)"""
        if device_mesh is not None and device_mesh != self.device_mesh:
            raise NotImplementedError("redistribute: a tensor stays on its mesh; give placements on that one")
        if placements is None:
            raise RuntimeError("redistribute: placements is needed")
        for now, wanted in zip(self.placements, placements, strict=False):
            if wanted.is_partial() and now != wanted:
                raise RuntimeError(f"redistribute: from {now!r} to {wanted!r} is not possible: no one can use it")
        wanted = check_placements("redistribute", placements, self.device_mesh, self.ndim)
        return Redistribute.apply(self, wanted, forward_dtype, backward_dtype)

    @_in_graphs
    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """The whole tensor, on every process."""
        whole = self.redistribute(placements=replicated(self.device_mesh))
        return _ToLocal.apply(whole, None if grad_placements is None else tuple(grad_placements))

    def _taken_apart(self) -> tuple[Tensor, Callable[[Tensor], DTensor]]:
        """This process's part, and the way back from a part of another one like it; both have gradients."""
        spec = self._spec

        def whole(local: Tensor) -> DTensor:
            return DTensor.from_local(local, spec.mesh, spec.placements, shape=spec.shape, stride=spec.stride)

        return self.to_local(), whole

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh it lies on."""
        return self._spec.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """How it lies along each dimension of the mesh."""
        return self._spec.placements

    # --- what a tensor answers from its memory ------------------------------------------------------------------------

    def detach(self) -> DTensor:
        return DTensor(self._local_tensor.detach(), self._spec, requires_grad=False)

    def detach_(self) -> DTensor:
        Tensor.detach_(self)
        return self

    def _set_data(self, value: Any) -> None:
        if not isinstance(value, DTensor):
            raise TypeError(f"data: a DTensor's data is a DTensor, got a {type(value).__name__}")
        wrapper = _C.make_wrapper(
            Tensor, tuple(value.shape), tuple(value.stride()), value._local_tensor.dtype, value._local_tensor.device
        )
        _C.set_data(self, wrapper)
        self._local_tensor, self._spec = value._local_tensor, value._spec

    data = property(detach, _set_data)

    def item(self) -> Any:
        if self.numel() != 1:
            raise RuntimeError(f"item: a tensor with {self.numel()} elements is no number")
        return _whole(self).item()

    def tolist(self) -> Any:
        return _whole(self).tolist()

    def __bool__(self) -> bool:
        return bool(_whole(self))

    def __int__(self) -> int:
        return int(_whole(self))

    def __float__(self) -> float:
        return float(_whole(self))

    __index__ = __int__

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("a DTensor has no memory of its own to look at. Use to_local() or full_tensor().")

    numpy = __array__ = untyped_storage = storage = set_ = resize_ = resize_as_ = share_memory_ = _refuse

    def data_ptr(self) -> int:
        return self._local_tensor.data_ptr()

    def is_pinned(self, *args: Any) -> bool:
        return self._local_tensor.is_pinned()

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        lies = f"device_mesh={self.device_mesh}, placements={self.placements}"
        return f"DTensor(local_tensor={self._local_tensor}, {lies})"

    def __deepcopy__(self, memo: dict[int, Any]) -> DTensor:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError("deepcopy: only leaves of a graph can be copied. Copy tensor.detach() instead.")
        result = DTensor(self._local_tensor.detach().clone(), self._spec, requires_grad=self.requires_grad)
        memo[id(self)] = result
        if getattr(self, "_is_param", False):
            result._is_param = True
        if self.grad is not None:
            result.grad = self.grad.__deepcopy__(memo)
        return result

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return _rebuild, (self._local_tensor.detach(), self._spec, self.requires_grad, self._marks())

    def _marks(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_local_tensor", "_spec")}

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["_local_tensor"], (self._spec, self.requires_grad)

    @staticmethod
    def __tensor_unflatten__(
        inner_tensors: dict[str, Any], flatten_spec: Any, outer_size: Any, outer_stride: Any
    ) -> DTensor:
        spec, requires_grad = flatten_spec
        local = inner_tensors["_local_tensor"]
        meta = TensorMeta(Size(outer_size), tuple(outer_stride), local.dtype)
        return DTensor(local, spec.but(tensor_meta=meta), requires_grad=requires_grad)

    # --- what the tape and op bodies ask of tensors that are more than memory -----------------------------------------

    def _tape_copy(self) -> DTensor:
        return self.detach()

    def _tape_meta(self) -> DTensorMeta:
        return DTensorMeta(self._spec, self.device, self.requires_grad, _fake_of(self._local_tensor))

    def _fresh(self, shape: Sequence[int], strides: Sequence[int] | None, dtype: Any, device: Any) -> DTensor:
        """Memory for a result of an op on this one: it lies alike if it is as large, else whole everywhere."""
        alike = tuple(shape) == tuple(self.shape)
        placements = gradient_placements(self.placements) if alike else replicated(self.device_mesh)
        return fresh(shape, dtype, _C.device(device), self.device_mesh, placements, _fake_of(self._local_tensor))


def _fake_of(local: Any) -> Any:
    """A part, where it has no elements because a graph is made of the program."""
    return local if isinstance(local, FakeTensor) else None


def fresh(
    shape: Sequence[int], dtype: Any, device: Any, mesh: DeviceMesh, placements: Sequence[Placement], fake: Any = None
) -> DTensor:
    """A distributed tensor whose elements are undefined; one for a graph, if `fake` is a part of one in it."""
    sizes = local_shape(shape, mesh, placements)
    local = _C.empty(sizes, None, dtype, device) if fake is None else fake._fresh(sizes, None, dtype, device)
    strides = _C.empty(tuple(shape), None, dtype, _C.device("meta")).stride()
    return DTensor(local, DTensorSpec(mesh, tuple(placements), TensorMeta(Size(shape), strides, dtype)),
                   requires_grad=False)


def _new(name: str, like: DTensor, size: Any, *rest: Any) -> DTensor:
    """`like.new_zeros(...)` and its kin: lies alike if it is as large, else whole everywhere."""
    value, (dtype, layout, device, pin_memory, requires_grad) = rest[:-5], rest[-5:]
    check_options(name, layout, pin_memory)
    result = like._fresh(tuple(size), None, dtype or like.dtype, like.device if device is None else device)
    if name != "new_empty":
        result._local_tensor.fill_({"new_zeros": 0, "new_ones": 1}.get(name) if not value else value[0])
    return result.requires_grad_() if requires_grad else result


def _drawn(overload: Any, like: DTensor, *rest: Any) -> DTensor:
    """An op that draws a number for each element: each process draws those of its part."""
    placements = gradient_placements(like.placements)      # terms are not drawn for
    source = like if like.placements == placements else like.redistribute(placements=placements)
    result = overload.call(source.to_local(), *rest)
    return DTensor.from_local(result, like.device_mesh, placements, shape=like.shape, stride=like.stride())


def _whole(tensor: DTensor) -> Tensor:
    """The whole tensor, outside every graph."""
    return moved(tensor.detach(), replicated(tensor.device_mesh))._local_tensor


def _rebuild(local: Any, spec: DTensorSpec, requires_grad: bool, marks: dict[str, Any]) -> DTensor:
    """A distributed tensor as it was pickled."""
    result = DTensor(local, spec, requires_grad=requires_grad)
    result.__dict__.update(marks)
    return result


class DTensorMeta(PythonMeta):
    """Sizes, type and layout, for derivative rules that keep no data; what it makes is distributed alike."""

    def __init__(self, spec: DTensorSpec, device: Any, requires_grad: bool = False, fake: Any = None) -> None:
        self.spec, self.device, self.requires_grad, self.fake = spec, device, requires_grad, fake
        self.shape, self.dtype, self.ndim = Size(spec.shape), spec.tensor_meta.dtype, spec.ndim

    def dim(self) -> int:
        return self.ndim

    def numel(self) -> int:
        return self.shape.numel()

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim: int | None = None) -> Any:
        return self.spec.stride if dim is None else self.spec.stride[dim]

    def storage_offset(self) -> int:
        return 0

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        return self.dtype.is_complex

    def empty(self, shape: Sequence[int] | None = None) -> DTensor:
        shape = self.shape if shape is None else shape
        alike = tuple(shape) == tuple(self.shape)
        placements = gradient_placements(self.spec.placements) if alike else replicated(self.spec.mesh)
        return fresh(shape, self.dtype, self.device, self.spec.mesh, placements, self.fake)

    def zeros(self, shape: Sequence[int] | None = None) -> DTensor:
        return self.empty(shape).zero_()

    def full(self, value: Any) -> DTensor:
        return self.empty().fill_(value)

    def like(self, shape: Sequence[int] | None = None, dtype: Any = None) -> DTensorMeta:
        result = fresh(
            self.shape if shape is None else shape, self.dtype if dtype is None else dtype, _C.device("meta"),
            self.spec.mesh, self.spec.placements if shape is None else replicated(self.spec.mesh),
        )
        return DTensorMeta(result._spec, self.device, self.requires_grad, self.fake)


class _FromLocal(Function):
    """`from_local`; the gradient of a part is the part of the gradient."""

    @staticmethod
    def forward(
        ctx: Any, local: Any, mesh: DeviceMesh, placements: tuple[Placement, ...], check: bool, meta: Any, back: Any
    ) -> Any:
        ctx.mesh, ctx.placements = mesh, gradient_placements(placements) if back is None else back
        ctx.set_materialize_grads(False)
        known = global_meta(local, mesh, placements) if meta is None else meta
        if mesh.get_coordinate() is None:
            local = local.new_empty((0,))
        elif check:
            _check_alike(local, mesh, meta is None)
            local = _copied(local.contiguous(), mesh, placements)
        return DTensor(local.detach().view_as(local), DTensorSpec(mesh, placements, known), requires_grad=False)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple:
        if gradient is None:
            return (None,) * 6
        if gradient.placements != ctx.placements:
            gradient = Redistribute.apply(gradient, ctx.placements, None, None)
        return gradient.to_local(), None, None, None, None, None


def _check_alike(local: Any, mesh: DeviceMesh, has_one_size: bool) -> None:
    """ValueError where processes have parts of different sizes or types."""
    own = (str(local.dtype), local.requires_grad, tuple(local.shape) if has_one_size else local.ndim)
    for i in range(mesh.ndim):
        seen: list[Any] = [None] * mesh.size(i)
        collectives.all_gather_object(seen, own, mesh.get_group(i))
        if any(other != own for other in seen):
            raise ValueError(f"DTensor.from_local: parts must be alike on all processes, got {seen}")


def _copied(local: Any, mesh: DeviceMesh, placements: Sequence[Placement]) -> Any:
    """The first process's tensor wherever it is to be the same."""
    result = local
    for i, placement in enumerate(placements):
        if placement.is_replicate():
            result = result.clone() if result is local else result
            collectives.broadcast(result, get_global_rank(mesh.get_group(i), 0), mesh.get_group(i))
    return result


class _ToLocal(Function):
    """`to_local`; the part of a gradient is the gradient of the part."""

    @staticmethod
    def forward(ctx: Any, tensor: DTensor, back: Any) -> Any:
        ctx.spec = tensor._spec
        ctx.placements = gradient_placements(tensor.placements) if back is None else back
        ctx.set_materialize_grads(False)
        return tensor._local_tensor.view_as(tensor._local_tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple:
        if gradient is None:
            return None, None
        spec = ctx.spec
        whole = DTensor.from_local(gradient, spec.mesh, ctx.placements, shape=spec.shape, stride=spec.stride)
        return whole, None


# --- from one process to all ------------------------------------------------------------------------------------------


def distribute_tensor(
    tensor: Tensor, device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None, *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """A whole tensor as a distributed one. The elements are those that the process `src_data_rank` of each mesh
    dimension has; with None everyone's own, without communication."""
    mesh = device_mesh or current_mesh()
    if not tensor.is_leaf:
        raise RuntimeError("distribute_tensor: the tensor must be a leaf, and this is the result of an operation")
    if tensor.device.type not in (mesh.device_type, "meta"):
        tensor = tensor.to(mesh.device_type)
    placements = replicated(mesh) if placements is None else placements
    wanted = check_placements("distribute_tensor", placements, mesh, tensor.ndim)
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != mesh or tensor.placements != wanted:
            raise ValueError(
                f"distribute_tensor: it is distributed already, as {tensor.placements} on {tensor.device_mesh}. "
                "Use redistribute."
            )
        return tensor
    local = tensor.detach()
    place = mesh.get_coordinate()
    for i, placement in enumerate(wanted if place is not None else ()):
        local = _handed_out(local, mesh, i, place[i], placement, src_data_rank)
    if place is None:
        local = local.new_empty((0,))
    spec = DTensorSpec(mesh, wanted, TensorMeta(Size(tensor.shape), tuple(tensor.stride()), tensor.dtype))
    return DTensor(local, spec, requires_grad=tensor.requires_grad)


def _handed_out(local: Any, mesh: DeviceMesh, i: int, place: int, placement: Placement, source: int | None) -> Any:
    """What this process gets along one mesh dimension of what `source` has."""
    count, group = mesh.size(i), mesh.get_group(i)
    if is_cut(placement):
        if source is None or local.is_meta or count == 1:
            return placement.parts(local, count)[place].clone()
        parts, paddings = placement._split_tensor(local, count)
        own = parts[place].new_empty(parts[place].shape)
        collectives.scatter(
            own, parts if place == source else None, get_global_rank(group, source), group
        )
        length = own.shape[placement.dim] - paddings[place]
        return own.narrow(placement.dim, 0, length).contiguous() if paddings[place] else own
    if source is not None and not local.is_meta and count > 1:
        local = local.contiguous().clone()
        collectives.broadcast(local, get_global_rank(group, source), group)
    return placement.term(local, count) if isinstance(placement, Partial) else local


__all__ += ["redistribute_local_tensor"]
