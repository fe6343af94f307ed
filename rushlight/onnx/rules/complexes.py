"""Complex numbers: ops that move or add up their parts (each part goes its own way), and those that mix them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from ... import _C
from ...fx.node import map_aggregate
from ..building import Builder, Size
from ..model import Value
from ..pairs import REAL, Pair, joined, parts, whole
from .products import matmul
from .table import INT64, RULES, number, positive, result_of

COMPLEX: dict[str, Callable[..., Any]] = {}

# What an op of these does to complex numbers it does to each of their parts.
BY_PART = frozenset(
    "view reshape _unsafe_view view_as reshape_as flatten unflatten permute transpose swapaxes swapdims t "
    "squeeze unsqueeze expand broadcast_to expand_as repeat tile cat stack split split_with_sizes chunk "
    "tensor_split unbind slice narrow select flip roll tril triu diagonal diagonal_scatter select_scatter "
    "slice_scatter unfold clone contiguous detach alias lift_fresh_copy lift_fresh _laid_out lift detach_copy "
    "alias_copy positive index index_select gather take take_along_dim sum mean cumsum nansum movedim diag_embed "
    "constant_pad_nd index_put _index_put index_add index_copy scatter scatter_add embedding as_strided "
    "pixel_shuffle trace masked_select copy fill zeros_like empty_like new_zeros new_empty zeros empty "
    "reflection_pad1d reflection_pad2d replication_pad1d put put_".split()
)
# Numbers that these are given go into the real part.
_OF_NUMBERS = frozenset("ones_like full_like new_ones new_full full ones scalar_tensor eye arange linspace".split())


def complex_rule(*names: str) -> Callable[[Callable], Callable]:
    """The decorated function is the rule of these ops where complex numbers are among arguments or results."""

    def keep(function: Callable) -> Callable:
        for name in names:
            assert name not in COMPLEX, f"two rules for {name}"
            COMPLEX[name] = function
        return function

    return keep


def complex_call(g: Builder, name: str, named: Mapping[str, Any]) -> Any:
    """The result of an op on, or of, complex numbers."""
    if name in COMPLEX:
        return COMPLEX[name](g, **named)
    if name in _OF_NUMBERS:
        return _of_numbers(g, name, named)
    if name not in BY_PART or name not in RULES:
        raise NotImplementedError(f"{name} of complex numbers")
    seen, results = g.result, []
    for i in (0, 1):
        def part(x: Any, i: int = i) -> Any:
            if isinstance(x, Pair):
                return parts(g, x)[i]
            if isinstance(x, complex):
                return x.imag if i else x.real
            return g.constant(0, x.dtype) if i and _is_number(name, x) else x

        g.result = map_aggregate(seen, _real_like)
        results.append(RULES[name](g, **{key: map_aggregate(value, part) for key, value in named.items()}))
    g.result = seen
    return _joined(g, *results, seen)


def _is_number(name: str, x: Any) -> bool:
    """Whether a real tensor stands among complex ones, as a value."""
    return name in ("cat", "stack", "index_put", "scatter") and isinstance(x, Value) and x.dtype.is_floating_point


def _of_numbers(g: Builder, name: str, named: Mapping[str, Any]) -> Any:
    """A tensor of numbers that are given, which may be complex."""
    seen, results = g.result, []
    for i in (0, 1):
        def part(x: Any, i: int = i) -> Any:
            if isinstance(x, Pair):
                return parts(g, x)[0]
            return (x.imag if i else x.real) if isinstance(x, complex) else x

        given = {key: map_aggregate(value, part) for key, value in named.items()}
        g.result = map_aggregate(seen, _real_like)
        if i and not seen.dtype.is_complex:
            return results[0]
        is_zero = i and not any(isinstance(x, complex) for x in named.values())
        results.append(g.constant(0, REAL[seen.dtype.code]) if is_zero else RULES[name](g, **given))
    g.result = seen
    return _joined(g, *results, seen)


def _real_like(fake: Any) -> Any:
    """What tracing saw, with the type of a part."""
    if not isinstance(fake, _C.Tensor) or not fake.dtype.is_complex:
        return fake
    return SimpleNamespace(shape=tuple(fake.shape), ndim=fake.ndim, dtype=REAL[fake.dtype.code])


def _joined(g: Builder, re: Any, im: Any, seen: Any) -> Any:
    if isinstance(re, (tuple, list)):
        return tuple([_joined(g, a, b, s) for a, b, s in zip(re, im, seen, strict=True)])
    return joined(g, re, im, seen.dtype) if seen.dtype.is_complex else re


@complex_rule("view_as_real")
def view_as_real(g: Builder, input: Pair) -> Value:
    return input.value


@complex_rule("view_as_complex")
def view_as_complex(g: Builder, input: Value) -> Pair:
    return Pair(input, g.result.dtype)


@complex_rule("real", "_real_part")
def real(g: Builder, input: Pair) -> Value:
    return parts(g, input)[0]


@complex_rule("imag", "_imag_part")
def imag(g: Builder, input: Pair) -> Value:
    return parts(g, input)[1]


@complex_rule("_conj", "conj")
def conj(g: Builder, input: Pair) -> Pair:
    re, im = parts(g, input)
    return joined(g, re, g.node("Neg", im), input.dtype)


@complex_rule("resolve_conj", "resolve_neg")
def resolved(g: Builder, input: Pair) -> Pair:
    return input


@complex_rule("to", "_to_copy", "type_as", "_to")
def to(g: Builder, input: Any, **options: Any) -> Any:
    wanted = result_of(g).dtype
    if not wanted.is_complex:
        return g.cast(parts(g, input)[0], wanted)
    return whole(g, input, wanted)


@complex_rule("mm", "bmm", "matmul", "mv", "dot")
def product(g: Builder, input: Any, mat2: Any = None, other: Any = None, vec: Any = None, **last: Any) -> Pair:
    right = next(v for v in (mat2, other, vec, *last.values()) if v is not None)
    (a, b), (c, d) = parts(g, input), parts(g, right)
    re, im = matmul(g, a, c), matmul(g, a, d) if isinstance(right, Pair) else None
    if isinstance(input, Pair):
        im = matmul(g, b, c) if im is None else g.node("Add", im, matmul(g, b, c))
        re = g.node("Sub", re, matmul(g, b, d)) if isinstance(right, Pair) else re
    assert im is not None, "one of the two is complex"
    return joined(g, re, im, g.result.dtype)


@complex_rule("linalg_vector_norm")
def vector_norm(g: Builder, x: Pair, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    re, im = parts(g, x)
    square = g.node("Add", g.node("Mul", re, re), g.node("Mul", im, im))
    size = dataclasses.replace(g.node("Sqrt", square), shape=x.shape)
    return RULES["linalg_vector_norm"](g, x=size, ord=ord, dim=dim, keepdim=keepdim, dtype=dtype)


@complex_rule("any", "all", "count_nonzero")
def truths(g: Builder, input: Pair, **options: Any) -> Value:
    re, im = parts(g, input)
    zero = number(g, 0, re)
    none = g.node("And", g.node("Equal", re, zero, dtype=_C.bool), g.node("Equal", im, zero, dtype=_C.bool))
    truth = dataclasses.replace(g.node("Not", none, shape=input.shape), dtype=_C.bool)
    name = "count_nonzero" if result_of(g).dtype is INT64 else "any"
    return RULES[name](g, input=truth, **options)


@complex_rule("prod", "cumprod")
def product_of_all(g: Builder, **arguments: Any) -> Value:
    raise NotImplementedError("products of complex numbers along a dim")


# --- Fourier transforms -----------------------------------------------------------------------------------------------


def _transformed(g: Builder, x: Value, axis: int, inverse: bool = False, onesided: bool = False) -> Value:
    """DFT along an axis (counted from the front) of values with parts in the last dim, of 1 or 2."""
    if g.opset >= 20:
        return g.node("DFT", x, None, g.scalar(axis, INT64), inverse=int(inverse), onesided=int(onesided))
    return g.node("DFT", x, axis=axis, inverse=int(inverse), onesided=int(onesided))


def _scaled(g: Builder, x: Value, sizes: Sequence[int | Size], norm: str, divided: bool) -> Value:
    """A transform with the factor that `norm` asks for; `divided`: ONNX has divided by the sizes already."""
    scale = {"none": 0.0, "root": -0.5, "count": -1.0}[norm] + (1.0 if divided else 0.0)
    for n in sizes:
        if not scale:
            break
        if isinstance(n, Size):
            x = g.node("Mul", x, g.node("Pow", g.scalar(n, x.dtype), number(g, scale, x)))
        else:
            x = g.node("Mul", x, number(g, float(n) ** scale, x))
    return x


@complex_rule("_fft_c2c")
def fft_c2c(g: Builder, input: Pair, dim: Sequence[int], norm: str, forward: bool) -> Pair:
    value, dims = input.value, [positive(d, input.ndim) for d in dim]
    for d in dims:
        value = _transformed(g, value, d, inverse=not forward)
    value = _scaled(g, value, [g.size(input, d) for d in dims], norm, divided=not forward)
    return Pair(value, input.dtype)


@complex_rule("_fft_r2c")
def fft_r2c(g: Builder, input: Value, dim: Sequence[int], norm: str, onesided: bool) -> Pair:
    dims = [positive(d, input.ndim) for d in dim]
    value = g.node("Unsqueeze", input, g.ints([-1]))
    value = _transformed(g, value, dims[-1], onesided=onesided)
    for d in dims[:-1]:
        value = _transformed(g, value, d)
    return Pair(_scaled(g, value, [g.size(input, d) for d in dims], norm, divided=False), g.result.dtype)


@complex_rule("_fft_c2r")
def fft_c2r(g: Builder, input: Pair, dim: Sequence[int], norm: str, size: Any) -> Value:
    """The whole spectrum first: its second half is the first one mirrored, with the other sign of its angles."""
    if isinstance(size, Size):
        raise NotImplementedError("a real transform to a size that varies")
    value, dims = input.value, [positive(d, input.ndim) for d in dim]
    for d in dims[:-1]:
        value = _transformed(g, value, d, inverse=True)
    last, half = dims[-1], size // 2 + 1
    known = input.shape[last] if input.shape is not None else None
    if not isinstance(known, int):
        raise NotImplementedError("a real transform of a size that varies")
    if known > half:
        value = g.node("Slice", value, g.ints([0]), g.ints([half]), g.ints([last]))
    elif known < half:
        pads = [0] * (2 * (input.ndim + 1))
        pads[input.ndim + 1 + last] = half - known
        value = g.node("Pad", value, g.ints(pads), number(g, 0, value))
    # Imaginary parts of what is its own mirror image are not looked at.
    own = (0, size // 2) if size % 2 == 0 else (0,)
    mask = g.constant([[1.0, float(k not in own)] for k in range(half)], value.dtype)
    keeps = g.node("Reshape", mask, g.ints([half, *[1] * (input.ndim - 1 - last), 2]))
    value = g.node("Mul", value, keeps)
    mirrored = size - half
    if mirrored:
        rest = g.node("Slice", value, g.ints([mirrored]), g.ints([0]), g.ints([last]), g.ints([-1]))
        rest = g.node("Mul", rest, g.constant([1.0, -1.0], value.dtype))
        value = g.node("Concat", value, rest, axis=last)
    value = _transformed(g, value, last, inverse=True)
    result = g.node("Gather", value, g.constant(0, INT64), axis=-1)
    sizes = [*[g.size(input, d) for d in dims[:-1]], size]
    return _scaled(g, result, sizes, norm, divided=True)


@complex_rule("stft")
def stft(g: Builder, input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
         window: Any = None, center: bool = True, pad_mode: str = "reflect", normalized: bool = False,
         onesided: bool | None = None, return_complex: bool | None = None, align_to_window: bool | None = None) -> Any:
    """Frames of a signal, each weighted and transformed: [..., frequencies, frames]."""
    if isinstance(window, Pair) or align_to_window:
        raise NotImplementedError("stft with a complex window, or align_to_window=True")
    is_complex, length = isinstance(input, Pair), n_fft if win_length is None else win_length
    kind = REAL[input.dtype.code] if is_complex else input.dtype
    value = input.value if is_complex else g.node("Unsqueeze", input, g.ints([-1]))
    value = value if input.ndim == 2 else g.node("Unsqueeze", value, g.ints([0]))
    if center:
        side = n_fft // 2
        mode = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}.get(pad_mode)
        if mode is None:
            raise NotImplementedError(f"stft with pad_mode={pad_mode!r}")
        value = g.node("Pad", value, g.ints([0, side, 0, 0, side, 0]), None if mode != "constant" else g.constant(
            0, kind), mode=mode)
    weights = g.cast(window, kind) if window is not None else g.constant([1.0] * length, kind)
    left = (n_fft - length) // 2
    if length < n_fft:
        weights = g.node("Pad", weights, g.ints([left, n_fft - length - left]), g.constant(0, kind))
    half = not is_complex if onesided is None else onesided
    hop = g.constant(n_fft // 4 if hop_length is None else hop_length, INT64)
    frames = g.node("STFT", value, hop, weights, g.constant(n_fft, INT64), onesided=int(half))
    result = g.node("Transpose", frames, perm=[0, 2, 1, 3])
    result = result if input.ndim == 2 else g.node("Squeeze", result, g.ints([0]))
    result = _scaled(g, result, [n_fft] if normalized else [], "root", divided=False)
    seen = g.result.dtype
    return Pair(result, seen) if seen.is_complex else result


RULES["stft"] = stft          # of real signals too, where pairs are asked for
