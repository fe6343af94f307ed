"""`torch.distributed.pipelining._IR`: a model cut into stages where it says, by tracing it.

Enters: a module, example arguments of a microbatch, and where to cut: by name of a submodule, or by `pipe_split()` in
its forward. Leaves: a module per stage, with the model's own parameters under their own names. What a later stage needs
of an earlier one (a skip connection, a parameter used in both) goes through the stages between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ...base import late
from ...fx import Graph, GraphModule, Node, traceback
from ...nn import Module
from ...utils._pytree import tree_flatten, tree_unflatten

__all__ = ["Pipe", "SplitPoint", "pipe_split", "pipeline"]

_STAGE = "pipeline_stage"


class SplitPoint(Enum):
    """Cut before a submodule is run, or after."""

    BEGINNING = 1
    END = 2


class PipeSplitWrapper:
    """Where `SplitPoint` was once found."""

    SplitPoint = SplitPoint


def pipe_split() -> None:
    """Begin the next stage here. It does nothing unless `pipeline` traces the module."""
    if traceback.has_preserved_node_meta() and _STAGE in traceback.current_meta.get("custom", {}):
        stage = traceback.current_meta["custom"][_STAGE]
        traceback.current_meta["custom"] = {**traceback.current_meta["custom"], _STAGE: stage + 1}


@contextmanager
def _cut(module: Module, split_spec: dict[str, SplitPoint]) -> Iterator[None]:
    """The named submodules begin a stage before or after they run."""
    before: list[Module] = []
    try:
        for name, point in split_spec.items():
            if not isinstance(point, SplitPoint):
                raise ValueError(f"split_spec[{name!r}] must be a SplitPoint, got {point!r}")
            try:
                part = module.get_submodule(name)
            except AttributeError as error:
                raise AttributeError(f"split_spec names {name!r}, and the model has no such submodule") from error
            before.append(part)
            part.forward = _with_split(part.forward, point)      # type: ignore[method-assign]
        yield
    finally:
        for part in before:
            part.__dict__.pop("forward", None)


def _with_split(forward: Callable, point: SplitPoint) -> Callable:
    def run(*args: Any, **kwargs: Any) -> Any:
        if point is SplitPoint.BEGINNING:
            pipe_split()
        result = forward(*args, **kwargs)
        if point is SplitPoint.END:
            pipe_split()
        return result

    return run


def pipeline(
    module: Module,
    mb_args: tuple[Any, ...],
    mb_kwargs: dict[str, Any] | None = None,
    split_spec: dict[str, SplitPoint] | None = None,
    split_policy: Callable[[GraphModule], GraphModule] | None = None,
) -> Pipe:
    """Trace a module on a microbatch's arguments and cut it: at the submodules of `split_spec`, at `pipe_split()`
    calls, or as `split_policy` says (it gets the traced module, and sets `node.meta["custom"]["pipeline_stage"]`)."""
    if split_spec is not None and split_policy is not None:
        raise ValueError("pipeline: give split_spec or split_policy, not both")
    with _cut(module, split_spec or {}), traceback.preserve_node_meta(), traceback.annotate({_STAGE: 0}):
        traced = late.provided("export")(module, mb_args, mb_kwargs or {}).module()
    if split_policy is not None:
        traced = split_policy(traced)
    return Pipe(traced, module)


def _flow(graph: Graph) -> tuple[dict[Node, int], list[Node]]:
    """The stage of each node, and the nodes in order."""
    nodes = list(graph.nodes)
    at = 0
    stage_of: dict[Node, int] = {}
    for node in nodes:
        if node.op == "placeholder":
            stage_of[node] = 0
        elif node.op != "get_attr":
            at = max(at, (node.meta.get("custom") or {}).get(_STAGE, at))
            stage_of[node] = at
    for node in nodes:
        if node.op == "get_attr":     # a parameter belongs to the first stage that uses it
            stage_of[node] = min((stage_of[user] for user in node.users), default=0)
    return stage_of, nodes


@dataclass
class PipeInfo:
    """What a stage must know of the whole."""

    graph: Graph
    num_stages: int
    has_loss_and_backward: bool = False


class Pipe(Module):
    """A traced model in stages: `get_stage_module(i)`, `build_stage(i, device)`. Called, it runs them all here."""

    def __init__(self, traced: GraphModule, original: Module) -> None:
        super().__init__()
        self.executor = original      # its parameters are the stages'
        self._graph = traced.graph
        stage_of, nodes = _flow(traced.graph)
        self.num_stages = max(stage_of.values()) + 1
        self._check_gaps(stage_of)
        in_spec, out_spec = traced._in_spec, traced._out_spec
        stages = []
        passed = [node for node in nodes if node.op == "placeholder"]
        for number in range(self.num_stages):
            graph, passed_on = _stage_graph(number, self.num_stages, stage_of, nodes, passed)
            specs = in_spec if number == 0 else None, out_spec if number == self.num_stages - 1 else None
            stages.append(_StageModule(_holder(graph, traced, original), graph, *specs))
            passed = passed_on
        self.__dict__["_stage_modules"] = stages

    def _check_gaps(self, stage_of: dict[Node, int]) -> None:
        missing = set(range(self.num_stages)) - set(stage_of.values())
        if missing:
            raise RuntimeError(f"pipeline: nothing is computed in stage {min(missing)}: two cuts are at one place")

    def get_stage_module(self, stage_idx: int) -> Module:
        """The module of a stage."""
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"stage_idx must be between 0 and {self.num_stages - 1}, got {stage_idx}")
        return self.__dict__["_stage_modules"][stage_idx]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """All stages, one after another."""
        value = self.get_stage_module(0)(*args, **kwargs)
        for stage in range(1, self.num_stages):
            value = self.get_stage_module(stage)(*value)
        return value

    def info(self) -> PipeInfo:
        """What `build_stage` needs."""
        return PipeInfo(self._graph, self.num_stages)

    def build_stage(self, stage_index: int, device: Any, group: Any = None) -> Any:
        """A stage for a schedule."""
        from .stage import build_stage

        return build_stage(self.get_stage_module(stage_index), stage_index, self.info(), device, group)

    def print_readable(self) -> None:
        """The stages as Python."""
        for number in range(self.num_stages):
            print(f"stage {number}:\n{self.get_stage_module(number).__dict__['_graph_module'].code}")


def _stage_graph(
    number: int, count: int, stage_of: dict[Node, int], nodes: list[Node], passed: list[Node]
) -> tuple[Graph, list[Node]]:
    """A stage's graph, and the values that it passes on."""
    graph = Graph()
    here: dict[Node, Node] = {node: graph.placeholder(node.name) for node in passed}
    for node in nodes:
        if stage_of.get(node) == number and node.op not in ("placeholder", "output"):
            here[node] = graph.node_copy(node, here.__getitem__)
    if number == count - 1:
        output = next(node for node in nodes if node.op == "output")
        graph.output(graph_values(output.args[0], here))
        return graph, []
    on = [
        node for node in nodes
        if stage_of.get(node, count) <= number and node.op != "output" and any(stage_of[u] > number for u in node.users)
    ]
    graph.output(tuple(here[node] for node in on))
    return graph, on


def graph_values(values: Any, here: dict[Node, Node]) -> Any:
    """A tree of nodes as the nodes of another graph."""
    flat, spec = tree_flatten(values)
    return tree_unflatten([here[v] if isinstance(v, Node) else v for v in flat], spec)


def _holder(graph: Graph, traced: Module, original: Module) -> Module:
    """A module with the parameters and buffers that a graph names."""
    holder = Module()
    for node in graph.nodes:
        if node.op != "get_attr":
            continue
        *path, last = str(node.target).split(".")
        place, source = holder, traced
        for part in path:
            if part not in place._modules:
                place.add_module(part, Module())
            place, source = place._modules[part], getattr(source, part)      # type: ignore[assignment]
        try:     # the model's own, so that its optimizer's are the stages'
            owner = original.get_submodule(".".join(path))
        except AttributeError:
            owner = source
        owner = owner if hasattr(owner, last) else source
        if last in owner._buffers:
            place.register_buffer(last, owner._buffers[last], last not in owner._non_persistent_buffers_set)
        else:
            setattr(place, last, getattr(owner, last))
    return holder


class _StageModule(Module):
    """A stage's graph, and its parameters under the model's names."""

    def __init__(self, holder: Module, graph: Graph, in_spec: Any, out_spec: Any) -> None:
        super().__init__()
        result = GraphModule(holder, graph)
        self.__dict__.update(_graph_module=result, _in_spec=in_spec, _out_spec=out_spec)
        # The graph's own tables: what is moved or loaded here is moved and loaded there.
        self._modules, self._parameters, self._buffers = result._modules, result._parameters, result._buffers
        self._non_persistent_buffers_set = result._non_persistent_buffers_set

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self._in_spec is not None:
            args, spec = tree_flatten((args, kwargs))      # type: ignore[assignment]
            if spec != self._in_spec:
                raise TypeError(f"the model was traced with arguments {self._in_spec}, and is given {spec}")
        elif kwargs:
            raise TypeError(f"only the first stage takes keyword arguments of the model, got {sorted(kwargs)}")
        result = self.__dict__["_graph_module"](*args)
        return result if self._out_spec is None else tree_unflatten(list(result), self._out_spec)
