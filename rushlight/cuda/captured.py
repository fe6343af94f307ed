"""CUDA graphs: work that was queued once, kept by the driver, and queued again as a whole.

Enters: a `with cuda.graph(g):` block. Leaves: a `CUDAGraph` whose `replay()` does that work again, on the memory it was
captured with. A graph is captured on a stream of its own (shared with graphs of its `pool`), so that its memory is
nobody else's as long as the graph is there. Refuses: to draw random numbers inside, which would be the same in every
replay. Indices are checked when a graph is captured, not when it is replayed.
"""

from __future__ import annotations

import ctypes
import gc
from typing import Any

from .. import _C, devices
from ..devices.cuda.driver import captures
from ..torch_names.streams import Stream
from .no_device import _real, found

MODES = {"global": 0, "thread_local": 1, "relaxed": 2}
RELAXED = 2
_capturing: list[CUDAGraph] = []


def is_current_stream_capturing() -> bool:
    """Whether work is being captured into a graph."""
    return bool(_capturing)


class CUDAGraph:
    """Captured work. `with cuda.graph(g):` fills it, `g.replay()` runs it."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._graph, self._exec = ctypes.c_void_p(), ctypes.c_void_p()
        if found() is None:
            raise RuntimeError("cuda.CUDAGraph: there is no CUDA device here whose work could be captured")
        self.keep_graph = keep_graph
        self._stream: Any = None
        self._outside: Any = None

    @property
    def _driver(self) -> Any:
        return found().driver

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Start: what is queued by this thread is captured from here on, and not run."""
        if capture_error_mode not in MODES:
            raise RuntimeError(f"capture_begin: expected a mode of {list(MODES)}, got {capture_error_mode!r}")
        if _capturing:
            raise RuntimeError("capture_begin: another graph is being captured")
        if self._exec or self._graph:
            raise RuntimeError("capture_begin: this graph holds captured work. Call reset() first.")
        device = _real().unit_of(None)
        self._stream = _pools.get(pool) or Stream(device)
        _pools[self.pool()] = self._stream
        self._outside = _real().current_stream(device)
        self._stream.wait_stream(self._outside)
        _C.keep_stream(device, self._stream.stream_id)
        _real().set_stream(self._stream)
        _C.cuda_enter(device.index)
        handle = ctypes.c_void_p(_C.stream_handle(device, self._stream.stream_id))
        # The driver's strict modes forbid to reserve memory meanwhile, which is safe on a stream of the graph's own.
        self._driver.call("cuStreamBeginCapture_v2", handle, RELAXED)
        _capturing.append(self)
        captures.running += 1

    def capture_end(self) -> None:
        """Stop, and make what was captured ready to run."""
        if not _capturing or _capturing[-1] is not self:
            raise RuntimeError("capture_end: this graph is not being captured")
        _capturing.pop()
        captures.running -= 1
        device = self._stream.device
        handle = ctypes.c_void_p(_C.stream_handle(device, self._stream.stream_id))
        try:
            self._driver.call("cuStreamEndCapture", handle, ctypes.byref(self._graph))
        finally:
            _real().set_stream(self._outside)
            self._outside = None
        if not self.keep_graph:
            self.instantiate()

    def instantiate(self) -> None:
        """Make the captured work ready to run; done by itself unless `keep_graph`."""
        if not self._graph:
            raise RuntimeError("instantiate: nothing was captured")
        self._driver.call("cuGraphInstantiateWithFlags", ctypes.byref(self._exec), self._graph, ctypes.c_ulonglong(0))
        if not self.keep_graph:
            self._driver.call("cuGraphDestroy", self._graph)
            self._graph = ctypes.c_void_p()

    def replay(self) -> None:
        """Queue the captured work on the current stream."""
        if not self._exec and self._graph:
            self.instantiate()
        if not self._exec:
            raise RuntimeError("replay: nothing was captured")
        device = self._stream.device
        _C.cuda_enter(device.index)
        self._driver.call("cuGraphLaunch", self._exec, ctypes.c_void_p(_C.stream_handle(device)))

    def reset(self) -> None:
        """Forget the captured work."""
        for name, held in (("cuGraphExecDestroy", self._exec), ("cuGraphDestroy", self._graph)):
            if held:
                self._driver.call(name, held)
        self._graph, self._exec = ctypes.c_void_p(), ctypes.c_void_p()

    def pool(self) -> tuple[int, int]:
        """What names the graph's memory: graphs captured with it share that memory."""
        return (0, self._stream.stream_id) if self._stream is not None else (0, 0)

    def raw_cuda_graph(self) -> int:
        """The driver's graph; only with `keep_graph`."""
        if not self.keep_graph:
            raise RuntimeError("raw_cuda_graph: make the graph with keep_graph=True")
        return self._graph.value or 0

    def raw_cuda_graph_exec(self) -> int:
        """The driver's graph that can run."""
        return self._exec.value or 0

    def enable_debug_mode(self) -> None:
        """Keep what `debug_dump` needs."""
        self.keep_graph = True

    def debug_dump(self, debug_path: str) -> None:
        """Write the graph as a text for Graphviz."""
        if not self._graph:
            raise RuntimeError("debug_dump: call enable_debug_mode() before the capture")
        self._driver.call("cuGraphDebugDotPrint", self._graph, str(debug_path).encode(), 0)

    def __del__(self) -> None:
        if getattr(self, "_exec", None) or getattr(self, "_graph", None):
            self.reset()


_pools: dict[Any, Any] = {}


def graph_pool_handle() -> tuple[int, int]:
    """A name for memory that several graphs are to share; pass it as their `pool`."""
    made = Stream(_real().unit_of(None))
    name = (0, made.stream_id)
    _pools[name] = made
    return name


class graph:  # noqa: N801 - PyTorch's name
    """What is queued in the block is captured by a graph. `stream`: work waits for it, and it for the block; the
    capture itself is on a stream of the graph's own."""

    def __init__(
        self, cuda_graph: CUDAGraph, pool: Any = None, stream: Any = None, capture_error_mode: str = "global"
    ) -> None:
        if not isinstance(cuda_graph, CUDAGraph):
            raise TypeError(f"cuda.graph: expected a CUDAGraph, got {type(cuda_graph).__name__}")
        self.cuda_graph, self.pool, self.mode = cuda_graph, pool, capture_error_mode
        self.capture_stream = stream

    def __enter__(self) -> None:
        _real().synchronize()
        gc.collect()
        devices.empty_cache(_real().unit_of(None))
        if self.capture_stream is not None:
            _real().current_stream().wait_stream(self.capture_stream)
        self.cuda_graph.capture_begin(self.pool, self.mode)

    def __exit__(self, *exc: object) -> None:
        self.cuda_graph.capture_end()
        if self.capture_stream is not None:
            self.capture_stream.wait_stream(_real().current_stream())
