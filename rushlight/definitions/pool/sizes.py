"""What pooling functions share: arguments per dim, output sizes, and the refusals PyTorch makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.base.shape import INTS

LARGEST = 2**31 - 1   # of a window's numbers, as in PyTorch: products of two of them still are 64-bit numbers
BATCHED = {
    1: "2 dimensions, or 3 with a batch",
    2: "3 dimensions, or 4 with a batch",
    3: "4 dimensions, or 5 with a batch",
}


def per_dim(name: str, label: str, value: int | Sequence[int], count: int) -> tuple[int, ...]:
    """An int for every dim, from one int or as many."""
    values = (value,) if isinstance(value, INTS) else tuple(value)
    if len(values) not in (1, count):
        raise RuntimeError(f"{name}: {label} is an int or {count} of them, got {list(values)}")
    return values * count if len(values) == 1 else values


class Pooling:
    """The arguments of a sliding pool, checked."""

    def __init__(
        self, name: str, count: int, kernel: Any, stride: Any, padding: Any, dilation: Any = 1, ceil_mode: bool = False
    ) -> None:
        self.name, self.count, self.ceil_mode = name, count, ceil_mode
        self.kernel = per_dim(name, "kernel_size", kernel, count)
        self.stride = per_dim(name, "stride", stride, count) if stride not in (None, [], ()) else self.kernel
        self.padding = per_dim(name, "padding", padding, count)
        self.dilation = per_dim(name, "dilation", dilation, count)
        for label, values in (("kernel_size", self.kernel), ("stride", self.stride), ("dilation", self.dilation)):
            if min(values) <= 0:
                raise RuntimeError(f"{name}: expected {label} above 0, got {min(values)}")
            if any(isinstance(value, int) and value > LARGEST for value in values):
                raise RuntimeError(f"{name}: expected {label} of at most {LARGEST}, got {max(values)}")
        for k, p, d in zip(self.kernel, self.padding, self.dilation, strict=True):
            if p < 0:
                raise RuntimeError(f"{name}: expected pad of at least 0, got {p}")
            # Dilation counts for one dim only: PyTorch's check of images is about the kernel as given.
            if p > ((k - 1) * d + 1) // 2 or (count > 1 and p > k // 2):
                raise RuntimeError(
                    f"{name}: expected a padding of at most half the dilated kernel, got pad={p}, kernel_size={k},"
                    f" dilation={d}"
                )

    def outputs(self, shape: Sequence[int]) -> list[int]:
        """Output sizes of the spatial dims; raises where there would be none."""
        sizes = shape[len(shape) - self.count :]
        found = [
            output_size(n, *numbers, self.ceil_mode)
            for n, *numbers in zip(sizes, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        ]
        if any(n < 1 for n in found):
            if self.count == 1:
                raise RuntimeError(f"{self.name}: Invalid computed output size: {found[0]}")
            raise RuntimeError(
                f"{self.name}: given input size {list(sizes)}, the calculated output size is {found}. Output size is"
                " too small"
            )
        return found


def fixed(value: Any) -> Any:
    """A list as a tuple, which can be part of a cache's key."""
    return tuple(value) if isinstance(value, list) else value


def output_size(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """How many windows fit; with `ceil_mode` also one that starts inside and hangs over the end."""
    reach = size + 2 * padding - dilation * (kernel - 1) - 1
    out = (reach + (stride - 1 if ceil_mode else 0)) // stride + 1
    return out - 1 if ceil_mode and (out - 1) * stride >= size + padding else out


def check_image(name: str, shape: Sequence[int], count: int) -> None:
    """Channels and `count` spatial dims, with or without a batch; only the batch may be empty."""
    batched = len(shape) == count + 2
    if not (batched or len(shape) == count + 1) or 0 in shape[1 if batched else 0 :]:
        raise RuntimeError(
            f"{name}: expected an input with {BATCHED[count]} (which alone may be empty), got shape {list(shape)}"
        )


def check_rank(name: str, shape: Sequence[int], count: int) -> None:
    """Channels and `count` spatial dims, with or without a batch."""
    if len(shape) not in (count + 1, count + 2):
        raise RuntimeError(f"{name}: expected an input with {BATCHED[count]}, got shape {list(shape)}")


def refuse(name: str, dtype: Any, kinds: str) -> None:
    """NotImplementedError for dtypes of the kinds named by letters: b bool, i integers but int64, l int64,
    c complex."""
    letter = (
        "c"
        if dtype.is_complex
        else "f" if dtype.is_floating_point else "b" if dtype.code == "b1" else "l" if dtype.code == "i64" else "i"
    )
    if letter in kinds:
        raise NotImplementedError(f'"{name}" not implemented for {dtype.name}')
