"""Products whose result is wider than the matrices, by cuBLASLt: float8 with scales beside them, int8 added up in
int32, and batches of half types added up in single precision.

Enters: matrices as PyTorch lays them for these products: the left one by rows, the right one by columns. Leaves: the
result, filled on the current stream. Answers NotImplemented for what the library has no algorithm for; callers compute
otherwise then. Refuses: layouts and sizes that no tensor core reads, by RuntimeError.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Sequence
from typing import Any

from ... import _C
from ..._C import Tensor
from ..rehearsal import rehearsal
from . import libraries, tile_products
from .driver import Driver

# As the library's interface counts them: types of numbers, what is computed in, attributes of a product.
TYPES = {"f32": 0, "f16": 2, "i8": 3, "i32": 10, "bf16": 14, "f8e4m3fn": 28, "f8e5m2": 29}
SINGLE, INTEGERS = (68, 0), (72, 10)      # what is computed in, and the type of the factors
TRANSPOSE_LEFT, EPILOGUE, BIAS, SCALES = 3, 7, 8, (17, 18)
FAST, BIAS_TYPE, SCALE_MODES = 25, 26, (31, 32)
ADD_BIAS, BY_ROWS, MOST_SPACE = 4, 3, 1
COUNT, STEP = 5, 6      # of a layout: how many matrices, and how far apart they lie
SPACE = 32 << 20
MOST_PRODUCTS = 512
MULTIPLE = 16      # sizes of float8 matrices, in elements


class Found(ctypes.Structure):
    """What the library answers about an algorithm."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8), ("space", ctypes.c_size_t), ("status", ctypes.c_int),
        ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4),
    )


class Library:
    """cuBLASLt, with a handle for each unit."""

    def __init__(self, path: str) -> None:
        self.functions = ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
        self.handles: dict[int, ctypes.c_void_p] = {}
        self.lock = threading.Lock()

    def call(self, name: str, *args: object) -> None:
        """Call a function; RuntimeError where it refuses."""
        status = getattr(self.functions, f"cublasLt{name}")(*args)
        if status:
            raise RuntimeError(f"cublasLt: {name} failed ({status})")

    def handle(self, unit: int) -> ctypes.c_void_p:
        """The handle of a unit, whose context is the thread's then."""
        _C.cuda_enter(unit)
        if unit not in self.handles:
            made = ctypes.c_void_p()
            self.call("Create", ctypes.byref(made))
            self.handles[unit] = made
        return self.handles[unit]


@functools.cache
def find() -> Library | None:
    """The library; None where it is not installed."""
    if not libraries.has_blas():
        return None
    for path in libraries.places(libraries.NAMES):
        try:
            return Library(str(libraries.light_of(path)))
        except OSError:
            continue
    return None


class Product:
    """One geometry: how its matrices lie, and the algorithm for it. The library counts down columns and is asked for
    the transposed product, so that the right matrix comes first."""

    def __init__(
        self, library: Library, unit: int, codes: Sequence[str], sizes: Sequence[int], lines: Sequence[int],
        compute: tuple[int, int], choices: Sequence[tuple[int, int]], count: int = 1,
        steps: Sequence[int] = (0, 0, 0),
    ) -> None:
        self.library, self.unit = library, unit
        self.made: list[tuple[str, ctypes.c_void_p]] = []
        self.factors = (ctypes.c_int * 2)(1, 0) if compute is INTEGERS else (ctypes.c_float * 2)(1.0, 0.0)
        (m, n, k), (left, right, result, between) = sizes, codes      # what is added would be of the last type
        handle = library.handle(unit)
        self.what = self.create("MatmulDesc", compute[0], compute[1])
        self.set(TRANSPOSE_LEFT, ctypes.c_int(1))
        for attribute, value in choices:
            self.set(attribute, ctypes.c_int8(value) if attribute == FAST else ctypes.c_int(value))
        self.matrices = [
            self.create("MatrixLayout", TYPES[code], ctypes.c_uint64(rows), ctypes.c_uint64(columns),
                        ctypes.c_int64(line))
            for code, rows, columns, line in (
                (right, k, n, lines[1]), (left, k, m, lines[0]), (between, n, m, n), (result, n, m, n),
            )
        ]
        if count > 1:
            for matrix, step in zip(self.matrices, (steps[1], steps[0], steps[2], steps[2]), strict=True):
                many, apart = ctypes.c_int32(count), ctypes.c_int64(step)
                library.call("MatrixLayoutSetAttribute", matrix, COUNT, ctypes.byref(many), ctypes.c_size_t(4))
                library.call("MatrixLayoutSetAttribute", matrix, STEP, ctypes.byref(apart), ctypes.c_size_t(8))
        preference, found, space = self.create("MatmulPreference"), ctypes.c_int(), ctypes.c_size_t(SPACE)
        library.call(
            "MatmulPreferenceSetAttribute", preference, MOST_SPACE, ctypes.byref(space), ctypes.c_size_t(8)
        )
        self.found = Found()
        library.call(
            "MatmulAlgoGetHeuristic", handle, self.what, *self.matrices, preference, 1, ctypes.byref(self.found),
            ctypes.byref(found),
        )
        if not found.value or self.found.status:
            raise RuntimeError("cublasLt: no algorithm for this product")
        known = (handle, self.what, *self.matrices)
        self.numbers = (
            *[one.value or 0 for one in known], ctypes.addressof(self.found), ctypes.addressof(self.factors),
            self.found.space, int(between != result),
        )

    def create(self, kind: str, *args: object) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.library.call(f"{kind}Create", ctypes.byref(made), *args)
        self.made.append((kind, made))
        return made

    def set(self, attribute: int, value: Any) -> None:
        """Give an attribute its value."""
        self.library.call(
            "MatmulDescSetAttribute", self.what, attribute, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value))
        )

    def run(self, left: Tensor, right: Tensor, out: Tensor, *addresses: int | Tensor | None) -> None:
        """Queue it on the current stream; `addresses` are attributes and tensors in turn."""
        _C.cuda_enter(self.unit)
        _C.cuda_light_run(self.numbers, _C.stream_handle(out.device), left, right, out, *addresses)

    def __del__(self) -> None:
        for kind, made in self.made:
            getattr(self.library.functions, f"cublasLt{kind}Destroy")(made)


_products: dict[tuple, Product | None] = {}


def prepared(unit: int, *key: Any) -> Product | None:
    """The product of a geometry; None where the library has no algorithm for it."""
    library = find()
    if library is None:
        return None
    with library.lock:
        if (unit, *key) not in _products:
            if len(_products) >= MOST_PRODUCTS:
                _products.clear()
            try:
                _products[unit, *key] = Product(library, unit, *key)
            except RuntimeError:
                _products[unit, *key] = None
        return _products[unit, *key]


def check_layout(name: str, a: Tensor, b: Tensor) -> None:
    """Refuse what tensor cores do not read as float8."""
    if a.numel() == 0 or b.numel() == 0:
        return
    if a.stride(1) != 1 or a.stride(0) < a.shape[1]:
        raise RuntimeError(f"{name}: mat1 must lie by rows (row-major) on CUDA, got strides {tuple(a.stride())}")
    if b.stride(0) != 1 or b.stride(1) < b.shape[0]:
        raise RuntimeError(
            f"{name}: mat2 must lie by columns (column-major) on CUDA, got strides {tuple(b.stride())}. Pass the"
            " transpose of a contiguous matrix."
        )
    if a.shape[1] % MULTIPLE or b.shape[1] % MULTIPLE:
        raise RuntimeError(
            f"{name}: the inner size and mat2's columns must be multiples of {MULTIPLE} on CUDA, got matrices"
            f" {tuple(a.shape)} and {tuple(b.shape)}"
        )
    if a.dtype is b.dtype is _C.float8_e5m2:
        raise RuntimeError(f"{name}: two matrices of float8_e5m2 cannot be multiplied on CUDA; one may be")


def check_types(name: str, out: Tensor, bias: Tensor | None, by_rows: bool) -> None:
    """Refuse what no tensor core adds or writes."""
    if by_rows and out.itemsize == 1:
        raise RuntimeError(f"{name}: scales by rows give no {out.dtype.name} on CUDA; ask for a half type or float32")
    if bias is None:
        return
    if out.dtype is _C.float32:
        raise RuntimeError(f"{name}: no bias can be added to a result of float32 on CUDA, got one of {bias.dtype.name}")
    wanted = (_C.bfloat16, _C.float16) if out.itemsize == 1 else (out.dtype,)
    if bias.dtype not in wanted:
        names = " or ".join([one.name for one in wanted])
        raise RuntimeError(f"{name}: a bias must be {names} for a result of {out.dtype.name}, got {bias.dtype.name}")


def is_aligned(*tensors: Tensor | None) -> bool:
    return all(t is None or t.data_ptr() % 16 == 0 for t in tensors)


def scaled_product(
    driver: Driver, out: Tensor, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None,
    use_fast_accum: bool,
) -> Any:
    """Fill `out` with (a * scale_a) @ (b * scale_b) + bias."""
    check_layout("_scaled_mm", a, b)
    lines = (a.stride(0), b.stride(1))
    by_rows = scale_a.numel() != 1 or scale_b.numel() != 1
    check_types("_scaled_mm", out, bias, by_rows)
    if (
        a.shape[0] == 0 or lines[0] % MULTIPLE or lines[1] % MULTIPLE or not is_aligned(a, b, out, bias)
        or not out.is_contiguous() or out.dtype.code not in TYPES
    ):
        return NotImplemented
    if by_rows and not rehearsal.running and tile_products.scaled_by_rows(
        driver, out, a, b, scale_a, scale_b, bias, use_fast_accum
    ):
        return out
    choices = [(FAST, int(use_fast_accum))]
    if by_rows:
        choices += [(mode, BY_ROWS) for mode in SCALE_MODES]
    if bias is not None:
        choices += [(EPILOGUE, ADD_BIAS), (BIAS_TYPE, TYPES[bias.dtype.code])]
    between = out.dtype.code
    if out.itemsize == 1:      # no sum is read as float8
        between = "bf16" if bias is None else bias.dtype.code
    codes, sizes = (a.dtype.code, b.dtype.code, out.dtype.code, between), (a.shape[0], b.shape[1], a.shape[1])
    product = prepared(a.device.index or 0, codes, sizes, lines, SINGLE, tuple(choices))
    if product is None:
        return NotImplemented
    addresses: list[int | Tensor | None] = [SCALES[0], scale_b.contiguous(), SCALES[1], scale_a.contiguous()]
    if bias is not None:
        addresses += [BIAS, bias.contiguous()]
    if not rehearsal.running:
        product.run(a, b, out, *addresses)
    return out


def integer_product(out: Tensor, a: Tensor, b: Tensor) -> Any:
    """Fill the int32 `out` with a @ b of int8 matrices."""
    left = a if a.stride(1) == 1 and a.stride(0) >= a.shape[1] else a.contiguous()
    turned = b.t()
    right = turned if turned.stride(1) == 1 and turned.stride(0) >= turned.shape[1] else turned.contiguous()
    (m, k), n = a.shape, b.shape[1]
    lines = (left.stride(0), right.stride(0))
    if 0 in (m, n, k) or k % 4 or n % 4 or any(line % 4 for line in lines) or not is_aligned(left, right, out):
        return NotImplemented
    product = prepared(a.device.index or 0, ("i8", "i8", "i32", "i32"), (m, n, k), lines, INTEGERS, ())
    if product is None:
        return NotImplemented
    if not rehearsal.running:
        product.run(left, right, out)
    return out


def wide_product(out: Tensor, a: Tensor, b: Tensor) -> Any:
    """Fill the float32 `out` [count, m, n] with a @ b of half types: `a` by rows, `b` by columns."""
    (count, m, k), n = a.shape, b.shape[2]
    lines, steps = (a.stride(1), b.stride(2)), (a.stride(0), b.stride(0), m * n)
    by_rows = a.stride(2) == 1 and b.stride(1) == 1 and all(x % 8 == 0 for x in (*lines, *steps[:2]))
    if 0 in (count, m, n, k) or not by_rows or not out.is_contiguous() or not is_aligned(a, b, out):
        return NotImplemented
    codes = (a.dtype.code, b.dtype.code, "f32", "f32")
    product = prepared(a.device.index or 0, codes, (m, n, k), lines, SINGLE, (), count, steps)
    if product is None:
        return NotImplemented
    if not rehearsal.running:
        product.run(a, b, out)
    return out
