"""Multi-tensor updates: one scalar expression run over lists of tensors by one kernel.

Enters: names of state, a function giving the numbers of a step, and a body in the scalar vocabulary. Leaves: a
`_C.MultiTensorUpdate`, which walks parameters and launches; kernels are made per combination of element types. Refuses
(leaving the tensors to the caller): element types that are not real floating point.

Kernels take the tensors in order, then one array of numbers, and run over a range of elements.
Halves compute in float32.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from .. import _C, codegen
from ..devices import handlers
from ..devices.private_use import is_private
from ..loops.expr import Value, bitcast, const, load, var
from ..loops.nest import For, Local, Nest, Operand, Store, rows
from ..loops.together import BLOCKS, ITEMS, Part, together, written
from ..loops.vocabulary import Scalars
from .pack import compile_for
from .registry import find_op

# bytes; where tensors lie at unlucky distances, AdamW took 1.40 ns an element without and takes 1.22 (Neoverse N1)
AHEAD = 512
FLOATS = ("f16", "bf16", "f32", "f64")
MOST_OPERANDS = 40       # of a kernel over several parameters: each takes its time to compile
BLOCK = 1 << 14          # elements that a thread takes at a time
Body = Callable[[Scalars, list[Value], list[Value]], dict[int, Value]]


def update_nest(name: str, codes: list[str], compute: str, num_numbers: int, body: Body) -> Nest:
    """The kernel: `body(s, tensors, numbers)` gives the new value of each operand it writes."""
    s, at = Scalars(), var("i")
    numbers = [load(len(codes), const(k, "i64"), compute) for k in range(num_numbers)]
    # Every element is read before any is written: an operand written early may be read late in the expression. The
    # order is the machine's: what the new parameter waits for longest comes first,
    # its square root (AdamW: 1.22 to 1.16 ns an element).
    reads = [Local(f"x{k}", s.cast(load(k, at, codes[k]), compute)) for k in (1, *range(len(codes) - 1, 1, -1), 0)]
    out = body(s, [var(f"x{k}", compute) for k in range(len(codes))], numbers)
    writes = [
        w
        for k in sorted(out, reverse=True)
        for w in (Local(f"y{k}", out[k]), Store(k, at, s.cast(var(f"y{k}", compute), codes[k])))
    ]
    return Nest(
        name, tuple(Operand(code) for code in (*codes, compute)), (), rows(*reads, *writes, vector=True, ahead=AHEAD)
    )


def device_nest(name: str, codes: list[str], compute: str, num_numbers: int, body: Body) -> Nest:
    """The same for a plugged-in device: the numbers are parameters, by their bits."""
    s, at = Scalars(), var("i")
    params = tuple([f"n{k}" for k in range(num_numbers)])
    numbers = [s.cast(bitcast(var(name), "f64"), compute) for name in params]
    reads = [Local(f"x{k}", s.cast(load(k, at, code), compute)) for k, code in enumerate(codes)]
    out = body(s, [var(f"x{k}", compute) for k in range(len(codes))], numbers)
    values = [Local(f"y{k}", out[k]) for k in sorted(out)]
    writes = [Store(k, at, s.cast(var(f"y{k}", compute), codes[k])) for k in sorted(out)]
    return Nest(name, tuple(Operand(code) for code in codes), params, rows(*reads, *values, *writes, vector=True))


def many_nest(
    name: str, codes: list[str], compute: str, num_numbers: int, body: Body, has_table: bool = False
) -> Nest:
    """The same for `Device.load_many`: a loop over the elements from `first` to `last`. With `has_table` the numbers
    are doubles in the device's memory, where an operand behind the others begins."""
    s, at = Scalars(), var("j")
    params = () if has_table else tuple([f"n{k}" for k in range(num_numbers)])
    numbers = [s.cast(bitcast(var(name), "f64"), compute) for name in params]
    read = []      # before the loop: what it writes might be the table, for all that a compiler knows
    if has_table:
        found = [s.cast(load(len(codes), const(k, "i64"), "f64"), compute) for k in range(num_numbers)]
        read = [Local(f"n{k}", value) for k, value in enumerate(found)]
        numbers = [var(f"n{k}", compute) for k in range(num_numbers)]
    out = body(s, [s.cast(load(k, at, code), compute) for k, code in enumerate(codes)], numbers)
    writes = tuple([Store(k, at, s.cast(out[k], codes[k])) for k in sorted(out)])
    loop = For("j", var("first"), var("last"), writes, vector=True)
    operands = tuple([Operand(code) for code in (*codes, *(("f64",) if has_table else ()))])
    return Nest(f"{name}_many", operands, (*params, "first", "last"), rows(*read, loop))


def as_bits(numbers: Sequence[Any]) -> tuple[int, ...]:
    """Numbers as a kernel's parameters: doubles by their bits."""
    return struct.unpack(f"{len(numbers)}q", struct.pack(f"{len(numbers)}d", *numbers))


class DeviceUpdate:
    """An update rule on plugged-in devices: a launch for many parameters, or for each. With `has_table` the numbers are
    on the device, behind the tensors of each parameter, which many may have only, as with `only_many`."""

    def __init__(self, name: str, num_numbers: int, body: Body, has_table: bool = False, math: Any = None,
                 only_many: bool = False) -> None:
        self.name, self.num_numbers, self.body, self.has_table = name, num_numbers, body, has_table
        self.only_many = only_many or has_table
        self.math = math      # the scalar vocabulary over tensors
        self.kernels: dict[tuple, Any] = {}      # by device and element types; None where there is none
        self.many_kernels: dict[tuple, Any] = {}

    def many(self, tuples: list[tuple], numbers: Sequence[Any]) -> bool:
        """Update many parameters (with gradients and state) of the same types, with the same numbers."""
        if _C.records(tuples[0][0].device):
            return not self.only_many and self.record(tuples, numbers)
        own = tuples[0][:-1] if self.has_table else tuples[0]
        device, codes = own[0].device, tuple([t.dtype.code for t in own])
        key = (device.type, codes)
        if key not in self.many_kernels:
            self.many_kernels[key] = self.load(device, codes, many=True)
        kernel = self.many_kernels[key]
        if kernel is None:
            return not self.only_many and self.side_by_side(device, codes, tuples, numbers)
        return _C.update_many(kernel[0], tuples, kernel[1], tuple(numbers), self.has_table)

    def side_by_side(self, device: Any, codes: tuple[str, ...], tuples: list[tuple], numbers: Sequence[Any]) -> bool:
        """The same on a device without `load_many`: several parameters are parts of one kernel."""
        most = min(len(tuples), max(1, MOST_OPERANDS // len(codes)))
        way = ITEMS if device.type in handlers and handlers[device.type].scheduler == "gpu" else BLOCKS
        key = (device.type, codes, most)
        if most < 2 or device.type in ("cpu", "meta") or is_private(device) or any(c not in FLOATS for c in codes):
            return False
        if key not in self.many_kernels:
            self.many_kernels[key] = self.load_rows(device, codes, most, way)
        kernel, written = self.many_kernels[key]
        return _C.update_many(kernel, tuples, written, tuple(numbers), False, most, 1 if way == ITEMS else BLOCK)

    def load_rows(self, device: Any, codes: tuple[str, ...], count: int, way: str) -> tuple[Any, tuple[int, ...]]:
        """A kernel over so many parameters. Its own parameters are the numbers, then how many elements each has."""
        compute = "f64" if "f64" in codes else "f32"
        nest = device_nest(self.name, list(codes), compute, self.num_numbers, self.body)
        each = len(codes)
        parts = [Part(nest, tuple(range(k * each, (k + 1) * each))) for k in range(count)]
        known = {f"block{k}": BLOCK for k in range(count)}
        whole = together(f"{self.name}_rows", parts, codes * count, way, known, nest.params)
        return compile_for(device, whole), tuple(sorted(written(nest)))

    def __call__(self, tensors: tuple, numbers: Sequence[Any]) -> bool:
        """Update parameter, gradient and state with the step's numbers; False, and nothing done,
        where that does not reach."""
        device, codes = tensors[0].device, tuple([t.dtype.code for t in tensors])
        key = (device.type, codes)
        if key not in self.kernels:
            self.kernels[key] = self.load(device, codes)
        kernel = self.kernels[key]
        if kernel is None or not all(isinstance(n, (int, float)) for n in numbers):
            return False
        return _C.update_elements(kernel[0], tensors, kernel[1], as_bits(numbers))

    def record(self, tuples: list[tuple], numbers: Sequence[Any]) -> bool:
        """The same on a device that writes calls down: one call for all of them."""
        if any(t.is_complex() for t in tuples[0]):
            return False
        width, overload = len(tuples[0]), find_op("_update_rows").overload_list[0]
        _C.record(overload, ([t for row in tuples for t in row], width, self, [float(n) for n in numbers]), ())
        for row in tuples:
            for t in (row[0], *row[2:]):
                _C.bump_version(t)
        return True

    def repeat(self, row: Sequence[Any], numbers: Sequence[Any]) -> None:
        """The update of one parameter through ordinary ops."""
        compute = _C.float64 if any(t.dtype is _C.float64 for t in row) else _C.float32
        new = self.body(self.math, [t.to(compute) for t in row], list(numbers))
        for k, value in new.items():
            row[k].copy_(value)

    def load(self, device: Any, codes: tuple[str, ...], many: bool = False) -> Any:
        private = is_private(device)
        if device.type in ("cpu", "meta") or private or _C.records(device) or any(code not in FLOATS for code in codes):
            return None
        compute = "f64" if "f64" in codes else "f32"
        nest = device_nest(self.name, list(codes), compute, self.num_numbers, self.body)
        written = tuple(sorted({s.operand for s in nest.loop.body if isinstance(s, Store)}))
        if not many:
            return compile_for(device, nest), written
        out = handlers[device.type].load_many(
            many_nest(self.name, list(codes), compute, self.num_numbers, self.body, self.has_table)
        )
        return None if out is None else (_C.kernel_handle(out), written)


def multi_tensor_update(name: str, tensor_keys: tuple[str, ...], scalar_keys: tuple[str, ...], num_numbers: int,
                        numbers: Callable[..., tuple], body: Body) -> Any:
    """An update rule for the core: update(params, grads or None, state, hyper) -> places left, or None."""

    def compile(dtypes: tuple) -> tuple[int, bool] | None:
        codes = [d.code for d in dtypes]
        if any(code not in FLOATS for code in codes):
            return None
        compute = "f64" if "f64" in codes else "f32"
        return codegen.compile(update_nest(name, codes, compute, num_numbers, body)).address, compute == "f64"

    return _C.MultiTensorUpdate(tensor_keys, scalar_keys, numbers, compile)
