"""Which groups there are: the world, groups made from it, and the back ends by name.

`init_process_group` meets the other processes and makes the world; `new_group` makes groups of some of its ranks. Every
group has its own part of the store.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from .. import _C
from ..base import environment, logs
from . import flight_recorder, mpi_backend, nccl_backend
from .errors import DistBackendError, DistStoreError
from .fake_backend import FakeBackend
from .group import DEFAULT_TIMEOUT, BackendType, ProcessGroup, make_host_backend
from .rendezvous import rendezvous
from .store import HashStore, PrefixStore, Store

__all__ = [
    "Backend", "BackendConfig", "GroupMember", "default_pg_timeout", "destroy_process_group", "get_backend",
    "get_backend_config", "get_default_backend_for_device", "get_global_rank", "get_group_rank",
    "get_node_local_rank", "get_pg_count", "get_process_group_ranks", "get_rank", "get_world_size", "group",
    "init_process_group", "is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available",
    "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "new_group",
    "new_subgroups", "new_subgroups_by_enumeration", "shrink_group", "split_group",
]

default_pg_timeout = DEFAULT_TIMEOUT


class Backend(str):
    """A back end's name, in small letters: `Backend("GLOO")` is "gloo"."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, FAKE = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl", "fake"
    backend_list: list[str] = [UNDEFINED, GLOO, NCCL, MPI, FAKE]     # noqa: RUF012
    default_device_backend_map: dict[str, str] = {"cpu": GLOO, "cuda": NCCL}     # noqa: RUF012
    backend_capability: dict[str, list[str]] = {     # noqa: RUF012
        GLOO: ["cpu"], MPI: ["cpu"], FAKE: ["cpu"], NCCL: ["cuda"],
    }
    backend_type_map: dict[str, BackendType] = {     # noqa: RUF012
        UNDEFINED: BackendType.UNDEFINED, GLOO: BackendType.GLOO, NCCL: BackendType.NCCL,
    }
    _plugins: dict[str, tuple[Callable[..., Any], bool]] = {}     # noqa: RUF012

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"a back end is named by a string, got {name!r}")
        return str.__new__(cls, name.lower())

    @classmethod
    def register_backend(
        cls,
        name: str,
        func: Callable[..., Any],
        extended_api: bool = False,
        devices: str | list[str] | None = None,
    ) -> None:
        """Make a back end of a program's own known: `func(store, rank, size, timeout)` gives one, or with
        `extended_api` `func(distributed options, back end's options)`."""
        if name.lower() in (cls.GLOO, cls.NCCL, cls.MPI, cls.FAKE):
            raise RuntimeError(f"there is a back end {name!r} already")
        kinds = [devices] if isinstance(devices, str) else list(devices or ["cpu", "cuda"])
        cls._plugins[name.lower()] = func, extended_api
        if name.lower() not in cls.backend_list:
            cls.backend_list.append(name.lower())
        for kind in kinds if devices is not None else ():
            cls.default_device_backend_map.setdefault(kind, name.lower())
        cls.backend_capability[name.lower()] = kinds
        cls.backend_type_map[name.lower()] = BackendType.CUSTOM
        setattr(Backend, name.upper(), name.lower())


class BackendConfig:
    """Which back end serves which kind of device: from "gloo", "cpu:gloo,cuda:nccl", or nothing."""

    def __init__(self, backend: str) -> None:
        text = str(backend)
        if text == Backend.UNDEFINED:
            text = ",".join(f"{d}:{b}" for d, b in Backend.default_device_backend_map.items() if _is_known(b))
        self.device_backend_map: dict[str, Backend] = {}
        for part in text.split(","):
            device, colon, name = part.rpartition(":")
            if colon and (not device or device in self.device_backend_map):
                raise ValueError(
                    f"backend {text!r}: {part!r} is no pair device:backend of its own, as in 'cpu:gloo,cuda:nccl'"
                )
            if colon:
                self.device_backend_map[device] = Backend(name)
            else:
                kinds = Backend.backend_capability.get(part.lower(), ["cpu"])
                self.device_backend_map.update({kind: Backend(part) for kind in kinds})

    def get_device_backend_map(self) -> dict[str, Backend]:
        """The table."""
        return self.device_backend_map

    def __repr__(self) -> str:
        return ",".join(f"{device}:{backend}" for device, backend in self.device_backend_map.items())


def _is_known(name: str) -> bool:
    if name == Backend.MPI:
        return mpi_backend.is_installed()
    if name == Backend.NCCL:
        return nccl_backend.is_installed()
    return name in (Backend.GLOO, Backend.FAKE) or name in Backend._plugins


class GroupMember:
    """The groups that a process may or may not be in."""

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER = -100


class _World:
    """Everything that `init_process_group` made, to be forgotten by `destroy_process_group`."""

    def __init__(self) -> None:
        self.groups: dict[ProcessGroup, tuple[str, Store, list[int], BackendConfig]] = {}
        self.default: ProcessGroup | None = None
        self.count = 0
        self.tags: dict[str, Any] = {}

    @property
    def default_pg(self) -> ProcessGroup | None:
        """The group of all ranks."""
        return self.default

    @property
    def pg_group_ranks(self) -> dict[ProcessGroup, dict[int, int]]:
        """The place of each global rank, per group."""
        return {g: {r: i for i, r in enumerate(row[2])} for g, row in self.groups.items()}

    @property
    def pg_names(self) -> dict[ProcessGroup, str]:
        """The name of each group."""
        return {g: g.group_name for g in self.groups}


_world = _World()


class _Group(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:   # noqa: N802
        """The group of all ranks."""
        return _world.default

    @WORLD.setter
    def WORLD(cls, group: ProcessGroup | None) -> None:   # noqa: N802
        _world.default = group


class group(metaclass=_Group):   # noqa: N801
    """`group.WORLD`, the group of all ranks."""


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return _world.default is not None


def default_group() -> ProcessGroup:
    """The group of all ranks; it must have been made."""
    if _world.default is None:
        raise ValueError("there is no process group yet: call init_process_group first")
    return _world.default


def resolve(given: Any) -> ProcessGroup:
    """The group that a call means. Refuses one that this process is not in."""
    if given is None or given is GroupMember.WORLD:
        return default_group()
    if given is GroupMember.NON_GROUP_MEMBER:
        raise ValueError("this process is not a member of the group: only members may use it")
    if not isinstance(given, ProcessGroup):
        raise TypeError(f"group must be a ProcessGroup, got {type(given).__name__}")
    return given


def _check_init(backend: Any, timeout: Any, store: Any, init_method: Any, rank: int, world_size: int) -> None:
    if is_initialized():
        raise ValueError("init_process_group was called before: destroy_process_group() first")
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(f"timeout must be a datetime.timedelta, got {type(timeout).__name__}")
    if store is not None and init_method is not None:
        raise AssertionError("give either init_method or store, not both")
    if store is not None and (world_size <= 0 or rank < 0):
        raise AssertionError(f"a store needs world_size > 0 and rank >= 0, got {world_size} and {rank}")
    for name in BackendConfig(Backend(backend or Backend.UNDEFINED)).device_backend_map.values():
        if not _is_known(name):
            if name == Backend.MPI:
                raise RuntimeError("backend 'mpi' needs mpi4py: pip install rushlight[mpi]")
            if name == Backend.NCCL:
                raise RuntimeError(nccl_backend.what_is_missing())
            raise RuntimeError(
                f"backend {name!r} is not available here; there are: "
                f"{', '.join(b for b in Backend.backend_list if _is_known(b))}"
            )


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    _ranks: list[int] | None = None,
) -> None:
    """Meet the other processes. Afterwards collectives can be made with all of them.

    `init_method` says where: env:// (the default; RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), tcp://host:port or
    file:///path; or give a `store`. `backend` is "gloo", or pairs as in "cpu:gloo,cuda:nccl".

    Arguments:
        backend: "gloo", "nccl", "mpi" or pairs of devices and these; None for what fits
        init_method: where to meet
        timeout: how long to wait for others
        world_size: how many processes; -1 for what the environment says
        rank: which of them this is, from 0; -1 for what the environment says
        store: where to meet, in place of `init_method`
        group_name: what the group is called
        pg_options: options of the back end
        device_id: the device that this process works with

    Example:
        >>> import tempfile
        >>> place = "file://" + tempfile.mkdtemp() + "/meet"
        >>> rl.distributed.init_process_group("gloo", init_method=place, world_size=1, rank=0)
        >>> x = rl.ones(2)
        >>> rl.distributed.all_reduce(x)
        >>> rl.distributed.destroy_process_group()
    """
    _check_init(backend, timeout, store, init_method, rank, world_size)
    timeout = timeout or default_pg_timeout
    is_alone = Backend(backend or Backend.UNDEFINED) in (Backend.MPI, Backend.FAKE)      # there is nobody to meet
    if is_alone:
        store, rank, world_size = _without_meeting(Backend(backend), store, rank, world_size)
    if store is None:
        store, rank, world_size = next(rendezvous(init_method or "env://", rank, world_size, timeout=timeout))
        store.set_timeout(timeout)
    if not 0 <= rank < world_size:
        raise ValueError(f"init_process_group: rank {rank} is not between 0 and world_size - 1 ({world_size - 1})")
    if not is_alone:
        _check_ranks(store, rank, world_size, timeout)
    _world.count += 1
    result = _make_group(
        f"{_world.count - 1}", PrefixStore(f"default_pg/{_world.count}", store), list(range(world_size)), rank,
        Backend(backend or Backend.UNDEFINED), timeout, pg_options, group_name or "default_pg",
    )
    _bind(result, device_id)
    if flight_recorder.current is None:
        flight_recorder.start(rank=rank)
    _world.default = GroupMember.WORLD = result


def _without_meeting(backend: Backend, store: Store | None, rank: int, size: int) -> tuple[Store, int, int]:
    """Ranks that MPI gives, and ranks that are made up."""
    if backend == Backend.FAKE:
        return store or HashStore(), max(rank, 0), size if size > 0 else 1
    found = mpi_backend.world()
    for what, given, real in (("rank", rank, found[0]), ("world_size", size, found[1])):
        if given not in (-1, real):
            raise ValueError(f"init_process_group: {what} {given} was given, and MPI says {real}")
    return HashStore(), *found


def _check_ranks(store: Store, rank: int, world_size: int, timeout: timedelta) -> None:
    """Wait until all are here. Two processes with one rank, or with different ideas of how many there are, are told
    here, and so are the others."""
    attempt = PrefixStore(f"init/{_world.count}", store)
    said = int(attempt.compare_set("world_size", "", str(world_size)))
    wrong = ""
    if said != world_size:
        wrong = f"rank {rank} was given world_size={world_size}, another rank world_size={said}"
    elif attempt.add(f"rank/{rank}", 1) > 1:
        wrong = f"two processes were given rank {rank} (or a file that an earlier run met at was left behind)"
    if wrong or attempt.add("here", 1) == world_size:
        attempt.compare_set("go", "", wrong or "all are here")
    try:
        answer = attempt.get("go").decode()
    except DistStoreError:
        raise DistStoreError(
            f"init_process_group: {attempt.add('here', 0)} of {world_size} processes came within "
            f"{timeout.total_seconds():g} s"
        ) from None
    if answer != "all are here":
        raise ValueError(f"init_process_group: {wrong or answer}")


def _make_group(
    name: str, store: Store, ranks: list[int], rank: int, backend: Backend, timeout: timedelta, pg_options: Any,
    desc: str,
) -> ProcessGroup:
    config = BackendConfig(backend)
    result = ProcessGroup(store, rank, len(ranks))
    result._set_group_name(name)
    result._set_group_desc(desc)
    shared: dict[str, Any] = {}
    for device, kind in config.device_backend_map.items():
        if kind not in shared:
            shared[kind] = _make_backend(kind, store, ranks, rank, timeout, pg_options, name)
        result._register_backend(device, Backend.backend_type_map.get(kind, BackendType.CUSTOM), shared[kind])
    _world.groups[result] = str(backend), store, ranks, config
    if (log := logs.messages("torch.distributed.distributed_c10d")) is not None:
        log.info("process group %s (%s): rank %d of %d, back ends %s", name, desc, rank, len(ranks),
                 config.device_backend_map)
    return result


class DistributedBackendOptions:
    """What a back end with the extended interface is told."""

    def __init__(self, store: Store, rank: int, size: int, ranks: list[int], timeout: timedelta, name: str) -> None:
        self.store, self.group_rank, self.group_size = store, rank, size
        self.global_ranks_in_group, self.timeout, self.group_id = ranks, timeout, name


def _make_backend(
    kind: str, store: Store, ranks: list[int], rank: int, timeout: timedelta, pg_options: Any, name: str
) -> Any:
    own = PrefixStore(kind, store)
    if kind == Backend.GLOO:
        return make_host_backend(own, rank, len(ranks), timeout, f"process group {name}", ranks)
    if kind in (Backend.MPI, Backend.FAKE):
        backend_type = mpi_backend.MpiBackend if kind == Backend.MPI else FakeBackend
        return backend_type(own, rank, len(ranks), timeout, f"process group {name}", ranks)
    if kind == Backend.NCCL:
        return nccl_backend.NcclBackend(own, rank, len(ranks), timeout, f"process group {name}", ranks, pg_options)
    if kind not in Backend._plugins:
        raise RuntimeError(f"backend {kind!r} is not available here")
    function, is_extended = Backend._plugins[kind]
    if is_extended:
        return function(DistributedBackendOptions(own, rank, len(ranks), ranks, timeout, name), pg_options)
    return function(own, rank, len(ranks), timeout)


def new_group(
    ranks: list[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """A group of some ranks. Every process calls this, in the same order, members or not (with
    `use_local_synchronization` members only)."""
    world = default_group()
    world_backend, world_store, world_ranks, _ = _world.groups[world]
    me, size = world.rank(), world.size()
    members = list(world_ranks) if ranks is None else list(ranks)
    if sort_ranks:
        members.sort()
    for r in members:
        if not isinstance(r, int) or not 0 <= r < size:
            raise ValueError(f"new_group: rank {r!r} is not one of the world's {size}")
    if len(set(members)) != len(members) or not members:
        raise ValueError(f"new_group: ranks {members} must be at least one, each once")
    if use_local_synchronization:
        if me not in members:
            return None
        name = "local-" + "-".join(map(str, members)) + f"-{_next_local(members)}"
    else:
        name = str(_world.count)
        _world.count += 1
    if me not in members:
        return GroupMember.NON_GROUP_MEMBER
    store = PrefixStore(f"group/{name}", world_store)
    result = _make_group(
        name, store, members, members.index(me), Backend(backend or world_backend),
        timeout or default_pg_timeout, pg_options, group_desc or f"group {name}",
    )
    _bind(result, device_id)
    return result


def _bind(group: ProcessGroup, device_id: Any) -> None:
    """The device that a rank uses alone: what can be made for it now is made now."""
    group.bound_device_id = device_id
    backend = None if device_id is None else group._backends.get(_C.device(device_id).type)
    if hasattr(backend, "eager_connect_single_device"):
        backend.eager_connect_single_device(device_id)


def _next_local(members: list[int]) -> int:
    key = "local/" + ",".join(map(str, members))
    _world.tags[key] = _world.tags.get(key, 0) + 1
    return _world.tags[key]


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of equal size, ranks that follow each other together; this process's, and all of them."""
    size = resolve(group).size()
    group_size = group_size if group_size is not None else int(environment.get("LOCAL_WORLD_SIZE") or size)
    if group_size <= 0 or size % group_size:
        raise ValueError(f"new_subgroups: the world size {size} must be a multiple of group_size {group_size}")
    lists = [list(range(start, start + group_size)) for start in range(0, size, group_size)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: list[list[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """A group per list of ranks, which must not overlap; this process's, and all of them."""
    if not ranks_per_subgroup_list:
        raise ValueError("new_subgroups_by_enumeration: the list of lists of ranks is empty")
    seen: set[int] = set()
    for ranks in ranks_per_subgroup_list:
        twice = seen & set(ranks)
        if twice:
            raise ValueError(f"new_subgroups_by_enumeration: rank {min(twice)} is in two groups")
        seen |= set(ranks)
    own, results = None, []
    for ranks in ranks_per_subgroup_list:
        results.append(new_group(ranks, timeout, backend, pg_options, group_desc=group_desc))
        if default_group().rank() in ranks:
            own = results[-1]
    return own, results


def destroy_process_group(group: Any = None) -> None:
    """Leave a group, or with none all of them; afterwards `init_process_group` may be called again."""
    if group is GroupMember.NON_GROUP_MEMBER:
        return
    if (log := logs.messages("torch.distributed.distributed_c10d")) is not None:
        log.info("process group %s is left", "of all ranks" if group is None else group.group_name)
    if group is None or group is _world.default:
        default_group()
        for group in reversed(list(_world.groups)):
            group.shutdown()
        _world.groups.clear()
        _world.tags.clear()
        _world.default = GroupMember.WORLD = None
        return
    if group not in _world.groups:
        raise ValueError("destroy_process_group: the group is unknown here, or was destroyed before")
    group.shutdown()
    del _world.groups[group]


def get_rank(group: Any = None) -> int:
    """This process's place in a group; -1 where it is not in it."""
    if group is GroupMember.NON_GROUP_MEMBER:
        return -1
    return resolve(group).rank()


def get_world_size(group: Any = None) -> int:
    """How many ranks a group has; -1 where this process is not in it."""
    if group is GroupMember.NON_GROUP_MEMBER:
        return -1
    return resolve(group).size()


def get_backend(group: Any = None) -> Backend:
    """The name of the back end of a group."""
    return Backend(next(iter(_row(resolve(group))[3].device_backend_map.values())))


def get_backend_config(group: Any = None) -> str:
    """Which back end serves which kind of device, as text."""
    return str(_row(resolve(group))[3])


def _row(group: ProcessGroup) -> tuple[str, Store, list[int], BackendConfig]:
    try:
        return _world.groups[group]
    except KeyError:
        raise ValueError("the process group is unknown here, or was destroyed before") from None


def get_process_group_ranks(group: Any) -> list[int]:
    """The global ranks of a group, in its order."""
    return list(_row(resolve(group))[2])


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank in the world of a rank in a group."""
    if group is None or group is _world.default:
        return group_rank
    ranks = _row(resolve(group))[2]
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"get_global_rank: the group has {len(ranks)} ranks, there is no rank {group_rank}")
    return ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """The rank in a group of a rank in the world."""
    if group is None or group is _world.default:
        return global_rank
    ranks = _row(resolve(group))[2]
    if global_rank not in ranks:
        raise ValueError(f"rank {global_rank} is not in the group, which has ranks {ranks}")
    return ranks.index(global_rank)


def get_pg_count() -> int:
    """How many groups there are."""
    return len(_world.groups)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """This process's place on its machine, as the launcher set it (LOCAL_RANK)."""
    if environment.is_set("LOCAL_RANK"):
        return int(environment.get("LOCAL_RANK"))
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError("get_node_local_rank: LOCAL_RANK is not set; start with torchrun, or give fallback_rank")


def get_default_backend_for_device(device: Any) -> str:
    """The back end that serves a kind of device where none is named."""
    kind = device if isinstance(device, str) else _C.device(device).type
    kind = kind.partition(":")[0]
    try:
        return Backend.default_device_backend_map[kind]
    except KeyError:
        raise ValueError(f"there is no back end for {kind!r} by default") from None


def is_torchelastic_launched() -> bool:
    """Whether a launcher that restarts workers started this process."""
    return environment.is_set("TORCHELASTIC_RUN_ID")


def is_gloo_available() -> bool:
    """Whether tensors in host memory can be exchanged."""
    return True


def _no() -> bool:
    """Not in this build."""
    return False


is_ucc_available = is_xccl_available = _no


def is_nccl_available() -> bool:
    """Whether there is a CUDA device, and NVIDIA's library."""
    return nccl_backend.is_installed()


def is_mpi_available() -> bool:
    """Whether mpi4py is installed."""
    return mpi_backend.is_installed()


def is_backend_available(backend: str) -> bool:
    """Whether a back end of that name can be used."""
    return _is_known(str(backend).lower())


def shrink_group(*args: Any, **kwargs: Any) -> Any:
    """Refused: no back end here does this."""
    raise DistBackendError("shrink_group: no back end here can; destroy the group and make a smaller one")


def split_group(*args: Any, **kwargs: Any) -> Any:
    """Refused: no back end here does this."""
    raise DistBackendError("split_group: no back end here can; use new_group")
