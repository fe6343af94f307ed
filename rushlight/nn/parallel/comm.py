"""`torch.nn.parallel.comm`: copies of tensors to several devices and back, with gradients.

A device is a number (of an accelerator; -1 for the host) or a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _C
from ...base import late
from ...op import find_op

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]
_cat = find_op("cat")


def device_of(device: Any) -> Any:
    """The device that a number or a device means."""
    if isinstance(device, int):
        return _C.device("cpu") if device < 0 else _C.device("cuda", device)
    return _C.device(device) if isinstance(device, str) else device


def devices_or_all(devices: Any) -> list[Any]:
    """Those given, or all accelerators there are."""
    if devices is None:
        devices = list(range(late.provided("package").cuda.device_count()))
    if not devices:
        raise RuntimeError("there is no device to use: give devices")
    return [device_of(d) for d in devices]


def _only_one(devices: Any, out: Any, name: str) -> None:
    if (devices is None) == (out is None):
        raise RuntimeError(f"{name}: give one of devices and out, got {'neither' if out is None else 'both'}")


def broadcast(tensor: Any, devices: Any = None, *, out: Sequence[Any] | None = None) -> tuple[Any, ...]:
    """A tensor on every one of the devices, or in every tensor of `out`."""
    _only_one(devices, out, "broadcast")
    if out is not None:
        return tuple(o.copy_(tensor) for o in out)
    return tuple(tensor.to(d) for d in devices_or_all(devices))


def broadcast_coalesced(tensors: Sequence[Any], devices: Any, buffer_size: int = 10485760) -> list[tuple[Any, ...]]:
    """Several tensors on every one of the devices: a tuple for each device. (Each is one copy, whatever the buffer.)"""
    return [tuple(t.to(d) for t in tensors) for d in devices_or_all(devices)]


def reduce_add(inputs: Sequence[Any], destination: Any = None) -> Any:
    """The sum of tensors of one shape from several devices, on one of them."""
    if not inputs:
        raise RuntimeError("reduce_add: there are no tensors to add")
    for i, tensor in enumerate(inputs):
        if tensor.shape != inputs[0].shape:
            raise ValueError(
                f"reduce_add: tensors must have one shape, got {tuple(tensor.shape)} at {i} and "
                f"{tuple(inputs[0].shape)} at 0"
            )
    target = device_of(destination) if destination is not None else inputs[0].device
    result = inputs[0].to(target)
    for tensor in inputs[1:]:
        result = result + tensor.to(target)
    return result


def reduce_add_coalesced(
    inputs: Sequence[Sequence[Any]], destination: Any = None, buffer_size: int = 10485760
) -> tuple[Any, ...]:
    """The sums of several tensors: `inputs[i]` are those of one device."""
    return tuple(reduce_add(same, destination) for same in zip(*inputs, strict=True))


def scatter(
    tensor: Any, devices: Any = None, chunk_sizes: Sequence[int] | None = None, dim: int = 0, streams: Any = None, *,
    out: Sequence[Any] | None = None,
) -> tuple[Any, ...]:
    """Parts of a tensor along `dim`, one on each device (or in each tensor of `out`)."""
    if out is not None:
        if devices is not None or chunk_sizes is not None:
            raise RuntimeError("scatter: out has devices and sizes of its own: give neither devices nor chunk_sizes")
        parts = tensor.split([o.shape[dim] for o in out], dim)
        return tuple(o.copy_(p) for o, p in zip(out, parts, strict=True))
    if streams is not None and any(s is not None for s in streams):
        raise NotImplementedError("scatter: streams is not written yet; copies are made on the current ones")
    targets = devices_or_all(devices)
    if chunk_sizes is not None and len(chunk_sizes) != len(targets):
        raise RuntimeError(f"scatter: {len(chunk_sizes)} sizes for {len(targets)} devices")
    parts = tensor.chunk(len(targets), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    return tuple(p.to(d) for p, d in zip(parts, targets))


def gather(tensors: Sequence[Any], dim: int = 0, destination: Any = None, *, out: Any = None) -> Any:
    """Tensors of several devices behind each other along `dim`, on one device or in `out`."""
    if out is not None:
        if destination is not None:
            raise RuntimeError("gather: give one of destination and out")
        return out.copy_(_cat([t.to(out.device) for t in tensors], dim))
    target = device_of(destination) if destination is not None else device_of(0)
    return _cat([t.to(target) for t in tensors], dim)
