"""Partitioners with PyTorch's signature: a joint graph in, the forward and the backward graph out.

Enters: a joint graph and how many of its results are the forward's. Leaves: (forward, backward): the forward returns
its results, then the saved values; the backward takes the saved values, then the tangents.
`partition_for_aot` makes such a function one of `aot`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._C import Tensor
from ..aot import min_cut, partition
from ..aot.partition import Partition, Saved, is_tangent
from ..fx.graph_module import GraphModule
from ..fx.node import Node
from ..fx.passes.graph_drawer import FxGraphDrawer
from . import config

__all__ = ["default_partition", "draw_graph", "min_cut_rematerialization_partition"]


def default_partition(joint_module: GraphModule, _joint_inputs: Any = None, *, num_fwd_outputs: int,
                      static_lifetime_input_indices: Any = None,
                      static_lifetime_input_nodes: Any = None) -> tuple[GraphModule, GraphModule]:
    """What both graphs use is saved; nothing is computed twice."""
    return _pair(partition.default_partition(joint_module, num_fwd_outputs))


def min_cut_rematerialization_partition(joint_module: GraphModule, _joint_inputs: Any = None,
                                        compiler: str = "inductor", *, num_fwd_outputs: int,
                                        static_lifetime_input_indices: Any = None) -> tuple[GraphModule,
                                        GraphModule]:
    """As few bytes as possible are saved; cheap ops are computed again."""
    return _pair(
        min_cut.min_cut_rematerialization_partition(
            joint_module, num_fwd_outputs, memory_budget=config.activation_memory_budget
        )
    )


# What `aot` runs in place of these two: the same choice,
# and values that inputs or results hold already are not returned again.
default_partition.of_aot = partition.default_partition  # type: ignore[attr-defined]
min_cut_rematerialization_partition.of_aot = (  # type: ignore[attr-defined]
    lambda joint, count, overwritten=(): min_cut.min_cut_rematerialization_partition(
        joint, count, overwritten, memory_budget=config.activation_memory_budget
    )
)


def _pair(result: Partition) -> tuple[GraphModule, GraphModule]:
    """A partition whose forward returns all saved values, those it took as inputs or returns already included."""
    graph = result.forward.graph
    inputs, output = graph.find_nodes(op="placeholder"), graph.output_node()
    returned = output.args[0]
    results, extras = returned[: result.num_results], returned[result.num_results :]
    places = {"input": inputs, "result": results, "extra": extras}
    output.args = ((*results, *(places[s.place][s.index] for s in result.saved)),)
    result.forward.recompile()
    return result.forward, result.backward


def partition_for_aot(partition_fn: Callable) -> Callable[..., Partition]:
    """A partitioner of `aot` from one with PyTorch's signature."""
    known = getattr(partition_fn, "of_aot", None)
    if known is not None:
        return known

    def run(joint: GraphModule, num_results: int, overwritten: Sequence[int] = ()) -> Partition:
        examples = [n.meta.get("val") for n in joint.graph.find_nodes(op="placeholder")]
        forward, backward = partition_fn(joint, examples, num_fwd_outputs=num_results)
        extras = forward.graph.output_node().args[0][num_results:]
        taken = [n for n in backward.graph.find_nodes(op="placeholder") if not is_tangent(n)]
        if len(taken) != len(extras):
            raise RuntimeError(
                f"partition_fn: expected the backward to take the {len(extras)} values that the forward saves, got"
                f" {len(taken)} inputs besides tangents."
            )
        saved = tuple(Saved("extra", i, partition.nbytes_of(n) if isinstance(n, Node) else 8,
                            not isinstance(n, Node) or isinstance(n.meta.get("val"), Tensor))
                      for i, n in enumerate(extras))
        grads = backward.graph.output_node().args[0]
        return Partition(forward, backward, saved, num_results, tuple(isinstance(g, Node) for g in grads))

    return run


def draw_graph(traced: GraphModule, fname: str, figname: str = "fx_graph", clear_meta: bool = True,
               prog: str | list[str] | None = None, parse_stack_trace: bool = False,
               dot_graph_shape: str | None = None) -> None:
    """Write a picture of a graph (or, for `.dot`, the text of one) to `fname`; pictures need Graphviz."""
    name, _, ending = fname.rpartition(".")
    name, ending = (name, ending) if name else (fname, "svg")
    drawing = FxGraphDrawer(
        traced, figname, parse_stack_trace=parse_stack_trace, dot_graph_shape=dot_graph_shape
    ).get_dot_graph()
    if ending == "dot":
        with open(f"{name}.dot", "w", encoding="utf-8") as file:
            file.write(drawing.to_string())
        return
    write = getattr(drawing, f"write_{ending}", None) if ending in ("svg", "png", "pdf", "gif", "jpg", "ps") else None
    if write is None:
        raise ValueError(f"draw_graph: expected a file name that ends in dot, svg, png or pdf, got {fname!r}.")
    write(f"{name}.{ending}", **({} if prog is None else {"prog": prog}))
