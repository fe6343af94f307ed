"""`ZeroRedundancyOptimizer`: each process keeps the optimizer's state of its share of the parameters.

Enters: parameters, the same in every process, with gradients that were averaged. Leaves: parameters after a step, in
every process; each was computed by one of them and sent to the others. Refuses: sparse or mixed types of parameters,
states asked for before they were brought together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ... import _C
from ...autograd.grad_mode import no_grad
from ...op import find_op
from ...optim.optimizer import Optimizer
from ...utils._pytree import tree_map
from .. import options as opt
from ..algorithms.join import Join, Joinable, JoinHook
from ..collectives import gather_object
from ..groups import resolve

__all__ = ["ZeroRedundancyOptimizer"]
_empty = find_op("empty")


class _Receives(JoinHook):
    """A process without data still sends what it computes: the step of its share, from gradients it was given."""

    def __init__(self, zero: ZeroRedundancyOptimizer) -> None:
        self.zero = zero

    def main_hook(self) -> None:
        self.zero.step()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Another optimizer whose state is spread over processes (ZeRO stage 1, Rajbhandari et al., 2020).

    Arguments:
        params: parameters or groups of them, the same in every process
        optimizer_class: what makes the steps
        process_group: which processes; all by default
        parameters_as_bucket_view: whether the parameters of a process lie in one buffer, which is sent at once
        overlap_with_ddp: whether steps are made while gradients are still being reduced, by a hook of
            `algorithms.ddp_comm_hooks.ddp_zero_hook`; `step` itself then does nothing
        defaults: what the optimizer takes, such as lr
    """

    def __init__(
        self, params: Any, optimizer_class: Callable[..., Optimizer], process_group: Any = None,
        parameters_as_bucket_view: bool = False, overlap_with_ddp: bool = False, **defaults: Any,
    ) -> None:
        params = _checked(params)
        self.initialized = False
        Optimizer.__init__(self, params, defaults)
        Joinable.__init__(self)
        self.process_group = resolve(process_group)
        self.rank, self.world_size = self.process_group.rank(), self.process_group.size()
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self._overlap_with_ddp = overlap_with_ddp
        self._optimizer_class, self._optim_defaults = optimizer_class, defaults
        self._all_state_dicts: list[dict[str, Any]] = []
        self._buckets: list[Any] = []
        self._shares: list[list[dict[str, Any]]] = []
        self.optim: Any = None
        if overlap_with_ddp:
            if len(self.param_groups) != 1:
                raise RuntimeError(
                    f"ZeroRedundancyOptimizer: overlap_with_ddp works on one group, got {len(self.param_groups)}"
                )
        else:
            self._take_shares(self._divide())
        self.initialized = True

    # --- who has what

    def _divide(self) -> list[list[dict[str, Any]]]:
        """Groups of each process: the largest parameter goes to the one that has least so far."""
        filled = [0] * self.world_size
        shares: list[list[dict[str, Any]]] = [[] for _ in range(self.world_size)]
        for group in self.param_groups:
            parts: list[list[Any]] = [[] for _ in range(self.world_size)]
            for p in sorted(group["params"], key=lambda p: p.numel(), reverse=True):
                rank = filled.index(min(filled))
                parts[rank].append(p)
                filled[rank] += p.numel()
            for rank, part in enumerate(parts):
                shares[rank].append({**group, "params": part})
        return shares

    def _take_shares(self, shares: list[list[dict[str, Any]]]) -> None:
        self._shares = shares
        self.optim = self._optimizer_class(shares[self.rank], **self._optim_defaults)
        if self.parameters_as_bucket_view:
            self._make_buckets()
        self._sync_groups(self.optim.param_groups, self.param_groups)

    def _params_of(self, rank: int) -> list[Any]:
        return [p for group in self._shares[rank] for p in group["params"]]

    def _make_buckets(self) -> None:
        """The parameters of a process, one behind the other in one buffer."""
        self._buckets = []
        for rank in range(self.world_size):
            params = [p for p in self._params_of(rank) if p.requires_grad]
            if not params:
                continue
            bucket = _empty(sum(p.numel() for p in params), dtype=params[0].dtype, device=params[0].device)
            for p, view in zip(params, bucket.split([p.numel() for p in params])):
                view.copy_(p.detach().view(-1))
                p.data = view.view(p.shape)
            self._buckets.append((rank, bucket))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """More parameters, in every process."""
        if self.initialized and self._overlap_with_ddp:
            raise RuntimeError("ZeroRedundancyOptimizer: with overlap_with_ddp there can be one group only")
        super().add_param_group(param_group)
        if self.initialized:
            self._shares = self._divide()       # earlier groups are divided as they were
            self.optim.add_param_group(self._shares[self.rank][-1])
            if self.parameters_as_bucket_view:
                self._make_buckets()

    @staticmethod
    def _sync_groups(source: list[dict[str, Any]], target: list[dict[str, Any]]) -> None:
        """Settings such as the learning rate are the same in both lists of groups."""
        for a, b in zip(source, target, strict=True):
            b.update({key: value for key, value in a.items() if key != "params"})

    # --- steps

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Make the step of this process's share, and exchange parameters."""
        if self._overlap_with_ddp:
            return None     # the hook has made it
        Join.notify_join_context(self)
        self._sync_groups(self.param_groups, self.optim.param_groups)
        result = self.optim.step(**kwargs) if closure is None else self.optim.step(closure=closure, **kwargs)
        self._sync_groups(self.optim.param_groups, self.param_groups)
        self._exchange()
        return result

    def _exchange(self) -> None:
        sent = self._buckets if self.parameters_as_bucket_view else [(r, None) for r in range(self.world_size)]
        works = []
        for rank, bucket in sent:
            tensors = [bucket] if bucket is not None else [p.detach() for p in self._params_of(rank) if p.requires_grad]
            if tensors:
                works.append(self._send(tensors, rank))
        for work in works:
            work.wait()

    def _send(self, tensors: list[Any], source: int, in_background: bool = False) -> Any:
        options = opt.BroadcastOptions(rootRank=source, asyncOp=in_background)
        with no_grad():
            return self.process_group.broadcast(tensors, options)

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process without data does."""
        return _Receives(self)

    @property
    def join_device(self) -> Any:
        """Where the parameters are."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> Any:
        """Those that share the state."""
        return self.process_group

    # --- state

    def _indices(self) -> dict[int, int]:
        params = [p for group in self.param_groups for p in group["params"]]
        return {id(p): i for i, p in enumerate(params)}

    def _check_ready(self) -> None:
        if self.optim is None:
            raise RuntimeError(
                "ZeroRedundancyOptimizer: with overlap_with_ddp the state exists after the first passes of the model, "
                "which show what its buckets are"
            )

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring all of the state to one process, whose `state_dict()` then gives it. Every process calls this."""
        self._check_ready()
        if not 0 <= to < self.world_size:
            raise ValueError(f"consolidate_state_dict: there is no rank {to} among {self.world_size}")
        self._sync_groups(self.param_groups, self.optim.param_groups)
        own = tree_map(lambda v: v.detach().to("cpu") if isinstance(v, _C.Tensor) else v, self.optim.state_dict())
        gathered: list[Any] | None = [None] * self.world_size if self.rank == to else None
        gather_object(own, gathered, group=self.process_group, group_dst=to)
        self._all_state_dicts = gathered or []

    def state_dict(self) -> dict[str, Any]:
        """All of the state, as one optimizer for all parameters would give it."""
        self._check_ready()
        if not self._all_state_dicts:
            raise RuntimeError(
                f"ZeroRedundancyOptimizer: the state is spread over {self.world_size} processes. Call "
                f"consolidate_state_dict(to={self.rank}) in all of them before"
            )
        whole = super().state_dict()
        indices = self._indices()
        for rank, local in enumerate(self._all_state_dicts):
            for group, saved in zip(self._shares[rank], local["param_groups"], strict=True):
                for p, place in zip(group["params"], saved["params"], strict=True):
                    if place in local["state"]:
                        whole["state"][indices[id(p)]] = local["state"][place]
        whole["state"] = dict(sorted(whole["state"].items()))
        return whole

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take this process's share of a state of all parameters."""
        self._check_ready()
        indices = self._indices()
        local = self.optim.state_dict()
        state: dict[int, Any] = {}
        for group, saved in zip(self._shares[self.rank], local["param_groups"], strict=True):
            for p, place in zip(group["params"], saved["params"], strict=True):
                if indices[id(p)] in state_dict["state"]:
                    state[place] = state_dict["state"][indices[id(p)]]
        groups = [
            {**given, "params": own["params"]}
            for given, own in zip(state_dict["param_groups"], local["param_groups"], strict=True)
        ]
        self.optim.load_state_dict({"state": state, "param_groups": groups})
        self._sync_groups(self.optim.param_groups, self.param_groups)

    # --- steps of single buckets, for a hook that overlaps them with reducing

    def _take_bucket_shares(self, buckets: list[list[Any]], owners: list[list[tuple[int, list[Any]]]]) -> None:
        """`owners[i]` says which processes compute which parameters of bucket i."""
        shares: list[list[Any]] = [[] for _ in range(self.world_size)]
        for bucket in owners:
            for rank, params in bucket:
                shares[rank] += params
        self._take_shares([[{**self.param_groups[0], "params": part}] for part in shares])

    def _step_only(self, params: Iterable[Any], gradients: dict[int, Any]) -> None:
        """A step of some parameters, whose gradients are given."""
        chosen = {id(p) for p in params}
        mine = self._params_of(self.rank)
        kept = [p.grad for p in mine]
        self._sync_groups(self.param_groups, self.optim.param_groups)
        for p in mine:
            p.grad = gradients[id(p)] if id(p) in chosen else None
        self.optim.step()
        for p, gradient in zip(mine, kept):
            p.grad = gradient


def _checked(params: Any) -> list[Any]:
    if isinstance(params, _C.Tensor):
        raise TypeError("ZeroRedundancyOptimizer: params must be an iterable of parameters, got one Tensor")
    listed = list(params)
    if not listed:
        raise ValueError("ZeroRedundancyOptimizer: there are no parameters")
    tensors = []
    for item in listed:
        if isinstance(item, dict):
            if "params" not in item:
                raise ValueError(f"ZeroRedundancyOptimizer: a group needs 'params', got the keys {sorted(item)}")
            item["params"] = [item["params"]] if isinstance(item["params"], _C.Tensor) else list(item["params"])
            tensors += item["params"]
        elif isinstance(item, _C.Tensor):
            tensors.append(item)
        else:
            raise TypeError(f"ZeroRedundancyOptimizer: expected Tensors or dicts, got {type(item).__name__}")
    for p in tensors:
        if p.is_sparse:
            raise ValueError("ZeroRedundancyOptimizer: parameters must be dense, got a sparse one")
        if p.dtype != tensors[0].dtype:
            raise ValueError(
                f"ZeroRedundancyOptimizer: parameters must have one dtype, got {tensors[0].dtype} and {p.dtype}"
            )
    return listed
