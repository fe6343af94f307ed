"""Replacements that last as long as a trace: module calls and attribute reads, and functions named by `fx.wrap`.

Enters: dicts of globals, or classes, with a name in them. Leaves: all of it as it was, in reverse order, also after an
error; `nn.Module`'s quick paths in the core are put back, which assigning a special method of the class takes away.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from .. import _C
from ..nn import Module
from .node import map_aggregate
from .proxy import Proxy
from .wrapping import _wrapped_fns_to_patch, _wrapped_methods_to_patch

_ABSENT = object()


class _Patcher:
    """Replaces things in dicts and classes, and puts them back."""

    def __init__(self) -> None:
        self.patches_made: list[tuple[Any, str, Any, Any]] = []   # owner, name, before, now
        self.visited: set[int] = set()

    def patch(self, frame_dict: dict[str, Any], name: str, new_fn: Callable, deduplicate: bool = True) -> None:
        """Replace an entry of a dict of globals; a builtin is hidden by a new entry."""
        if getattr(frame_dict.get(name), "__fx_already_patched", False):
            return
        new_fn.__fx_already_patched = deduplicate  # type: ignore[attr-defined]
        assert name in frame_dict or hasattr(
            builtins, name
        ), f"fx.wrap: {name!r} is neither a global of its module nor a builtin"
        self.patches_made.append((frame_dict, name, frame_dict.get(name, _ABSENT), new_fn))
        frame_dict[name] = new_fn

    def patch_method(self, cls: type, name: str, new_fn: Callable, deduplicate: bool = True) -> None:
        """Replace a method of a class."""
        before = getattr(cls, name)
        if getattr(before, "__fx_already_patched", False):
            return
        new_fn.__fx_already_patched = deduplicate  # type: ignore[attr-defined]
        self.patches_made.append((cls, name, before, new_fn))
        setattr(cls, name, new_fn)

    def visit_once(self, thing: Any) -> bool:
        """True the first time."""
        seen = id(thing) in self.visited
        self.visited.add(id(thing))
        return not seen

    def __enter__(self) -> _Patcher:
        return self

    def __exit__(self, *exc: object) -> None:
        self.revert_all_patches()
        self.patches_made.clear()
        self.visited.clear()

    def revert_all_patches(self) -> None:
        """Everything as it was; the list of patches stays."""
        for owner, name, before, _ in reversed(self.patches_made):
            _put(owner, name, before)
        _restore_quick_paths(self.patches_made)

    def reapply_all_patches(self) -> None:
        """After `revert_all_patches`: everything replaced again."""
        for owner, name, _, now in self.patches_made:
            _put(owner, name, now)


def _put(owner: Any, name: str, value: Any) -> None:
    if not isinstance(owner, dict):
        setattr(owner, name, value)
    elif value is _ABSENT:
        del owner[name]
    else:
        owner[name] = value


def _restore_quick_paths(patches: list[tuple[Any, str, Any, Any]]) -> None:
    """Assigning `Module.__call__` gave every class CPython's slow call;
    classes that call as Module does get the quick one again."""
    if not any(owner is Module for owner, *_ in patches):
        return
    waiting: list[type] = [Module]
    while waiting:
        cls = waiting.pop()
        _C.quick_paths(cls)
        waiting += type.__subclasses__(cls)


current: _Patcher | None = None


@contextlib.contextmanager
def _new_patcher() -> Iterator[_Patcher]:
    """A patcher for one trace."""
    global current
    before, current = current, _Patcher()
    try:
        with current as result:
            yield result
    finally:
        current = before


@contextlib.contextmanager
def _maybe_revert_all_patches() -> Iterator[None]:
    """Inside, the trace's replacements are out of the way."""
    patcher = current
    if patcher is not None:
        patcher.revert_all_patches()
    try:
        yield
    finally:
        if patcher is not None:
            patcher.reapply_all_patches()


# --- wrapped functions ------------------------------------------------------------------------------------------------


def _find_proxy(*objects: Any) -> Proxy | None:
    found: list[Proxy] = []

    def note(x: Any) -> None:
        if isinstance(x, Proxy):
            found.append(x)

    map_aggregate(objects, note)
    return found[-1] if found else None


def _create_wrapped_func(orig_fn: Callable) -> Callable:
    """The function, recorded as one call when it meets a proxy."""

    @functools.wraps(orig_fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return orig_fn(*args, **kwargs)
        result = proxy.tracer.create_proxy("call_function", orig_fn, args, kwargs)
        result.node.meta["is_wrapped"] = True
        return result

    return wrapped


def _create_wrapped_method(cls: type, name: str) -> Callable:
    orig_fn = getattr(cls, name)

    @functools.wraps(orig_fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        return (
            orig_fn(*args, **kwargs) if proxy is None else proxy.tracer.create_proxy("call_method", name, args, kwargs)
        )

    return wrapped


def _patch_wrapped_functions(patcher: _Patcher) -> None:
    for (_, name), frame_dict in _wrapped_fns_to_patch.copy().items():
        orig_fn = frame_dict[name] if name in frame_dict else getattr(builtins, name)
        patcher.patch(frame_dict, name, _create_wrapped_func(orig_fn))
    for cls, name in _wrapped_methods_to_patch:
        patcher.patch_method(cls, name, _create_wrapped_method(cls, name))


def _autowrap_check(patcher: _Patcher, frame_dict: dict[str, Any], function_ids: set[int]) -> None:
    """Wrap the globals of a module that are among the functions to record."""
    if patcher.visit_once(frame_dict):
        for name, value in list(frame_dict.items()):
            if not name.startswith("_") and callable(value) and id(value) in function_ids:
                patcher.patch(frame_dict, name, _create_wrapped_func(value))
