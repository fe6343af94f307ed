"""Methods that change the sizes of the tensor itself: `t_`, `transpose_`, `squeeze_`, `unsqueeze_`, `swapaxes_`.

Enters: a call of one on a tensor that the frame made. Leaves: the view that the tensor is from now on, in the graph.
Refuses (breaks the graph): tensors from outside, whose sizes guards and the caller rely on, and those with a history.
"""

from __future__ import annotations

from typing import Any

from ..._C import Tensor
from ...dispatch.modes import below, state as mode_state
from ...fake import FakeTensor
from ..record.breaks import GraphBreak
from ..record.machine import Machine
from .natives import tensor_method


@tensor_method("t_", "transpose_", "squeeze_", "unsqueeze_", "swapaxes_", "swapdims_")
def _relaid(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    t, *rest = args
    name, recorder = f.__name__, m.recorder
    node = recorder.nodes.get(id(t))
    is_own = type(t) is FakeTensor and node is not None and node.op == "call_function" and m.twin_of(t) is None
    if not is_own or t.requires_grad or m.user_modes or t.symbolic is not None:
        raise GraphBreak("not modelled", f"{name} of a tensor is called")

    def run() -> Tensor:
        with below(mode_state.function_modes):
            node.meta["example_value"] = t.detach()      # what it was stays so
            return getattr(Tensor, name)(t, *rest, **kwargs)

    m.native(run, (), is_watched=False)
    view = recorder.graph.call_function(
        getattr(Tensor, name[:-1]), tuple(recorder.argument(a) for a in (t, *rest)),
        {k: recorder.argument(v) for k, v in kwargs.items()},
    )
    recorder.calls += 1
    view.meta["example_value"] = t
    recorder.nodes[id(t)] = view
    return t
