"""Views between complex numbers and their parts, and views that show conjugates and negatives."""

from __future__ import annotations

from typing import Any

from ... import _C
from ...base.bits import CONJUGATE, NEGATIVE
from ...op import Composite, Geometry, Meta, View, find_op

_PART = {_C.complex32: _C.float16, _C.complex64: _C.float32, _C.complex128: _C.float64}
_WHOLE = {part: whole for whole, part in _PART.items()}


class ViewAsReal(View):
    """Complex numbers as pairs in a last dimension of size two."""

    schema = "view_as_real(Tensor(a) input) -> Tensor(a)"
    method = False

    def geometry(self, t):
        if t.dtype not in _PART:
            raise RuntimeError(f"view_as_real: expected a complex tensor, got {t.dtype.name}")
        if t.is_conj():
            raise RuntimeError(
                "view_as_real: the memory of unresolved conjugated tensors holds other numbers. Use"
                " tensor.resolve_conj(), which copies them."
            )
        return Geometry((*t.shape, 2), (*(2 * s for s in t.stride()), 1), 0, _PART[t.dtype])

    def vjp(self, g):
        return {"input": find_op("view_as_complex")(g.contiguous())}

    def inverse(self, base, new, which):
        return find_op("view_as_complex")(new.contiguous())


class ViewAsComplex(View):
    """Pairs in a last dimension of size two as complex numbers."""

    schema = "view_as_complex(Tensor(a) input) -> Tensor(a)"
    method = False
    cacheable = False

    def geometry(self, t):
        if t.dtype not in _WHOLE:
            raise RuntimeError(
                f"view_as_complex: expected float16 (half), float32 (float) or float64 (double), got {t.dtype.name}"
            )
        strides = t.stride()
        if t.ndim == 0 or t.shape[-1] != 2:
            raise RuntimeError("view_as_complex: expected a last dimension of size 2")
        if strides[-1] != 1:
            raise RuntimeError("view_as_complex: expected a last dimension of stride 1")
        if any(s % 2 for s in strides[:-1]) or t.storage_offset() % 2:
            raise RuntimeError(
                "view_as_complex: expected even strides before the last dimension and an even storage_offset"
            )
        return Geometry(tuple(t.shape[:-1]), tuple(s // 2 for s in strides[:-1]), 0, _WHOLE[t.dtype])

    def vjp(self, g):
        return {"input": find_op("view_as_real")(g.resolve_conj())}

    def inverse(self, base, new, which):
        return find_op("view_as_real")(new)


def check_complex(name: str, t: Any) -> None:
    """Only complex numbers have parts."""
    if t.dtype not in _PART:
        raise RuntimeError(f"{name}: expected a complex tensor, got {t.dtype.name}")


class RealPart(View):
    """The real parts, as a view."""

    schema = "_real_part(Tensor(a) input) -> Tensor(a)"
    function = method = False

    def geometry(self, t):
        check_complex("_real_part", t)
        return Geometry(tuple(t.shape), tuple(2 * s for s in t.stride()), 0, _PART[t.dtype])

    def vjp(self, g, input: Meta):
        return {"input": g.to(input.dtype)}

    def inverse(self, base, new, which):
        return find_op("complex")(new, find_op("_imag_part")(base))


class ImagPart(View):
    """The imaginary parts, as a view."""

    schema = "_imag_part(Tensor(a) input) -> Tensor(a)"
    function = method = False

    def geometry(self, t):
        check_complex("_imag_part", t)
        strides = tuple(2 * s for s in t.stride())
        return Geometry(tuple(t.shape), strides, 1, _PART[t.dtype], NEGATIVE if t.is_conj() else 0)

    def vjp(self, g, input: Meta):
        return {"input": g.to(input.dtype) * 1j}

    def inverse(self, base, new, which):
        return find_op("complex")(find_op("_real_part")(base), new)


class Real(Composite):
    """The real parts: a view of complex input, real input itself."""

    schema = "real(Tensor(a) input) -> Tensor(a)"
    method = False
    out = False

    def compute(self, input):
        return find_op("_real_part")(input) if input.is_complex() else input


class Imag(Composite):
    """The imaginary parts of complex input, as a view."""

    schema = "imag(Tensor(a) input) -> Tensor(a)"
    method = False
    out = False

    def compute(self, input):
        if not input.is_complex():
            raise RuntimeError("imag: expected a complex tensor, got one of real numbers.")
        return find_op("_imag_part")(input)


class ConjugateView(View):
    """The conjugates, as a view: nothing is copied, the bit that says so is turned over."""

    schema = "_conj(Tensor(a) input) -> Tensor(a)"
    written = "_conj_physical"

    def geometry(self, t):
        check_complex("_conj", t)
        return Geometry(tuple(t.shape), t.stride(), flips=CONJUGATE)

    def vjp(self, g):
        return {"input": g.conj()}

    def inverse(self, base, new, which):
        return find_op("conj_physical")(new)


class NegativeView(View):
    """The negatives, as a view: nothing is copied, the bit that says so is turned over."""

    schema = "_neg_view(Tensor(a) input) -> Tensor(a)"
    written = "neg"

    def geometry(self, t):
        if t.dtype is _C.bool:
            raise NotImplementedError("\"_neg_view\" not implemented for 'bool': truth has no negative")
        return Geometry(tuple(t.shape), t.stride(), flips=NEGATIVE)

    def vjp(self, g):
        return {"input": g.neg()}

    def inverse(self, base, new, which):
        return new.neg()


class Conj(Composite):
    """The conjugates, as a view; a real tensor itself."""

    schema = "conj(Tensor(a) input) -> Tensor(a)"
    out = False

    def compute(self, input):
        return find_op("_conj")(input) if input.dtype.is_complex else input


class ResolveConj(Composite):
    """`input` itself, or a copy of what it shows where its conjugate bit is set."""

    schema = "resolve_conj(Tensor(a) input) -> Tensor(a)"
    out = False
    unchanged = {}       # tensors with bits are nobody's to give back unseen

    def compute(self, input):
        return input.clone() if input.is_conj() else input


class ResolveNeg(Composite):
    """`input` itself, or a copy of what it shows where its negative bit is set."""

    schema = "resolve_neg(Tensor(a) input) -> Tensor(a)"
    out = False
    unchanged = {}

    def compute(self, input):
        return input.clone() if input.is_neg() else input
