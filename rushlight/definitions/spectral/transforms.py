"""Discrete Fourier transforms: complex to complex, real to half complex and back, over any dims.

Enters: real, integer or complex tensors with torch's `n`/`s`, `dim` and `norm`. Leaves: three ops (`spectral/rows.py`
computes them) with closed derivatives, and the public functions written with them. Refuses: half types, which
PyTorch does not transform on a CPU either, transforms of no points, and repeated dims.

`norm` of the three calls says which power of the number of points divides the result: "none", "root" or "count".
The transforms are linear and symmetric, so their derivatives are transforms again, and so on to any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rushlight.base.assertions import sym_sqrt

from ... import _C
from ...base.promotion import default_dtype, rank
from ...op import Composite, FreedMeta, Library, Meta, Spec, find_op
from ...op.factory import OPTIONS
from ...op.view import wrap_dim
from ...planners.fourier.direct import direct_launch
from ...planners.fourier.library import library_launches
from ...planners.fourier.rows import to_complex
from ...rules.batching import front, wrapped
from .rows import complex_along, half_along, real_along, whole_along


def factor(norm: str, points: int) -> float:
    """What the transform over one dim of `points` is multiplied by."""
    return {"none": 1.0, "root": 1 / sym_sqrt(points), "count": 1 / points}[norm]


def check_precision(name: str, t: Any) -> None:
    """The library transforms single and double precision only."""
    if t.dtype not in (_C.float32, _C.float64, _C.complex64, _C.complex128):
        raise RuntimeError(
            f"{name}: Unsupported dtype {t.dtype.name}. Convert to float32, float64 or their complex types first."
        )


class _Transform(Library):
    """What the three calls share: they transform `dim` and leave every other dim alone."""

    method = False
    replays = True

    def is_planned(self, args: tuple) -> bool:
        return args[0].numel() > 0

    def compute(self, input: Any, *args: Any) -> Any:
        """The transform on the host, one dim after another."""
        raise NotImplementedError

    def run(self, *args: Any) -> Any:
        input = args[0]
        if input.device.type != "cpu" or not input.numel():
            return super().run(*args)
        self.meta(*args)
        return self.compute(input.detach(), *args[1:]).contiguous()

    def cpu(self, out, *args):
        if out.numel():
            out.copy_(self.compute(args[0].detach(), *args[1:]))

    def vmap(self, level: Any, overload: Any, args: tuple) -> Any:
        input, dim, *rest = args
        return wrapped(overload.call(front(input, level), tuple(d + 1 for d in dim), *rest), level)


class ComplexToComplex(_Transform):
    """The complex transform over `dim`."""

    schema = "_fft_c2c(Tensor input, int[] dim, str norm, bool forward) -> Tensor"

    def meta(self, input, dim, norm, forward):
        check_precision("fft", input)
        return Spec(tuple(input.shape), input.dtype)

    def launches(self, args):
        input, dim, norm, forward = args
        scales = [factor(norm, input.shape[d]) for d in dim]
        if input.device.type != "cpu":
            return library_launches(input, dim, "c2c", math.prod(scales), forward)
        return direct_launch(input, dim, "forward" if forward else "inverse", scales)

    def compute(self, input, dim, norm, forward):
        for d in reversed(dim):
            input = complex_along(input, d, forward, factor(norm, input.shape[d]))
        return input if dim else input.clone()

    def vjp(self, g, dim, norm, forward):
        return {"input": find_op("_fft_c2c")(g, dim, norm, not forward)}


class RealToComplex(_Transform):
    """The transform of real numbers over `dim`; `onesided` leaves out the mirrored half of the last of them."""

    schema = "_fft_r2c(Tensor input, int[] dim, str norm, bool onesided) -> Tensor"

    def meta(self, input, dim, norm, onesided):
        check_precision("fft", input)
        shape = list(input.shape)
        if onesided:
            shape[dim[-1]] = shape[dim[-1]] // 2 + 1
        return Spec(tuple(shape), to_complex(input.dtype))

    def launches(self, args):
        input, dim, norm, onesided = args
        scales = [factor(norm, input.shape[d]) for d in dim]
        if input.device.type != "cpu":
            return library_launches(input, dim, "r2c" if onesided else "whole", math.prod(scales), True)
        return direct_launch(input, dim, "half" if onesided else "whole", scales)

    def compute(self, input, dim, norm, onesided):
        first = half_along if onesided else whole_along
        result = first(input, dim[-1], factor(norm, input.shape[dim[-1]]))
        for d in reversed(dim[:-1]):
            result = complex_along(result, d, True, factor(norm, result.shape[d]))
        return result

    def vjp(self, g, input: FreedMeta, dim, norm, onesided):
        if onesided:
            g = resized(g, dim[-1], input.shape[dim[-1]])
        return {"input": find_op("real")(find_op("_fft_c2c")(g, dim, norm, False))}


class ComplexToReal(_Transform):
    """The inverse transform of a half spectrum over `dim`, whose last dim gets `size` real points."""

    schema = "_fft_c2r(Tensor input, int[] dim, str norm, int size) -> Tensor"

    def meta(self, input, dim, norm, size):
        check_precision("fft", input)
        shape = list(input.shape)
        shape[dim[-1]] = size
        return Spec(tuple(shape), input.dtype.to_real())

    def launches(self, args):
        input, dim, norm, size = args
        if not input.ndim or input.shape[-1] != size // 2 + 1 or not size:
            return None
        scales = [*(factor(norm, input.shape[d]) for d in dim[:-1]), factor(norm, size)]
        if input.device.type != "cpu":
            return library_launches(input, dim, "c2r", math.prod(scales), False, size)
        return direct_launch(input, dim, "real", scales, size)

    def compute(self, input, dim, norm, size):
        for d in dim[:-1]:
            input = complex_along(input, d, False, factor(norm, input.shape[d]))
        return real_along(input, dim[-1], size, factor(norm, size))

    def vjp(self, g, input: Meta, dim, norm, size):
        half = find_op("_fft_r2c")(g, dim, norm, True)
        last, mirrored = dim[-1], half.shape[dim[-1]] - 1 - (size % 2 == 0)
        if mirrored > 0:   # these points stand for two of the full spectrum each
            twice = half.narrow(last, 1, mirrored) * 2
            rest = half.narrow(last, mirrored + 1, half.shape[last] - mirrored - 1)
            half = find_op("cat")([half.narrow(last, 0, 1), twice, rest], last)
        return {"input": half}


# --- arguments --------------------------------------------------------------------------------------------------------


def resized(x: Any, dim: int, size: int) -> Any:
    """`x` cut or filled up with zeros to `size` points along `dim`."""
    missing = size - x.shape[dim]
    if missing <= 0:
        return x if not missing else x.narrow(dim, 0, size)
    shape = [missing if d == dim else n for d, n in enumerate(x.shape)]
    return find_op("cat")([x, x.new_zeros(shape)], dim)


def scaling(name: str, norm: str | None, forward: bool) -> str:
    """Which power of the number of points divides the result."""
    if norm == "ortho":
        return "root"
    if norm not in (None, "backward", "forward"):
        raise RuntimeError(f'{name}: Invalid normalization mode: "{norm}". Expected "forward", "backward" or "ortho".')
    return "count" if (norm == "forward") == forward else "none"


def as_float(x: Any) -> Any:
    """Integers become the default floating type."""
    return x if rank(x.dtype) > 1 else x.to(default_dtype())


def as_complex(x: Any) -> Any:
    x = as_float(x)
    if not x.dtype.is_complex:
        check_precision("fft", x)
    return x.to(to_complex(x.dtype))


def need_real(name: str, x: Any) -> Any:
    if x.dtype.is_complex:
        raise RuntimeError(f"{name}: expected a real input, got {x.dtype.name}")
    return as_float(x)


def one_dim(name: str, x: Any, dim: int) -> int:
    if not x.ndim:
        raise IndexError(f"{name}: Dimension specified as {dim} but tensor has no dimensions")
    return wrap_dim(name, dim, x.ndim)


def check_points(name: str, n: int) -> None:
    if n < 1:
        raise RuntimeError(f"{name}: Invalid number of data points ({n}) specified. At least 1 is needed.")


def cut(name: str, x: Any, n: int | None, dim: int) -> Any:
    """`x` with `n` points along `dim`."""
    check_points(name, x.shape[dim] if n is None else n)
    return x if n is None else resized(x, dim, n)


def sizes_and_dims(name: str, x: Any, s: Any, dim: Any) -> tuple[list[int], tuple[int, ...]]:
    """The numbers of points and the dims they are for, from what was given of either; -1 keeps a size."""
    if dim is not None:
        dims = tuple(one_dim(name, x, d) for d in dim)
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"{name}: FFT dims must be unique, got {list(dim)}")
        if s is not None and len(s) != len(dims):
            raise RuntimeError(f"{name}: expected as many dims as sizes, got {len(dims)} and {len(s)}")
    elif s is not None:
        if len(s) > x.ndim:
            raise RuntimeError(f"{name}: Got shape with {len(s)} values but input tensor only has {x.ndim} dimensions.")
        dims = tuple(range(x.ndim - len(s), x.ndim))
    else:
        dims = tuple(range(x.ndim))
    sizes = (
        [x.shape[d] for d in dims]
        if s is None
        else [x.shape[d] if n == -1 else n for n, d in zip(s, dims, strict=True)]
    )
    return sizes, dims


def cut_all(name: str, x: Any, s: Any, dim: Any) -> tuple[Any, tuple[int, ...]]:
    sizes, dims = sizes_and_dims(name, x, s, dim)
    for n, d in zip(sizes, dims, strict=True):
        check_points(name, n)
        x = resized(x, d, n)
    return x, dims


def half_all(name: str, x: Any, s: Any, dim: Any) -> tuple[Any, tuple[int, ...], int]:
    """`x` cut to what a transform to real numbers reads, the dims, and the real points of the last."""
    sizes, dims = sizes_and_dims(name, x, s, dim)
    if not dims:
        raise RuntimeError(f"{name}: must transform at least one axis")
    last = sizes[-1] if s is not None and s[-1] != -1 else 2 * (x.shape[dims[-1]] - 1)
    check_points(name, last)
    x = as_complex(x)
    for n, d in zip([*sizes[:-1], last // 2 + 1], dims, strict=True):
        check_points(name, n)
        x = resized(x, d, n)
    return x, dims, last


# --- what the functions compute ---------------------------------------------------------------------------------------


def complex_1d(name: str, x: Any, n: Any, dim: int, norm: Any, forward: bool) -> Any:
    x, scale = as_float(x), scaling(name, norm, forward)
    d = one_dim(name, x, dim)
    if forward and not x.dtype.is_complex:
        return find_op("_fft_r2c")(cut(name, x, n, d), (d,), scale, False)
    return find_op("_fft_c2c")(cut(name, as_complex(x), n, d), (d,), scale, forward)


def complex_nd(name: str, x: Any, s: Any, dim: Any, norm: Any, forward: bool) -> Any:
    x, scale = as_float(x), scaling(name, norm, forward)
    x, dims = cut_all(name, x, s, dim)
    if forward and dims and not x.dtype.is_complex:
        return find_op("_fft_r2c")(x, dims, scale, False)
    return find_op("_fft_c2c")(as_complex(x), dims, scale, forward)


def to_half_1d(name: str, x: Any, n: Any, dim: int, norm: Any, forward: bool) -> Any:
    x, scale = need_real(name, x), scaling(name, norm, forward)
    d = one_dim(name, x, dim)
    half = find_op("_fft_r2c")(cut(name, x, n, d), (d,), scale, True)
    return half if forward else half.conj()


def to_half_nd(name: str, x: Any, s: Any, dim: Any, norm: Any, forward: bool) -> Any:
    x, scale = need_real(name, x), scaling(name, norm, forward)
    x, dims = cut_all(name, x, s, dim)
    if not dims:
        raise RuntimeError(f"{name}: must transform at least one axis")
    if forward:
        return find_op("_fft_r2c")(x, dims, scale, True)
    half = find_op("_fft_r2c")(x, dims[-1:], scale, True).conj()
    return find_op("_fft_c2c")(half, dims[:-1], scale, False) if len(dims) > 1 else half


def to_real_1d(name: str, x: Any, n: Any, dim: int, norm: Any, forward: bool) -> Any:
    scale = scaling(name, norm, forward)
    d = one_dim(name, x, dim)
    size = n if n is not None else 2 * (x.shape[d] - 1)
    check_points(name, size)
    x = resized(as_complex(x), d, size // 2 + 1)
    return find_op("_fft_c2r")(x.conj() if forward else x, (d,), scale, size)


def to_real_nd(name: str, x: Any, s: Any, dim: Any, norm: Any, forward: bool) -> Any:
    scale = scaling(name, norm, forward)
    x, dims, size = half_all(name, x, s, dim)
    if not forward:
        return find_op("_fft_c2r")(x, dims, scale, size)
    x = find_op("_fft_c2c")(x, dims[:-1], scale, True) if len(dims) > 1 else x
    return find_op("_fft_c2r")(x.conj(), dims[-1:], scale, size)


# --- the public functions ---------------------------------------------------------------------------------------------

_ONE = "(Tensor input, int? n=None, int dim=-1, str? norm=None) -> Tensor"
_TWO = "(Tensor input, int[]? s=None, int[] dim=(-2, -1), str? norm=None) -> Tensor"
_MANY = "(Tensor input, int[]? s=None, int[]? dim=None, str? norm=None) -> Tensor"


class _Transform(Composite):
    """What the public transforms share: a schema for one, two or many dims, and the function that computes them."""

    namespace = "fft"
    method = False
    replays = True
    plan_per_shape = True
    body: Callable
    forward = True

    def compute(self, input, size, dim, norm):
        return type(self).body(f"fft.{self.name}", input, size, dim, norm, self.forward)


class Fft(_Transform):
    """The transform along one dim."""

    schema = "fft" + _ONE
    body = staticmethod(complex_1d)


class InverseFft(_Transform):
    """The inverse of `fft`."""

    schema = "ifft" + _ONE
    body = staticmethod(complex_1d)
    forward = False


class RealFft(_Transform):
    """The transform of real numbers along one dim, without its mirrored half."""

    schema = "rfft" + _ONE
    body = staticmethod(to_half_1d)


class InverseRealFft(_Transform):
    """The inverse of `rfft`, of `n` real points."""

    schema = "irfft" + _ONE
    body = staticmethod(to_real_1d)
    forward = False


class HermitianFft(_Transform):
    """The real transform of a signal given by its first half, the rest being its mirrored conjugate."""

    schema = "hfft" + _ONE
    body = staticmethod(to_real_1d)


class InverseHermitianFft(_Transform):
    """The inverse of `hfft`."""

    schema = "ihfft" + _ONE
    body = staticmethod(to_half_1d)
    forward = False


class Fft2(_Transform):
    """The transform over two dims."""

    schema = "fft2" + _TWO
    body = staticmethod(complex_nd)


class InverseFft2(_Transform):
    """The inverse of `fft2`."""

    schema = "ifft2" + _TWO
    body = staticmethod(complex_nd)
    forward = False


class RealFft2(_Transform):
    """The transform of real numbers over two dims, without its mirrored half."""

    schema = "rfft2" + _TWO
    body = staticmethod(to_half_nd)


class InverseRealFft2(_Transform):
    """The inverse of `rfft2`."""

    schema = "irfft2" + _TWO
    body = staticmethod(to_real_nd)
    forward = False


class HermitianFft2(_Transform):
    """`hfft` over two dims."""

    schema = "hfft2" + _TWO
    body = staticmethod(to_real_nd)


class InverseHermitianFft2(_Transform):
    """The inverse of `hfft2`."""

    schema = "ihfft2" + _TWO
    body = staticmethod(to_half_nd)
    forward = False


class FftN(_Transform):
    """The transform over many dims."""

    schema = "fftn" + _MANY
    body = staticmethod(complex_nd)


class InverseFftN(_Transform):
    """The inverse of `fftn`."""

    schema = "ifftn" + _MANY
    body = staticmethod(complex_nd)
    forward = False


class RealFftN(_Transform):
    """The transform of real numbers over many dims, without its mirrored half."""

    schema = "rfftn" + _MANY
    body = staticmethod(to_half_nd)


class InverseRealFftN(_Transform):
    """The inverse of `rfftn`."""

    schema = "irfftn" + _MANY
    body = staticmethod(to_real_nd)
    forward = False


class HermitianFftN(_Transform):
    """`hfft` over many dims."""

    schema = "hfftn" + _MANY
    body = staticmethod(to_real_nd)


class InverseHermitianFftN(_Transform):
    """The inverse of `hfftn`."""

    schema = "ihfftn" + _MANY
    body = staticmethod(to_half_nd)
    forward = False


# --- frequencies ------------------------------------------------------------------------------------------------------


class _Frequencies(Composite):
    namespace = "fft"
    method = False

    def compute(self, n, d, dtype, layout, device, pin_memory, requires_grad):
        if dtype is not None and rank(dtype) < 2:
            raise RuntimeError(f"fft.{self.name}: expected a floating point or complex dtype, got {dtype.name}")
        if n < 0:
            raise RuntimeError(f"fft.{self.name}: expected n of at least 0, got negative dimension {n}")
        result = self.indices(n, dtype or default_dtype(), layout, device, pin_memory)
        result = result.mul_(math.inf if n * d == 0 else 1 / (n * d))
        return result.requires_grad_(requires_grad)

    def indices(self, n: int, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Any:
        raise NotImplementedError


class FftFreq(_Frequencies):
    """The frequencies of a transform of `n` points `d` apart: not negative ones first."""

    schema = f"fftfreq(int n, float d=1.0, {OPTIONS}) -> Tensor"

    def indices(self, n, dtype, layout, device, pin_memory):
        result = find_op("arange")(n, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)
        half = (n + 1) // 2
        return find_op("cat")([result.narrow(0, 0, half), result.narrow(0, half, n - half) - n], 0) if n else result


class RealFftFreq(_Frequencies):
    """The frequencies of a transform of `n` real points `d` apart."""

    schema = f"rfftfreq(int n, float d=1.0, {OPTIONS}) -> Tensor"

    def indices(self, n, dtype, layout, device, pin_memory):
        return find_op("arange")(n // 2 + 1, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


class FftShift(Composite):
    """The spectrum with frequency 0 in the middle of `dim`, of all dims by default."""

    schema = "fftshift(Tensor input, int[]? dim=None) -> Tensor"
    replays = True
    namespace = "fft"
    method = out = False

    def compute(self, input, dim):
        dims = range(input.ndim) if dim is None else [wrap_dim("fft.fftshift", d, input.ndim) for d in dim]
        return find_op("roll")(input, [input.shape[d] // 2 for d in dims], list(dims))


class InverseFftShift(Composite):
    """The inverse of `fftshift`."""

    schema = "ifftshift(Tensor input, int[]? dim=None) -> Tensor"
    replays = True
    namespace = "fft"
    method = out = False

    def compute(self, input, dim):
        dims = range(input.ndim) if dim is None else [wrap_dim("fft.ifftshift", d, input.ndim) for d in dim]
        return find_op("roll")(input, [(input.shape[d] + 1) // 2 for d in dims], list(dims))
