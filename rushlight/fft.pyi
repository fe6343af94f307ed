"""Made by tools/make_stubs.py from the op registry. Do not edit: run the tool."""

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self, SupportsIndex, TypeVar, overload

Number = builtins.int | builtins.float | builtins.complex | builtins.bool
_E = TypeVar("_E")
_F = TypeVar("_F")


from rushlight import return_types as _return_types
from rushlight.base.shape import layout as _layout, memory_format as _memory_format
from rushlight import Generator as _Generator, Tensor, device as _device, dtype as _dtype
def fft(
    input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: builtins.str | None = None, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def fft2(
    input: Tensor, s: builtins.int | Sequence[builtins.int] | None = None,
    dim: builtins.int | Sequence[builtins.int] = ..., norm: builtins.str | None = None, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def fftfreq(
    n: builtins.int, d: builtins.float = 1.0, *, dtype: _dtype | None = None, layout: _layout | None = None,
    device: _device | builtins.str | builtins.int | None = None, pin_memory: builtins.bool | None = False,
    requires_grad: builtins.bool = False, out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def fftn(
    input: Tensor, s: builtins.int | Sequence[builtins.int] | None = None,
    dim: builtins.int | Sequence[builtins.int] | None = None, norm: builtins.str | None = None, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def fftshift(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None) -> Tensor: ...
def hfft(
    input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: builtins.str | None = None, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def hfft2(
    input: Tensor, s: builtins.int | Sequence[builtins.int] | None = None,
    dim: builtins.int | Sequence[builtins.int] = ..., norm: builtins.str | None = None, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def hfftn(
    input: Tensor, s: builtins.int | Sequence[builtins.int] | None = None,
    dim: builtins.int | Sequence[builtins.int] | None = None, norm: builtins.str | None = None, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def ifft(
    input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: builtins.str | None = None, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def ifft2(
    input: Tensor, s: builtins.int | Sequence[builtins.int] | None = None,
    dim: builtins.int | Sequence[builtins.int] = ..., norm: builtins.str | None = None, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def ifftn(
    input: Tensor, s: builtins.int | Sequence[builtins.int] | None = None,
    dim: builtins.int | Sequence[builtins.int] | None = None, norm: builtins.str | None = None, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def ifftshift(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None) -> Tensor: ...
def ihfft(
    input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: builtins.str | None = None, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def ihfft2(
    input: Tensor, s: builtins.int | Sequence[builtins.int] | None = None,
    dim: builtins.int | Sequence[builtins.int] = ..., norm: builtins.str | None = None, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def ihfftn(
    input: Tensor, s: builtins.int | Sequence[builtins.int] | None = None,
    dim: builtins.int | Sequence[builtins.int] | None = None, norm: builtins.str | None = None, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def irfft(
    input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: builtins.str | None = None, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def irfft2(
    input: Tensor, s: builtins.int | Sequence[builtins.int] | None = None,
    dim: builtins.int | Sequence[builtins.int] = ..., norm: builtins.str | None = None, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def irfftn(
    input: Tensor, s: builtins.int | Sequence[builtins.int] | None = None,
    dim: builtins.int | Sequence[builtins.int] | None = None, norm: builtins.str | None = None, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
from rushlight.op.registry import published as published
def rfft(
    input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: builtins.str | None = None, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def rfft2(
    input: Tensor, s: builtins.int | Sequence[builtins.int] | None = None,
    dim: builtins.int | Sequence[builtins.int] = ..., norm: builtins.str | None = None, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def rfftfreq(
    n: builtins.int, d: builtins.float = 1.0, *, dtype: _dtype | None = None, layout: _layout | None = None,
    device: _device | builtins.str | builtins.int | None = None, pin_memory: builtins.bool | None = False,
    requires_grad: builtins.bool = False, out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
def rfftn(
    input: Tensor, s: builtins.int | Sequence[builtins.int] | None = None,
    dim: builtins.int | Sequence[builtins.int] | None = None, norm: builtins.str | None = None, *,
    out: Tensor | tuple[Tensor, ...] | None = None,
) -> Tensor: ...
