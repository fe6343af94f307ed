"""What the CPU's vector units are, by PyTorch's names."""

from __future__ import annotations

from ..cpu import _read_flags

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """"AVX512", "AVX2", "SVE256", "SVE" … or "DEFAULT", as PyTorch calls what its own kernels would use on this CPU."""
    flags = set(_read_flags())
    if {"avx512f", "avx512bw", "avx512vl", "avx512dq", "fma"} <= flags:
        return "AVX512"
    if {"avx2", "fma"} <= flags:
        return "AVX2"
    return "SVE" if "sve" in flags else "DEFAULT"
