"""cuDNN's graphs: operations described once for a geometry, then run with addresses.

Enters: tensors described by sizes and strides, and operations over them. Leaves: a `Prepared`, which `run` starts on
the current stream with the tensors it is given. Refuses: what no engine of the library does, by RuntimeError; callers
then compute otherwise. The library is opened when first asked for; `find()` is None where it is not installed.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from ... import _C
from ..._C import Tensor
from ..rehearsal import rehearsal
from . import libraries
from .kernels import workers

# Kinds of descriptors, of attributes' values and of numbers, as the library's interface counts them.
POINTWISE, CONVOLUTION, ENGINE, ENGINE_CONFIG, HEURISTIC, PLAN = 0, 1, 2, 3, 4, 5
FORWARD, BACKWARD_FILTER, BACKWARD_DATA, OP_POINTWISE, GRAPH, TENSOR = 10, 11, 12, 13, 15, 17
MATMUL, OP_MATMUL, REDUCTION, OP_REDUCTION, RESHAPE, RANDOM, OP_RANDOM = 18, 19, 21, 22, 31, 32, 33
HANDLE, DATA_TYPE, BOOLEAN, INT64, FLOAT, POINTER, CONV_MODE, HEURISTIC_MODE = 0, 1, 2, 3, 4, 6, 7, 8
DOUBLE, NOTE, POINTWISE_MODE, DESCRIPTOR, REDUCTION_OPERATOR, LAW = 5, 11, 14, 15, 18, 29
DATA = {"f32": 0, "f64": 1, "f16": 2, "i8": 3, "i32": 4, "bf16": 9, "i64": 10, "b1": 11}
MODES = {
    "add": 0, "mul": 1, "div": 6, "sub": 9, "exp": 13, "log": 15, "identity": 21, "ge": 303, "index": 501,
    "select": 601,
}
C_TYPES = {
    HANDLE: ctypes.c_void_p, DATA_TYPE: ctypes.c_int, BOOLEAN: ctypes.c_bool, INT64: ctypes.c_int64,
    FLOAT: ctypes.c_float, DOUBLE: ctypes.c_double, POINTER: ctypes.c_void_p, CONV_MODE: ctypes.c_int,
    HEURISTIC_MODE: ctypes.c_int, POINTWISE_MODE: ctypes.c_int, DESCRIPTOR: ctypes.c_void_p,
    REDUCTION_OPERATOR: ctypes.c_int, LAW: ctypes.c_int,
}
INSTANT, THOROUGH = 0, 3        # how engines are ranked
ALIGNMENT = 16
MOST_GRAPHS = 512
CONFIGS, NOTES = 32, 16         # engines that are looked at, and what they say of themselves
MATRIX_UNITS = 0                # a note: products are rounded as matrix units round them


class Library:
    """The library, and a handle of it for each thread and unit."""

    def __init__(self, path: str) -> None:
        self.functions = ctypes.CDLL(path)
        self.functions.cudnnGetVersion.restype = ctypes.c_size_t
        self.own = threading.local()

    def call(self, name: str, *args: object) -> None:
        """Call a function; raises what it answers."""
        status = getattr(self.functions, name)(*args)
        if status:
            text = ctypes.create_string_buffer(1024)
            self.functions.cudnnGetLastErrorString(text, ctypes.c_size_t(len(text)))
            raise RuntimeError(f"cudnn: {name} failed ({status}): {text.value.decode(errors='replace')}")

    def handle(self, device: _C.device) -> ctypes.c_void_p:
        """This thread's handle for a unit, queueing on the unit's current stream."""
        known = self.own.__dict__.setdefault("handles", {})
        _C.cuda_enter(device.index or 0)
        if device.index not in known:
            result = ctypes.c_void_p()
            self.call("cudnnCreate", ctypes.byref(result))
            known[device.index] = [result, None]
        entry, stream = known[device.index], _C.stream_handle(device)
        if entry[1] != stream:
            self.call("cudnnSetStream", entry[0], ctypes.c_void_p(stream))
            entry[1] = stream
        return entry[0]


@functools.cache
def find() -> Library | None:
    """The library; None where it is not installed."""
    for path in libraries.places(("libcudnn.so.9",)):
        try:
            _C.cudnn_open(path)
            return Library(path)
        except OSError:
            continue
    return None


def installed() -> Library:
    """The library, for functions that are given only where it is."""
    found = find()
    assert found is not None, "cuDNN is not installed"
    return found


class Descriptor:
    """One descriptor of the library, which is destroyed with it."""

    def __init__(self, library: Library, kind: int) -> None:
        self.library, self.address = library, ctypes.c_void_p()
        self.kept: list[Any] = []          # what it names must live as long
        library.call("cudnnBackendCreateDescriptor", kind, ctypes.byref(self.address))

    def set(self, attribute: int, kind: int, *values: Any) -> Descriptor:
        """Give an attribute its values."""
        if kind == DESCRIPTOR:
            self.kept.extend(values)
            values = tuple([v.address.value for v in values])
        elif kind == HANDLE:
            values = tuple([v.value for v in values])
        array = (C_TYPES[kind] * max(1, len(values)))(*values)
        self.library.call(
            "cudnnBackendSetAttribute", self.address, attribute, kind, ctypes.c_int64(len(values)), array
        )
        return self

    def done(self) -> Descriptor:
        """Finish it; it can be used then."""
        self.library.call("cudnnBackendFinalize", self.address)
        return self

    def number(self, attribute: int) -> int:
        """An attribute that is one integer."""
        found, count = ctypes.c_int64(), ctypes.c_int64()
        self.library.call(
            "cudnnBackendGetAttribute", self.address, attribute, INT64, ctypes.c_int64(1), ctypes.byref(count),
            ctypes.byref(found),
        )
        return found.value

    def __del__(self) -> None:
        if self.address:
            self.library.functions.cudnnBackendDestroyDescriptor(self.address)


class Graph:
    """Operations in the making. Tensors are numbered as they are described."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.count = 0
        self.operations: list[Descriptor] = []
        self.given: list[int] = []                     # numbers of tensors that a run brings, in the order described
        self.values: list[tuple[int, float]] = []      # numbers by value

    def tensor(
        self, code: str, sizes: Sequence[int], strides: Sequence[int] | None = None, virtual: bool = False
    ) -> Descriptor:
        """A tensor: one that a run brings, or with `virtual` one that never reaches memory."""
        result = Descriptor(self.library, TENSOR).set(901, DATA_TYPE, DATA[code]).set(902, INT64, *sizes)
        result.set(903, INT64, *(dense(sizes) if strides is None else strides))
        result.set(906, INT64, self.count).set(900, INT64, ALIGNMENT)
        if virtual:
            result.set(907, BOOLEAN, True)
        else:
            self.given.append(self.count)
        self.count += 1
        return result.done()

    def value(self, number: float) -> Descriptor:
        """A single-precision number that travels with every run."""
        result = Descriptor(self.library, TENSOR).set(901, DATA_TYPE, DATA["f32"]).set(902, INT64, 1, 1, 1, 1)
        result.set(903, INT64, 1, 1, 1, 1).set(906, INT64, self.count)
        result.set(900, INT64, ALIGNMENT).set(908, BOOLEAN, True)
        self.values.append((self.count, number))
        self.count += 1
        return result.done()

    def matmul(self, a: Descriptor, b: Descriptor, c: Descriptor) -> Descriptor:
        """c = a @ b."""
        kind = Descriptor(self.library, MATMUL).set(1500, DATA_TYPE, DATA["f32"]).done()
        result = Descriptor(self.library, OP_MATMUL).set(1520, DESCRIPTOR, a).set(1521, DESCRIPTOR, b)
        self.operations.append(result.set(1522, DESCRIPTOR, c).set(1523, DESCRIPTOR, kind).done())
        return c

    def point(
        self, mode: str, x: Descriptor, y: Descriptor, b: Descriptor | None = None, *, t: Descriptor | None = None,
        axis: int | None = None,
    ) -> Descriptor:
        """y = x `mode` b, element by element; `t` chooses between x and b; `axis` is that of an index."""
        kind = Descriptor(self.library, POINTWISE).set(0, POINTWISE_MODE, MODES[mode])
        kind.set(1, DATA_TYPE, DATA["b1" if mode == "ge" else "f32"])
        if axis is not None:
            kind.set(9, INT64, axis)
        result = Descriptor(self.library, OP_POINTWISE).set(750, DESCRIPTOR, kind.done())
        result.set(751, DESCRIPTOR, x).set(753, DESCRIPTOR, y)
        for attribute, other in ((752, b), (758, t)):
            if other is not None:
                result.set(attribute, DESCRIPTOR, other)
        self.operations.append(result.set(754, FLOAT, 1.0).set(755, FLOAT, 1.0).done())
        return y

    def reduce(self, how: str, x: Descriptor, y: Descriptor) -> Descriptor:
        """y = the sum, or the largest, of the elements of x that fall onto each of y's."""
        kind = Descriptor(self.library, REDUCTION).set(1601, DATA_TYPE, DATA["f32"])
        kind.set(1600, REDUCTION_OPERATOR, {"sum": 0, "max": 3}[how]).done()
        result = Descriptor(self.library, OP_REDUCTION).set(1612, DESCRIPTOR, kind)
        self.operations.append(result.set(1610, DESCRIPTOR, x).set(1611, DESCRIPTOR, y).done())
        return y

    def chosen(self, keep: float, seed: Descriptor, offset: Descriptor, y: Descriptor) -> Descriptor:
        """y is 1 with probability `keep` and 0 otherwise: noise that seed and offset name."""
        law = Descriptor(self.library, RANDOM).set(2300, LAW, 0).set(2305, DOUBLE, keep).done()
        result = Descriptor(self.library, OP_RANDOM).set(2312, DESCRIPTOR, law).set(2310, DESCRIPTOR, y)
        self.operations.append(result.set(2311, DESCRIPTOR, seed).set(2313, DESCRIPTOR, offset).done())
        return y

    def turn(self, x: Descriptor, y: Descriptor) -> Descriptor:
        """y is x with other sizes and strides."""
        result = Descriptor(self.library, RESHAPE).set(2200, DESCRIPTOR, x).set(2201, DESCRIPTOR, y).done()
        self.operations.append(result)
        return y

    def convolve(
        self, kind: int, attributes: Sequence[int], tensors: Sequence[Descriptor], stride: Sequence[int],
        padding: Sequence[int], dilation: Sequence[int], compute: str,
    ) -> None:
        """A convolution, or the gradient of its input or of its weight. `attributes` say what `tensors` are."""
        how = Descriptor(self.library, CONVOLUTION).set(100, DATA_TYPE, DATA[compute]).set(101, CONV_MODE, 1)
        how.set(106, INT64, len(stride)).set(105, INT64, *padding).set(104, INT64, *padding)
        how.set(102, INT64, *dilation).set(103, INT64, *stride).done()
        description, alpha, beta = {FORWARD: (702, 700, 701), BACKWARD_DATA: (708, 706, 707),
                                    BACKWARD_FILTER: (714, 712, 713)}[kind]
        result = Descriptor(self.library, kind).set(description, DESCRIPTOR, how)
        for attribute, tensor in zip(attributes, tensors, strict=True):
            result.set(attribute, DESCRIPTOR, tensor)
        number = DOUBLE if compute == "f64" else FLOAT
        self.operations.append(result.set(alpha, number, 1.0).set(beta, number, 0.0).done())

    def prepare(self, device: _C.device, mode: int = THOROUGH, most: int = 1 << 33, exact: bool = False) -> Prepared:
        """The first of the library's engines for the graph that works, with at most `most` bytes of its own; `exact`:
        one that rounds no operand to fewer digits for matrix units."""
        handle = self.library.handle(device)
        graph = Descriptor(self.library, GRAPH).set(801, DESCRIPTOR, *self.operations).set(800, HANDLE, handle).done()
        why = RuntimeError("cudnn: no engine for this graph")
        for tried in (mode, 2):         # then those without a promise of speed
            ranked = Descriptor(self.library, HEURISTIC).set(201, DESCRIPTOR, graph).set(200, HEURISTIC_MODE, tried)
            try:
                configs = self.configs(ranked.done())
            except RuntimeError as error:
                why = error
                continue
            for config in configs:
                if exact and uses_matrix_units(config):
                    continue
                try:
                    plan = Descriptor(self.library, PLAN).set(401, DESCRIPTOR, config).done()
                    if plan.number(402) <= most:
                        plan.kept += [ranked, graph]
                        return Prepared(plan, self.given, self.values)
                except RuntimeError as error:
                    why = error
        raise why

    def configs(self, ranked: Descriptor) -> list[Descriptor]:
        """What the library suggests, the best first."""
        found = [Descriptor(self.library, ENGINE_CONFIG) for _ in range(CONFIGS)]
        array = (ctypes.c_void_p * CONFIGS)(*[one.address.value for one in found])
        count = ctypes.c_int64()
        self.library.call(
            "cudnnBackendGetAttribute", ranked.address, 202, DESCRIPTOR, ctypes.c_int64(CONFIGS), ctypes.byref(count),
            array,
        )
        return found[: count.value]


def uses_matrix_units(config: Descriptor) -> bool:
    """Whether an engine says that it multiplies on matrix units."""
    library, count = config.library, ctypes.c_int64()
    engine = Descriptor(library, ENGINE)
    array = (ctypes.c_void_p * 1)(engine.address.value)
    one, many = ctypes.c_int64(1), ctypes.c_int64(NOTES)
    library.call(
        "cudnnBackendGetAttribute", config.address, 300, DESCRIPTOR, one, ctypes.byref(count), array
    )
    notes = (ctypes.c_int * NOTES)()
    library.call("cudnnBackendGetAttribute", engine.address, 1303, NOTE, many, ctypes.byref(count), notes)
    return MATRIX_UNITS in notes[: count.value]


class Prepared:
    """A graph that can run."""

    def __init__(self, plan: Descriptor, given: Sequence[int], values: Sequence[tuple[int, float]]) -> None:
        self.plan, self.library = plan, plan.library
        ids, numbers = (*given, *[k for k, _ in values]), tuple([v for _, v in values])
        assert plan.address.value is not None, "a plan that is done has an address"
        self.graph = _C.cudnn_prepared(plan.address.value, plan.number(402), ids, numbers)
        weakref.finalize(self, _C.cudnn_forget, self.graph)

    def run(self, *tensors: Tensor) -> None:
        """Queue it on the current stream, over the tensors described, in their order."""
        _C.cudnn_run(self.graph, self.library.handle(tensors[0].device).value, *tensors)


class Rehearsed:
    """A graph that is being made."""

    def run(self, *tensors: Tensor) -> None:
        """Nothing: who rehearses computes nothing."""


class GraphCache:
    """Graphs by what they are made of. In a rehearsal one that is new is made by a thread of its own, which the library
    takes most of a second for, and nothing is run."""

    def __init__(self, make: Callable[..., Prepared | None]) -> None:
        self.make = make
        self.known: dict[tuple, Prepared | Future[Prepared | None] | None] = {}

    def __call__(self, *key: Any) -> Prepared | Rehearsed | None:
        if key not in self.known:
            if len(self.known) >= MOST_GRAPHS:
                self.known.clear()
            self.known[key] = workers().submit(self.make, *key) if rehearsal.running else self.make(*key)
        if rehearsal.running:
            return Rehearsed()
        found = self.known[key]
        if isinstance(found, Future):
            found = self.known[key] = found.result()
        return found


def dense(sizes: Sequence[int]) -> tuple[int, ...]:
    """Strides of a new tensor."""
    strides, reach = [], 1
    for n in reversed(sizes):
        strides.append(reach)
        reach *= n
    return tuple(reversed(strides))
