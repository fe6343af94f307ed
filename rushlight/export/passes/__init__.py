"""Passes over exported programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ... import _C
from ..._C import Tensor
from ...fake import FakeTensor
from ...fx.graph_module import GraphModule
from ...nn import Parameter
from ...utils import _pytree as pytree
from ..exported_program import ExportedProgram

__all__ = ["move_to_device_pass"]


def move_to_device_pass(ep: ExportedProgram, location: Any) -> ExportedProgram:
    """The program on another device: its tensors, examples, and devices that the graph names. `location` is a device,
    or says by the name of each device where what is there goes; others stay. The program itself is changed."""

    def moved_to(device: Any) -> Any:
        if isinstance(location, Mapping):
            return _C.device(location.get(str(device), str(device)))
        return _C.device(location)

    def moved(t: Any) -> Any:
        if isinstance(t, FakeTensor):
            return t.fake_mode.empty(tuple(t.shape), t.stride(), t.dtype, moved_to(t.device))
        return t.to(moved_to(t.device)) if isinstance(t, Tensor) else t

    for name, value in ep._state_dict.items():
        result = moved(value.detach())
        ep._state_dict[name] = Parameter(result, value.requires_grad) if isinstance(value, Parameter) else result
    ep._constants = {name: moved(value) for name, value in ep._constants.items()}
    if ep._example_inputs is not None:
        ep._example_inputs = pytree.tree_map(moved, ep._example_inputs)
    for gm in (m for m in ep.graph_module.modules() if isinstance(m, GraphModule)):
        _move_graph(gm, moved_to, moved)
    ep.validate()
    return ep


def _move_graph(gm: GraphModule, moved_to: Callable, moved: Callable) -> None:
    for node in gm.graph.nodes:
        if node.kwargs.get("device") is not None:
            node.kwargs = {**node.kwargs, "device": moved_to(node.kwargs["device"])}
        if node.op == "call_function":
            node.args = tuple([moved_to(a) if isinstance(a, _C.device) else a for a in node.args])
        if "val" in node.meta:
            node.meta["val"] = pytree.tree_map(moved, node.meta["val"])
    gm.recompile()
