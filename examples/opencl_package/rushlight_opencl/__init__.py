"""OpenCL devices: `import rushlight_opencl`, then `x.to("opencl")`.

Every loop nest is printed as OpenCL C (`codegen.c_text`) and compiled by the driver. Memory is shared virtual memory,
whose addresses are integers; a stream is an in-order queue, an event a marker in it. The units are all devices of the
first platform that has such memory: processors get the loops that suit processors, one run of neighbouring iterations
for each work item, others get those of GPUs, in groups (`RUSHLIGHT_OPENCL_GROUP` items each, 1: as processors).
A kernel is compiled when it first runs: PoCL takes a third of a second for each, and finds it on disk from then on.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from typing import Any

import numpy
import pyopencl as cl

import rushlight
from rushlight.codegen.c_text import ALONE, OPENCL, Printer, strides_of, with_dims
from rushlight.devices import Device, register

SHARES = 4             # runs of iterations for each core, so that none waits long for another
LEAST = 1 << 14        # elements of a pointwise kernel that are worth a work item
LEAST_ITEMS = 256      # iterations of a kernel with one result each
GROUP = 64             # members of a group on devices that are no processors
MOST_ITEMS = 1 << 16
CONSTANTS = 1 << 16    # bytes for operands that travel with a launch, for each queue
BYTE = ctypes.c_char * 1


def place(address: int) -> cl.SVM:
    """An address as kernels take it."""
    return cl.SVM(BYTE.from_address(address))


def span(address: int, nbytes: int) -> cl.SVM:
    """Memory as copies take it."""
    return cl.SVM((ctypes.c_char * nbytes).from_address(address))


class Kernel:
    """A nest, and what it was compiled to: one variant for each class of strides and each number of dims."""

    def __init__(self, nest: Any) -> None:
        self.nest = nest
        self.forms: dict[int, tuple[Any, list[tuple[int, int]]]] = {}      # by dims: the nest, its strides and units
        self.variants: dict[tuple, tuple[Any, str, list[int]]] = {}

    def form(self, dims: int) -> tuple[Any, list[tuple[int, int]]]:
        if dims not in self.forms:
            nest = with_dims(self.nest, dims) if dims > 2 else self.nest
            units = strides_of(nest)
            places = [(k, units[name]) for k, name in enumerate(nest.params) if name in units]
            self.forms[dims] = nest, places
        return self.forms[dims]

    def variant(self, device: OpenCL, params: Sequence[int], dims: int) -> tuple[Any, str, list[int]]:
        """The compiled kernel for these parameters, how its loops are shared, and which parameters it takes."""
        nest, places = self.form(dims)
        key = (dims, *[params[k] if params[k] in (0, unit) else None for k, unit in places])
        found = self.variants.get(key)
        if found is None:
            found = self.variants[key] = self.compile(device, nest, key[1:], places)
        return found

    def compile(
        self, device: OpenCL, nest: Any, values: Sequence[int | None], places: list[tuple[int, int]]
    ) -> tuple[Any, str, list[int]]:
        known = {nest.params[k]: v for (k, _), v in zip(places, values, strict=True) if v is not None}
        printer = Printer(nest, OPENCL, device.group, known)
        program = cl.Program(device.context, printer.text()).build(list(OPENCL.options))
        kernel = cl.Kernel(program, printer.name)
        taken = [k for k, name in enumerate(nest.params) if name not in known]
        operands = sum(not o.stack for o in nest.operands)
        kernel.set_scalar_arg_dtypes([None] * operands + [numpy.int64] * (len(taken) + 2))
        return kernel, printer.sharing, taken


class OpenCL(Device):
    """All devices of a platform."""

    streams = True
    loads_tiles = True

    def __init__(self, name: str = "opencl", group: int = 0) -> None:
        self.name, self.units = name, self.find_units()
        self.context = cl.Context(self.units)
        processors = all(u.type & cl.device_type.CPU for u in self.units)
        self.group = group or int(os.environ.get("RUSHLIGHT_OPENCL_GROUP", "1" if processors else str(GROUP)))
        self.scheduler = "cpu" if self.group == 1 else "gpu"
        flags = cl.svm_mem_flags.READ_WRITE
        fine = cl.device_svm_capabilities.FINE_GRAIN_BUFFER
        self.is_fine = all(u.svm_capabilities & fine for u in self.units)
        self.flags = flags | cl.svm_mem_flags.SVM_FINE_GRAIN_BUFFER if self.is_fine else flags
        self.memory: dict[int, cl.SVMAllocation] = {}
        self.held = [0] * len(self.units)
        self.queues: dict[tuple[int, int], cl.CommandQueue] = {}
        self.constants: dict[tuple[int, int], list[int]] = {}     # by queue: where they begin, and how many are used
        self.lock = threading.RLock()      # arguments of a kernel are set, then it is enqueued
        self.last_stream = 0

    def find_units(self) -> list[cl.Device]:
        for platform in cl.get_platforms():
            units = [u for u in platform.get_devices() if u.svm_capabilities]
            if units:
                return units
        raise RuntimeError("rushlight_opencl: no OpenCL platform here has devices with shared virtual memory")

    def device_count(self) -> int:
        return len(self.units)

    def queue(self, index: int, stream: int) -> cl.CommandQueue:
        found = self.queues.get((index, stream))
        if found is None:
            timed = cl.command_queue_properties.PROFILING_ENABLE
            found = self.queues[index, stream] = cl.CommandQueue(self.context, self.units[index], timed)
        return found

    # Memory

    def allocate(self, nbytes: int, index: int) -> int:
        unit = self.units[index]
        if nbytes > unit.max_mem_alloc_size or self.held[index] + nbytes > unit.global_mem_size:
            held = f"{self.held[index]} of {unit.global_mem_size} in use"
            raise MemoryError(f"{self.name}: {nbytes} bytes asked for, {held}")
        try:
            piece = cl.SVMAllocation(self.context, max(nbytes, 64), 64, self.flags)
        except cl.Error as error:
            raise MemoryError(f"{self.name}: {nbytes} bytes asked for: {error}") from None
        self.memory[piece.svm_ptr] = piece
        self.held[index] += nbytes
        return piece.svm_ptr

    def free(self, address: int, nbytes: int, index: int) -> None:
        self.memory.pop(address).release()
        self.held[index] -= nbytes

    def memory_info(self, index: int) -> tuple[int, int]:
        """Bytes that are left, and in all."""
        return self.units[index].global_mem_size - self.held[index], self.units[index].global_mem_size

    def copy(self, target: int, source: int, nbytes: int, index: int, stream: int) -> None:
        if nbytes:
            queue = self.queue(index, stream)
            cl.enqueue_copy(queue, span(target, nbytes), span(source, nbytes), is_blocking=False)

    copy_from_host = copy_to_host = copy_within = copy

    def copy_between(self, target: int, source: int, nbytes: int, index: int, source_index: int, stream: int) -> None:
        self.copy(target, source, nbytes, index, stream)      # one context: its memory is all units'

    # Kernels

    def load(self, nest: Any) -> Kernel:
        return Kernel(nest)

    def launch(
        self, handle: Kernel, pointers: Sequence[int | bytes], params: Sequence[int], begin: int, end: int, index: int,
        stream: int, dims: int = 2,
    ) -> None:
        if end <= begin:
            return
        with self.lock:
            kernel, sharing, taken = handle.variant(self, params, dims)
            queue = self.queue(index, stream)
            places = [place(p if isinstance(p, int) else self.constant(p, index, stream)) for p in pointers]
            inner = params[0] if sharing == "points" else 1
            whole, local = self.shape(sharing, end - begin, inner, index)
            kernel(queue, whole, local, *places, *[params[k] for k in taken], begin, end)

    def launch_pointwise(
        self, handle: Kernel, pointers: Sequence[int | bytes], sizes: Sequence[int], strides: Sequence[Sequence[int]],
        index: int, stream: int,
    ) -> None:
        """A pointwise kernel over any number of dims; rows along all but the first are numbered as one."""
        padded = [*sizes, *[1] * (2 - len(sizes))]
        steps = [[(*s, 0, 0)[d] for s in strides] for d in range(len(padded))]
        further = [n for d in range(2, len(padded)) for n in (padded[d - 1], *steps[d])]
        rows = 1
        for n in padded[1:]:
            rows *= n
        params = [padded[0], *steps[0], *steps[1], *further]
        if padded[0]:
            self.launch(handle, pointers, params, 0, rows, index, stream, len(padded))

    def shape(self, sharing: str, extent: int, inner: int, index: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """How many work items along each axis, and of a group."""
        if sharing == ALONE:
            return (1,), (1,)
        if self.group > 1:
            if sharing == "points":
                wide = min(MOST_ITEMS, -(-inner // self.group) * self.group)
                return (wide, min(extent, max(1, MOST_ITEMS // wide))), (self.group, 1)
            items = extent * self.group if sharing == "rows" else -(-extent // self.group) * self.group
            return (min(items, MOST_ITEMS * self.group),), (self.group,)
        most = SHARES * self.units[index].max_compute_units
        if sharing == "points":
            items = min(most, -(-extent * inner // LEAST))
            rows = min(extent, items)
            return (max(1, items // rows), rows), (1, 1)
        least = LEAST_ITEMS if sharing == "threads" else 1
        return (min(most, -(-extent // least)),), (1,)

    def constant(self, data: bytes, index: int, stream: int) -> int:
        """The address of a small operand that travels with a launch."""
        ring = self.constants.get((index, stream))
        if ring is None:
            ring = self.constants[index, stream] = [self.allocate(CONSTANTS, index), 0]
        size = -(-max(len(data), 16) // 64) * 64
        if ring[1] + size > CONSTANTS:      # what was there is not read any more
            self.queue(index, stream).finish()
            ring[1] = 0
        address, ring[1] = ring[0] + ring[1], ring[1] + size
        if self.is_fine:
            ctypes.memmove(address, data, len(data))
        else:
            cl.enqueue_copy(self.queue(index, stream), span(address, len(data)), cl.SVM(bytearray(data)))
        return address

    # Streams and events

    def new_stream(self, index: int, priority: int) -> int:
        with self.lock:
            self.last_stream += 1
            return self.last_stream

    def record(self, index: int, stream: int) -> cl.Event:
        queue = self.queue(index, stream)
        mark = cl.enqueue_marker(queue)
        queue.flush()
        return mark

    def wait(self, event: cl.Event, index: int, stream: int) -> None:
        cl.enqueue_barrier(self.queue(index, stream), wait_for=[event])

    def finish(self, event: cl.Event) -> None:
        event.wait()

    def query(self, event: cl.Event) -> bool:
        return event.command_execution_status == cl.command_execution_status.COMPLETE

    def elapsed(self, start: cl.Event, end: cl.Event) -> float:
        start.wait()
        end.wait()
        return (end.profile.end - start.profile.end) * 1e-6

    def synchronize(self, index: int | None = None, stream: int | None = None) -> None:
        for (unit, number), queue in list(self.queues.items()):
            if index in (None, unit) and stream in (None, number):
                queue.finish()


opencl = OpenCL()
register(opencl)
rushlight.opencl = opencl
