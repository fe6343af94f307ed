"""How processes meet: from `env://`, `tcp://host:port` or `file:///path` to a store, a rank and a world size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlparse

from ..base import environment
from .store import FileStore, PrefixStore, Store
from .tcp_store import TCPStore

Handler = Callable[..., Iterator[tuple[Store, int, int]]]
_handlers: dict[str, Handler] = {}
DEFAULT_TIMEOUT = timedelta(minutes=30)


def register_rendezvous_handler(scheme: str, handler: Handler) -> None:
    """Let `scheme://...` mean what a function makes of it: an iterator of (store, rank, world size)."""
    if scheme in _handlers:
        raise RuntimeError(f"there is a rendezvous handler for {scheme}:// already")
    _handlers[scheme] = handler


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Iterator[tuple[Store, int, int]]:
    """Meet the other processes; the store, this process's rank and how many there are."""
    if not isinstance(url, str):
        raise RuntimeError(f"init_method must be a string such as env:// or tcp://host:port, got {url!r}")
    if not isinstance(rank, int) or not isinstance(world_size, int):
        raise RuntimeError(f"rank and world_size must be integers, got {rank!r} and {world_size!r}")
    scheme = urlparse(url).scheme
    if scheme not in _handlers:
        known = ", ".join(f"{s}://" for s in sorted(_handlers))
        raise RuntimeError(f"init_method {url!r}: there is no way to meet by {scheme or 'no'}://, only by {known}")
    return _handlers[scheme](_with_query(url, rank, world_size), **kwargs)


def _with_query(url: str, rank: int, world_size: int) -> str:
    given = {k: v for k, v in (("rank", rank), ("world_size", world_size)) if v != -1}
    if not given:
        return url
    separator = "&" if urlparse(url).query else "?"
    return url + separator + "&".join(f"{k}={v}" for k, v in given.items())


def _number(url: str, query: dict[str, str], name: str, variable: str | None = None) -> int:
    text = query.get(name)
    where = f"{name} in {url!r}"
    if text is None and variable is not None:
        text, where = environment.get(variable) or None, f"the environment variable {variable}"
    if text is None:
        hint = f" (or set the environment variable {variable})" if variable else ""
        raise ValueError(f"init_process_group: {name} is missing: give {name}=...{hint}")
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"init_process_group: {where} is {text!r}, which is no number") from None


def _variable(name: str) -> str:
    value = environment.get(name)
    if not value:
        raise ValueError(
            f"init_process_group: the environment variable {name} is not set. It names rank 0's machine: torchrun and "
            f"`rushlight run --nproc` set it, or give init_method='tcp://host:port'"
        )
    return value


def _by_file(url: str, **kwargs: Any) -> Iterator[tuple[Store, int, int]]:
    parts, query = urlparse(url), dict(parse_qsl(urlparse(url).query))
    if not parts.path:
        raise ValueError(f"init_method {url!r}: the path of the file is missing, as in file:///tmp/meeting")
    rank, size = _number(url, query, "rank"), _number(url, query, "world_size")
    yield FileStore(parts.path, size), rank, size
    raise RuntimeError("file:// cannot meet a second time")


def _by_tcp(url: str, timeout: timedelta = DEFAULT_TIMEOUT, **kwargs: Any) -> Iterator[tuple[Store, int, int]]:
    parts, query = urlparse(url), dict(parse_qsl(urlparse(url).query))
    if parts.port is None or not parts.hostname:
        raise ValueError(f"init_method {url!r}: host or port is missing, as in tcp://127.0.0.1:29500")
    rank, size = _number(url, query, "rank"), _number(url, query, "world_size")
    yield _store(parts.hostname, parts.port, rank, size, timeout), rank, size
    raise RuntimeError("tcp:// cannot meet a second time")


def _by_environment(url: str, timeout: timedelta = DEFAULT_TIMEOUT, **kwargs: Any) -> Iterator[tuple[Store, int, int]]:
    query = dict(parse_qsl(urlparse(url).query))
    rank, size = _number(url, query, "rank", "RANK"), _number(url, query, "world_size", "WORLD_SIZE")
    host = _variable("MASTER_ADDR")
    port = _number(url, {"MASTER_PORT": _variable("MASTER_PORT")}, "MASTER_PORT")
    yield _store(host, port, rank, size, timeout), rank, size
    raise RuntimeError("env:// cannot meet a second time")


def _store(host: str, port: int, rank: int, size: int, timeout: timedelta) -> Store:
    if not 0 <= port < 1 << 16:
        raise ValueError(f"init_process_group: port {port} is not between 0 and 65535")
    if environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True":     # the launcher serves it already
        attempt = environment.get("TORCHELASTIC_RESTART_COUNT")
        return PrefixStore(f"/worker/attempt_{attempt}", TCPStore(host, port, size, False, timeout, False))
    # Ranks need not wait for each other here: each waits for what it needs. A process that is a rank of a group and a
    # worker of calls serves both at one port.
    return TCPStore(host, port, size, rank == 0, timeout, wait_for_workers=False, multi_tenant=True)


register_rendezvous_handler("tcp", _by_tcp)
register_rendezvous_handler("env", _by_environment)
register_rendezvous_handler("file", _by_file)
