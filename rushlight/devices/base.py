"""How to add a device: implement this class in a package of your own, and `register` an instance.

A device implements kinds, never ops: it allocates, copies, turns a loop nest into something it can run (`load`) and
runs it (`launch`). Every op that is generated then works. Ops that call a library ask `implementation` first: without a
function of the device's own matrix products run as a generated kernel, others (convolutions, decompositions, sorting)
on the host, with one warning each. Any number of devices can be registered at once.

    class MyChip(Device):
        name = "mychip"
        def allocate(self, nbytes, index): ...
        ...
    register(MyChip())
    rushlight.ones(3, device="mychip") + 1

Addresses are integers and mean what the device wants them to mean; the core never dereferences them.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from .. import _C
from .._C import Tensor
from ..base import late
from ..base.show import is_shown, show
from . import private_use


class _Handlers(dict):
    """Registered devices, by name."""

    def __missing__(self, name: str) -> Device:
        require(name)
        return self[name]


handlers: dict[str, Device] = _Handlers()


OURS = ("cuda", "lazy", "xla")      # devices of this package that are registered when they are first named


def find(name: str) -> bool:
    """Whether a device of our own is there; it is registered when it is first looked for."""
    return name in OURS and late.provided(f"{name} device")() is not None


class NoDeviceError(AssertionError, RuntimeError):
    """There is no GPU. PyTorch raises the one where it was built for the CPU alone, and the other where it was not, and
    programs fall back by either."""


def no_cuda() -> str:
    """That there is no GPU, and why, in the words by which programs know it."""
    why = late.provided("why no cuda")()
    if why.startswith("the driver"):
        return f"No CUDA GPUs are available ({why})"
    return f"Torch not compiled with CUDA enabled: there is no CUDA device here ({why})"


def require(name: str) -> None:
    """Register a device of our own that is first used; raises why it is not there."""
    if find(name):
        return
    if private_use.is_private(name) and private_use.state.is_used:
        raise NotImplementedError(
            f"{name!r} is a back end in Python (PrivateUse1): it has kernels, and no memory, generators or streams that"
            " are asked for here"
        )
    if name == "cuda":
        raise NoDeviceError(f"{no_cuda()}; use device='cpu', or ask cuda.is_available() first")
    if name == "xla":
        raise RuntimeError("the device 'xla' needs the package jaxlib, which is not installed: pip install"
                           " 'rushlight[xla]', or use 'lazy', which needs nothing")
    raise RuntimeError(
        f"this installation has no {name!r} device; use 'cpu', or install a device package that provides it"
    )


_C.set_device_finder(require)


class Device:
    """One kind of device, with one or more units numbered by `index`."""

    name: ClassVar[str]
    scheduler: ClassVar[str] = "cpu"
    """Which loops suit it: "cpu" (few threads, with vectors and caches) or "gpu" (very many threads)."""
    dtypes: ClassVar[Sequence[_C.dtype] | None] = None
    """The types of elements it claims to compute with (`python -m rushlight check` asks for no others); None: all."""

    # Memory
    # -------------------------------------------------------------------------------------------------------------

    def allocate(self, nbytes: int, index: int) -> int:
        """Address of `nbytes` fresh bytes on unit `index`;
        raise RuntimeError or MemoryError when there is not enough memory.

        Called rarely: the core keeps freed memory and cuts tensors from large pieces.
        """
        raise NotImplementedError

    def free(self, address: int, nbytes: int, index: int) -> None:
        """Take back what `allocate` gave; nothing queued uses it any more."""
        raise NotImplementedError

    def copy_from_host(self, target: int, source: int, nbytes: int, index: int) -> None:
        """Host memory at `source` to the device's `target`."""
        raise NotImplementedError

    def copy_to_host(self, target: int, source: int, nbytes: int, index: int) -> None:
        """The device's `source` to host memory at `target`."""
        raise NotImplementedError

    def copy_within(self, target: int, source: int, nbytes: int, index: int) -> None:
        """Device memory to device memory."""
        raise NotImplementedError

    copy_between: ClassVar[Callable | None] = None
    """copy_between(target, source, nbytes, index, source_index), for a device whose units reach each other's memory.
    Without it copies from unit to unit go through the host."""

    memory_info: ClassVar[Callable | None] = None
    """memory_info(index): the bytes that are free on a unit, and all that it has. Without it nobody knows:
    `accelerator.get_memory_info` refuses, and the conformance suite skips what it would judge by it."""

    # Kernels
    # ------------------------------------------------------------------------------------------------------------

    def load(self, nest: Any) -> Any:
        """Make a loop nest runnable; the handle returned is what `launch` gets. Called once per kernel."""
        raise NotImplementedError

    def launch(
        self, handle: Any, pointers: Sequence[int | bytes], params: Sequence[int], begin: int, end: int, index: int
    ) -> None:
        """Run iterations begin..end of the nest's outer loop.

        A pointer given as bytes is a small constant: its bytes are the operand.
        """
        raise NotImplementedError

    launch_pointwise: ClassVar[Callable | None] = None
    """launch_pointwise(handle, pointers, sizes, strides, index), for a device with n-d launches: run a pointwise kernel
    over dims `sizes` (innermost first) with byte strides per operand. Without it,
    `launch` is called for every two inner dims."""

    def implementation(self, op: str) -> Callable | None:
        """This device's own function for a library op (matmul, convolution, linalg_qr, sort, ...),
        called as f(out, *args).

        `out` is a tensor, or a tuple of them, to be filled; None where the result's size depends on data (nonzero):
        then it is returned. Convolutions and attention may return NotImplemented for arguments they do not take.
        Asked once per op. None: products run as a generated kernel; for other ops see `fall_back`.
        """
        return None

    def routines(self) -> Callable | None:
        """LAPACK's routines on this device, for decompositions that `implementation` has no function for:
        f(program, routine, code, args) -> bool, False for a routine it lacks. planners/factors/lapack_device.py says
        what a program is. None: the host computes."""
        return None

    def product(self, code: str) -> Any:
        """A kernel of the device's own for matrix products of a type, as `load` returns kernels;
        None where it has none.

        A step with it has operands a, b and c for c = alpha * a @ b + beta * c, and the parameters m, n, k; for a and
        for b the distance of lines, whether lines are columns, and the distance of matrices; for c the distance of rows
        and of matrices; how many products there are; alpha and beta, by their bits as doubles.
        """
        return None

    def transform(
        self, what: str, code: str, sizes: Sequence[int], batch: int, unit: int
    ) -> tuple[Any, ...] | None:
        """A library's Fourier transform of dense rows ("c2c", "r2c" or "c2r" of parts of type `code`, so many boxes of
        `sizes` points on a unit): what `load` takes for it, the first two parameters of a step with it, and the bytes
        of memory it works in; None where there is none.

        Such a step has the operands source, result and that memory, and a third parameter: -1 forward, 1 back. One to
        real numbers may write to its source.
        """
        return None

    def product_with_bias(self, code: str) -> Any:
        """The same for c = a @ b + bias, with a fourth operand: as many elements, side by side, as c has columns."""
        return None

    def compile(self, graph: Any) -> Any:
        """The whole of a graph that `compile()` captured, for a chip with a compiler of its own: a function that is
        called with the graph's inputs, in order, and returns its outputs as a tuple or list; or NotImplemented, and the
        graph runs as fused kernels of `load`'s, as it does without this method.

        `graph` is an fx.GraphModule whose nodes call ATen's ops, with a tensor like the result of each in `meta["val"]`
        (fakes: sizes that vary are symbols). All its tensors are on this device; a forward and its backward are two
        graphs, the backward's inputs being what the forward's results say. Outputs have the sizes, strides and types
        that `meta["val"]` says. Called once for each graph, and again where sizes that did not vary do.
        """
        return NotImplemented

    loads_written: ClassVar[bool] = False
    """Whether `load` takes kernels of codegen/nvptx/written.py too."""

    loads_tiles: ClassVar[bool] = False
    """Whether `load` takes nests with tiles of products (`loops.nest.Pack`, `Multiply`), made for the vectors of this
    machine's processor, of a device whose scheduler is that of CPUs. Without them products are sums along rows."""

    many_dims: ClassVar[bool] = False
    """Whether launches of pointwise kernels in plans may have more than two dims: behind the parameters that
    `loops.nest.pointwise_nest` names, for each of the others, its size and the byte strides of all operands."""

    def load_many(self, nest: Any) -> Any:
        """A kernel, as `load` returns them, over many tensors at once: `nest` has one loop over elements, from `first`
        to `last`. `_C.update_many` launches it. None where tensors go one by one."""
        return None

    def anticipate(self) -> None:
        """A program is about to be compiled: begin to open what its kernels will need, where the device is used. May do
        nothing."""

    def rehearse(self, call: Callable[[], Any]) -> None:
        """Begin to make the kernels that a call is going to need, several at a time. May do nothing."""

    def own(self, op: str) -> Callable | None:
        """What `implementation` says, kept."""
        known = self.__dict__.setdefault("_own", {})
        if op not in known:
            known[op] = self.implementation(op)
        return known[op]

    def own_or_report(self, op: str, expected: bool = False) -> Callable | None:
        """The device's function for an op that otherwise runs on the host, which is then reported.

        `expected`: it is no surprise (random numbers come from the host's generator),
        so only RUSHLIGHT_SHOW=fallback tells.
        """
        function = self.own(op)
        if function is None:
            if not expected:
                self.fall_back(op)
            if is_shown("fallback"):
                show("fallback", op, f"computed on the host for device '{self.name}'")
        return function

    # library ops the device lacks are computed on the host; False: they are refused
    host_fallback: ClassVar[bool] = True

    def fall_back(self, op: str) -> None:
        """Called before a library op that the device lacks is computed on the host: says so once, or refuses."""
        advice = f"Provide one from Device.implementation({op!r})"
        if not self.host_fallback:
            raise NotImplementedError(
                f"{op}: device '{self.name}' has no implementation. {advice}, or set host_fallback to compute on the"
                " host."
            )
        told = self.__dict__.setdefault("_told", set())
        if op not in told:
            told.add(op)
            warnings.warn(
                f"{op}: device '{self.name}' has no implementation, so it is computed on the host and copied back."
                f" {advice}.",
                RuntimeWarning,
                stacklevel=2,
            )

    def native(self) -> Any:
        """The address of a table of C functions (device_table.h, beside this file), as an int or a capsule: memory,
        copies and launches then go there without Python, and `load` returns ints. None: the methods are called."""
        return None

    # Management
    # -----------------------------------------------------------------------------------------------------------

    def device_count(self) -> int:
        """How many units there are."""
        return 1

    def synchronize(self, index: int | None = None) -> None:
        """Wait until everything launched has finished."""

    accelerator: ClassVar[bool] = False   # True: `rushlight.accelerator` speaks of this device

    # Streams, for a device that queues its work. With `streams = True` the copies, `launch`, `launch_pointwise` and
    # `synchronize` get one argument more, the stream: 0, a unit's first queue, or a number of `new_stream`'s. They may
    # return before the work is done, which each stream does in order;
    # the core waits (`synchronize(index, stream)`) before the host looks.

    streams: ClassVar[bool] = False

    def new_stream(self, index: int, priority: int) -> int:
        """The number of one more queue of unit `index`."""
        raise NotImplementedError(f"device '{self.name}' has one queue")

    def record(self, index: int, stream: int) -> Any:
        """An event: a mark behind what is queued on the stream now."""
        raise NotImplementedError(f"device '{self.name}' has no events")

    def wait(self, event: Any, index: int, stream: int) -> None:
        """What is queued on the stream from now on runs after the mark, which may be on another stream or unit."""
        raise NotImplementedError(f"device '{self.name}' has no events")

    def finish(self, event: Any) -> None:
        """Return when the mark is reached."""
        raise NotImplementedError(f"device '{self.name}' has no events")

    def query(self, event: Any) -> bool:
        """Whether the mark is reached."""
        raise NotImplementedError(f"device '{self.name}' has no events")

    def elapsed(self, start: Any, end: Any) -> float:
        """Milliseconds between two marks."""
        raise NotImplementedError(f"device '{self.name}' measures no time")


def register(device: Device) -> int:
    """Make a device usable by its name; returns its number in the core. Refuses devices that lack a method (TypeError),
    and names that others have."""
    if not isinstance(device, Device):
        raise TypeError(f"register: expected a Device, got {type(device).__name__}")
    native = device.native()
    for method in (
        ("load",)
        if native is not None
        else ("allocate", "free", "copy_from_host", "copy_to_host", "copy_within", "load", "launch")
    ):
        if getattr(type(device), method, None) is getattr(Device, method, None):
            raise TypeError(f"register: device '{device.name}' must implement {method}")
    if private_use.state.is_used and private_use.is_private(device.name):
        raise RuntimeError(f"register: {device.name!r} is the name of a back end of PyTorch's kind (PrivateUse1) here")
    check_name(device)
    number = _C.register_device(device.name, device, native)
    handlers[device.name] = device
    setattr(Tensor, f"is_{device.name}", property(lambda self: self.device.type == device.name))
    setattr(Tensor, device.name, mover(device.name))
    return number


def check_name(device: Device) -> None:
    """Refuse a device whose name is no word, another's, or that of something tensors have."""
    name = getattr(device, "name", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"register: expected a device's name to be a word, got {name!r} of {type(device).__name__}")
    if name == "cuda" and type(device).__module__.startswith(f"{__package__}.cuda"):
        return
    if name in ("cpu", "meta", "cuda") or name in handlers:
        own = type(device).__name__
        raise RuntimeError(f"register: there is a device '{name}' already. Choose another name for {own}.")
    taken = next((a for a in (name, f"is_{name}") if hasattr(Tensor, a)), None)
    if taken is not None and name not in _C.device_types():      # programs name PyTorch's own where none is here
        raise ValueError(f"register: tensors have a '{taken}' already, so no device can be named '{name}'")


def mover(name: str) -> Callable:
    """The method that brings a tensor to a device of this name."""

    def move(
        self: Tensor,
        device: _C.device | str | int | None = None,
        non_blocking: bool = False,
        memory_format: object = None,
    ) -> Tensor:
        place = name if device is None else f"{name}:{device}" if isinstance(device, int) else device
        if _C.device(place).type != name:
            raise RuntimeError(f"Invalid device, must be {name} device: {name}() got {device!r}")
        options: dict[str, Any] = {} if memory_format is None else {"memory_format": memory_format}
        return self.to(place, non_blocking=non_blocking, **options)

    move.__name__ = move.__qualname__ = name
    move.__doc__ = f"The tensor on a {name} device: the current one unless told."
    return move


def find_accelerator() -> Device | None:
    """The registered device that says it is the accelerator, or our own where a package brings none."""
    found = next((handler for handler in handlers.values() if handler.accelerator), None)
    return handlers["cuda"] if found is None and find("cuda") else found


def registered() -> list[str]:
    """Names of the registered devices."""
    return list(handlers)


def at_unit(device: _C.device) -> _C.device:
    """The very unit that is meant by a device: this thread's current one where it names none, 0 where the device is not
    there (tensors without data may claim to be on it)."""
    if device.index is not None or device.type in ("cpu", "meta"):
        return device
    return _C.device(device.type, _C.current_unit(device.type) if device.type in handlers else 0)


def told_apart(device: _C.device) -> Any:
    """What names of things on disk say of a device: two chips that one of these tells apart share nothing there."""
    handler = handlers.get(device.type)
    if handler is None:
        return str(device)
    kind = type(handler)
    return (str(device), kind.__module__, kind.__qualname__, handler.scheduler, handler.many_dims,
            handler.loads_written, handler.launch_pointwise is not None)


def device_of(args: tuple) -> _C.device:
    """The device a call runs on."""
    first = None
    for a in args:
        for t in a if isinstance(a, (list, tuple)) else (a,):
            if isinstance(t, _C.Tensor):
                if t.ndim or t.device.type != "cpu":
                    return t.device
                first = first or t.device
    return first or _C.device("cpu")


class _Place(threading.local):
    """A thread's default device, those outside the `with device:` blocks it is in, and its current units."""

    device: _C.device = _C.device("cpu")

    def __init__(self) -> None:
        self.outside: list[_C.device] = []
        self.units: dict[str, int] = {}   # current units that are not 0, by name of the device


_place = _Place()
_order: dict[tuple, int] = {("cpu", ()): 0}   # default devices and current units there have been: each keeps its plans


def default_device() -> _C.device:
    """Where new tensors go when no device is named.

    Example:
        >>> rl.get_default_device()
        device(type='cpu')
    """
    return _place.device


def placed() -> _C.device | None:
    """The default device, or None where that is the CPU:
    for functions that make tensors there unless told otherwise."""
    device = _place.device
    return device if device.type != "cpu" else None


def set_default_device(device: _C.device | str | int | None) -> None:
    """Make `device` the place of this thread's new tensors; None means cpu.

    Arguments:
        device: a device, or its name; None for the CPU

    Example:
        >>> rl.set_default_device("meta")
        >>> rl.ones(2).device
        device(type='meta')
        >>> rl.set_default_device(None)
    """
    chosen = _C.device("cpu" if device is None else device)
    _place.device = chosen
    _choose_plans()


def set_unit(device: _C.device | str | int) -> None:
    """Make a unit the one this thread means by its kind of device without an index."""
    chosen = _C.device(device)
    _C.set_unit(chosen)
    _place.units.pop(chosen.type, None)
    if chosen.index:
        _place.units[chosen.type] = chosen.index
    _choose_plans()


def _choose_plans() -> None:
    """Plans made for other places of new tensors wait until those are chosen again."""
    _C.choose_plans(1, _order.setdefault((str(_place.device), tuple(sorted(_place.units.items()))), len(_order)))


def enter(device: _C.device) -> _C.device:
    """`with device:` makes it the default device until the block ends."""
    _place.outside.append(_place.device)
    set_default_device(device)
    return device


def leave(device: _C.device, *exc: object) -> None:
    """The end of `with device:`."""
    set_default_device(_place.outside.pop())


# The core's class has no such methods of its own: the stub says what it has from here on.
_C.device.__enter__, _C.device.__exit__ = enter, leave   # type: ignore[method-assign]
