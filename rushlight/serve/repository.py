"""The models of one server, by name and version.

Enters: files, archives and folders, by the operator's command or by a client's registration. Leaves: models that are
ready, and what is there to be loaded. Refuses: names that could be paths, files outside the model store, and addresses
that the operator did not allow; those are not even asked.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
import weakref
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from . import sources
from .devices import Devices, devices_of
from .metrics import Metrics
from .refusals import LoadError, Refusal, unknown_model, unknown_version
from .served import Served, Settings
from .spares import Spares

NAME = re.compile(r"[A-Za-z0-9][\w.\-]{0,199}", re.ASCII)
SUFFIXES = (".pt2", ".mar")


def check_name(name: str, what: str = "model name") -> str:
    if not NAME.fullmatch(name) or ".." in name:
        raise Refusal(400, f"{what}: expected letters, digits, '_', '-' and '.', got {name[:60]!r}")
    return name


def is_language_folder(path: Path) -> bool:
    return path.is_dir() and (path / "config.json").is_file()


def _order(version: str) -> tuple[Any, ...]:
    return tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in re.split(r"[.\-_]", version))


class Repository:
    """What is served, and the folder that holds what could be. `language` are models that `rushlight.serve.language`
    runs, by name; `options` what the command was told of them."""

    def __init__(self, store: Path | None, settings: Settings, metrics: Metrics, *, allowed_urls: list[str],
                 threads: int, spares: Spares, may_install: bool = False,
                 language_options: dict[str, Any] | None = None, devices: Devices | None = None) -> None:
        self.store, self.settings, self.metrics = store, settings, metrics
        self.models: dict[str, dict[str, Served]] = {}
        self.defaults: dict[str, str] = {}
        self.language: dict[str, Any] = {}
        self.language_options = language_options or {}
        self._allowed = [re.compile(p) for p in allowed_urls]
        self._threads, self._may_install, self._spares, self._devices = threads, may_install, spares, devices or {}
        self._at_start: set[tuple[str, str]] = set()
        self._in_the_making: set[Served] = set()
        self._changing: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    # --- finding ------------------------------------------------------------------------------------------------------

    def get(self, name: str, version: str | None = None) -> Served:
        versions = self.models.get(name)
        if name in self.language:
            raise Refusal(400, f"model {name!r} is a language model, which answers under /v1")
        if versions is None:
            raise unknown_model(name)
        found = versions.get(self.defaults[name] if version is None else version)
        if found is None:
            raise unknown_version(name, version or "")
        return found

    def was_at_start(self, model: Served) -> bool:
        return (model.name, model.version) in self._at_start

    def all(self) -> list[Served]:
        return [model for versions in self.models.values() for model in versions.values()]

    @property
    def is_ready(self) -> bool:
        return all(m.is_ready or not m.settings.min_workers for m in self.all()) and all(
            m.is_ready for m in self.language.values())

    def index(self) -> list[dict[str, str]]:
        """What is served and what lies in the store."""
        found = [{"name": m.name, "version": m.version, "state": "READY" if m.is_ready else "UNAVAILABLE",
                  "reason": "" if m.is_ready else "no worker runs"} for m in self.all()]
        found += [{"name": name, "version": "1", "state": "READY" if m.is_ready else "UNAVAILABLE", "reason": ""}
                  for name, m in self.language.items()]
        known = {*self.models, *self.language}
        for path in sorted(self.store.iterdir()) if self.store is not None else ():
            name = path.stem if path.suffix in SUFFIXES else path.name
            if name not in known and (path.suffix in SUFFIXES or is_language_folder(path)) and NAME.fullmatch(name):
                known.add(name)
                found.append({"name": name, "version": "", "state": "UNAVAILABLE", "reason": "not loaded"})
        return found

    # --- where models come from ---------------------------------------------------------------------------------------

    async def file_of(self, url: str) -> Path:
        """The file a client may mean: one in the model store, or at an address that the operator allowed."""
        if not url or "\0" in url:
            raise Refusal(400, "url: expected the name of a file in the model store")
        if re.match(r"[A-Za-z][A-Za-z0-9+.\-]*:", url):
            if not self._is_allowed(url):
                raise Refusal(403, f"url: expected a file in the model store, got an address, {url[:100]!r}. The "
                                   "server's option --allowed-urls says which are allowed.", "InvalidUrlException")
            return await sources.fetched(url, self._is_allowed)
        if self.store is None:
            raise Refusal(400, "url: this server has no model store. Start it with --model-store.")
        try:
            path = (self.store / url).resolve()
            is_there = path.is_relative_to(self.store.resolve()) and path.exists()
        except OSError as error:      # a name that no file can have
            raise Refusal(400, f"url: {url[:100]!r} cannot be looked for: {error.strerror}") from None
        if os.path.isabs(url) or ".." in Path(url).parts or not path.is_relative_to(self.store.resolve()):
            raise Refusal(400, f"url: expected the name of a file in the model store, got {url[:100]!r}",
                          "ModelNotFoundException")
        if not is_there:
            raise Refusal(404, f"url: there is no {url[:100]!r} in the model store", "ModelNotFoundException")
        return path

    def _is_allowed(self, url: str) -> bool:
        is_plain = ".." not in re.split(r"[/\\\\]", unquote(url))      # else it is another address than it looks
        return is_plain and any(p.fullmatch(url) for p in self._allowed)

    def file_named(self, name: str) -> Path:
        """The file in the store that a model of this name would come from."""
        for suffix in SUFFIXES:
            path = (self.store or Path()) / f"{name}{suffix}"
            if self.store is not None and path.is_file():
                return path
        if self.store is not None and is_language_folder(self.store / name):
            return self.store / name
        raise unknown_model(name)

    # --- changing -----------------------------------------------------------------------------------------------------

    async def add(self, path: Path, name: str | None, *, url: str | None = None, settings: Settings | None = None,
                  workers: int | None = None, handler: str | None = None, at_start: bool = False,
                  chosen: frozenset[str] = frozenset()) -> Served:
        """A model of a file, with so many workers running. It may bring settings, but for those that were `chosen`.
        Refusal of what is there already; LoadError of what does not load, and then nothing of it stays."""
        model = await self._opened(path, name, url, settings, handler, chosen)
        name, run_as = model.name, model.settings
        if model.version in self.models.get(name, {}) or name in self.language:
            model.on_close()
            raise Refusal(409, f"model {name!r} of version {model.version} is registered already")
        self.models.setdefault(name, {})[model.version] = model
        self.defaults.setdefault(name, model.version)
        self.metrics.watch(model)
        if at_start:
            self._at_start.add((name, model.version))
        count = run_as.min_workers if workers is None else workers
        try:
            await model.scale(count, max(count, run_as.max_workers) if workers is None else count)
        except BaseException:
            await self.remove(name, model.version)
            raise
        return model

    async def _opened(self, path: Path, name: str | None, url: str | None = None, settings: Settings | None = None,
                      handler: str | None = None, chosen: frozenset[str] = frozenset()) -> Served:
        """A model of a file, of which nothing runs yet."""
        try:
            source = await asyncio.to_thread(sources.opened, path, handler, self._may_install)
        finally:
            sources.forget(path)
        try:
            name = check_name(name if name is not None else source.name)
            devices = devices_of(name, self._devices, source.wanted.get("config", {}))
        except (LoadError, Refusal):
            source.close()
            raise
        brought = {key: value for key, value in source.said.items() if key not in chosen}
        run_as = dataclasses.replace(settings or self.settings, **brought)
        wanted = {**source.wanted, "name": name, "threads": self._threads, "batch_size": run_as.batch_size,
                  "devices": devices}
        model = Served(name, source.version, url or path.name, wanted, source.descriptors, run_as, source.together,
                       source.apart, self.metrics, self._spares)
        model.on_close = source.close
        return model

    async def add_language(self, path: Path, name: str) -> Any:
        """A language model of a folder, ready."""
        from . import language

        if name in self.models or name in self.language:
            raise Refusal(409, f"model {name!r} is registered already")
        device = devices_of(name, self._devices, {})[0]
        options = {**self.language_options, "device": device}
        model = language.load(check_name(name), path, options, self.metrics.registry)
        try:
            await model.start()
        except BaseException:
            await model.stop()
            raise
        self.language[name] = model
        return model

    async def load(self, name: str) -> None:
        """A model of the store by its name; one that is loaded already is loaded anew."""
        path = self.file_named(check_name(name))
        async with self._alone(name):
            if name in self.language:
                return
            if is_language_folder(path):
                await self.add_language(path, name)
            elif name in self.models:
                await self._replace(path, name)
            else:
                await self.add(path, name)

    async def _replace(self, path: Path, name: str) -> None:
        """What is served answers until the new one is ready, and goes on where that does not load."""
        model = await self._opened(path, name)
        self._in_the_making.add(model)
        try:
            await model.scale(model.settings.min_workers, model.settings.max_workers)
        except BaseException:
            await model.close()
            raise
        finally:
            self._in_the_making.discard(model)
        before = self.models.get(name, {})
        self.models[name], self.defaults[name] = {model.version: model}, model.version
        self.metrics.watch(model)
        for one in before.values():
            await one.close()
            self.metrics.forget(one)

    def _alone(self, name: str) -> asyncio.Lock:
        """Held by who loads or unloads a name, so that others wait."""
        return self._changing.setdefault(name, asyncio.Lock())

    async def remove(self, name: str, version: str | None = None) -> None:
        """Serve a version no longer. What it runs is finished."""
        if name in self.language:
            await self.language.pop(name).stop()
            return
        model = self.get(name, version)
        versions = self.models[name]
        del versions[model.version]
        if not versions:
            del self.models[name], self.defaults[name]
        elif self.defaults[name] == model.version:
            self.defaults[name] = max(versions, key=_order)
        await model.close()
        self.metrics.forget(model)

    async def unload(self, name: str) -> None:
        """Serve no version of it any longer."""
        async with self._alone(name):
            for version in list(self.models.get(name, ())) or [None]:
                await self.remove(name, version)

    def set_default(self, name: str, version: str) -> None:
        self.defaults[name] = self.get(name, version).version

    async def close(self, patience: float = 30.0) -> None:
        """Finish, and leave no process."""
        self._spares.close()
        every = [*self.all(), *self._in_the_making]
        await asyncio.gather(*(m.close(patience) for m in every), *(m.stop() for m in self.language.values()),
                             return_exceptions=True)


