"""The server: all ports, all models, from start to end.

Enters: what the command was told. Leaves: a line when all is ready, answers until a signal comes, and then no process.
Refuses: to start where a port is taken or a model does not load, in one line.
"""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import ssl
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import kserve
from .devices import Devices
from .direct import DirectConnections, Inference
from .http import Connections, Keys, Port
from .metrics import Metrics
from .refusals import LoadError, Refusal
from .repository import Repository, is_language_folder
from .served import Settings
from .spares import Spares

PATIENCE = 30.0       # seconds that running requests have when the server ends


@dataclass(frozen=True)
class Wanted:
    """What the command was told."""

    store: Path | None
    models: tuple[tuple[str, Path], ...]
    host: str = "127.0.0.1"
    port: int = 8080
    management_port: int = 8081
    metrics_port: int = 8082
    grpc_port: int | None = 7070
    keys: Path | None = None
    largest: int = 64 << 20
    settings: Settings = field(default_factory=Settings)
    allowed_urls: tuple[str, ...] = ()
    may_install: bool = False
    threads: int = 0
    language: dict[str, Any] = field(default_factory=dict)
    devices: Devices = field(default_factory=dict)
    certificate: tuple[ssl.SSLContext, bytes, bytes] | None = None      # for HTTP; the key and the chain for gRPC


class Server:
    """Ports and models of one process."""

    def __init__(self, wanted: Wanted, spares: Spares) -> None:
        self.wanted, self.metrics = wanted, Metrics()
        self.keys = Keys.read(wanted.keys) if wanted.keys is not None else None
        workers = max(1, wanted.settings.min_workers)
        threads = wanted.threads or max(1, (os.cpu_count() or 1) // workers)
        self.repository = Repository(wanted.store, wanted.settings, self.metrics,
                                     allowed_urls=list(wanted.allowed_urls), threads=threads, spares=spares,
                                     may_install=wanted.may_install, language_options=wanted.language,
                                     devices=wanted.devices)
        self.ports: dict[str, Port] = {}
        self._grpc: Any = None

    async def start(self) -> None:
        """Load, then listen. LoadError with one line where either fails."""
        loading = [asyncio.ensure_future(self._load(name, path)) for name, path in self.wanted.models]
        try:
            await self._listen()
            await asyncio.gather(*loading)
        except BaseException:
            for task in loading:
                task.cancel()
            await asyncio.gather(*loading, return_exceptions=True)
            await self.stop(0.0)
            raise

    async def _load(self, name: str, path: Path) -> None:
        try:
            if is_language_folder(path):
                await self.repository.add_language(path, name)
            else:
                await self.repository.add(path, name, at_start=True)
        except (LoadError, Refusal) as error:
            raise LoadError(f"model {name!r} cannot be loaded: {error}") from None

    async def _listen(self) -> None:
        from . import openai_routes, torchserve

        inference = [*kserve.routes(self.repository), *torchserve.inference(self.repository),
                     *openai_routes.routes(self.repository)]
        groups = {"http": (self.wanted.port, inference),
                  "management": (self.wanted.management_port, torchserve.management(self.repository)),
                  "metrics": (self.wanted.metrics_port, torchserve.metrics(self.metrics))}
        direct = functools.partial(DirectConnections, Inference(self.repository, self.keys, self.wanted.largest))
        by_number: dict[int, str] = {}
        merged: dict[str, list[Any]] = {}
        for name, (number, routes) in groups.items():
            home = by_number.setdefault(number, name) if number else name
            merged.setdefault(home, []).extend(routes)
        secure = self.wanted.certificate[0] if self.wanted.certificate is not None else None
        for name, routes in merged.items():
            number = groups[name][0]
            port = Port(routes, self.keys, self.wanted.largest, direct if name == "http" else Connections)
            try:
                await port.open(self.wanted.host, number, secure)
            except OSError as error:
                await port.close()
                raise _taken(self.wanted.host, number, error) from None
            for other, (its, _) in groups.items():
                if other == name or (number and its == number):
                    self.ports[other] = port
        if self.wanted.grpc_port is not None:
            from .grpc_service import Service

            self._grpc = Service(self.repository, self.keys, self.wanted.largest)
            await self._grpc.open(self.wanted.host, self.wanted.grpc_port, self.wanted.certificate)

    def line(self) -> str:
        """Where it listens."""
        found = {name: port.number for name, port in self.ports.items()}
        if self._grpc is not None:
            found["grpc"] = self._grpc.number
        names = ", ".join((*self.repository.models, *self.repository.language)) or "no models"
        return f"rushlight serve: ready on {self.wanted.host}, " + " ".join(
            f"{name} {number}" for name, number in found.items()) + f": {names}"

    async def stop(self, patience: float = PATIENCE) -> None:
        """Take nothing new, finish what runs, and end every process."""
        for port in set(self.ports.values()):
            await port.stop_listening()
        await self.repository.close(patience)
        await asyncio.sleep(0)
        if self._grpc is not None:
            await self._grpc.close(min(patience, 5.0))
        for port in set(self.ports.values()):
            await port.close()


def _taken(host: str, number: int, error: OSError) -> LoadError:
    return LoadError(f"port {number} of {host} cannot be listened at: {os.strerror(error.errno or 0)}")


async def serve(wanted: Wanted, spares: Spares) -> int:
    """Serve until a signal comes; the status that the process ends with."""
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    try:
        server = Server(wanted, spares)
        starting = asyncio.ensure_future(server.start())
        waiting = asyncio.ensure_future(stopped.wait())
        await asyncio.wait({starting, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return 0
        waiting.cancel()
        starting.result()
    except LoadError as error:
        print(f"rushlight serve: {error}", file=sys.stderr)
        return 1
    print(server.line(), flush=True)
    await stopped.wait()
    await server.stop()
    return 0
