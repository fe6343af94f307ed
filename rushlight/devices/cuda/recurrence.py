"""Recurrent networks by cuDNN: all layers, directions and steps of lstm, gru and rnn as one call of the library.

Enters: rows of input grouped by step with the number of rows of each, first states [layers * directions, batch, width]
and weights in one row of memory, laid out as `sizes` says. Leaves: outputs, last states and, where there will be a
gradient, what the library keeps for it; backward, the gradients, those of the weights in such a row too. Refuses, by
None from `sizes`, what the library does not do: callers then compute step by step.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

from ... import _C
from ..._C import Tensor
from ...base.settings import conv_tf32
from ...loops.record import Record
from .cudnn import DATA, Library, installed

MODES = {"relu": 0, "tanh": 1, "lstm": 2, "gru": 3}
GATES = {"relu": 1, "tanh": 1, "lstm": 4, "gru": 3}
PROJECTION = 8                  # how the library numbers the matrix that narrows the states of an LSTM
STANDARD, PERSISTENT, SMALL = 0, 1, 3      # ways to compute: for everything; weights stay in registers; few of them
WIDEST, MOST_ROWS, MULTIPLE = 1024, 128, 64      # states and batches that are faster by PERSISTENT, in halves
NO_BIAS, TWO_BIASES = 0, 2
ANY_MATH, MATRIX_MATH, EXACT_MATH = 0, 1, 3
PACKED_STEPS = 1                # rows of a step lie side by side, and steps after one another without gaps
INFERENCE, TRAINING = 0, 1
ADD = 0                         # gradients of weights are added to what is there
ITEM = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2}
MOST_DIMS, MOST_KNOWN = 8, 512

Place = tuple[int, tuple[int, ...]]     # the first element of a weight, and its sizes


class Sizes(Record):
    """What memory a network needs: elements of all weights together and where each lies there, in the order of the
    op's weights; bytes that are kept for a gradient."""

    space: int
    places: tuple[Place, ...]
    reserve: int


class Network(Record):
    """What a network is made of, whatever it reads."""

    device: _C.device
    code: str
    mode: str
    features: int
    hidden: int
    width: int           # of the states: smaller than `hidden` where they are projected
    layers: int
    directions: int
    has_biases: bool
    exact: bool = False  # numbers must not be rounded to TF32
    way: int = STANDARD


class Described:
    """One descriptor of the library, which is destroyed with it."""

    def __init__(self, library: Library, kind: str, kept: Any = None) -> None:
        self.library, self.kind, self.address = library, kind, ctypes.c_void_p()
        self.kept = kept          # what it names must live as long
        library.call(f"cudnnCreate{kind}Descriptor", ctypes.byref(self.address))

    def __del__(self) -> None:
        if self.address:
            getattr(self.library.functions, f"cudnnDestroy{self.kind}Descriptor")(self.address)


def way_of(network: Network, runs: Sequence[int]) -> int:
    """The way that was the fastest of those with right answers when all were measured (on an H200)."""
    n = network
    if n.code not in ("f32", "f16") or len(runs) != 2 or n.width != n.hidden:
        return STANDARD
    if n.hidden <= (256 if n.code == "f32" and n.mode in ("tanh", "relu") else 128):
        return SMALL
    fits = n.hidden <= WIDEST and n.hidden % MULTIPLE == 0 and runs[1] <= MOST_ROWS
    return PERSISTENT if n.code == "f16" and fits else STANDARD


@functools.lru_cache(maxsize=1024)
def chosen(network: Network, runs: tuple[int, ...]) -> Network:
    """The network, computed in the way that suits it and that the library takes."""
    faster = network.but(way=way_of(network, runs))
    try:
        if faster.way != STANDARD and weights(faster) == weights(network):
            geometry(faster, runs)
            return faster
    except RuntimeError:      # what it does not do this way
        pass
    return network


@functools.lru_cache(maxsize=256)
def descriptor(network: Network) -> Described:
    """The library's description of a network; RuntimeError where it refuses."""
    library, n = installed(), network
    without = Described(library, "Dropout")
    library.call("cudnnSetDropoutDescriptor", without.address, library.handle(n.device), ctypes.c_float(0.0), None,
                 ctypes.c_size_t(0), ctypes.c_ulonglong(0))
    result = Described(library, "RNN", without)
    half = n.code in ("f16", "bf16")
    math = MATRIX_MATH if half else EXACT_MATH if n.exact else ANY_MATH
    library.call(
        "cudnnSetRNNDescriptor_v8", result.address, n.way, MODES[n.mode], TWO_BIASES if n.has_biases else NO_BIAS,
        n.directions - 1, 0, DATA[n.code], DATA["f32" if half else n.code], math, n.features, n.hidden, n.width,
        n.layers, without.address, ctypes.c_uint(0),
    )
    return result


@functools.lru_cache(maxsize=256)
def weights(network: Network) -> tuple[int, tuple[Place, ...]]:
    """Elements of all weights together, and where each lies; RuntimeError where two that are one tensor here do not lie
    side by side."""
    library, n = installed(), network
    handle, described = library.handle(n.device), descriptor(network)
    size = ctypes.c_size_t()
    library.call("cudnnGetRNNWeightSpaceSize", handle, described.address, ctypes.byref(size))
    space = _C.empty((size.value,), None, _C.uint8, n.device)
    item = ITEM[n.code]

    def place(layer: int, first: int, count: int, biased: bool) -> Place:
        parts = [part(library, handle, described, layer, space, k, biased) for k in range(first, first + count)]
        for (start, sizes), (following, others) in pairwise(parts):
            if sizes != others or start + prod(sizes) * item != following:
                raise RuntimeError("cudnn: the weights of gates do not lie side by side")
        start, (rows, *columns) = parts[0]
        return start // item, (rows * count, *columns)

    gates, places = GATES[n.mode], []
    for layer in range(n.layers * n.directions):
        places += [place(layer, 0, gates, False), place(layer, gates, gates, False)]
        if n.has_biases:
            places += [place(layer, 0, gates, True), place(layer, gates, gates, True)]
        if n.width != n.hidden:
            places.append(place(layer, PROJECTION, 1, False))
    return size.value // item, tuple(places)


def part(
    library: Library, handle: ctypes.c_void_p, network: Described, layer: int, space: Tensor, number: int, biased: bool
) -> tuple[int, tuple[int, ...]]:
    """The first byte and the sizes of a gate's matrix, or bias."""
    matrix, bias = Described(library, "Tensor"), Described(library, "Tensor")
    at, bias_at = ctypes.c_void_p(), ctypes.c_void_p()
    library.call(
        "cudnnGetRNNWeightParams", handle, network.address, layer, ctypes.c_size_t(space.numel()), address(space),
        number, matrix.address, ctypes.byref(at), bias.address, ctypes.byref(bias_at),
    )
    of, start = (bias, bias_at) if biased else (matrix, at)
    if not start.value:
        raise RuntimeError("cudnn: a weight has no place")
    kind, dims = ctypes.c_int(), ctypes.c_int()
    sizes, strides = (ctypes.c_int * MOST_DIMS)(), (ctypes.c_int * MOST_DIMS)()
    library.call(
        "cudnnGetTensorNdDescriptor", of.address, MOST_DIMS, ctypes.byref(kind), ctypes.byref(dims), sizes, strides
    )
    _, rows, columns = sizes[: dims.value]
    return start.value - space.data_ptr(), (rows,) if biased else (rows, columns)


class Geometry:
    """A network over sequences of certain lengths: descriptors, and the bytes that calls need."""

    def __init__(self, network: Network, runs: tuple[int, ...]) -> None:
        self.library, self.network, n = installed(), descriptor(network), network
        counts, rows = runs[::2], runs[1::2]
        batch = max(rows)
        lengths = [0] * batch
        for count, size in zip(counts, rows, strict=True):
            lengths[:size] = [length + count for length in lengths[:size]]
        self.x = self.rows(n, n.features, lengths)
        self.y = self.rows(n, n.width * n.directions, lengths)
        self.h = self.states(n, n.width, batch)
        self.c = self.states(n, n.hidden, batch)
        self.temporary, self.reserve = {}, 0
        for mode in (INFERENCE, TRAINING):
            work, kept = ctypes.c_size_t(), ctypes.c_size_t()
            self.library.call(
                "cudnnGetRNNTempSpaceSizes", self.library.handle(n.device), self.network.address, mode, self.x.address,
                ctypes.byref(work), ctypes.byref(kept),
            )
            self.temporary[mode], self.reserve = work.value, kept.value

    def rows(self, n: Network, width: int, lengths: Sequence[int]) -> Described:
        """Rows of sequences."""
        result = Described(self.library, "RNNData")
        self.library.call(
            "cudnnSetRNNDataDescriptor", result.address, DATA[n.code], PACKED_STEPS, max(lengths), len(lengths), width,
            (ctypes.c_int * len(lengths))(*lengths), None,
        )
        return result

    def states(self, n: Network, width: int, batch: int) -> Described:
        """States of all layers and directions."""
        result = Described(self.library, "Tensor")
        sizes, strides = (n.layers * n.directions, batch, width), (batch * width, width, 1)
        self.library.call(
            "cudnnSetTensorNdDescriptor", result.address, DATA[n.code], 3, (ctypes.c_int * 3)(*sizes),
            (ctypes.c_int * 3)(*strides),
        )
        return result

    def space(self, mode: int, device: _C.device) -> tuple[Tensor, tuple[ctypes.c_size_t, ctypes.c_void_p]]:
        """Memory for the length of a call; its bytes and address."""
        own = _C.empty((max(1, self.temporary[mode]),), None, _C.uint8, device)
        return own, (ctypes.c_size_t(self.temporary[mode]), address(own))


geometry = functools.lru_cache(maxsize=512)(Geometry)
_known: dict[tuple, Geometry] = {}


def sizes(
    device: _C.device, code: str, mode: str, features: int, hidden: int, width: int, layers: int, directions: int,
    has_biases: bool, runs: Sequence[int],
) -> Sizes | None:
    """What memory a network over such sequences needs; None where the library does not serve it."""
    if code not in ITEM or any(later > size for size, later in pairwise(runs[1::2])):
        return None
    known = Network(device, code, mode, features, hidden, width, layers, directions, has_biases)
    return known_sizes(known, tuple(runs))


@functools.lru_cache(maxsize=1024)
def known_sizes(network: Network, runs: tuple[int, ...]) -> Sizes | None:
    try:
        both = [network, network.but(exact=True)] if network.code == "f32" else [network]
        (space, places), *others = [weights(one) for one in both]
        if any(other != (space, places) for other in others):
            return None
        return Sizes(space, places, max(geometry(chosen(one, runs), runs).reserve for one in both))
    except RuntimeError:
        return None


def geometry_of(
    data: Tensor, states: Sequence[Tensor], mode: str, runs: Sequence[int], has_biases: bool, bidirectional: bool
) -> Geometry:
    """Of what network these are, over such sequences."""
    exact = data.dtype is _C.float32 and not conv_tf32()
    count, _, width = states[0].shape
    key = (data.device, data.dtype.code, mode, data.shape[1], states[-1].shape[2], width, count, bidirectional,
           has_biases, exact, tuple(runs))
    found = _known.get(key)
    if found is None:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        directions = 1 + bidirectional
        network = Network(*key[:6], count // directions, directions, has_biases, exact)
        found = _known[key] = geometry(chosen(network, key[-1]), key[-1])
    return found


def address(t: Tensor | None) -> ctypes.c_void_p:
    """Where a tensor lies; NULL for none."""
    return ctypes.c_void_p(None if t is None else t.data_ptr())


def memory(t: Tensor) -> tuple[ctypes.c_size_t, ctypes.c_void_p]:
    """The bytes of a tensor, and where it lies."""
    return ctypes.c_size_t(t.numel() * t.itemsize), address(t)


def forward(
    outs: tuple, data: Tensor, states: Sequence[Tensor], space: Tensor, mode: str, runs: Sequence[int],
    has_biases: bool, bidirectional: bool, keeps: bool,
) -> None:
    """Fill (outputs, last h, last c, what is kept)."""
    found, library = geometry_of(data, states, mode, runs, has_biases, bidirectional), installed()
    data, (h, *cells) = data.contiguous(), [s.contiguous() for s in states]
    out, last_h, last_c, reserve = outs
    phase = TRAINING if keeps else INFERENCE
    own, temporary = found.space(phase, data.device)
    library.call(
        "cudnnRNNForward", library.handle(data.device), found.network.address, phase, None, found.x.address,
        address(data), found.y.address, address(out), found.h.address, address(h), address(last_h), found.c.address,
        address(cells[0] if cells else None), address(last_c if cells else None), *memory(space), *temporary,
        *memory(reserve),
    )
    del own


def backward(
    outs: tuple, grad_out: Tensor, grad_h: Tensor | None, grad_c: Tensor | None, data: Tensor, states: Sequence[Tensor],
    space: Tensor, out: Tensor, kept: Tensor, mode: str, runs: Sequence[int], has_biases: bool,
    bidirectional: bool, weighs: bool,
) -> None:
    """Fill the gradients of (rows, h, c, weights), the last where `weighs` says so."""
    found, library = geometry_of(data, states, mode, runs, has_biases, bidirectional), installed()
    data, (h, *cells) = data.contiguous(), [s.contiguous() for s in states]
    slopes = [None if g is None else g.contiguous() for g in (grad_out, grad_h, grad_c)]
    d_data, d_h, d_c, d_space = outs
    kept = kept.clone()          # it is written to, and there may be another backward pass
    own, temporary = found.space(TRAINING, data.device)
    handle = library.handle(data.device)
    library.call(
        "cudnnRNNBackwardData_v8", handle, found.network.address, None, found.y.address, address(out),
        address(slopes[0]), found.x.address, address(d_data), found.h.address, address(h), address(slopes[1]),
        address(d_h), found.c.address, address(cells[0] if cells else None), address(slopes[2]),
        address(d_c if cells else None), *memory(space), *temporary, *memory(kept),
    )
    if weighs:
        d_space.zero_()
        library.call(
            "cudnnRNNBackwardWeights_v8", handle, found.network.address, ADD, None, found.x.address, address(data),
            found.h.address, address(h), found.y.address, address(out), *memory(d_space), *temporary, *memory(kept),
        )
    del own
