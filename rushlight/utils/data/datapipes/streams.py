"""Files opened by datapipes, and functions given to them.

Enters: paths, masks, callables. Leaves: open streams that close themselves when forgotten; checks of callables.
"""

from __future__ import annotations

import fnmatch
import functools
import inspect
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_MOST_NESTED = 10  # containers looked into when streams are closed


class StreamWrapper:
    """An open file. Everything is asked of the file itself; it is closed, at the latest, with the wrapper."""

    def __init__(self, file_obj: Any, parent_stream: StreamWrapper | None = None, name: str | None = None) -> None:
        if parent_stream is not None and not isinstance(parent_stream, StreamWrapper):
            raise RuntimeError(f"Parent stream should be StreamWrapper, {type(parent_stream)} was given")
        self.file_obj = file_obj
        self.name = name
        self.closed = False
        self.child_counter = 0
        self.close_on_last_child = False
        self.parent_stream = parent_stream
        if parent_stream is not None:
            parent_stream.child_counter += 1

    @classmethod
    def close_streams(cls, v: Any, depth: int = 0) -> None:
        """Close every stream in a nest of containers."""
        if depth > _MOST_NESTED:
            return
        if isinstance(v, StreamWrapper):
            v.close()
        elif isinstance(v, dict):
            v = list(v.values())
        if isinstance(v, (list, tuple)):
            for inner in v:
                cls.close_streams(inner, depth + 1)

    def close(self, *args: Any, **kwargs: Any) -> None:
        if self.closed:
            return
        self.closed = True
        parent = self.parent_stream
        if parent is not None:
            parent.child_counter -= 1
            if not parent.child_counter and parent.close_on_last_child:
                parent.close()
        if hasattr(self.file_obj, "close"):
            self.file_obj.close(*args, **kwargs)

    def autoclose(self) -> None:
        """Close as soon as no stream made from this one is open."""
        self.close_on_last_child = True
        if self.child_counter == 0:
            self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["file_obj"], name)

    def __del__(self) -> None:
        if not self.__dict__.get("closed", True):
            self.close()

    def __iter__(self) -> Iterator:
        yield from self.file_obj

    def __next__(self) -> Any:
        return next(self.file_obj)

    def __repr__(self) -> str:
        return (
            f"StreamWrapper<{self.file_obj!r}>"
            if self.name is None
            else f"StreamWrapper<{self.name},{self.file_obj!r}>"
        )


def match_masks(name: str, masks: str | list[str]) -> bool:
    """Whether a file's name fits one of the masks; any name does without masks."""
    if not masks:
        return True
    return any(fnmatch.fnmatch(name, mask) for mask in ([masks] if isinstance(masks, str) else masks))


def list_files(
    root: str, masks: str | list[str], recursive: bool, abspath: bool, non_deterministic: bool
) -> Iterator[str]:
    """Paths of files under `root`, sorted unless the order does not matter. A file is its own listing."""
    if os.path.isfile(root):
        if match_masks(os.path.basename(root), masks):
            yield os.path.abspath(root) if abspath else root
        return

    def fail(error: OSError) -> None:
        raise error

    for path, folders, files in os.walk(root, onerror=fail):
        base = os.path.abspath(path) if abspath else path
        if not non_deterministic:
            files.sort()
            folders.sort()
        for name in files:
            if match_masks(name, masks):
                yield os.path.join(base, name)
        if not recursive:
            return


def open_files(pathnames: Iterable[str], mode: str, encoding: str | None) -> Iterator[tuple[str, StreamWrapper]]:
    """Each path with the file opened for reading."""
    for path in pathnames:
        if not isinstance(path, str):
            raise TypeError(f"Expected string type for pathname, but got {type(path)}")
        yield path, StreamWrapper(open(path, "r" + mode if mode in ("b", "t") else mode, encoding=encoding))


def check_callable(fn: Any) -> None:
    """Refuse what cannot be called; warn about what workers that are not forked cannot be sent."""
    if not callable(fn):
        raise TypeError(f"A callable function is expected, but {type(fn)} is provided.")
    inner = fn.func if isinstance(fn, functools.partial) else fn
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    kind = "Lambda" if name.endswith("<lambda>") and "<locals>" not in name else "Local" if "<locals>" in name else None
    if kind is not None:
        warnings.warn(
            f"{kind} functions cannot be pickled. Use a function of a module, or functools.partial of one.",
            stacklevel=4,
        )


def check_parameters(fn: Callable, input_col: Any) -> None:
    """Refuse a function that cannot be called with as many values as `input_col` names."""
    try:
        signature = inspect.signature(fn)
    except ValueError:  # a builtin that does not say
        return
    count = len(input_col) if isinstance(input_col, (list, tuple)) else 1
    try:
        signature.bind(*[None] * count)
    except TypeError as e:
        inner = fn.func if isinstance(fn, functools.partial) else fn
        raise ValueError(
            f"The function {getattr(inner, '__name__', repr(inner))} cannot take {count} positional values: {e}"
        ) from None
