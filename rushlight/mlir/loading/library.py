"""Operations behind which a library stands, or a formula: Fourier transforms, factorizations, batch norm, random
numbers.

Enters: tensors and settings. Leaves: the ATen calls of the libraries, and formulas of batch norm. Refuses lengths and
shapes that do not fit.
"""

from __future__ import annotations

import math
import operator

from ...fx import Node
from ..syntax import Operation
from ..types import TensorType
from .elementwise import converted
from .shapes import sizes_operand
from .table import (
    BOOL,
    COMPLEX,
    FLOATS,
    INEXACT,
    INTEGERS,
    compatible,
    counted,
    distinct,
    of_elements,
    op,
    require,
    scalar,
    size_fits,
    tensors,
)
from .writer import Writer, dtype

FLOATING = ("f32", "f64", *COMPLEX)
TRANSPOSES = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT", "TRANSPOSE_INVALID")


# --- Fourier transforms -----------------------------------------------------------------------------------------------


def _transformed(o: Operation) -> list[TensorType]:
    kind, = tensors(o, 1)
    how = o.keyword("fft_type", ("FFT", "IFFT", "RFFT", "IRFFT"))
    lengths = o.integers("fft_length")
    require(o, 1 <= len(lengths) <= min(3, len(kind.shape)), f"1 to 3 lengths, and no more than {kind} has dimensions")
    of_elements(o, [kind], ("f32", "f64") if how == "RFFT" else COMPLEX)
    *others, last = kind.shape[-len(lengths):]
    for n, size in zip(lengths, others, strict=False):
        require(o, size_fits(size, n), f"a length of {n} does not fit {kind}")
    half = lengths[-1] // 2 + 1
    require(o, size_fits(last, half if how == "IRFFT" else lengths[-1]), f"a length of {lengths[-1]} does not fit"
        f" {kind}")
    if how == "RFFT":
        return [TensorType((*kind.shape[:-1], half), f"complex<{kind.element}>")]
    if how == "IRFFT":
        return [TensorType((*kind.shape[:-1], lengths[-1]), kind.element[8:-1])]
    return [kind]


@op("fft", _transformed)
def fft(w: Writer, o: Operation, x: Node) -> Node:
    how, lengths = o.keyword("fft_type", ("FFT", "IFFT", "RFFT", "IRFFT")), o.integers("fft_length")
    rank = len(o.types[0].shape)
    dims = list(range(rank - len(lengths), rank))
    if 0 in o.type.shape:
        return w("full.default", list(o.type.shape), 0, dtype=dtype(o.type.element), device=w.device)
    name = {"FFT": "fft_fftn", "IFFT": "fft_ifftn", "RFFT": "fft_rfftn", "IRFFT": "fft_irfftn"}[how]
    return w(f"{name}.default", x, lengths, dims)


# --- factorizations ---------------------------------------------------------------------------------------------------


def _square(o: Operation, kind: TensorType) -> None:
    of_elements(o, [kind], FLOATING)
    require(o, len(kind.shape) >= 2 and size_fits(kind.shape[-1], kind.shape[-2]), f"expected square matrices, got"
        f" {kind}")


def _factored(o: Operation) -> list[TensorType]:
    kind, = tensors(o, 1)
    _square(o, kind)
    o.truth("lower", False)
    return [kind]


@op("cholesky", _factored)
def cholesky(w: Writer, o: Operation, x: Node) -> Node:
    """Matrices that are not positive definite have a factor of NaN."""
    result = w("linalg_cholesky_ex.default", x, upper=not o.truth("lower", False))
    factor, info = (w.node(operator.getitem, result, i) for i in (0, 1))
    failed = w("unsqueeze.default", w("unsqueeze.default", w("ne.Scalar", info, 0), -1), -1)
    return w("where.self", failed, w.scalar(math.nan, o.types[0].element), factor)


def _solved(o: Operation) -> list[TensorType]:
    a, b = tensors(o, 2)
    _square(o, a)
    left = o.truth("left_side")
    fits = a.element == b.element and len(a.shape) == len(b.shape) and all(map(size_fits, a.shape[:-2], b.shape[:-2]))
    fits = fits and size_fits(a.shape[-1], b.shape[-2 if left else -1])
    require(o, fits, f"cannot solve {a} for {b}")
    for name in ("lower", "unit_diagonal"):
        o.truth(name)
    require(o, o.keyword("transpose_a", TRANSPOSES) != "TRANSPOSE_INVALID", "transpose_a must say what it does")
    return [b]


@op("triangular_solve", _solved)
def triangular_solve(w: Writer, o: Operation, a: Node, b: Node) -> Node:
    lower, how = o.truth("lower"), o.keyword("transpose_a", TRANSPOSES)
    if how != "NO_TRANSPOSE":
        a, lower = w("transpose.int", a, -2, -1), not lower
    if how == "ADJOINT" and o.types[0].element in COMPLEX:
        a = w("conj_physical.default", a)
    return w("linalg_solve_triangular.default", a, b, upper=not lower, left=o.truth("left_side"),
             unitriangular=o.truth("unit_diagonal"))


# --- batch norm -------------------------------------------------------------------------------------------------------


def _feature(o: Operation, x: TensorType) -> tuple[int, TensorType]:
    index = o.integer("feature_index")
    distinct(o, [index], len(x.shape), "feature_index")
    of_elements(o, [x], FLOATS)
    found = o.attributes.get("epsilon")
    require(o, isinstance(getattr(found, "value", None), (int, float)), "the attribute 'epsilon' must be a number")
    return index, TensorType((x.shape[index],), x.element)


def _along(o: Operation, first: int, last: int) -> TensorType:
    """The type of what each feature has one of; operands `first` to `last` must have it."""
    _, each = _feature(o, o.types[0])
    for t in o.types[first:last]:
        require(o, compatible(t, each), f"there is one number for each feature, {each}, got {t}")
    return each


def _trained(o: Operation) -> list[TensorType]:
    x = tensors(o, 3)[0]
    each = _along(o, 1, 3)
    return [x, each, each]


def _inferred(o: Operation) -> list[TensorType]:
    x = tensors(o, 5)[0]
    _along(o, 1, 5)
    return [x]


def _graded(o: Operation) -> list[TensorType]:
    x = tensors(o, 5)[0]
    each = _along(o, 1, 4)
    require(o, compatible(o.types[4], x), f"the gradient has the type of the operand, {x}, got {o.types[4]}")
    return [x, each, each]


class Features:
    """A tensor whose features lie along one dimension, and numbers of which each feature has one."""

    def __init__(self, w: Writer, o: Operation) -> None:
        self.w, kind = w, o.types[0]
        self.index = o.integer("feature_index")
        self.others = [d for d in range(len(kind.shape)) if d != self.index]
        self.rank, self.epsilon = len(kind.shape), float(o.attributes["epsilon"].value)

    def wide(self, x: Node) -> Node:
        return self.w("view.default", x, [-1 if d == self.index else 1 for d in range(self.rank)])

    def mean(self, x: Node) -> Node:
        return self.w("mean.dim", x, self.others) if self.others else x

    def scaled(self, x: Node, scale: Node, offset: Node, mean: Node, variance: Node) -> Node:
        w = self.w
        inverse = w("rsqrt.default", w("add.Scalar", self.wide(variance), self.epsilon))
        normal = w("mul.Tensor", w("sub.Tensor", x, self.wide(mean)), inverse)
        return w("add.Tensor", w("mul.Tensor", normal, self.wide(scale)), self.wide(offset))


@op("batch_norm_training", _trained)
def batch_norm_training(w: Writer, o: Operation, x: Node, scale: Node, offset: Node) -> list[Node]:
    f = Features(w, o)
    mean = f.mean(x)
    apart = w("sub.Tensor", x, f.wide(mean))
    variance = f.mean(w("mul.Tensor", apart, apart))
    return [f.scaled(x, scale, offset, mean, variance), mean, variance]


@op("batch_norm_inference", _inferred)
def batch_norm_inference(w: Writer, o: Operation, x: Node, scale: Node, offset: Node, mean: Node,
        variance: Node) -> Node:
    return Features(w, o).scaled(x, scale, offset, mean, variance)


@op("batch_norm_grad", _graded)
def batch_norm_grad(w: Writer, o: Operation, x: Node, scale: Node, mean: Node, variance: Node,
        grad: Node) -> list[Node]:
    f = Features(w, o)
    inverse = w("rsqrt.default", w("add.Scalar", f.wide(variance), f.epsilon))
    normal = w("mul.Tensor", w("sub.Tensor", x, f.wide(mean)), inverse)
    product = w("mul.Tensor", grad, normal)
    if f.others:
        grad_scale, grad_offset = (w("sum.dim_IntList", n, f.others) for n in (product, grad))
    else:
        grad_scale, grad_offset = product, grad
    rest = w("sub.Tensor", grad, f.wide(f.mean(grad)))
    rest = w("sub.Tensor", rest, w("mul.Tensor", normal, f.wide(f.mean(product))))
    return [w("mul.Tensor", w("mul.Tensor", f.wide(scale), inverse), rest), grad_scale, grad_offset]


# --- random numbers ---------------------------------------------------------------------------------------------------


def _random(o: Operation) -> list[TensorType]:
    a, b, _ = tensors(o, 3)
    normal = o.keyword("rng_distribution", ("UNIFORM", "NORMAL")) == "NORMAL"
    of_elements(o, [a, b], ("f16", "bf16", "f32", "f64") if normal else BOOL + INTEGERS + INEXACT[:4])
    require(o, scalar(o, a, "a bound").element == scalar(o, b, "a bound").element, f"bounds differ: {a} and {b}")
    target = o.type if len(o.results) == 1 else None
    if not isinstance(target, TensorType):
        raise o.error("expected one tensor as result")
    sizes_operand(o, 2, len(target.shape))
    counted(o, o.results, 1, "results")
    return [TensorType(target.shape, a.element)]


@op("rng", _random)
def rng(w: Writer, o: Operation, a: Node, b: Node, shape: Node) -> Node:
    """Numbers of our own generator: which ones they are is nobody's promise."""
    element, sizes = o.type.element, w.elements(shape, o.types[2])
    drawn = element if element in FLOATS else "f64"
    options = {"dtype": dtype(drawn), "device": w.device}
    if o.keyword("rng_distribution", ("UNIFORM", "NORMAL")) == "NORMAL":
        return w("add.Tensor", w("mul.Tensor", w("randn.default", sizes, **options), b), a)
    a, b = converted(w, a, element, drawn), converted(w, b, element, drawn)
    found = w("add.Tensor", w("mul.Tensor", w("rand.default", sizes, **options), w("sub.Tensor", b, a)), a)
    return found if drawn == element else converted(w, w("floor.default", found), drawn, element)
