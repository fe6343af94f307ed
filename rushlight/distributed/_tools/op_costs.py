"""How long an op would take on the GPU: by its flops and bytes, or by running it.

Enters: an op of PyTorch's, and its arguments without elements. Leaves: milliseconds. Refuses: machines without a GPU.
"""

from __future__ import annotations

import functools
from typing import Any

from ... import _C
from ...base import late
from ...op import find_op
from ...utils._mode_utils import no_dispatch
from ...utils._pytree import tree_leaves, tree_map
from ...utils.flop_counter import flop_registry

FLOAT_TYPES = (_C.float16, _C.bfloat16, _C.float32, _C.float64)
VIEWS = frozenset(
    "lift_fresh t transpose view detach _unsafe_view split adjoint as_strided diagonal expand expand_as movedim permute"
    " select squeeze mT mH real imag view_as unflatten unfold unbind unsqueeze vsplit hsplit split_with_sizes swapaxes"
    " swapdims chunk".split()
)
FREE = VIEWS | frozenset(
    "randint randn rand randn_like rand_like randint_like arange ones_like zeros_like".split()
)
SHARE_OF_PEAK = 0.75
# Multiplications with additions of a multiprocessor in a cycle, by compute capability and type: dense tensor cores.
_TENSOR_CORES = {
    7: {_C.float16: 512}, 8: {_C.float16: 1024, _C.bfloat16: 1024}, 9: {_C.float16: 2048, _C.bfloat16: 2048},
    10: {_C.float16: 4096, _C.bfloat16: 4096},
}
_PLAIN = {_C.float16: 256, _C.bfloat16: 256, _C.float32: 128, _C.float64: 64}
WARM_UPS, RUNS = 2, 3


def gpu() -> Any:
    """What is known of GPUs."""
    return late.provided("package").cuda


@functools.cache
def get_device_tflops(dtype: Any) -> float:
    """The peak of the current GPU for a type, in 10**12 flops a second."""
    known = gpu().get_device_properties()
    rate = _TENSOR_CORES.get(known.major, {}).get(dtype, _PLAIN.get(dtype, 128))
    return known.multi_processor_count * known.clock_rate * 1e3 * rate * 2 / 1e12


@functools.cache
def get_gpu_dram_gbps() -> float:
    """The peak of the current GPU's memory, in 10**9 bytes a second."""
    known = gpu().get_device_properties()
    return known.memory_clock_rate * 1e3 * 2 * known.memory_bus_width / 8 / 1e9


def bytes_of(t: Any) -> int:
    """What a tensor reads or writes: dims that repeat the same elements count once."""
    count = 1
    for size, stride in zip(t.shape, t.stride(), strict=True):
        count *= size if stride else 1
    return count * t.element_size()


def roofline_ms(func: Any, args: tuple, kwargs: dict, out: Any) -> float:
    """The longer of an op's computing and of its reading and writing. Views and new tensors take no time."""
    if func.overloadpacket.__name__ in FREE:
        return 0.0
    tensors = [t for t in (*tree_leaves((args, kwargs)), *tree_leaves(out)) if isinstance(t, _C.Tensor)]
    transfer = sum(bytes_of(t) for t in tensors) / get_gpu_dram_gbps()
    compute = 0.0
    count = flop_registry.get(func.overloadpacket)
    if count is not None:
        dtypes = {t.dtype for t in tree_leaves(out) if isinstance(t, _C.Tensor) and t.dtype in FLOAT_TYPES}
        if len(dtypes) != 1:
            raise AssertionError(f"{func}: expected results of one type of floats, got {dtypes}")
        peak = get_device_tflops(dtypes.pop()) * 1e12
        # the tables count an addition and a multiplication as two
        compute = count(*args, **kwargs, out_val=out) / 2 / (SHARE_OF_PEAK * peak) * 1e9 if peak else 0.0
    return max(transfer, compute) / 1e6


def measured_ms(func: Any, args: tuple, kwargs: dict, is_fake: Any) -> float:
    """The mean time of an op on the GPU, run on random elements."""
    def real(value: Any) -> Any:
        if not isinstance(value, _C.Tensor) or not is_fake(value):
            return value
        make = find_op("rand" if value.dtype in FLOAT_TYPES else "ones")
        return make(value.shape, dtype=value.dtype, device=value.fake_device)

    with no_dispatch():
        args, kwargs = tree_map(real, (args, kwargs))
        for _ in range(WARM_UPS + 1):
            func(*args, **kwargs)
        start, end = gpu().Event(enable_timing=True), gpu().Event(enable_timing=True)
        start.record()
        for _ in range(RUNS):
            func(*args, **kwargs)
        end.record()
        gpu().synchronize()
        return start.elapsed_time(end) / RUNS
