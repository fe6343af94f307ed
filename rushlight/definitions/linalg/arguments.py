"""What linear algebra ops ask of their arguments, and the shapes they agree on.
Refusals are PyTorch's error classes."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.op import find_op

LAPACK_DTYPES = (_C.float32, _C.float64, _C.complex64, _C.complex128)
TITLES = {_C.float16: "Half", _C.bfloat16: "BFloat16"}


def check_float(name: str, t: Any, what: str = "input") -> None:
    """A dtype LAPACK computes in."""
    if t.dtype in LAPACK_DTYPES:
        return
    if t.dtype.is_floating_point or t.dtype.is_complex:
        raise RuntimeError(
            f"{name}: Low precision dtypes not supported. Got {TITLES.get(t.dtype, t.dtype.name)}. Convert to float32"
            " first."
        )
    raise RuntimeError(f"{name}: expected a floating point or complex {what}, got {t.dtype.name}")


def check_matrix(name: str, t: Any, what: str = "A") -> None:
    """At least two dims."""
    if t.ndim < 2:
        raise RuntimeError(
            f"{name}: The input tensor {what} must have at least 2 dimensions, got shape {list(t.shape)}."
        )


def check_square(name: str, t: Any, what: str = "A") -> None:
    """A batch of square matrices."""
    check_matrix(name, t, what)
    if t.shape[-1] != t.shape[-2]:
        raise RuntimeError(f"{name}: expected square matrices as {what}, got {t.shape[-2]} by {t.shape[-1]}")


def check_same_dtype(name: str, a: Any, b: Any, labels: tuple[str, str] = ("A", "B")) -> None:
    """Both operands in one dtype."""
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"{name}: expected {labels[0]} and {labels[1]} of one dtype, got {a.dtype.name} and {b.dtype.name}"
        )


def broadcast_batches(name: str, a: Any, b: Any, core: tuple[int, int] = (2, 2)) -> tuple[Any, Any]:
    """Both operands with their batch dims expanded to the common ones; the last `core` dims stay."""
    left, right = tuple(a.shape[: a.ndim - core[0]]), tuple(b.shape[: b.ndim - core[1]])
    if left == right:
        return a, b
    count = max(len(left), len(right))
    padded = [(1,) * (count - len(x)) + x for x in (left, right)]
    if any(x != y and 1 not in (x, y) for x, y in zip(*padded, strict=True)):
        raise RuntimeError(
            f"{name}: The batch dimensions {list(left)} and {list(right)} cannot be broadcast: the size of tensor a"
            " must match the size of tensor b"
        )
    batch = tuple(y if x == 1 else x for x, y in zip(*padded, strict=True))
    return a.expand((*batch, *a.shape[a.ndim - core[0] :])), b.expand((*batch, *b.shape[b.ndim - core[1] :]))


def real_dtype(dtype: Any) -> Any:
    """The dtype of a complex dtype's parts; real dtypes are their own."""
    return dtype.to_real() if dtype.is_complex else dtype


def is_vector_side(a: Any, b: Any) -> bool:
    """Whether `b` holds vectors rather than matrices on the right of a system with `a`."""
    return b.ndim == 1 or (a.ndim - 1 == b.ndim and tuple(b.shape) == tuple(a.shape[:-1]))


def eye_like(t: Any, n: int) -> Any:
    """The identity in a tensor's dtype and place."""
    return find_op("eye")(n, dtype=t.dtype, device=t.device)


def first(parts: Any) -> Any:
    """The first of several results or gradients; a single one is itself."""
    return parts[0] if isinstance(parts, tuple) else parts


def recording() -> bool:
    """Whether what a derivative rule computes will itself be differentiated."""
    return _C.is_grad_enabled()
