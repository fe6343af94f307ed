"""Post-local SGD: averages over all processes at first, later over those of a machine; `model_averaging` does the
rest, by averaging parameters now and then."""

from __future__ import annotations

from typing import Any

from ....futures import Future
from ...groups import new_subgroups, resolve
from ...reducer import GradBucket
from .default_hooks import allreduce_hook

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """Over which processes, and from which step on over fewer."""

    def __init__(
        self, process_group: Any, subgroup: Any, start_localSGD_iter: int, post_local_gradient_allreduce: bool = True   # noqa: N803
    ) -> None:
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """The last bucket of a pass ends a step."""
        if bucket.is_last():
            self.iter += 1


def post_localSGD_hook(state: PostLocalSGDState, bucket: GradBucket) -> Future:   # noqa: N802
    """The mean over all processes, and from the state's step on over its subgroup, or over none."""
    step = state.iter
    state.maybe_increase_iter(bucket)
    if step < state.start_localSGD_iter:
        return allreduce_hook(resolve(state.process_group), bucket)
    if not state.post_local_gradient_allreduce:
        future: Future = Future()
        future.set_result(bucket.buffer())
        return future
    if state.subgroup is None:
        state.subgroup, _ = new_subgroups()
    return allreduce_hook(state.subgroup, bucket)
