"""`torch.cuda.nvtx`: marks for NVIDIA's profilers, which a build without CUDA refuses as PyTorch does."""

from __future__ import annotations

from typing import Any, NoReturn


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError("cuda.nvtx: NVTX functions not installed: this build of Rushlight has no CUDA devices")


range_push = range_pop = range_start = range_end = mark = range = _refuse
