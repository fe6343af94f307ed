"""`torch.distributed.checkpoint.staging`: a copy of the state, taken so that training may go on while it is written."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ..._C import Tensor
from ..tensor import DTensor

__all__ = ["AsyncStager", "BlockingAsyncStager", "DefaultStager", "StagingOptions"]


def copied(value: Any, pinned: bool = False) -> Any:
    """Nested state with its tensors copied to host memory. Tensors that share a storage are copied apart."""
    if isinstance(value, DTensor):
        local = copied(value.to_local(), pinned)
        return DTensor.from_local(local, value.device_mesh, value.placements, run_check=False, shape=value.size(),
                                  stride=value.stride())
    if isinstance(value, Tensor):
        value = value.detach()
        copy = value.clone() if value.device.type == "cpu" else value.cpu()
        return copy.pin_memory() if pinned else copy
    if isinstance(value, dict):
        return {key: copied(inner, pinned) for key, inner in value.items()}
    if type(value) in (list, tuple):
        return type(value)(copied(inner, pinned) for inner in value)
    return value


@runtime_checkable
class AsyncStager(Protocol):
    """Takes copies: `stage` gives the state to write, or a future of it."""

    _synchronize_after_execute: bool = True

    @property
    def should_synchronize_after_execute(self) -> bool:
        """Whether `synchronize_staging` is to be called before `async_save` returns."""
        return self._synchronize_after_execute

    def stage(self, state_dict: dict[str, Any]) -> Any:
        """The copy, or a future of it."""
        raise NotImplementedError(f"{type(self).__name__} does not say how to copy the state (stage)")

    def synchronize_staging(self) -> None:
        """Wait until the state may change again."""

    def close(self) -> None:
        """Nothing more is to be staged."""


@dataclass
class StagingOptions:
    """How to copy: into pinned and shared memory, on a thread, without waiting for the device. On the CPU all but the
    thread make no difference."""

    use_pinned_memory: bool = True
    use_shared_memory: bool = True
    use_async_staging: bool = True
    use_non_blocking_copy: bool = True


class DefaultStager(AsyncStager):
    """Copies, on a thread of its own if asked."""

    def __init__(self, config: StagingOptions | None = None) -> None:
        self._config = config or StagingOptions()
        self._thread = ThreadPoolExecutor(1) if self._config.use_async_staging else None
        self._staging: Future | None = None

    def stage(self, state_dict: dict[str, Any], **kwargs: Any) -> Any:
        if self._thread is None:
            return copied(state_dict)
        self._staging = self._thread.submit(copied, state_dict)
        return self._staging

    def synchronize_staging(self) -> None:
        if self._staging is not None:
            self._staging.result()

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown()


class BlockingAsyncStager(AsyncStager):
    """Copies before `stage` returns; with `cache_staged_state_dict` into the memory of the last copy."""

    _synchronize_after_execute = False

    def __init__(self, cache_staged_state_dict: bool = False, type_check: bool = False) -> None:
        self.cache_staged_state_dict = cache_staged_state_dict
        self.type_check = type_check
        self.state_dict_cache: dict[str, Any] | None = None

    def stage(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        if not self.cache_staged_state_dict:
            return copied(state_dict)
        self.state_dict_cache = _copied_into(self.state_dict_cache, state_dict)
        return self.state_dict_cache

    def synchronize_staging(self) -> None:
        pass

    def close(self) -> None:
        self.state_dict_cache = None


def _copied_into(cache: Any, value: Any) -> Any:
    """The copy, in the tensors of the cache where they fit."""
    if isinstance(value, dict) and isinstance(cache, dict):
        return {key: _copied_into(cache.get(key), inner) for key, inner in value.items()}
    plain = isinstance(value, Tensor) and isinstance(cache, Tensor) and not isinstance(value, DTensor)
    if plain and cache.shape == value.shape and cache.dtype == value.dtype:
        return cache.copy_(value.detach())
    return copied(value)
