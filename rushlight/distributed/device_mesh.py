"""`torch.distributed.device_mesh`: processes in rows and columns, a group along each.

Enters: an array of ranks, perhaps names of its dimensions. Leaves: for each dimension the group of the processes that
differ from this one in that dimension only; parts of the mesh by name. Every process makes the same meshes in the same
order.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from .. import _C
from ..op import find_op
from .groups import default_group, get_rank, get_world_size, init_process_group, is_initialized, new_group

__all__ = ["DeviceMesh", "init_device_mesh"]
_arange = find_op("arange")


class DeviceMesh:
    """Processes in an array of any number of dimensions."""

    def __init__(
        self, device_type: str, mesh: Any = None, *, mesh_dim_names: Sequence[str] | None = None,
        backend_override: Any = None, _init_backend: bool = True, _rank: int | None = None,
    ) -> None:
        self.device_type = device_type
        self.mesh = _as_ranks(mesh)
        self.mesh_dim_names = tuple(mesh_dim_names) if mesh_dim_names else None
        self._backends = _overrides(backend_override, self.mesh.dim(), self.mesh_dim_names or ())
        if self.mesh_dim_names and len(self.mesh_dim_names) != self.mesh.dim():
            raise RuntimeError(
                f"DeviceMesh: {self.mesh.dim()} dimensions but {len(self.mesh_dim_names)} names {self.mesh_dim_names}"
            )
        ranks = self.mesh.flatten().tolist()
        if len(set(ranks)) != len(ranks):
            raise RuntimeError(f"DeviceMesh: every rank may stand in it once, got {self.mesh.tolist()}")
        self._parent: DeviceMesh | None = None
        self._flattened: dict[str, DeviceMesh] = {}
        self._groups: list[Any] = []
        self._place: tuple[tuple[int, ...] | None] | None = None     # where this process stands, once asked
        _known.add(self)
        self._decisions: dict[Any, Any] = {}      # of distributed tensors: how calls seen before are run
        if not _init_backend:
            return
        if not is_initialized():
            init_process_group()
        if max(ranks, default=0) >= get_world_size():
            raise RuntimeError(f"DeviceMesh: rank {max(ranks)} is not one of the world's {get_world_size()}")
        self._groups = [self._make_group(dim) for dim in range(self.mesh.dim())]

    def _make_group(self, dim: int) -> Any:
        """The group along one dimension that this process is in. All make all of them."""
        size = self.mesh.shape[dim]
        backend, options = self._backends[dim]
        is_own = backend is not None or options is not None
        if not is_own and self.mesh.numel() == get_world_size() and size == get_world_size():
            return default_group()
        own = None
        for ranks in self.mesh.movedim(dim, -1).reshape(-1, size).tolist():
            result = new_group(
                ranks, backend=backend, pg_options=options, sort_ranks=False, group_desc=self._name_of(dim)
            )
            if get_rank() in ranks:
                own = result
        return own

    def _name_of(self, dim: int) -> str:
        return f"mesh_{self.mesh_dim_names[dim] if self.mesh_dim_names else dim}"

    def _dim(self, dim: int | str | None) -> int:
        if isinstance(dim, str):
            if not self.mesh_dim_names or dim not in self.mesh_dim_names:
                raise KeyError(f"DeviceMesh: there is no dimension {dim!r}, only {self.mesh_dim_names}")
            return self.mesh_dim_names.index(dim)
        if dim is None:
            if self.mesh.dim() != 1:
                raise RuntimeError(f"DeviceMesh: say which of its {self.mesh.dim()} dimensions is meant (mesh_dim)")
            return 0
        if not -self.mesh.dim() <= dim < self.mesh.dim():
            raise IndexError(f"DeviceMesh: there is no dimension {dim} of {self.mesh.dim()}")
        return dim % self.mesh.dim()

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """The group along a dimension."""
        if isinstance(mesh_dim, str) and mesh_dim in self._root()._flattened:
            return self._root()._flattened[mesh_dim].get_group()
        dim = self._dim(mesh_dim)
        if not self._groups:
            raise RuntimeError(
                f"{self}: it has no process groups. It was loaded from a file: make a mesh like it first, with "
                "init_device_mesh."
            )
        return self._groups[dim]

    def get_all_groups(self) -> list[Any]:
        """The groups along all dimensions."""
        return list(self._groups)

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Where this process stands; None if it does not."""
        if self._place is None:
            where = (self.mesh == get_rank()).nonzero().tolist()
            self._place = (tuple(where[0]) if where else None,)
        return self._place[0]

    def _is_current_rank_part_of_mesh(self) -> bool:
        return self.get_coordinate() is not None

    def get_rank(self) -> int:
        """This process's rank in the world."""
        return get_rank()

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """This process's place along a dimension."""
        place = self.get_coordinate()
        if place is None:
            raise RuntimeError(f"DeviceMesh: rank {get_rank()} is not in {self.mesh.tolist()}")
        return place[self._dim(mesh_dim)]

    def size(self, mesh_dim: int | None = None) -> int:
        """How many processes there are, along a dimension or in all."""
        return self.mesh.numel() if mesh_dim is None else self.mesh.shape[self._dim(mesh_dim)]

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return self.mesh.dim()

    @property
    def shape(self) -> tuple[int, ...]:
        """How many processes there are along each dimension."""
        return tuple(self.mesh.shape)

    def _root(self) -> DeviceMesh:
        return self if self._parent is None else self._parent._root()

    def _get_root_mesh(self) -> DeviceMesh:
        return self._root()

    def __getitem__(self, names: str | Sequence[str]) -> DeviceMesh:
        """The part of the mesh that this process is in along the dimensions named."""
        chosen = (names,) if isinstance(names, str) else tuple(names)
        if len(chosen) == 1 and chosen[0] in self._root()._flattened:
            return self._root()._flattened[chosen[0]]
        dims = [self._dim(name) for name in chosen]
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"DeviceMesh: a dimension stands twice in {chosen}")
        place = self.get_coordinate()
        index = [slice(None) if d in dims else (place[d] if place else 0) for d in range(self.mesh.dim())]
        kept = [d for d in range(self.mesh.dim()) if d in dims]
        part = self.mesh[tuple(index)].permute([kept.index(d) for d in dims])
        result = DeviceMesh(self.device_type, part, mesh_dim_names=chosen, _init_backend=False)
        result._groups = [self._groups[d] for d in dims]
        result._parent = self
        return result

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """All its dimensions as one, with a name to find it by."""
        name = mesh_dim_name or "_".join(self.mesh_dim_names or ("mesh",))
        root = self._root()
        if name in root._flattened:
            return root._flattened[name]
        if self.mesh.dim() == 1 and not mesh_dim_name:
            return self
        dims = [root._dim(n) for n in self.mesh_dim_names] if self._parent is not None else range(root.mesh.dim())
        rest = [d for d in range(root.mesh.dim()) if d not in list(dims)]
        rows = root.mesh.permute([*rest, *dims]).reshape(-1, self.mesh.numel())
        own, own_group = None, None
        for ranks in rows.tolist():
            group = new_group(ranks, sort_ranks=False, group_desc=f"mesh_{name}")
            if own is None or get_rank() in ranks:
                own = ranks
            if get_rank() in ranks:
                own_group = group
        result = DeviceMesh(self.device_type, own, mesh_dim_names=(name,), _init_backend=False)
        result._groups, result._parent = [own_group], root
        root._flattened[name] = result
        return result

    def _unflatten(
        self, dim: int | str, mesh_sizes: Sequence[int], mesh_dim_names: Sequence[str], backend_override: Any = None
    ) -> DeviceMesh:
        """One dimension as several, with groups along each."""
        if isinstance(dim, str) and dim not in (self.mesh_dim_names or ()):
            raise ValueError(f"DeviceMesh._unflatten: there is no dimension {dim!r}, only {self.mesh_dim_names}")
        if isinstance(dim, int) and dim >= self.mesh.dim():
            raise ValueError(f"DeviceMesh._unflatten: there is no dimension {dim} of {self.mesh.dim()}")
        if len(mesh_sizes) != len(mesh_dim_names):
            raise RuntimeError(f"DeviceMesh._unflatten: {len(mesh_sizes)} sizes but names {tuple(mesh_dim_names)}")
        at = self._dim(dim)
        names = self.mesh_dim_names or tuple(f"dim_{d}" for d in range(self.mesh.dim()))
        shape = (*self.shape[:at], *mesh_sizes, *self.shape[at + 1 :])
        result = DeviceMesh(
            self.device_type, self.mesh.reshape(shape), _init_backend=False,
            mesh_dim_names=(*names[:at], *mesh_dim_names, *names[at + 1 :]),
        )
        new = range(at, at + len(mesh_sizes))
        chosen = _overrides(backend_override, len(mesh_sizes), tuple(mesh_dim_names))
        result._backends = tuple(chosen[d - at] if d in new else (None, None) for d in range(len(shape)))
        result._groups = [result._make_group(d) if d in new else self._groups[d - (d > at) * (len(mesh_sizes) - 1)]
                        for d in range(len(shape))]
        return result

    @staticmethod
    def from_group(
        group: Any, device_type: str, mesh: Any = None, *, mesh_dim_names: Sequence[str] | None = None
    ) -> DeviceMesh:
        """A mesh of groups that exist: one group, or one per dimension with the ranks in `mesh`."""
        from .groups import get_process_group_ranks

        if not isinstance(group, (list, tuple)):
            ranks = get_process_group_ranks(group)
            if mesh is not None and _as_ranks(mesh).tolist() != ranks:
                raise ValueError(f"DeviceMesh.from_group: mesh {mesh} is not the group's ranks {ranks}")
            result = DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, _init_backend=False)
            result._groups = [group]
            return result
        if mesh is None:
            raise ValueError("DeviceMesh.from_group: several groups need mesh, the array of ranks")
        result = DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _init_backend=False)
        if result.mesh.dim() != len(group):
            raise ValueError(f"DeviceMesh.from_group: {result.mesh.dim()} dimensions but {len(group)} groups")
        result._groups = list(group)
        return result

    def __enter__(self) -> DeviceMesh:
        _current.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        _current.pop()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceMesh):
            return NotImplemented
        return self is other or (
            self.device_type == other.device_type
            and self.mesh_dim_names == other.mesh_dim_names
            and self.mesh.tolist() == other.mesh.tolist()
            and self._root().mesh.tolist() == other._root().mesh.tolist()
        )

    def __hash__(self) -> int:
        return hash((self.device_type, self.mesh_dim_names, tuple(self.mesh.flatten().tolist()), self.shape))

    def __getstate__(self) -> dict[str, Any]:
        """What a file keeps: who stands where. Groups are found again among those there are."""
        return {
            "device_type": self.device_type, "mesh": self.mesh.tolist(), "mesh_dim_names": self.mesh_dim_names,
            "root": None if self._parent is None else self._root(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        names = state["mesh_dim_names"]
        self.__init__(state["device_type"], state["mesh"], mesh_dim_names=names, _init_backend=False)
        self._parent = state["root"]
        alike = next((mesh for mesh in list(_known) if mesh is not self and mesh._groups and mesh == self), None)
        if alike is not None:
            self._groups = alike._groups

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceMesh:
        return self      # processes and their groups are not copied

    def __repr__(self) -> str:
        names = f"{dict(zip(self.mesh_dim_names, self.shape))}" if self.mesh_dim_names else f"{self.shape}"
        return f"DeviceMesh({names}, {self.device_type!r}, {self.mesh.tolist()})"


_current: list[DeviceMesh] = []
_known: weakref.WeakSet[DeviceMesh] = weakref.WeakSet()


def current_mesh() -> DeviceMesh:
    """The mesh of the innermost `with mesh:`."""
    if not _current:
        raise RuntimeError("no device mesh is given, and none is active: pass device_mesh, or use `with mesh:`")
    return _current[-1]


def _as_ranks(mesh: Any) -> Any:
    if isinstance(mesh, _C.Tensor):
        return mesh.detach().to(_C.int32) if mesh.dtype != _C.int32 else mesh.detach()
    if mesh is None:
        raise TypeError("DeviceMesh: mesh is missing: the array of ranks")
    flat, shape = _flattened(mesh)
    return _ranks(flat).view(shape)


def _flattened(mesh: Any) -> tuple[list[int], list[int]]:
    if not isinstance(mesh, (list, tuple)):
        return [int(mesh)], []
    parts = [_flattened(part) for part in mesh]
    if any(shape != parts[0][1] for _, shape in parts):
        raise ValueError(f"DeviceMesh: mesh must be an array, got rows of different lengths in {mesh}")
    return [rank for flat, _ in parts for rank in flat], [len(mesh), *(parts[0][1] if parts else [])]


def _ranks(values: list[int]) -> Any:
    results = _arange(len(values), dtype=_C.int32)
    for i, value in enumerate(values):
        results[i] = value
    return results


def _overrides(given: Any, count: int, names: Sequence[str]) -> tuple[tuple[Any, Any], ...]:
    """(back end, its options) for the groups along each dimension, from a dict by number or name of a dimension whose
    values are a back end's name, its options, or both; or from one such value per dimension. (None, None): the
    world's."""
    if given is None:
        return ((None, None),) * count
    if not isinstance(given, Mapping):
        if len(given) != count:
            raise RuntimeError(f"backend_override: {count} dimensions but {len(given)} back ends")
        given = dict(enumerate(given))
    found: dict[int, tuple[Any, Any]] = {}
    for key, value in given.items():
        if key not in names and key not in range(count):
            raise RuntimeError(f"backend_override: there is no dimension {key!r} among {tuple(names) or range(count)}")
        dim = names.index(key) if isinstance(key, str) else key
        if dim in found:
            raise RuntimeError(f"backend_override: dimension {dim} is named twice, by its number and by its name")
        found[dim] = value if isinstance(value, tuple) else (value, None) if isinstance(value, str) else (None, value)
    return tuple(found.get(dim, (None, None)) for dim in range(count))


def init_device_mesh(
    device_type: str, mesh_shape: Sequence[int], *, mesh_dim_names: Sequence[str] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """All ranks in order as a mesh of a shape. `backend_override` chooses back ends for groups of its own along some
    dimensions: {"dp": "gloo"}, or by number, or with options: {0: ("gloo", options)}."""
    if mesh_dim_names is not None and len(set(mesh_dim_names)) != len(mesh_dim_names):
        raise RuntimeError(f"init_device_mesh: names must differ, got {tuple(mesh_dim_names)}")
    if mesh_dim_names is not None and len(mesh_dim_names) != len(mesh_shape):
        raise RuntimeError(
            f"init_device_mesh: {len(mesh_shape)} dimensions but {len(mesh_dim_names)} names {tuple(mesh_dim_names)}"
        )
    if not device_type.isalpha():
        raise RuntimeError(f"init_device_mesh: give the kind of device alone, such as 'cpu', got {device_type!r}")
    ranks = _arange(math.prod(mesh_shape), dtype=_C.int32).view(tuple(mesh_shape))
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, backend_override=backend_override)
