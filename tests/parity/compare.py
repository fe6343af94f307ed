"""When two results are the same: dtype, shape, strides, and every element within a bound that is stated here.

Enters: a result of PyTorch and one of Rushlight. Leaves: nothing, or `Different` with what differs.

The bound depends on the kind of op (`kind_of`):

    moved         ops that only place elements (views, indexing, joining, sorting): equal, bit for bit
    pointwise     each element within `RELATIVE[dtype]` of *itself*: a wrong small element shows beside a large one
    accumulated   sums, products of matrices, losses, normalizations: each within twice `RELATIVE[dtype]` of the largest
                  of the result (of
                  0.01 if that is less), because cancellation leaves a small element of a sum no digits of its own, in
                  either library
    decomposed    linalg, fft and their kin: the same with 15 times the room, since both lose digits in long chains

Integers and booleans are equal, always. Gradients (float64) get 100 times the bound of their op's kind, those of
`moved` ops and second gradients that of `accumulated`, because they add terms up.

Strides have a check of their own, `strides`, and are compared wherever they mean something: not of dimensions of size
1, nor of tensors without elements. Gradients have no strides that PyTorch promises, and `decomposed` ops those of the
library that PyTorch was built with.
"""

from __future__ import annotations

import re
from typing import Any

import torch
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo

import rushlight as rl
from rushlight.op import definitions
from rushlight.op.pointwise import Pointwise
from rushlight.op.view import View
from tests.parity.convert import back

RELATIVE = {torch.float32: 1e-5, torch.float64: 1e-11, torch.bfloat16: 2**-7, torch.float16: 2**-10,
            torch.complex64: 1e-5, torch.complex32: 2**-9, torch.complex128: 1e-11, torch.float8_e4m3fn: 2**-3,
            torch.float8_e5m2: 2**-2}
ROOM = {"moved": 0.0, "pointwise": 1.0, "accumulated": 2.0, "decomposed": 30.0}
# Functions computed as sums that cancel at their many zeros: only their size is a measure of their error.
OSCILLATING = re.compile(r"special\..*(polynomial|bessel|airy)")
# Pointwise all the same, but the value is a small difference of larger numbers, or the slope is steep: times the room.
ILL_CONDITIONED = {"nn.functional.gelu": 30.0, "lerp": 30.0, "sinc": 10.0, "polygamma": 10.0, "special.polygamma": 10.0}


class Different(AssertionError):
    """The two libraries disagree."""


MOVING = frozenset("""
    __getitem__ as_strided_copy atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors broadcast_to cat chunk
    clone column_stack combinations contiguous diag diag_embed diagonal_scatter dsplit dstack expand expand_as flatten
    flip fliplr flipud gather hsplit hstack index_copy index_fill index_put index_select kthvalue masked_fill
    masked_scatter masked_select meshgrid movedim narrow nn.functional.pad nn.functional.pixel_shuffle
    nn.functional.pixel_unshuffle nn.functional.channel_shuffle nonzero permute_copy put ravel repeat repeat_interleave
    reshape resolve_conj resolve_neg roll rot90 scatter searchsorted select_scatter slice_scatter sort split stack
    swapaxes t_copy take take_along_dim tensor_split tile to topk trace_copy tril triu unbind unflatten unfold_copy
    unique unique_consecutive view_copy vsplit vstack where zero_ zeros zeros_like ones ones_like full full_like fill
    eye empty_like
""".split())


def kind_of(record: Any) -> str:
    """The kind of a record, from PyTorch's own classes of records and from Rushlight's definitions."""
    name = record.name.removeprefix("torch.")
    if name.startswith(
        (
            "linalg.",
            "fft.",
            "svd",
            "pca",
            "lu",
            "chol",
            "pinv",
            "matrix_exp",
            "geqrf",
            "ormqr",
            "stft",
            "istft",
            "logdet",
            "qr",
        )
    ):
        return "decomposed"
    if OSCILLATING.match(name):
        return "accumulated"
    if isinstance(record, (UnaryUfuncInfo, BinaryUfuncInfo)):
        return "pointwise"
    base = name.rpartition(".")[2]
    classes = definitions[base] if base in definitions else [object]
    if name in MOVING or all(issubclass(found, View) for found in classes):
        return "moved"
    return "pointwise" if all(issubclass(found, Pointwise) for found in classes) else "accumulated"


def leaves(x: Any) -> list[Any]:
    """Results or arguments as a flat list."""
    if isinstance(x, (list, tuple)):
        return [part for item in x for part in leaves(item)]
    if isinstance(x, dict):
        return [part for item in x.values() for part in leaves(item)]
    return [x]


def compare(
    want: Any, got: Any, where: str, kind: str = "accumulated", values: bool = True, slack: float = 1.0
) -> None:
    """Raise `Different` unless both results are the same."""
    wants, gots = leaves(want), leaves(got)
    if len(wants) != len(gots):
        raise Different(f"{where}: {len(wants)} results wanted, got {len(gots)}")
    for w, g in zip(wants, gots, strict=True):
        if isinstance(w, torch.Tensor):
            compare_tensors(w, g, where, kind, values, slack)
        elif isinstance(w, (torch.dtype, torch.layout, torch.device)):
            if str(w).removeprefix("torch.") != str(g).removeprefix("rushlight.").removeprefix("torch."):
                raise Different(f"{where}: {w} wanted, got {g}")
        elif w is None or isinstance(w, (bool, int, str)):
            if w != g or type(w) is not type(g):
                raise Different(f"{where}: {w!r} wanted, got {g!r}")
        elif isinstance(w, (float, complex)) and not (w == g or (w != w and g != g)):
            if not (isinstance(g, (float, complex)) and abs(w - g) <= 1e-5 * max(abs(w), 1e-30)):
                raise Different(f"{where}: {w} wanted, got {g}")


def compare_tensors(w: torch.Tensor, g: Any, where: str, kind: str, values: bool, slack: float) -> None:
    if not isinstance(g, rl.Tensor):
        raise Different(f"{where}: a tensor wanted, got {type(g).__name__}")
    if str(w.dtype).removeprefix("torch.") != g.dtype.name:
        raise Different(f"{where}: dtype {w.dtype} wanted, got {g.dtype}")
    if tuple(w.shape) != tuple(g.shape):
        raise Different(f"{where}: shape {tuple(w.shape)} wanted, got {tuple(g.shape)}")
    if str(w.layout) != f"torch.{str(g.layout).split('.')[-1]}":
        raise Different(f"{where}: layout {w.layout} wanted, got {g.layout}")
    if values and w.numel():
        compare_values(dense(w), back(g), where, kind, slack)


def compare_strides(want: Any, got: Any, where: str) -> None:
    """Raise `Different` unless the elements of both results lie in memory in the same way."""
    for w, g in zip(leaves(want), leaves(got), strict=True):
        if isinstance(w, torch.Tensor) and w.layout is torch.strided and meaningful_strides(w) != meaningful_strides(g):
            raise Different(f"{where}: strides {w.stride()} of shape {tuple(w.shape)} wanted, got {g.stride()}")


def meaningful_strides(t: Any) -> list[int]:
    """The strides that decide where an element is: those of dimensions with more than one,
    where there are elements at all."""
    return [stride for size, stride in zip(t.shape, t.stride()) if size > 1] if t.numel() else []


def dense(t: torch.Tensor) -> torch.Tensor:
    """A plain tensor of the same elements."""
    t = t.detach()
    return t.to_dense() if t.layout is not torch.strided else t.resolve_conj().resolve_neg()


def bits(t: torch.Tensor) -> torch.Tensor:
    """A tensor whose equality is that of the bits, NaN and signs of zeros included."""
    t = torch.view_as_real(t.contiguous()) if t.is_complex() else t.contiguous()
    return (
        t.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[t.element_size()])
        if t.is_floating_point()
        else t
    )


def compare_values(w: torch.Tensor, found: torch.Tensor, where: str, kind: str, slack: float) -> None:
    bound = RELATIVE.get(w.dtype, 0) * slack * ROOM[kind]
    if (w.dtype.itemsize == 1 and w.dtype.is_floating_point) or w.dtype is torch.complex32:
        wide = torch.complex64 if w.is_complex() else torch.float32
        w, found = w.to(wide), found.to(wide)
    bad = wrong(found, w, bound, kind == "pointwise")
    if not bad.any():
        return
    at = int(bad.flatten().nonzero()[0])
    raise Different(
        f"{where}: {int(bad.sum())} of {bad.numel()} elements differ ({kind}, bound {bound:.2g}), the first at {at}: "
        f"{w.flatten()[at].item()} wanted, got {found.flatten()[at].item()}"
    )


def wrong(found: torch.Tensor, w: torch.Tensor, bound: float, each: bool) -> torch.Tensor:
    """Which elements are further from PyTorch's than the bound allows."""
    same = (found == w) | ((found != found) & (w != w))
    if w.is_complex():   # infinities and NaN are compared part by part, numbers as numbers
        same |= ((bits(found) == bits(w)) | (torch.view_as_real(found).isnan() & torch.view_as_real(w).isnan())).all(-1)
    if not bound or bool(same.all()):
        return ~same
    finite = w.isfinite()
    size = w.abs() if each else w[finite].abs().max().clamp(min=0.01) if bool(finite.any()) else torch.ones(())
    smallest = torch.finfo(w.dtype).tiny   # below it a number has no digits to compare
    return ~(same | (finite & ((found - w).abs() <= bound * size + smallest)))


def compare_unchanged(before: torch.Tensor, after: Any, where: str) -> None:
    """A tensor of ours still has exactly the elements that PyTorch's had before the call."""
    now = back(after)
    if now.shape != before.shape or now.dtype != before.dtype or not torch.equal(bits(now), bits(before)):
        raise Different(f"{where}: was changed, which PyTorch does not do")
