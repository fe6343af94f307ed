"""Switches of CUDA: that of TF32 in products is heeded, others are kept for programs that set them, and those of
attention choose among the CPU's forms too."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from ..base import settings
from ..definitions.attention import scaled as _attention
from ..nn.attention import SDPBackend
from .flags_of_modules import FP32Precision, precision_of, set_precision

__all__ = [
    "SDPBackend", "allow_fp16_bf16_reduction_math_sdp", "can_use_cudnn_attention", "can_use_efficient_attention",
    "can_use_flash_attention", "cuBLASModule", "cuFFTPlanCache", "cuFFTPlanCacheManager", "cudnn_sdp_enabled",
    "cufft_plan_cache", "enable_cudnn_sdp", "enable_flash_sdp", "enable_math_sdp", "enable_mem_efficient_sdp",
    "flash_sdp_enabled", "fp16_bf16_reduction_math_sdp_allowed", "is_built", "is_flash_attention_available",
    "math_sdp_enabled", "matmul", "mem_efficient_sdp_enabled", "preferred_blas_library", "preferred_linalg_library",
    "sdp_kernel",
]


def is_built() -> bool:
    """False."""
    return False


def is_flash_attention_available() -> bool:
    """False: CUDA's form of it is not here."""
    return False


def is_ck_sdpa_available() -> bool:
    """False."""
    return False


class cuBLASModule:  # noqa: N801 - PyTorch's name
    """Switches of CUDA's matrix products."""

    _values = {"allow_tf32": False, "allow_fp16_reduced_precision_reduction": True,
               "allow_bf16_reduced_precision_reduction": True, "allow_fp16_accumulation": False}

    def __getattr__(self, name: str) -> Any:
        if name == "fp32_precision":
            return precision_of("cuda", "matmul")
        if name == "allow_tf32":
            return settings.get_float32_matmul_precision() != "highest"
        if name in self._values:
            return self._values[name]
        raise AttributeError("Unknown attribute " + name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "fp32_precision":
            set_precision("cuda", "matmul", value)
        elif name not in self._values:
            raise AttributeError("Unknown attribute " + name)
        elif not isinstance(value, (bool, tuple)):
            raise RuntimeError(f"{name} expects a bool, but got {type(value).__name__}")
        else:
            if name == "allow_tf32":
                settings.set_float32_matmul_precision("high" if value else "highest")
            self._values[name] = value


class cuFFTPlanCache:  # noqa: N801 - PyTorch's name
    """Plans of CUDA's Fourier transforms: none."""

    size = max_size = 0

    def __init__(self, device_index: int) -> None:
        self.device_index = device_index

    def clear(self) -> None:
        """Nothing to clear."""


class cuFFTPlanCacheManager:  # noqa: N801 - PyTorch's name
    """Plans of each device: there is no device."""

    def __getitem__(self, device: Any) -> cuFFTPlanCache:
        raise RuntimeError(f"cufft_plan_cache: there is no CUDA device, got {device!r}")


matmul, cufft_plan_cache, conv = cuBLASModule(), cuFFTPlanCacheManager(), FP32Precision("cuda", "conv")
_libraries = {"blas": "default", "linalg": "default"}
_reduced = [False]


def _preferred(kind: str, names: tuple[str, ...], backend: str | None) -> str:
    if backend is not None:
        if backend not in names:
            raise RuntimeError(f"Unknown input value. Choose from: {', '.join(names)}.")
        _libraries[kind] = backend
    return _libraries[kind]


def preferred_linalg_library(backend: str | None = None) -> str:
    """The library programs prefer for CUDA's linear algebra; kept and answered."""
    return _preferred("linalg", ("default", "cusolver", "magma"), backend)


def preferred_blas_library(backend: str | None = None) -> str:
    """The library programs prefer for CUDA's matrix products; kept and answered."""
    return _preferred("blas", ("default", "cublas", "hipblas", "cublaslt", "hipblaslt", "ck"), backend)


# --- which forms of attention may be used -----------------------------------------------------------------------------


def _enable(form: int, enabled: bool) -> None:
    (_attention.ENABLED.add if enabled else _attention.ENABLED.discard)(form)


def flash_sdp_enabled() -> bool:
    """Whether attention may use its flash form."""
    return _attention.FLASH in _attention.ENABLED


def enable_flash_sdp(enabled: bool) -> None:
    """Let attention use its flash form, or not."""
    _enable(_attention.FLASH, enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Whether attention may use a form there is only on CUDA."""
    return _attention.EFFICIENT in _attention.ENABLED


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Let attention use a form there is only on CUDA, or not."""
    _enable(_attention.EFFICIENT, enabled)


def math_sdp_enabled() -> bool:
    """Whether attention may use plain ops."""
    return _attention.MATH in _attention.ENABLED


def enable_math_sdp(enabled: bool) -> None:
    """Let attention use plain ops, or not."""
    _enable(_attention.MATH, enabled)


def cudnn_sdp_enabled() -> bool:
    """Whether attention may use cuDNN's form."""
    return _attention.CUDNN in _attention.ENABLED


def enable_cudnn_sdp(enabled: bool) -> None:
    """Let attention use cuDNN's form, or not."""
    _enable(_attention.CUDNN, enabled)


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Kept and answered: sums are made in float32 whatever it says."""
    _reduced[0] = bool(enabled)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """What `allow_fp16_bf16_reduction_math_sdp` was told."""
    return _reduced[0]


def _never(params: Any, debug: bool = False) -> bool:
    """False: this form of attention is CUDA's."""
    return False


can_use_flash_attention = can_use_efficient_attention = can_use_cudnn_attention = _never


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Iterator[dict]:
    """Deprecated: `nn.attention.sdpa_kernel`."""
    warnings.warn(
        "`torch.backends.cuda.sdp_kernel()` is deprecated. Please use `torch.nn.attention.sdpa_kernel()`.",
        FutureWarning,
        stacklevel=3,
    )
    before = set(_attention.ENABLED)
    enable_flash_sdp(enable_flash)
    enable_math_sdp(enable_math)
    enable_mem_efficient_sdp(enable_mem_efficient)
    enable_cudnn_sdp(enable_cudnn)
    try:
        yield {}
    finally:
        _attention.ENABLED.clear()
        _attention.ENABLED.update(before)


def preferred_rocm_fa_library(backend: Any = None) -> str:
    """The flash attention library of AMD's GPUs: none is here, and none can be chosen."""
    if backend is not None and str(backend).lower() != "default":
        raise RuntimeError(f"preferred_rocm_fa_library: there is no ROCm device, so that {backend!r} cannot be chosen")
    return "default"


def blas_workspace_size(size: int | None = None, backend: Any = None) -> int:
    """Bytes that CUDA's matrix products keep for themselves: none, and none can be set aside."""
    if size is not None:
        raise RuntimeError(f"blas_workspace_size: there is no CUDA device to set {size} bytes aside on")
    return 0


def cublas_workspace_size(size: int | None = None) -> int:
    """The same of cuBLAS."""
    return blas_workspace_size(size)


def cublaslt_workspace_size(size: int | None = None) -> int:
    """The same of cuBLASLt."""
    return blas_workspace_size(size)


class cuFFTPlanCacheAttrContextProp:  # noqa: N801 - PyTorch's name
    """An attribute of the plan cache, read by one function and written by another."""

    def __init__(self, getter: Any, setter: Any) -> None:
        self.getter, self.setter = getter, setter

    def __get__(self, obj: Any, objtype: Any) -> Any:
        return self.getter(obj.device_index)

    def __set__(self, obj: Any, val: Any) -> None:
        if isinstance(self.setter, str):
            raise RuntimeError(self.setter)
        self.setter(obj.device_index, val)


class SDPAParams:
    """The arguments of an attention, for asking which form may compute it."""

    def __init__(
        self, query: Any, key: Any, value: Any, attn_mask: Any, dropout: float, is_causal: bool, enable_gqa: bool
    ) -> None:
        self.query, self.key, self.value, self.attn_mask = query, key, value, attn_mask
        self.dropout, self.is_causal, self.enable_gqa = dropout, is_causal, enable_gqa
