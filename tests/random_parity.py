"""Comparing draws with PyTorch's: the same seed on both sides, then the same bits and the same state afterwards.

On x86-64 PyTorch's kernels depend on the processor: with AVX2 and FMA (also where it calls itself AVX512) blocks of
float normals come from polynomials of their own and products are fused. Rushlight follows the processor likewise. Held
back below it (ATEN_CPU_CAPABILITY=default), PyTorch rounds differently and there is nothing to compare with.
"""

from __future__ import annotations

import platform

import pytest

import rushlight

torch = pytest.importorskip("torch")
if platform.machine() == "x86_64" and torch.backends.cpu.get_cpu_capability() == "DEFAULT":
    pytest.skip("this PyTorch uses no vector unit, so its normals round differently", allow_module_level=True)

FLOATS = ("float32", "float64", "float16", "bfloat16")
NUMBERS = ("uint8", "int8", "int16", "int32", "int64", *FLOATS)
SIZES = (0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 100, 5003)


def raw(x) -> bytes:
    """The elements' bytes in row-major order."""
    if isinstance(x, torch.Tensor):
        return x.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if x.numel() else b""
    x = x.detach().contiguous()
    start = x.storage_offset() * x.element_size()
    return bytes(x.untyped_storage().tobytes())[start : start + x.numel() * x.element_size()]


def state_of(t) -> bytes:
    return raw(t.get_rng_state())


def to_rushlight(x):
    """A torch tensor's bytes as a rushlight tensor of the same shape and strides (dense tensors only)."""
    flat = rushlight.frombuffer(bytearray(raw(x)), dtype=getattr(rushlight, str(x.dtype)[6:])) if x.numel() else None
    return (
        rushlight.empty(x.shape, dtype=getattr(rushlight, str(x.dtype)[6:]))
        if flat is None
        else flat.view(tuple(x.shape))
    )


def assert_same(case, seed: int = 0) -> None:
    """`case(t)` gives the same tensor on both sides and leaves the default generators in the same state."""
    torch.manual_seed(seed)
    rushlight.manual_seed(seed)
    want, got = case(torch), case(rushlight)
    for w, g in zip(want, got, strict=True) if isinstance(want, tuple) else ((want, got),):
        assert str(w.dtype)[6:] == g.dtype.name
        assert tuple(w.shape) == tuple(g.shape)
        assert tuple(w.stride()) == tuple(g.stride())
        assert raw(w) == raw(g)
    assert state_of(torch) == state_of(rushlight)


def dtype_of(t, name: str):
    return getattr(t, name)


def parameters(t, *shape, scale=1.0, dtype="float32", seed=11):
    """The same uniform numbers on both sides, without touching the default generators."""
    result = torch.rand(*shape, generator=torch.Generator().manual_seed(seed)).mul(scale).to(getattr(torch, dtype))
    return result if t is torch else to_rushlight(result)
