"""Which module a public class or function says it comes from: PyTorch's, wherever its definition stands here.

Enters: the table (`home_rows`, which stands above and is registered here), and modules of this package as they are
imported. Leaves: definitions whose `__module__` is the module PyTorch keeps them in (`MultiStepLR.__module__` is that
of `optim.lr_scheduler`, though four files define schedulers), below the name the package goes by: `rushlight`, or
`torch` while programs are served under that name (`compat`). A module of PyTorch that has no file here, because its
definitions stand elsewhere, can be imported all the same. Nothing is loaded for it: a module is settled when somebody
imports it. Refuses nothing; what is in no row keeps the module it was defined in.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Loader
else:
    Loader = object      # importlib.abc is not worth its import here

PACKAGE = __name__.partition(".")[0]
_homes: dict[str, dict[str, str]] = {}    # file -> name -> home, all below the package
_files: dict[str, list[str]] = {}         # home -> files
_parents: set[str] = set()                # packages that only hold modules found elsewhere
# parts (with a dot at the end) whose definitions are never called by PyTorch's names
_internal: tuple[str, ...] = ()
# packages that `compat` completes when a program imports them under the other name
_not_aliased: tuple[str, ...] = ()
_former: dict[str, str] = {}              # modules that moved: the name before -> the name now
_older: dict[str, str] = {}               # packages that PyTorch moved and still has under the older name
# what was given a name that follows the package's, and where it lives below it
_settled: list[tuple[Any, str]] = []
_whole: set[str] = set()                  # modules of which every definition was settled
shown = PACKAGE                           # the name the package goes by


def public_name(module: str) -> str:
    """A module of this package, by its own name or its shown one, under the name the package goes by now."""
    root, dot, rest = module.partition(".")
    return f"{shown}{dot}{rest}" if root in (PACKAGE, shown) else module


def is_ours(module: object) -> bool:
    """Whether this is the name of the package or of a module in it, under either name."""
    return isinstance(module, str) and module.partition(".")[0] in (PACKAGE, shown)


def _named(package: str, home: str) -> str:
    """The name of a module below a package: one string for all it holds, which a pickle then writes once."""
    return sys.intern(f"{package}.{home}") if home else package


def settle(thing: Any, home: str) -> None:
    """Let a class, function or op say it comes from `home` (a path below the package; "" is the package)."""
    try:
        thing.__module__ = _named(shown, home)
    except (AttributeError, TypeError):     # a class of the core that cannot be told
        return
    _settled.append((thing, home))


def settle_ops(ops: Mapping[str, Any], home: str) -> None:
    """Let the ops that a namespace publishes say so; ops at top level do already, by their type."""
    for op in ops.values():
        settle(op, home)


def _spec(module: ModuleType) -> ModuleSpec:
    assert module.__spec__ is not None, f"{module.__name__} was not imported"
    return module.__spec__


def settle_module(module: ModuleType, is_again: bool = False) -> None:
    """Settle what rows say of a module's definitions; under another name than the package's own, all of them.
    `is_again` says that the module was there before and was loaded anew."""
    own = _spec(module).name
    path = own[len(PACKAGE) + 1 :]
    rows = _homes.get(path, {})
    is_wanted = shown != PACKAGE and not f"{path}.".startswith(_internal) and (path not in _whole or is_again)
    for name, value in tuple(vars(module).items()):
        if not (isinstance(value, type) or type(value) in (FunctionType, BuiltinFunctionType)):
            continue
        if value.__name__ in rows or name in rows:
            home = rows.get(value.__name__, rows.get(name, ""))
            # not again, and nothing imported from elsewhere
            if value.__module__ in (own, f"torch.{path}", PACKAGE):
                settle(value, home)
        elif is_wanted and value.__module__ == own:
            settle(value, path)
    if path in _parents and not hasattr(module, "__path__"):
        module.__path__ = []     # one file here, a package in PyTorch
    if is_wanted:
        _whole.add(path)
    if shown != PACKAGE and path in _whole:
        _rename(module, path)


def is_own(kind: type) -> bool:
    """Whether a class is this package's, whichever name that goes by."""
    return kind.__module__.partition(".")[0] in (PACKAGE, shown)


def _answer_to_both(loader: Any) -> None:
    """Let the loader of one file answer for it whichever name it is asked by: `runpy` and `inspect` ask by the name
    that the program used, and loaders of files refuse any but their own. One of an installation that is edited wraps
    another, which it asks."""
    place = getattr(loader, "path", None)
    for one in (loader, *vars(loader).values()) if place is not None else ():
        if hasattr(one, "get_filename"):
            one.get_filename = lambda name=None: place


def _rename(module: ModuleType, path: str) -> None:
    module.__name__ = f"{shown}.{path}" if path else shown
    _answer_to_both(_spec(module).loader)
    if path not in _not_aliased:     # where `pickle`, `typing` and `inspect` look for a definition's module
        sys.modules.setdefault(module.__name__, module)


def show_as(name: str) -> None:
    """Let the package, its modules and their definitions go by this name, now and as they are imported."""
    global shown
    loaded = {key: module for key, module in tuple(sys.modules.items())
              if key.partition(".")[0] == PACKAGE and getattr(getattr(module, "__spec__", None), "name", "") == key}
    shown = name
    for thing, home in _settled:
        thing.__module__ = _named(name, home)
    for key, module in loaded.items():
        path = key[len(PACKAGE) + 1 :]
        if path in _whole:
            _rename(module, path)
        else:
            settle_module(module)


class _Elsewhere(Loader):
    """Loads a module of PyTorch whose definitions stand in other files here."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        path = _spec(module).name[len(PACKAGE) + 1 :]
        for file in _files.get(path, ()):
            source = import_module(f"{PACKAGE}.{file}")
            rows = _homes[file]
            for name, value in tuple(vars(source).items()):
                if rows.get(name, rows.get(getattr(value, "__name__", ""))) == path:
                    setattr(module, name, value)
            for name, home in rows.items():      # what arrives late
                if home == path and not hasattr(module, name) and hasattr(source, name):
                    setattr(module, name, getattr(source, name))
        module.__name__ = public_name(module.__name__)

    def is_package(self, name: str) -> bool:
        return _below(name) in _parents

    def get_source(self, name: str) -> str:
        """What the module would say if it had a file: where its definitions stand."""
        path = _below(name)
        found = {file: sorted(n for n, home in _homes[file].items() if home == path) for file in _files.get(path, ())}
        return "".join(f"from {PACKAGE}.{file} import {', '.join(names)}\n" for file, names in found.items())

    def get_code(self, name: str) -> CodeType:
        return compile(self.get_source(name), f"<{name}>", "exec", dont_inherit=True)


def _below(name: str) -> str:
    """The path of a module below the package, by either name."""
    return name.partition(".")[2]


def _newer_name(rest: str) -> str | None:
    """The name below the newer package of a module that is asked for below the older one."""
    head, tail = rest, ""
    while head and head not in _older:
        head, dot, last = head.rpartition(".")
        tail = dot + last + tail
    return _older[head] + tail if head else None


class _Former(Loader):
    """Loads a module by a name that it had once."""

    def __init__(self, now: str) -> None:
        self.now = now

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.now)
        self.spec = module.__spec__      # importing is about to write the former name's over it
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec


class HomesFinder:
    """Sees every module of the package imported, and settles it afterwards."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{PACKAGE}."):
            return None
        rest = fullname[len(PACKAGE) + 1 :]
        if rest in _former:
            return ModuleSpec(fullname, _Former(f"{PACKAGE}.{_former[rest]}"))
        newer = _newer_name(rest)
        if newer is not None:
            from importlib.util import find_spec  # not worth its import at the start

            found = find_spec(f"{PACKAGE}.{newer}")
            is_package = found is not None and found.submodule_search_locations is not None
            return found and ModuleSpec(
                fullname, _Former(f"{PACKAGE}.{newer}"), origin=found.origin, is_package=is_package
            )
        is_elsewhere = rest in _files or rest in _parents
        if shown == PACKAGE and rest not in _homes and not is_elsewhere:
            return None
        spec = next(
            (
                found
                for finder in sys.meta_path
                if finder is not self and (found := finder.find_spec(fullname, path, target))
            ),
            None,
        )
        if spec is None:
            return ModuleSpec(fullname, _Elsewhere(), is_package=rest in _parents) if is_elsewhere else None
        execute = getattr(spec.loader, "exec_module", None)
        if execute is not None and spec.origin is not None:
            def exec_module(module: ModuleType) -> None:
                execute(module)
                settle_module(module, target is not None)

            # Checked above: there is a loader, and it has this method. It is the loader of this one module.
            spec.loader.exec_module = exec_module   # type: ignore[union-attr, method-assign]
        return spec


def install(
    rows: str,
    internal: tuple[str, ...] = (),
    not_aliased: tuple[str, ...] = (),
    former: Mapping[str, str] | None = None,
    older: Mapping[str, str] | None = None,
) -> None:
    """Settle the modules of the package from now on, as `rows` say: `file -> module: names`, one row a line, which goes
    on in lines that are indented (see `home_rows`).

    `former` says where modules are now that had another name once: pickles from then still find what they name.
    `older` says the same of packages that PyTorch moved and serves under both names, with all they hold.
    """
    global _internal, _not_aliased
    for row in rows.strip().replace("\n    ", " ").splitlines():
        place, _, names = row.partition(": ")
        file, _, home = place.partition(" -> ")
        home = home.lstrip(".")
        _homes.setdefault(file, {}).update(dict.fromkeys(names.split(), home))
        _files.setdefault(home, []).append(file)
    _parents.update(home[:at] for home in _files for at, sign in enumerate(home) if sign == ".")
    _internal, _not_aliased = tuple(f"{part}." for part in internal), not_aliased
    _former.update(former or {})
    _older.update(older or {})
    if not any(isinstance(finder, HomesFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, HomesFinder())
