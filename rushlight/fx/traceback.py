"""What nodes recorded now should remember: stack traces and metadata of the node or code being retraced.

Enters: `with preserve_node_meta():` around a retrace, `with annotate({...}):` around user code. Leaves: the metadata
that `TracerBase.create_node` puts on every node it makes meanwhile.
"""

from __future__ import annotations

import copy
import functools
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .graph import Graph
    from .node import Node

__all__ = [
    "NodeSource", "NodeSourceAction", "annotate", "annotate_fn", "format_stack", "get_current_meta",
    "get_current_replay_node", "get_graph_provenance_json", "has_preserved_node_meta", "preserve_node_meta",
    "reset_grad_fn_seq_nr", "set_current_meta", "set_current_replay_node", "set_grad_fn_seq_nr", "set_stack_trace",
]

GRADIENT_ACC_SPECIAL_STACK = "Gradients are added here: a tensor was used several times around:"
current_meta: dict[str, Any] = {}
current_replay_node: Node | None = None
should_preserve_node_meta = False


class NodeSourceAction(Enum):
    """What a pass did to make a node."""

    CREATE = "create"
    REPLACE = "replace"


class NodeSource:
    """Where a node came from: the node before a pass, and that one's own sources."""

    class NodeInfo:
        """Name and target of a node that may be gone."""

        def __init__(self, name: str, target: str, graph_id: int) -> None:
            self.name, self.target, self.graph_id = name, target, graph_id

    def __init__(
        self, node: Node | None, pass_name: str = "", action: NodeSourceAction | list[NodeSourceAction] | None = None
    ) -> None:
        self.pass_name = pass_name
        self.action = [] if action is None else action if isinstance(action, list) else [action]
        assert all(
            isinstance(a, NodeSourceAction) for a in self.action
        ), f"NodeSource: expected NodeSourceActions, got {action}"
        self.node_info = None if node is None else self.NodeInfo(node.name, str(node.target), id(node.graph))
        self.from_node: list[NodeSource] = [] if node is None else copy.deepcopy(node.meta.get("from_node", []))

    @property
    def name(self) -> str:
        return self.node_info.name if self.node_info else ""

    @property
    def target(self) -> str:
        return self.node_info.target if self.node_info else ""

    @property
    def graph_id(self) -> int:
        return self.node_info.graph_id if self.node_info else -1

    def print_readable(self, indent: int = 0) -> str:
        """This source and those behind it, indented."""
        if indent > 9:
            return ""
        action = "+".join(a.name.lower() for a in self.action)
        line = (
            f"{' ' * indent * 4}(name={self.name}, pass_name={self.pass_name}, action={action},"
            f" graph_id={self.graph_id})\n"
        )
        return line + "".join(source.print_readable(indent + 1) for source in self.from_node)

    __repr__ = print_readable

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        action = "+".join(a.name.lower() for a in self.action)
        return {"name": self.name, "target": self.target, "graph_id": self.graph_id, "pass_name": self.pass_name,
                "action": action, "from_node": [source.to_dict() for source in self.from_node]}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeSource) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(repr(self.to_dict()))


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """New nodes take over the current metadata."""
    global should_preserve_node_meta, current_meta
    before = should_preserve_node_meta, current_meta.copy()
    should_preserve_node_meta = enable
    try:
        yield
    finally:
        should_preserve_node_meta, current_meta = before


def has_preserved_node_meta() -> bool:
    """Whether new nodes take over the current metadata."""
    return should_preserve_node_meta


def set_stack_trace(stack: list[str]) -> None:
    """The stack that nodes made from now on carry."""
    if should_preserve_node_meta:
        if stack:
            current_meta["stack_trace"] = "".join(stack)
        else:
            current_meta.pop("stack_trace", None)


@contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Nodes made inside carry these entries in `meta["custom"]`."""
    had, before = "custom" in current_meta, dict(current_meta.get("custom", {}))
    current_meta["custom"] = {**before, **annotation_dict}
    try:
        yield
    finally:
        if had:
            current_meta["custom"] = before
        else:
            del current_meta["custom"]


def annotate_fn(annotation_dict: dict[str, Any]) -> Callable[[Callable], Callable]:
    """`annotate` as a decorator."""

    def decorate(func: Callable) -> Callable:
        @functools.wraps(func)
        def annotated(*args: Any, **kwargs: Any) -> Any:
            with annotate(annotation_dict):
                return func(*args, **kwargs)

        return annotated

    return decorate


def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """A backward node of this number is about to run."""
    if should_preserve_node_meta:
        current_meta["grad_fn_seq_nr"] = [*current_meta.get("grad_fn_seq_nr", []), seq_nr]
        current_meta["in_grad_fn"] = current_meta.get("in_grad_fn", 0) + 1


def reset_grad_fn_seq_nr() -> None:
    """The backward node is done."""
    if not should_preserve_node_meta:
        return
    level = current_meta.get("in_grad_fn", 0)
    assert level > 0, "reset_grad_fn_seq_nr: no backward node is running"
    if level == 1:
        del current_meta["in_grad_fn"], current_meta["grad_fn_seq_nr"]
    else:
        current_meta["in_grad_fn"] = level - 1
        current_meta["grad_fn_seq_nr"] = current_meta["grad_fn_seq_nr"][:-1]


def format_stack() -> list[str]:
    """The stack new nodes would carry."""
    if should_preserve_node_meta:
        return [current_meta.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])


@contextmanager
def set_current_meta(node: Node, pass_name: str = "") -> Iterator[None]:
    """New nodes take over what this one carries."""
    global current_meta
    if not should_preserve_node_meta or not node.meta:
        yield
        return
    before = current_meta
    current_meta = {**node.meta, "from_node": [NodeSource(node, pass_name, NodeSourceAction.CREATE)]}
    try:
        yield
    finally:
        current_meta = before


def get_current_meta() -> dict[str, Any]:
    """The metadata new nodes take over."""
    return current_meta


@contextmanager
def set_current_replay_node(node: Node | None) -> Iterator[None]:
    """Nodes made inside are made for this one."""
    global current_replay_node
    before, current_replay_node = current_replay_node, node
    try:
        yield
    finally:
        current_replay_node = before


def get_current_replay_node() -> Node | None:
    """The node that new ones are made for."""
    return current_replay_node


def get_graph_provenance_json(graph: Graph) -> dict[str, Any]:
    """The sources of every call of a function, as plain values."""
    return {
        n.name: [source.to_dict() for source in n.meta.get("from_node", [])]
        for n in graph.nodes
        if n.op == "call_function"
    }
