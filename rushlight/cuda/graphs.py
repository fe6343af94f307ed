"""CUDA graphs: work that was queued once, kept by the driver, and queued again as a whole.

Enters: a `with cuda.graph(g):` block. Leaves: a `CUDAGraph` whose `replay()` does that work again, on the memory it was
captured with. A graph is captured on a stream of its own (shared with graphs of its `pool`), so that its memory is
nobody else's as long as the graph is there. Random numbers go on from replay to replay as if the work were queued
anew. Indices are checked when a graph is captured, not when it is replayed.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Sequence
from typing import Any

from .. import _C, autograd, devices
from ..autograd.function import Function
from ..devices.cuda.captures import Drawn, captures, memory_for
from ..torch_names.streams import Stream
from .no_device import _no_device, _real, found

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
        self._pool: Any = None
        self._chosen = False           # whether memory comes from a pool while work is captured
        self._drawn: list[Drawn] = []  # generators that the work draws from

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
        self._pool = (self._stream.stream_id, 0) if pool is None else tuple(pool)
        _pools[self._pool] = self._stream
        self._outside = _real().current_stream(device)
        self._stream.wait_stream(self._outside)
        memory = memory_for(device)
        _C.keep_stream(device, self._stream.stream_id)
        _real().set_stream(self._stream)
        _C.cuda_enter(device.index)
        handle = ctypes.c_void_p(_C.stream_handle(device, self._stream.stream_id))
        # The driver's strict modes forbid to reserve memory meanwhile, which is safe on a stream of the graph's own.
        self._driver.call("cuStreamBeginCapture_v2", handle, RELAXED)
        _C.cuda_capturing(True)
        self._chosen = self._pool[0] == 0     # of a MemPool, or of graph_pool_handle
        if self._chosen:
            _C.choose_memory_pool(self._pool[1], device)
        _capturing.append(self)
        captures.begin(device, memory)

    def capture_end(self) -> None:
        """Stop, and make what was captured ready to run."""
        if not _capturing or _capturing[-1] is not self:
            raise RuntimeError("capture_end: this graph is not being captured")
        _capturing.pop()
        self._drawn = captures.end()
        _C.cuda_capturing(False)
        device = self._stream.device
        handle = ctypes.c_void_p(_C.stream_handle(device, self._stream.stream_id))
        if self._chosen:
            _C.choose_memory_pool(0, device)
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
        self.prepare()
        self._driver.call("cuGraphLaunch", self._exec, ctypes.c_void_p(_C.stream_handle(device)))

    def prepare(self) -> None:
        """Queue what a run of the graph needs before it: where its random numbers begin."""
        for drawn in self._drawn:
            _real().prepare_draws(found(), drawn)

    @property
    def draws(self) -> bool:
        """Whether the work draws random numbers."""
        return bool(self._drawn)

    def register_generator_state(self, generator: Any) -> None:
        """Let the work draw from a generator of the program's own. Any may be used here without being named: this
        checks that it is one of a GPU."""
        if not isinstance(generator, _C.Generator) or generator.device.type != "cuda":
            raise TypeError(f"register_generator_state: expected a generator of a GPU, got {generator!r}")

    def reset(self) -> None:
        """Forget the captured work."""
        self._drawn = []
        for name, held in (("cuGraphExecDestroy", self._exec), ("cuGraphDestroy", self._graph)):
            if held:
                self._driver.call(name, held)
        self._graph, self._exec = ctypes.c_void_p(), ctypes.c_void_p()

    def pool(self) -> tuple[int, int]:
        """What names the graph's memory: graphs captured with it share that memory."""
        return (0, 0) if self._pool is None else self._pool

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
    name = (0, _C.new_memory_pool())
    _pools[name] = Stream(_real().unit_of(None))
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
        try:
            self.cuda_graph.capture_end()
        except RuntimeError:
            if exc[0] is None:      # otherwise what was raised inside says more than that the capture failed
                raise
        if self.capture_stream is not None:
            self.capture_stream.wait_stream(_real().current_stream())


def make_graphed_callables(
    callables: Any, sample_args: Any, num_warmup_iters: int = 3, allow_unused_input: bool = False, pool: Any = None
) -> Any:
    """Callables (functions or modules, one or a tuple) whose work, forward and backward, is replayed from graphs.

    Each copies what it is given to the captured memory, replays, and returns the captured results. Modules are changed
    in place and returned. Refuses arguments that are no tensors, and modules with hooks, which a replay would not
    call."""
    if found() is None:
        _no_device("make_graphed_callables")
    single = not isinstance(callables, tuple)
    functions, samples = ((callables,), (sample_args,)) if single else (callables, sample_args)
    if len(functions) != len(samples):
        raise ValueError(f"make_graphed_callables: {len(functions)} callables, but sample_args for {len(samples)}")
    shared = graph_pool_handle() if pool is None else pool
    pairs = zip(functions, samples, strict=True)
    graphed = [_Graphed(f, args, num_warmup_iters, allow_unused_input) for f, args in pairs]
    for one in graphed:
        one.capture_forward(shared)
    for one in reversed(graphed):
        one.capture_backward(shared)
    done = [one.replaying() for one in graphed]
    return done[0] if single else tuple(done)


class _Graphed:
    """One callable: its captured memory and graphs."""

    def __init__(self, function: Any, args: Sequence[Any], warmup: int, unused: bool) -> None:
        if not all(isinstance(a, _C.Tensor) for a in args):
            raise TypeError("make_graphed_callables: expected sample_args to be a tuple of tensors")
        for kind in ("_backward_hooks", "_forward_hooks", "_forward_pre_hooks"):
            if getattr(function, kind, None):
                raise RuntimeError(f"make_graphed_callables: the module has hooks ({kind}), which no replay would call")
        self.function, self.args, self.unused = function, tuple(args), unused
        self.params = tuple(function.parameters()) if hasattr(function, "parameters") else ()
        self.inputs = (*self.args, *self.params)
        self.forward_graph, self.backward_graph = CUDAGraph(), CUDAGraph()
        self.outputs: tuple[Any, ...] = ()
        self.grads_out: tuple[Any, ...] = ()
        self.grads_in: tuple[Any, ...] = ()
        side = Stream(args[0].device if args else None)
        with side:      # what is made at first use must not be captured
            for _ in range(warmup):
                outputs = self.called()[1]
                wanted = [o for o in outputs if o.requires_grad]
                if wanted and self.leaves():
                    autograd.grad(
                        wanted, self.leaves(), [o.detach() for o in wanted], allow_unused=self.unused
                    )
        side.synchronize()

    def leaves(self) -> list[Any]:
        return [t for t in self.inputs if t.requires_grad]

    def called(self) -> tuple[bool, tuple[Any, ...]]:
        result = self.function(*self.args)
        return (True, (result,)) if isinstance(result, _C.Tensor) else (False, tuple(result))

    def capture_forward(self, pool: Any) -> None:
        with graph(self.forward_graph, pool=pool):
            self.single, self.outputs = self.called()

    def capture_backward(self, pool: Any) -> None:
        wanted = [o for o in self.outputs if o.requires_grad]
        self.grads_out = tuple([o.detach().new_empty(o.shape) if o.requires_grad else None for o in self.outputs])
        if not wanted or not self.leaves():
            self.backward_graph = None
            return
        given = [g for g in self.grads_out if g is not None]
        with graph(self.backward_graph, pool=pool):
            found = iter(autograd.grad(wanted, self.leaves(), given, allow_unused=self.unused))
        self.grads_in = tuple([next(found) if t.requires_grad else None for t in self.inputs])

    def replaying(self) -> Any:
        """The callable that replays."""
        mine, count = self, len(self.args)

        class Replay(Function):
            @staticmethod
            def forward(ctx: Any, *inputs: Any) -> Any:
                for static, value in zip(mine.args, inputs, strict=False):
                    if static.data_ptr() != value.data_ptr():
                        static.detach().copy_(value)
                mine.forward_graph.replay()
                return tuple([o.detach() for o in mine.outputs])

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                for static, value in zip(mine.grads_out, grads, strict=True):
                    if static is not None and value is not None and static.data_ptr() != value.data_ptr():
                        static.copy_(value)
                mine.backward_graph.replay()
                return tuple([None if g is None else g.detach() for g in mine.grads_in])

        def call(*args: Any) -> Any:
            if len(args) != count:
                raise TypeError(f"a graphed callable takes the {count} tensors it was captured with, got {len(args)}")
            results = Replay.apply(*args, *mine.params)
            return results[0] if mine.single else results

        return _in_module(self.function, call) if hasattr(self.function, "parameters") else call


def _in_module(module: Any, call: Callable) -> Any:
    """The module with a forward that replays in the mode (training or not) it was captured in."""
    plain, mode = module.forward, module.training
    module.forward = lambda *args: call(*args) if module.training == mode else plain(*args)
    return module


def may_replay(device: Any) -> bool:
    """Whether work may be recorded or replayed here and now: nobody records already, on the device's first stream."""
    return not _capturing and _C.current_stream(device) == 0


_recorded_pools: dict[Any, tuple[int, int]] = {}


def recorded(call: Callable[[], Any]) -> tuple[CUDAGraph | None, Any]:
    """A graph of what `call` queues, and what it returned; (None, None) where it cannot be captured. All these graphs
    share the memory of what they do not return: they run one after another, on the device's first stream."""
    graph, result, device = CUDAGraph(), None, _real().unit_of(None)
    try:
        graph.capture_begin(_recorded_pools.get(device))
        _recorded_pools[device] = graph.pool()
        try:
            result = call()
        finally:
            graph.capture_end()
    except RuntimeError:
        graph.reset()
        return None, None
    return graph, result
