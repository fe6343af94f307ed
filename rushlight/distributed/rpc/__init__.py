"""`torch.distributed.rpc`: functions called on other processes, and values that live there.

    init_rpc("worker0", rank=0, world_size=2)
    total = rpc_sync("worker1", torch.add, args=(torch.ones(2), 1))
    reference = remote("worker1", make_model)
    shutdown()
"""

from __future__ import annotations

import functools
import itertools
import re
from datetime import timedelta

from ...base.refusals import names_of
from ..rendezvous import rendezvous
from ..store import PrefixStore
from . import api, backend_registry, constants, functions, messages, options  # noqa: F401
from .agent import Agent, WorkerInfo
from .api import (
    RRef,
    _all_gather,  # noqa: F401
    _barrier,  # noqa: F401
    _is_current_rpc_agent_set,  # noqa: F401
    _set_rpc_timeout,  # noqa: F401
    _wait_all,  # noqa: F401
    get_rpc_timeout,
    get_worker_info,
    remote,
    rpc_async,
    rpc_sync,
    shutdown,
)
from .backend_registry import BackendType
from .options import RpcBackendOptions, TensorPipeRpcBackendOptions
from .rref import PyRRef

__all__ = [
    "BackendType", "PyRRef", "RRef", "RpcBackendOptions", "TensorPipeRpcBackendOptions", "WorkerInfo",
    "get_rpc_timeout", "get_worker_info", "init_rpc", "is_available", "remote", "rpc_async",
    "rpc_sync", "shutdown",
]

_NAME = re.compile(r"[A-Za-z0-9_:.\-]{1,127}")
_times = itertools.count()


def is_available() -> bool:
    """Whether processes can call each other."""
    return True


def init_rpc(
    name: str,
    backend: BackendType | None = None,
    rank: int = -1,
    world_size: int | None = None,
    rpc_backend_options: RpcBackendOptions | None = None,
) -> None:
    """Become a worker, and meet the others: where the options' `init_method` says, env:// otherwise."""
    if backend is not None and not isinstance(backend, BackendType):
        raise TypeError(f"init_rpc: backend must be a BackendType, got {backend!r}")
    if rpc_backend_options is not None and not isinstance(rpc_backend_options, RpcBackendOptions):
        raise TypeError(f"init_rpc: rpc_backend_options must be RpcBackendOptions, got {rpc_backend_options!r}")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"init_rpc: a worker's name is made of letters, digits, _ : . and -, got {name!r}")
    if api._is_current_rpc_agent_set():
        raise RuntimeError("RPC is already initialized: shutdown() first")
    given = rpc_backend_options or TensorPipeRpcBackendOptions()
    store, rank, world_size = next(rendezvous(given.init_method, rank, world_size or -1))
    if not 0 <= rank < world_size:
        raise ValueError(f"init_rpc: rank {rank} is not between 0 and world_size - 1 ({world_size - 1})")
    store.set_timeout(timedelta(seconds=given.rpc_timeout or 1e6))
    kept = getattr(given, "num_worker_threads", constants.DEFAULT_NUM_WORKER_THREADS)
    own = PrefixStore(f"rpc_prefix_{next(_times)}", store)
    api.start(functools.partial(Agent, own, name, rank, world_size, given.rpc_timeout, kept), rank)


globals().update(names_of("torch.distributed.rpc"))
