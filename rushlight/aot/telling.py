"""What AOTAutograd makes of graphs, for those who listen (base/logs.py).

Enters: graphs before and after they are differentiated and cut. Leaves: lines of the artifacts `pre_grad_graphs`,
`aot_joint_graph`, `aot_graphs` and `compiled_autograd`, and the same graphs as records of the trace. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import logs


def code_text(graph: Any) -> str:
    """A graph as Python."""
    return graph.print_readable(print_output=False, include_stride=True, include_device=True)


def before_gradients(graph: Any) -> None:
    """A graph of Dynamo's that the inductor is asked to compile."""
    if (log := logs.artifact("pre_grad_graphs")) is not None:
        log.debug("TRACED GRAPH\n ===== BEFORE PRE GRAD =====\n %s", code_text(graph))
    logs.trace("inductor_pre_grad_graph", payload=lambda: code_text(graph))


def joint(graph: Any, region: int) -> None:
    """Forward and backward in one graph."""
    if (log := logs.artifact("aot_joint_graph", logs.INFO)) is not None:
        log.info("TRACED GRAPH\n ===== Joint graph %d =====\n %s", region, code_text(graph))
    logs.trace("aot_joint_graph", payload=lambda: code_text(graph))


def inference(graph: Any, meta: Any, region: int) -> None:
    """A graph that has no backward."""
    _tell("Forward", graph, region, meta)
    logs.trace_text("aot_inference_graph_fw_metadata", lambda: str(meta))
    logs.trace("aot_inference_graph", payload=lambda: code_text(graph))


def parts(cut: Any, meta: Any, region: int) -> None:
    """The two graphs that a joint one was cut into."""
    _tell("Forward", cut.forward, region, meta)
    _tell("Backward", cut.backward, region)
    logs.trace_text("aot_forward_graph_fw_metadata", lambda: str(meta))
    logs.trace("aot_forward_graph", payload=lambda: code_text(cut.forward))
    logs.trace("aot_backward_graph", payload=lambda: code_text(cut.backward))


def whole_backward(graph: Any, nodes: Sequence[str]) -> None:
    """The graph of a `backward()` that is compiled as a whole, and the nodes of autograd it comes from."""
    if (log := logs.artifact("compiled_autograd")) is not None:
        log.debug("TRACED GRAPH\n ===== Compiled autograd graph =====\n %s", code_text(graph))
    if (log := logs.artifact("compiled_autograd_verbose")) is not None:
        log.debug("nodes of autograd, as the tape is walked: %s", ", ".join(nodes))
    logs.trace("compiled_autograd_graph", payload=lambda: code_text(graph))


def _tell(kind: str, graph: Any, region: int, meta: Any = None) -> None:
    if (log := logs.artifact("aot_graphs", logs.INFO)) is None:
        return
    if meta is not None:
        log.info("aot_config id: %d, fw_metadata=%s", region, meta)
    log.info("TRACED GRAPH\n ===== %s graph %d =====\n %s", kind, region, code_text(graph))
