"""Random numbers on CUDA devices: PyTorch's, for the same seed.

Enters: a tensor to fill, a generator (seed, and how much was drawn), a law and its numbers. Leaves: the tensor filled
by a generated kernel (codegen/nvptx/philox.py) and the generator moved on as PyTorch moves it: by what the threads of
its launch draw, so the numbers depend on how many multiprocessors the unit has, there as here. Kernels that are
captured into a graph read seed and counter from memory, which `prepare` writes before each run of the graph.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from ... import _C
from ..._C import Generator, Tensor
from ...codegen.nvptx.philox import (
    LAWS,
    LOW,
    bernoulli_nest,
    dropout_nest,
    fill_nest,
    from_memory,
    ordered_nest,
    start_nest,
    unroll,
)
from . import random_sources, sources
from .captures import Drawn, captures

BLOCK, EACH = 256, 4         # threads of a block, words of a draw
WIDE_RANGE = 1 << 28         # from which on integers take two words
# how many integers, from 0 on, the whole range of a type has
WHOLE = {"i64": 1 << 63, "i32": 1 << 31, "i16": 1 << 15, "i8": 1 << 7, "u8": 1 << 8, "b1": 2, "f64": (1 << 53) + 1,
         "f32": (1 << 24) + 1, "f16": (1 << 11) + 1, "bf16": (1 << 8) + 1}
VECTORS = {2: 8, 4: 4, 8: 2}     # elements that a thread of dropout takes at once, by their size
TENSOR_DRAWS = 12            # what `bernoulli` of a tensor moves a generator by
_kernels: dict[tuple, Any] = {}


def samplers(device: Any) -> dict[str, Callable]:
    """The functions that `Device.implementation` answers with, by the names of the laws."""

    def sampler(law: str) -> Callable:
        return lambda out, generator, *numbers: fill(device, law, out, generator, numbers)

    results: dict[str, Callable] = {f"random_{law}": sampler(law) for law in ("full", *LAWS)}
    results["random_bernoulli_tensor"] = lambda out, generator, p: bernoulli(device, out, generator, p)
    results["random_dropout"] = lambda out, generator, input, keep: dropout(device, out, generator, input, keep)
    results["random_ordered"] = lambda out, generator, p: ordered(device, out, generator, p)
    results["random_dropped"] = lambda outs, generator, input, *rest: dropped(device, outs, generator, input, *rest)
    return results


def bits(number: float) -> int:
    """A number as a kernel is given it: a double by its bits."""
    return struct.unpack("<q", struct.pack("<d", number))[0]


class Start(NamedTuple):
    """Where the numbers of a launch begin."""

    counter: int
    seed: int
    memory: Any = None           # of a captured launch: what is added to the counter, and the seed, are found there


def kernel(device: Any, key: tuple, make: Callable[[], Any], start: Start) -> Any:
    """The kernel of a nest, for numbers that begin there."""
    key = (*key, start.memory is None)
    if key not in _kernels:
        nest = make() if start.memory is None else from_memory(make())
        _kernels[key] = ("handle", _C.kernel_handle(device.load(nest)))
    return _kernels[key]


def source_kernel(device: Any, key: tuple, operands: int, make: Callable[[], str], start: Start) -> Any:
    """The kernel of a text in CUDA C; None where there is no compiler for it."""
    key = (*key, start.memory is None)
    if key not in _kernels:
        text = make()
        if start.memory is not None:
            text, operands = random_sources.from_memory(text), operands + 1
        address = sources.load(f"random_{key[0]}", text, operands, device.driver)
        _kernels[key] = None if address is None else ("handle", _C.kernel_handle(address))
    return _kernels[key]


def lanes_of(device: Any, unit: int, count: int) -> int:
    """Threads that share a draw of so many elements."""
    driver = device.driver
    resident = driver.attribute(unit, "max_threads_per_multi_processor") // BLOCK
    return min(driver.attribute(unit, "multi_processor_count") * resident, -(-count // BLOCK)) * BLOCK


def in_order(out: Tensor) -> tuple[Any, Any]:
    """Memory without gaps to fill, and the tensor as it is then copied to, or None: numbers go by the order of
    elements in memory."""
    if out.is_contiguous():
        return out, None
    order = sorted(range(out.ndim), key=lambda d: -out.stride(d))
    transposed = out.permute(order)
    return (transposed, None) if transposed.is_contiguous() else (transposed.new_empty(transposed.shape), transposed)


def run(handle: Any, tensors: tuple, params: list[int], extent: int, start: Start) -> None:
    """One launch over tensors, the last of which is written."""
    out = tensors[-1]
    given = tensors if start.memory is None else (*tensors, start.memory)
    slots = [("arg", out.dtype, (), None, len(tensors) - 1, 0)]
    step = (handle, list(range(len(given))), params, extent, 1, -1)
    _C.Plan(len(given), out.device, slots, [step])(*given)


def signed(seed: int) -> int:
    """A seed as kernels are given it."""
    return seed - (1 << 64) if seed >= 1 << 63 else seed


def take(generator: Generator | None, out: Tensor, count: int) -> Start:
    """Where the numbers of a launch begin that moves a generator by `count`."""
    chosen = _C.device_generator(out.device) if generator is None else generator
    if chosen.device.type != "cuda":
        raise RuntimeError(f"Expected a 'cuda' device type for generator but found '{chosen.device.type}'")
    if captures.is_capturing():
        drawn = captures.of(chosen)
        return Start(drawn.take(count) // EACH, 0, drawn.memory)
    offset = chosen.get_offset()
    chosen.set_offset(offset + count)
    return Start(offset // EACH, signed(chosen.initial_seed()))


def prepare(device: Any, drawn: Drawn) -> None:
    """Before a graph that draws from a generator is run: where its numbers begin is written to memory."""
    seed, offset = drawn.next_run()
    begin = Start(offset // EACH, signed(seed))
    run(kernel(device, ("start",), start_nest, begin), (drawn.memory,), [begin.counter, begin.seed], 2, begin)


def fill(device: Any, law: str, out: Tensor, generator: Generator | None, numbers: tuple) -> Any:
    """Numbers of a law in every element."""
    count = out.numel()
    if not count:
        return out
    first, second = (*numbers, 0, 0)[:2]
    if law == "full":
        first, second = WHOLE[out.dtype.code], 0
        law = "wide_range" if first > LOW else "range"
    elif law == "range" and first >= WIDE_RANGE:
        law = "wide_range"
    if law in ("range", "wide_range"):
        given = [first - (1 << 64) if first >= 1 << 63 else first, second]
    else:
        given = [bits(float(first)), bits(float(second))]
    code, unit = out.dtype.code, out.device.index or 0
    target, into = in_order(out)
    times, lanes = unroll(law, code), lanes_of(device, unit, count)
    turns = -(-count // (lanes * times))
    start = take(generator, out, turns * EACH)
    extent = turns * lanes if turns > 1 else min(lanes, count)
    chosen = None
    if code == "f64" and law in random_sources.LAWS:
        chosen = source_kernel(device, (law, "source"), 1, lambda: random_sources.fill_source(law), start)
    chosen = chosen or kernel(device, (law, code), lambda: fill_nest(law, code), start)
    run(chosen, (target,), [count, lanes, start.counter, start.seed, *given], extent, start)
    if into is not None:
        into.copy_(target)
    return out


def no_probability(place: int) -> None:
    """What the device found."""
    raise RuntimeError(f"bernoulli: expected probabilities in [0, 1], got another number at element {place - 1}")


def bernoulli(device: Any, out: Tensor, generator: Generator | None, p: Any) -> Any:
    """Ones with the probabilities that `p` has."""
    count = out.numel()
    if not count:
        return out
    target, into = in_order(out)
    order = sorted(range(out.ndim), key=lambda d: -out.stride(d)) if not out.is_contiguous() else range(out.ndim)
    start, codes = take(generator, out, TENSOR_DRAWS), (out.dtype.code, p.dtype.code)
    checked = start.memory is None      # a graph that is replayed has no one to tell
    result = kernel(device, ("tensor", *codes), lambda: bernoulli_nest(*codes, checked), start)
    given = [count, 0, start.counter, start.seed, 0, 0]
    tensors, extent = (p.permute(tuple(order)).contiguous(), target), -(-count // EACH)
    if checked:
        slots = [("arg", out.dtype, (), None, 1, 0), ("temp", _C.int64, (1,), None, -1, 0)]
        _C.Plan(2, out.device, slots, [(result, [0, 1, 3], given, extent, 1, 3)], True, None, no_probability)(*tensors)
    else:
        run(result, tensors, given, extent, start)
    if into is not None:
        into.copy_(target)
    return out


def vector_of(input: Tensor) -> int:
    """Elements that a thread of dropout takes at once."""
    vector = VECTORS[input.itemsize] if input._is_dense() else 1
    while vector > 1 and (input.numel() % vector or input.data_ptr() % (vector * input.itemsize)):
        vector //= 2
    return vector


def dropped(
    device: Any, outs: tuple[Tensor, Tensor], generator: Generator | None, input: Tensor, keep: float, scale: float
) -> bool:
    """Fill the elements of `input`, those that are kept times `scale` and others zero, and which are kept: outputs lie
    as the input does. False, and nothing drawn, where its memory has gaps or begins between vectors."""
    count, vector, code = input.numel(), vector_of(input), input.dtype.code
    if vector == 1:
        return False
    lanes = lanes_of(device, input.device.index or 0, count)
    start = take(generator, input, -(-count // (lanes * EACH)) * EACH)
    result = kernel(device, ("dropped", vector, code), lambda: dropout_nest(vector, code), start)
    given = [count, lanes, start.counter, start.seed, bits(keep), bits(scale)]
    run(result, (input, outs[1], outs[0]), given, count // vector, start)
    return True


def dropout(device: Any, out: Tensor, generator: Generator | None, input: Tensor, keep: float) -> Any:
    """Which elements of `input` are kept, each with probability `keep`, in `out`, a tensor of bool."""
    count, vector = out.numel(), vector_of(input)
    if vector == 1:
        return fill(device, "kept", out, generator, (keep,))
    lanes = lanes_of(device, out.device.index or 0, count)
    start = take(generator, out, -(-count // (lanes * EACH)) * EACH)
    target, into = in_order(out)
    result = kernel(device, ("dropout", vector), lambda: dropout_nest(vector), start)
    run(result, (target,), [count, lanes, start.counter, start.seed, bits(keep), 0], count // vector, start)
    if into is not None:
        into.copy_(target)
    return out


def ordered(device: Any, out: Tensor, generator: Generator | None, p: float) -> Any:
    """Which elements are kept, each dropped with probability `p`, in `out`, a tensor of bool without gaps: as PyTorch's
    attention draws for its weights, one number of one sequence after the other."""
    count = out.numel()
    if count:
        start = take(generator, out, -(-count // EACH) * EACH)
        result = kernel(device, ("ordered",), ordered_nest, start)
        run(result, (out,), [count, 0, start.counter, start.seed, bits(p), 0], -(-count // EACH), start)
    return out
