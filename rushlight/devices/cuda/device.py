"""The CUDA device: NVIDIA's units through the core's table, with kernels generated as PTX.

Enters: the driver. Leaves: `CudaDevice`, which `devices.base` registers when CUDA is first asked for. Matrix products
are cuBLAS's, convolutions, attention and recurrent networks cuDNN's, decompositions cuSOLVER's and Fourier transforms
cuFFT's where these are installed; other library ops run on the host and say so (RUSHLIGHT_SHOW=fallback).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from ... import _C
from ...codegen.nvptx.many import Many
from ...codegen.nvptx.written import Written
from ...loops.nest import Nest
from ..base import Device
from ..rehearsal import rehearsal
from .driver import Driver
from .kernels import Variants, load, load_many, load_written, workers

TRANSFORM, TRANSFORM_FORM = "transform", 5      # what `transform` says a kernel of the core's is, and its form there
OWN = ("attention", "attention_backward", "convolution", "_convolution_weight")
RECURRENT = {"_recurrence_sizes": "sizes", "_recurrence": "forward", "_recurrence_backward": "backward"}
# ops, and who does them in `light`
NARROW = {"_int_mm": "integer_product", "_wide_product": "wide_product"}


def is_used(unit: str) -> bool:
    """Whether memory of a unit was asked for."""
    return any(_C.unit_stats(unit)[0]["allocation.all"])


class CudaDevice(Device):
    """All CUDA units of this machine."""

    name = "cuda"
    accelerator = True
    streams = True
    loads_written = True
    many_dims = True

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.kernels: list[Variants] = []
        self.is_ahead = False      # whether libraries are being opened, or were

    def native(self) -> int:
        return self.driver.table

    def load(self, nest: Any) -> int:
        if isinstance(nest, Many):
            return load_many(nest.nest, self.driver)
        if nest is TRANSFORM:
            return _C.cuda_kernel(None, TRANSFORM_FORM, 1, (), -1, (), 1, False, 0)
        address, kernel = (load_written if isinstance(nest, Written) else load)(nest, self.driver)
        self.kernels.append(kernel)
        return address

    def anticipate(self) -> None:
        if not self.is_ahead and any(is_used(f"cuda:{k}") for k in range(self.driver.units)):
            self.is_ahead = True
            from . import libraries

            threading.Thread(target=libraries.open_ahead, name="cuda libraries", daemon=True).start()

    def rehearse(self, call: Callable[[], Any]) -> None:
        before, rehearsal.running = rehearsal.running, True
        try:
            missing = _C.cuda_named(call)
        finally:
            rehearsal.running = before
        for kernel, unit, key in missing:
            kernel.begin(unit, key)

    def device_count(self) -> int:
        return self.driver.units

    def memory_info(self, index: int) -> tuple[int, int]:
        """Bytes free and bytes in all on a unit."""
        return self.driver.memory_info(index)

    def implementation(self, op: str) -> Any:
        if op.startswith("random_"):
            from . import random, random_walks  # generate kernels, which not every program draws from

            return {**random.samplers(self), **random_walks.samplers(self)}.get(op)
        if op.startswith("_fft_"):
            from . import fourier

            return fourier.transforms().get(op)
        if op in NARROW:
            from . import light  # opens the library, which few programs need

            return None if light.find() is None else getattr(light, NARROW[op])
        if op == "_scaled_product":
            from . import light

            return None if light.find() is None else functools.partial(light.scaled_product, self.driver)
        if op == "_grouped_product":
            from . import sources, tile_products

            return None if sources.find() is None else functools.partial(tile_products.grouped_product, self.driver)
        if op == "_small_factors":
            from . import small_factors, sources

            return None if sources.find() is None else functools.partial(small_factors.run, self.driver)
        if op == "_norms_of_many":
            from . import many_norms, sources

            return None if sources.find() is None else functools.partial(many_norms.run, self.driver)
        if op == "_ranked_rows":
            from . import rank_rows, sources

            return None if sources.find() is None else functools.partial(rank_rows.ranked, self.driver)
        if op == "_hidden_attention":
            from . import sources, tiled_attention

            return None if sources.find() is None else functools.partial(tiled_attention.attend, self.driver)
        if op == "_paged_attention":
            from . import paged_attention, sources

            return None if sources.find() is None else functools.partial(paged_attention.attend, self.driver)
        if op == "_ctc_recursion":
            from . import alignments, sources

            return None if sources.find() is None else functools.partial(alignments.scores, self.driver)
        if op in RECURRENT:
            from . import cudnn, recurrence

            return None if cudnn.find() is None else getattr(recurrence, RECURRENT[op])
        if op not in OWN:
            return None
        from . import attention, convolution, cudnn  # the library is opened, which not every program needs

        library = cudnn.find()
        if library is None:
            return None
        if is_used("cuda"):      # its first handle takes long: where plans are made, and meanwhile
            workers().submit(library.handle, _C.device("cuda", _C.current_unit("cuda")))
        return {
            "attention": functools.partial(attention.forward, self.driver), "attention_backward": attention.backward,
            "convolution": convolution.convolution, "_convolution_weight": convolution.convolution_weight,
        }[op]

    def routines(self) -> Callable | None:
        from . import solver  # looks for wheels, which not every program needs

        return None if solver.find() is None else solver.routine

    def transform(self, what: str, code: str, sizes: Sequence[int], batch: int, unit: int) -> Any:
        from . import fourier  # the library is opened, which not every program needs

        found = fourier.kept_plan(what, code, sizes, batch, unit)
        return None if found is None else (TRANSFORM, *found)

    def product(self, code: str) -> Any:
        from . import libraries  # looks for wheels, which not every program needs

        return libraries.product(code, self.for_one_row)

    def for_one_row(self, code: str) -> Callable[[], int] | None:
        """What gives the kernel of products with one row, when the first is launched."""
        from . import single_row  # its compiler is opened, which not every program needs

        return functools.partial(single_row.kernel, code, self.driver) if code in single_row.TYPES else None

    def product_with_bias(self, code: str) -> Any:
        from . import libraries

        return libraries.product_with_bias(code, self.driver, self.for_one_row)

    def load_many(self, nest: Nest) -> Any:
        return load_many(nest, self.driver)
