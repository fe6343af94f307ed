"""Who listens to what the compile stack does, asked wherever there is something to tell.

Enters: the name of an artifact ("guards", "output_code", ...) or of a logger of PyTorch's. Leaves: the logger that
takes the text, or None where nobody listens, so that no text is made; and which frame is being compiled (`here`),
which every line names. The room that writes logs (`_logging`) is loaded when the environment asks for logs at the
start, or when the program imported it or gave a logger below "torch" a level; until then a question costs a look at
one name. Refuses nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from . import environment, late

DEBUG, INFO, WARNING = 10, 20, 30      # as `logging` numbers them; it takes long to load
_ASKED = ("TORCH_LOGS", "TORCH_TRACE", "TORCH_DTRACE")
_room: Any = None


class CompileId:
    """Which frame (in the order of their first compilation), and how often it was compiled before; or which backward
    of compiled autograd."""

    __slots__ = ("compiled_autograd_id", "frame_compile_id", "frame_id")

    def __init__(self, frame_id: int | None, frame_compile_id: int | None, compiled_autograd_id: int | None = None
                 ) -> None:
        self.frame_id, self.frame_compile_id = frame_id, frame_compile_id
        self.compiled_autograd_id = compiled_autograd_id

    def __str__(self) -> str:
        own = "" if self.frame_id is None else f"{self.frame_id}/{self.frame_compile_id}"
        if self.compiled_autograd_id is None:
            return own
        return f"!{self.compiled_autograd_id}" + (f"/{own}" if own else "")

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CompileId) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class Here(threading.local):
    """What this thread compiles."""

    compile_id: CompileId | None = None
    attempt = 0                # how often capture began again
    graph = ""                 # the graph that a compiler looks at: `0_forward`


here = Here()
frame_ids = itertools.count()


def count_frames_anew() -> None:
    """The next frame is the first again."""
    global frame_ids
    frame_ids = itertools.count()


def trace_id() -> str:
    """What is being compiled, as lines of the log name it; "" where nothing is."""
    if here.compile_id is None:
        return ""
    return f"{here.compile_id}_{here.attempt}" if here.attempt else str(here.compile_id)


@contextlib.contextmanager
def compiling(compile_id: CompileId | None, attempt: int = 0) -> Iterator[None]:
    """Inside, lines are about that frame."""
    before = here.compile_id, here.attempt
    if _room is None and _has_loggers():
        room()
    here.compile_id, here.attempt = compile_id, attempt
    try:
        yield
    finally:
        here.compile_id, here.attempt = before


# --- listeners --------------------------------------------------------------------------------------------------------


def start() -> None:
    """Set logs up if the environment asks for them. Refuses names there that nobody knows (ValueError)."""
    if any(map(environment.is_set, _ASKED)) or environment.get("TORCH_COMPILE_DEBUG") == "1":
        room()


def listen(found: Any) -> None:
    """`found` (the module `_logging._internal`) answers from now on."""
    global _room
    _room = found


def room() -> Any:
    """What answers, loaded if it was not."""
    return late.provided("logs") if _room is None else _room


def heard() -> Any:
    """What answers; None while nobody asked for logs."""
    return _room


def _has_loggers() -> bool:
    """Whether the program gave a logger at or below "torch" a level, or a handler. Asked once for each frame."""
    logging = sys.modules.get("logging")
    if logging is None:
        return False
    return any((name.startswith("torch.") or name == "torch") and (getattr(found, "level", 0) or _handlers(found))
               for name, found in tuple(logging.root.manager.loggerDict.items()))


def _handlers(logger: Any) -> Any:
    return getattr(logger, "handlers", None)


def artifact(name: str, level: int = DEBUG) -> Any:
    """The logger of an artifact, where somebody listens; None otherwise."""
    return None if _room is None else _room.artifact_listener(name, level)


def messages(name: str, level: int = INFO) -> Any:
    """The logger of that name, where somebody listens at this level; None otherwise."""
    if _room is None:
        return None
    logger = _room.logging.getLogger(name)
    return logger if logger.isEnabledFor(level) else None


def is_followed() -> bool:
    """Whether compilations are to be seen whole: nothing that an earlier process made may stand in."""
    return _room is not None and _room.follows_compilation()


def is_traced() -> bool:
    """Whether structured records are written."""
    return _room is not None and _room.is_traced()


def trace(name: str, metadata: Callable[[], Any] = dict, payload: Callable[[], Any] = lambda: None) -> None:
    """Write a structured record, where such are written."""
    if is_traced():
        _room.write(name, metadata, payload)


def trace_text(name: str, payload: Callable[[], Any], encoding: str = "string") -> None:
    """The same for text that readers show under `name`."""
    if is_traced():
        _room.write("artifact", lambda: {"name": name, "encoding": encoding}, payload)
