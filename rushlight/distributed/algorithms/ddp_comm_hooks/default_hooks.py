"""Plain averages of gradients, as they are or sent in half the bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .... import _C
from ....futures import Future
from ...collectives import all_reduce
from ...groups import resolve
from ...reducer import GradBucket

__all__ = ["allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook",
           "fp16_compress_wrapper"]
Hook = Callable[[Any, GradBucket], Future]


def _mean(group: Any, tensor: Any) -> Future:
    resolved = resolve(group)
    return all_reduce(tensor.div_(resolved.size()), group=resolved, async_op=True).get_future()


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future:
    """The mean, as it is without a hook."""
    return _mean(process_group, bucket.buffer()).then(lambda future: future.value()[0])


def _compressed(process_group: Any, bucket: GradBucket, dtype: _C.dtype) -> Future:
    buffer = bucket.buffer()
    sent = buffer if buffer.dtype == dtype else buffer.to(dtype)

    def restore(future: Future) -> Any:
        return buffer.copy_(future.value()[0])

    return _mean(process_group, sent).then(restore)


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """The mean, sent as float16."""
    return _compressed(process_group, bucket, _C.float16)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """The mean, sent as bfloat16."""
    return _compressed(process_group, bucket, _C.bfloat16)


def _wrapped(hook: Hook, dtype: _C.dtype) -> Hook:
    def compressing(state: Any, bucket: GradBucket) -> Future:
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(dtype))
        return hook(state, bucket).then(lambda future: buffer.copy_(_tensor_of(future.value())))

    return compressing


def _tensor_of(value: Any) -> Any:
    return value[0] if isinstance(value, (list, tuple)) else value


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """Another hook, given the bucket as float16."""
    return _wrapped(hook, _C.float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """Another hook, given the bucket as bfloat16."""
    return _wrapped(hook, _C.bfloat16)
