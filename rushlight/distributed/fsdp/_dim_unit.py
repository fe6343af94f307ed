"""`DimUnit`: each parameter cut along one of its dimensions; what optimizers see are DTensors."""

from __future__ import annotations

from typing import Any, NamedTuple

from ... import _C
from ...base.shape import Size
from ...nn.parameter import Parameter
from ...op import find_op
from ..device_mesh import DeviceMesh
from ..tensor import DTensor, Replicate, Shard
from ..tensor._dtensor_spec import DTensorSpec, TensorMeta
from ..tensor.placement_types import _StridedShard
from ._unit import Owner, Unit, memory_of

_empty = find_op("empty")
_LARGE_PART = 1 << 14       # bytes of a parameter's part, from which a collective of its own costs less than a copy


class Cut(NamedTuple):
    """How one parameter lies in the parts: `length` of `dim` to a process (the last ones may have less or none),
    `count` elements of the buffer from `start` on."""

    shape: tuple[int, ...]
    dim: int
    length: int
    start: int
    count: int

    def own(self, rank: int) -> tuple[int, ...]:
        """The shape of a process's part."""
        shape = list(self.shape)
        shape[self.dim] = max(0, min(self.length, shape[self.dim] - rank * self.length))
        return tuple(shape)


class Origin(NamedTuple):
    """What a parameter was before it was cut."""

    dtype: Any
    requires_grad: bool
    spec: Any       # of a DTensor (tensor parallelism); None for a plain one


def cut_of(shape: tuple[int, ...], dim: int, size: int, start: int) -> Cut:
    """A parameter's place in the parts, in so many processes."""
    length = -(-shape[dim] // size)
    rest = 1
    for i, n in enumerate(shape):
        rest *= n if i != dim else 1
    return Cut(tuple(shape), dim, length, start, length * rest)


class DimUnit(Unit):
    """Parameters of one dtype, each cut along a dimension of its own over one dimension of a mesh."""

    def __init__(
        self, owners: list[list[Owner]], params: list[Any], dims: list[int], mesh: DeviceMesh, device: Any,
        home: Any, compute_dtype: Any, reduce_dtype: Any,
    ) -> None:
        is_hybrid = mesh.ndim == 2
        super().__init__(mesh.get_group(mesh.ndim - 1), mesh.get_group(0) if is_hybrid else None)
        self.mesh, self.device, self.home = mesh, device, home
        self.owners = owners
        self.compute_dtype = compute_dtype
        self.reduce_dtype = reduce_dtype or compute_dtype
        self.origins = [Origin(p.dtype, p.requires_grad, p._spec if isinstance(p, DTensor) else None) for p in params]
        locals_ = [p._local_tensor if isinstance(p, DTensor) else p.detach() for p in params]
        self.cuts: list[Cut] = []
        for local, dim in zip(locals_, dims, strict=True):
            start = self.cuts[-1].start + self.cuts[-1].count if self.cuts else 0
            self.cuts.append(cut_of(tuple(local.shape), dim, self.size, start))
        self.count = self.cuts[-1].start + self.cuts[-1].count
        is_meta = locals_[0].is_meta
        self._buffer = _empty(self.count, dtype=params[0].dtype, device="meta" if is_meta else home)
        self._write_parts([self._own_part(local, cut) for local, cut in zip(locals_, self.cuts)])
        self.parts = [self._as_parameter(i, self._part(i)) for i in range(len(params))]
        self._copy_marks(params, self.parts)
        self._make_whole(params)
        self.show(self.parts)

    def _own_part(self, whole: Any, cut: Cut) -> Any:
        shape = cut.own(self.rank)
        begin = min(self.rank * cut.length, cut.shape[cut.dim])
        return whole.view(cut.shape).narrow(cut.dim, begin, shape[cut.dim])

    def _write_parts(self, values: list[Any]) -> None:
        if self._buffer.is_meta:
            return
        self._buffer.zero_()
        for i, value in enumerate(values):
            self._part(i).copy_(value)

    def _part(self, i: int) -> Any:
        cut = self.cuts[i]
        shape = cut.own(self.rank)
        count = 1
        for n in shape:
            count *= n
        return self._buffer[cut.start : cut.start + count].view(shape)

    def _as_parameter(self, i: int, local: Any) -> Any:
        result = DTensor(local, self._spec(i), requires_grad=False)
        return Parameter(result, requires_grad=self.origins[i].requires_grad)

    def _spec(self, i: int) -> DTensorSpec:
        cut, origin = self.cuts[i], self.origins[i]
        copies = (Replicate(),) if self.mesh.ndim == 2 else ()
        if origin.spec is not None:
            return _joined(origin, self.mesh, copies, cut.dim)
        strides = _empty(cut.shape, device="meta").stride()
        meta = TensorMeta(Size(cut.shape), tuple(strides), origin.dtype)
        return DTensorSpec(self.mesh, (*copies, Shard(cut.dim)), meta)

    @staticmethod
    def _copy_marks(sources: list[Any], targets: list[Any]) -> None:
        """Attributes that a program set on its parameters."""
        for source, target in zip(sources, targets, strict=True):
            for name, value in getattr(source, "__dict__", {}).items():
                if name not in ("_local_tensor", "_spec"):
                    setattr(target, name, value)

    def _make_whole(self, params: list[Any]) -> None:
        dtype = self.compute_dtype or params[0].dtype
        device = "meta" if self._buffer.is_meta else self.device
        self._padded = [_empty(cut.count * self.size, dtype=dtype, device=device) for cut in self.cuts]
        self.whole = []
        for i, (cut, origin) in enumerate(zip(self.cuts, self.origins)):
            count = 1
            for n in cut.shape:
                count *= n
            value = self._padded[i][:count].view(cut.shape)
            if origin.spec is not None:
                spec = origin.spec.but(tensor_meta=origin.spec.tensor_meta._replace(dtype=dtype))
                value = DTensor(value, spec, requires_grad=False)
            self.whole.append(Parameter(value, requires_grad=origin.requires_grad))
        self._copy_marks(params, self.whole)
        self._sizes = [(memory_of(t), memory_of(t).nbytes()) for t in self._padded]
        if device != "meta":
            for memory, _ in self._sizes:
                memory.resize_(0)

    def memories(self) -> list[tuple[Any, int]]:
        return self._sizes

    def part_buffer(self) -> Any:
        if self._buffer.is_meta:
            raise RuntimeError(
                "fully_shard: parameters are on the meta device, which has no elements. Call to_empty(device=...) and "
                "initialize them first"
            )
        return self._buffer

    def refresh(self) -> None:
        """Parts that were replaced (`to_empty`, `load_state_dict(assign=True)`) come into the buffer again."""
        current = [owners[0][0]._parameters[owners[0][1]] for owners in self.owners]
        if all(p is old and p._local_tensor.data_ptr() == self._part(i).data_ptr()
               for i, (p, old) in enumerate(zip(current, self.parts))):
            return
        self.rebuild(current)

    def rebuild(self, current: list[Any]) -> None:
        """Take other parts, of other types or on another device, in place of the present ones."""
        locals_ = [p._local_tensor if isinstance(p, DTensor) else self._own_part(p.detach(), cut)
                   for p, cut in zip(current, self.cuts)]
        first = locals_[0]
        was_meta, changed = self._buffer.is_meta, self._buffer.dtype != first.dtype
        self._buffer = _empty(self.count, dtype=first.dtype, device=first.device)
        self.home = first.device
        if first.device.type != "meta" and was_meta:
            self.device = _C.device(self.mesh.device_type) if self.mesh.device_type != "cpu" else first.device
        self.origins = [o._replace(dtype=first.dtype, requires_grad=p.requires_grad)
                        for o, p in zip(self.origins, current)]
        self._write_parts(locals_)
        for i, p in enumerate(current):
            if isinstance(p, DTensor):
                p._local_tensor = self._part(i)
            else:
                current[i] = self._as_parameter(i, self._part(i))
        self.parts = current
        if was_meta or changed:
            self._make_whole(current)
        self.show(self.parts)

    def send_parts(self, sent: Any, options: Any) -> tuple[Any, Any]:
        """Large parts go straight to where they belong: no second memory, no copy. Small ones go together."""
        if self.count * sent.element_size() < _LARGE_PART * len(self.cuts) or any(cut.dim for cut in self.cuts):
            return super().send_parts(sent, options)
        for memory, size in self._sizes:
            memory.resize_(size)
        own = [sent[cut.start : cut.start + cut.count] for cut in self.cuts]
        return self.group.allgather_into_tensor_coalesced([t.data for t in self._padded], own, options), None

    def spread(self, gathered: Any) -> None:
        if gathered is None:
            return
        rows = gathered.view(self.size, -1)
        for cut, padded in zip(self.cuts, self._padded):
            # `data` has a version of its own: to the tape these are the same elements as before.
            source, target = rows[:, cut.start : cut.start + cut.count], padded.data
            if cut.dim == 0:
                target.view(self.size, cut.count).copy_(source)     # parts of the first dimension follow each other
                continue
            before, after = _around(cut)
            source = source.view(self.size, before, cut.length * after).transpose(0, 1)
            target.view(before, self.size, cut.length * after).copy_(source)

    def pack(self, gradients: list[Any], dtype: Any) -> Any:
        packed = _empty(self.size * self.count, dtype=dtype, device=self.device)
        rows = packed.view(self.size, self.count)
        for cut, origin, gradient in zip(self.cuts, self.origins, gradients):
            target = rows[:, cut.start : cut.start + cut.count]
            if gradient is None:
                target.zero_()
                continue
            if isinstance(gradient, DTensor):
                wanted = origin.spec.placements
                gradient = gradient if gradient.placements == wanted else gradient.redistribute(placements=wanted)
                gradient = gradient._local_tensor
            if cut.dim == 0:
                flat = gradient.detach().reshape(-1)
                full, rest = divmod(flat.numel(), cut.count) if cut.count else (0, 0)
                target[:full].copy_(flat[: full * cut.count].view(full, cut.count))
                if full < self.size:
                    target[full:].zero_()
                    target[full, :rest].copy_(flat[full * cut.count :])
                continue
            before, after = _around(cut)
            source = gradient.detach().reshape(before, self.size, cut.length * after).transpose(0, 1)
            target.view(self.size, before, cut.length * after).copy_(source)
        return packed

    def keep_gradient(self, flat: Any, used: list[int]) -> None:
        flat = flat.to(device=self.home, dtype=self._buffer.dtype)
        for i in used:
            cut, part = self.cuts[i], self.parts[i]
            shape = cut.own(self.rank)
            count = part._local_tensor.numel()
            value = flat[cut.start : cut.start + count].view(shape)
            if part.grad is None:
                part.grad = DTensor(value, part._spec, requires_grad=False)
            else:
                part.grad._local_tensor.add_(value)


def _joined(origin: Origin, mesh: DeviceMesh, copies: tuple[Any, ...], dim: int) -> DTensorSpec:
    """How a parameter lies that was spread before (tensor parallelism), and whose parts are now cut again."""
    inner = origin.spec.mesh
    root = mesh._root()
    if inner._root() is not root or not mesh.mesh_dim_names or not inner.mesh_dim_names:
        raise ValueError(
            f"fully_shard: a DTensor on {inner} can be cut again only along other named dimensions of its mesh, got "
            f"{mesh}. Make one mesh of all dimensions with init_device_mesh(mesh_dim_names=...) and use parts of it"
        )
    pieces = 1
    for i, placement in enumerate(origin.spec.placements):
        pieces *= inner.size(i) if placement.is_shard(dim) else 1
    # Cut first by the inner mesh although it comes last: parts of the whole that follow each other are not together.
    own = Shard(dim) if pieces == 1 else _StridedShard(dim, split_factor=pieces)
    both = root[(*mesh.mesh_dim_names, *inner.mesh_dim_names)]
    return DTensorSpec(both, (*copies, own, *origin.spec.placements), origin.spec.tensor_meta)


def _around(cut: Cut) -> tuple[int, int]:
    """How many elements lie before and after the dimension that is cut."""
    before = after = 1
    for i, n in enumerate(cut.shape):
        before *= n if i < cut.dim else 1
        after *= n if i > cut.dim else 1
    return before, after
