"""Splitting a graph between an accelerator and the rest, by what the accelerator supports.

Enters: a module whose shapes are known (`ShapeProp`), example inputs, an `OperatorSupportBase`. Leaves: a module of
submodules `_run_on_acc_0`, `_run_on_cpu_1`, ... in the order they run; few, since nodes go into the part that runs as
long as they are ready. Backends subclass `_SplitterBase` and give `_lower_model_to_backend`. Refuses: graphs whose
groups cannot be put in order.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...nn import Module
from ..graph_module import GraphModule
from ..node import Node, map_arg
from .graph_drawer import FxGraphDrawer
from .graph_manipulation import get_size_of_node
from .operator_support import OperatorSupportBase, get_node_target
from .shape_prop import ShapeProp
from .split_utils import split_by_tags
from .tools_common import CALLABLE_NODE_OPS, FxNetAccFusionsFinder, NodeList, NodeSet, Tensors, is_node_output_tensor

__all__ = ["FxNetAccNodesFinder", "FxNetSplitterInternalError", "SplitResult", "Subgraph",
           "generate_inputs_for_submodules"]

DEFAULT_MIN_ACC_MODULE_SIZE = 1
DEFAULT_SKIP_FUSION = False
DEFAULT_ALLOW_NON_TENSOR = False


class _SplitterSettingBase:
    """How to split: the least size of an accelerated part, whether values other than tensors may cross."""

    def __init__(self, min_acc_module_size: int = DEFAULT_MIN_ACC_MODULE_SIZE, skip_fusion: bool = DEFAULT_SKIP_FUSION,
                 allow_non_tensor: bool = DEFAULT_ALLOW_NON_TENSOR, max_acc_splits: int = -1,
                 move_non_tensor_nodes_on_boundary: bool = False) -> None:
        if move_non_tensor_nodes_on_boundary:
            raise NotImplementedError(
                "splitter: move_non_tensor_nodes_on_boundary is not supported; values other than tensors stay on one "
                "side (allow_non_tensor=False)"
            )
        self.min_acc_module_size, self.skip_fusion = min_acc_module_size, skip_fusion
        self.allow_non_tensor, self.max_acc_splits = allow_non_tensor, max_acc_splits
        self.move_non_tensor_nodes_on_boundary = False


class FxNetSplitterInternalError(Exception):
    """The graph cannot be split."""


@dataclass
class Subgraph:
    """Nodes that run together."""

    is_acc: bool
    nodes: NodeList
    device_ordinal: int | None = None


class SplitResult(NamedTuple):
    """A split module, the inputs of each submodule, and what the names of those that are not accelerated begin with."""

    split_module: GraphModule
    submodule_inputs: dict[str, Any]
    non_acc_submodule_prefix: str


class FxNetAccNodesFinder:
    """The nodes an accelerator runs: supported ones, less those that exchange other things than tensors with the rest
    (unless `allow_non_tensor`)."""

    def __init__(self, module: GraphModule, operator_support: OperatorSupportBase, allow_non_tensor: bool) -> None:
        self.module, self.operator_support, self.allow_non_tensor = module, operator_support, allow_non_tensor
        self.acc_nodes: NodeSet = set()

    def __call__(self) -> NodeSet:
        submodules = dict(self.module.named_modules())
        callable_nodes = [n for n in self.module.graph.nodes if n.op in CALLABLE_NODE_OPS]
        self.acc_nodes = {n for n in callable_nodes if self.operator_support.is_node_supported(submodules, n)}
        while not self.allow_non_tensor and self._drop_one_round(callable_nodes):
            pass
        return self.acc_nodes

    def _drop_one_round(self, nodes: NodeList) -> bool:
        """Take out nodes with a number, tuple, ... coming from or going to the other side; whether there were any."""
        wrong = set()
        for node in nodes:
            if is_node_output_tensor(node):
                continue
            if node in self.acc_nodes and any(u not in self.acc_nodes for u in node.users):
                wrong.add(node)
            elif node not in self.acc_nodes:
                wrong |= {u for u in node.users if u in self.acc_nodes}
        self.acc_nodes -= wrong
        return bool(wrong)


def generate_inputs_for_submodules(model: Module, inputs: Sequence[Any], target_submodules: Iterable[str],
                                   deepcopy: bool = False) -> dict[str, Any]:
    """What each of these submodules is given when the model runs on `inputs`."""
    wanted, found, handles = set(target_submodules), {}, []

    def keep(name: str) -> Any:
        def hook(module: Module, given: tuple[Any, ...]) -> None:
            found[name] = copy.deepcopy(given) if deepcopy else given

        return hook

    try:
        for name, module in model.named_modules():
            if name in wanted:
                handles.append(module.register_forward_pre_hook(keep(name)))
        model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found


class _SplitterBase:
    """Splits a module. Subclasses say how a part is lowered."""

    PCIe_BW = 100 * 2**30      # bytes a second between the two sides

    def __init__(self, module: GraphModule, sample_input: Sequence[Any], operator_support: OperatorSupportBase,
                 settings: _SplitterSettingBase, non_acc_submodule_name: str = "_run_on_cpu_",
                 return_tuple: bool = False, nodes_finder: FxNetAccNodesFinder | None = None) -> None:
        if not isinstance(module, GraphModule):
            raise AssertionError(f"splitter: expected a GraphModule, got {type(module).__name__}")
        self.module, self.sample_input = module, sample_input
        ShapeProp(self.module).propagate(*self.sample_input)
        self.settings, self.operator_support = settings, operator_support
        finder = nodes_finder or FxNetAccNodesFinder(self.module, operator_support, settings.allow_non_tensor)
        self.acc_nodes = finder()
        self.fusions = {} if settings.skip_fusion else FxNetAccFusionsFinder(module, self.acc_nodes)()
        self.deps = self.find_deps()
        self.update_deps_for_fusions()
        self.non_acc_submodule_name = non_acc_submodule_name
        self._return_tuple = return_tuple
        self._node_submodule_map: dict[str, str] = {}
        self.tags: list[str] = []

    def get_node_submodule_map(self) -> dict[str, str]:
        """Which submodule each node went to, by name."""
        return self._node_submodule_map

    # --- what depends on what -----------------------------------------------------------------------------------------

    def find_deps(self) -> dict[Node, NodeSet]:
        """For each node the calls it uses."""
        deps: dict[Node, NodeSet] = defaultdict(set)
        for node in self.module.graph.nodes:
            if node.op in CALLABLE_NODE_OPS:
                deps[node] = {n for n in node.all_input_nodes if n.op in CALLABLE_NODE_OPS}
        return deps

    def update_deps_for_fusions(self) -> None:
        """Nodes of a group wait for what any of them waits for, and whoever uses one waits for all."""
        for node, group in self.fusions.items():
            for member in group:
                self.deps[node] |= self.deps[member] - group
                for user in member.users:
                    if user not in group and user.op in CALLABLE_NODE_OPS:
                        self.deps[user].add(node)

    # --- splitting ----------------------------------------------------------------------------------------------------

    def put_nodes_into_subgraphs(self) -> list[Subgraph]:
        """Parts in order: nodes of one side as long as some are ready, then those of the other."""
        waiting = [n for n in self.module.graph.nodes if n.op in CALLABLE_NODE_OPS]
        if not waiting:
            raise FxNetSplitterInternalError("splitter: the graph calls nothing")
        done: NodeSet = set()
        is_acc = not any(n not in self.acc_nodes and not self.deps[n] for n in waiting)
        parts: list[Subgraph] = []
        while waiting:
            taken: NodeList = []
            while True:
                ready = [n for n in waiting if (n in self.acc_nodes) is is_acc and self.deps[n] <= done]
                if not ready:
                    break
                taken += ready
                done.update(ready)
                waiting = [n for n in waiting if n not in done]
            if taken:
                parts.append(Subgraph(is_acc, taken))
            elif parts and parts[-1].is_acc is not is_acc:
                raise FxNetSplitterInternalError(
                    f"splitter: {[n.name for n in waiting]} wait for each other: groups that must stay together overlap"
                )
            is_acc = not is_acc
        return parts

    def remove_small_acc_subgraphs(self, subgraphs: list[Subgraph]) -> list[Subgraph]:
        """Parts too small for the accelerator join their neighbours."""
        least, result = self.settings.min_acc_module_size, []
        for part in subgraphs:
            is_small = part.is_acc and len(part.nodes) < least
            if is_small:
                print(f"splitter: a part of {len(part.nodes)} nodes is below min_acc_module_size={least}; it joins "
                      "the part before it")
            if result and (is_small or (not part.is_acc and not result[-1].is_acc)):
                result[-1].nodes.extend(part.nodes)
            else:
                result.append(Subgraph(part.is_acc and not is_small, list(part.nodes)))
        return result

    def tag(self, subgraphs: list[Subgraph]) -> None:
        """Give every node the name of its part."""
        self.tags = []
        for part in subgraphs:
            name = f"{'_run_on_acc_' if part.is_acc else self.non_acc_submodule_name}{len(self.tags)}"
            self.tags.append(name)
            for node in part.nodes:
                if hasattr(node, "tag"):
                    raise FxNetSplitterInternalError(f"splitter: node {node} has the tag {node.tag} already")
                node.tag = name
                self._node_submodule_map[node.name] = name

    def split(self, remove_tag: bool = False) -> GraphModule:
        """The module of the tagged parts."""
        result = split_by_tags(self.module, self.tags, return_tuple=self._return_tuple)
        for node in self.module.graph.nodes if remove_tag else ():
            if hasattr(node, "tag"):
                del node.tag
        return result

    def __call__(self) -> GraphModule:
        parts = self.remove_small_acc_subgraphs(self.put_nodes_into_subgraphs())
        count = sum(p.is_acc for p in parts)
        print(f"splitter: {count} parts for the accelerator, {len(parts) - count} others")
        self.tag(parts)
        return self.split()

    def generate_split_results(self) -> SplitResult:
        """The split module, with the inputs of its submodules."""
        result = self()
        names = [name for name, _ in result.named_children()]
        most = self.settings.max_acc_splits
        if 0 < most < len(names):
            raise ValueError(f"splitter: {len(names)} parts are more than max_acc_splits={most}")
        inputs = generate_inputs_for_submodules(result, self.sample_input, names)
        return SplitResult(result, inputs, self.non_acc_submodule_name)

    # --- growing a part backwards -------------------------------------------------------------------------------------

    def find_reverse_deps(self, tag_id: int | None = None) -> dict[Node, NodeSet]:
        """For each node the calls that use it, in parts before number `tag_id`."""
        result: dict[Node, NodeSet] = defaultdict(set)
        for node in self.module.graph.nodes:
            for user in node.users if node.op in CALLABLE_NODE_OPS else ():
                is_earlier = tag_id is None or (hasattr(user, "tag") and int(user.tag.rpartition("_")[2]) < tag_id)
                if user.op in CALLABLE_NODE_OPS and is_earlier:
                    result[node].add(user)
        return result

    def update_reverse_deps_for_fusions(self, deps: dict[Node, NodeSet]) -> None:
        """The same for groups as wholes."""
        for group in {id(g): g for g in self.fusions.values()}.values():
            outside = set().union(*(deps[n] for n in group)) - group
            for n in group:
                deps[n] = outside
                for used in n.all_input_nodes:
                    if used not in group:
                        deps[used] |= group

    def find_parent_nodes_of_subgraph(self, tag: str) -> NodeSet:
        """Calls outside of a part that it uses."""
        return {used for node in self.module.graph.nodes if node.op in CALLABLE_NODE_OPS and node.tag == tag
                for used in node.all_input_nodes if used.op in CALLABLE_NODE_OPS and used.tag != tag}

    def extend_acc_subgraph(self, tag: str) -> None:
        """Move supported nodes into a part from those before it, as far as nothing else there uses them."""
        deps = self.find_reverse_deps(int(tag.rpartition("_")[2]))
        self.update_reverse_deps_for_fusions(deps)
        waiting, moved = self.find_parent_nodes_of_subgraph(tag), set()
        while True:
            node = next((n for n in waiting if n in self.acc_nodes and deps[n] <= moved), None)
            if node is None:
                return
            node.tag = tag
            waiting.discard(node)
            moved.add(node)
            more = {*self.fusions.get(node, ()), *(n for n in node.all_input_nodes if n.op in CALLABLE_NODE_OPS)}
            waiting |= more - moved

    # --- previews -----------------------------------------------------------------------------------------------------

    def _lower_model_to_backend(self, mod: GraphModule, inputs: Tensors) -> Module:
        """A part as the backend runs it; the part itself, unless overridden."""
        return mod

    def _find_culprit(self, mod: GraphModule, inputs: Tensors) -> str:
        """What is wrong with a part that failed; a minimizer may tell more."""
        return "No culprit is known: override _find_culprit(), with a minimizer for example.\n"

    def _draw_graph_based_on_node_support(self, mod: GraphModule, supported_nodes: NodeList) -> None:
        supported = {n.name for n in supported_nodes}

        class Drawer(FxGraphDrawer):
            def _style(self, node: Node) -> dict[str, str]:
                style = super()._style(node)
                if node.op in CALLABLE_NODE_OPS:
                    style["fillcolor"] = "Green" if node.name in supported else "Red"
                return style

        Drawer(mod, "node_support", ignore_getattr=True).get_dot_graph().write_raw("node_support.dot")

    def node_support_preview(self, dump_graph: bool = False) -> str:
        """Which kinds of nodes are supported, by target and dtypes of arguments."""
        submodules = dict(self.module.named_modules())
        supported: dict[str, dict[tuple, None]] = defaultdict(dict)
        others: dict[str, dict[tuple, None]] = defaultdict(dict)
        nodes: NodeList = []
        for node in self.module.graph.nodes:
            if node.op not in CALLABLE_NODE_OPS:
                continue
            found = self.operator_support.is_node_supported(submodules, node)
            nodes += [node] if found else []
            (supported if found else others)[get_node_target(submodules, node)][_dtypes(node)] = None
        if dump_graph:
            self._draw_graph_based_on_node_support(self.module, nodes)
        report = f"\nSupported, by target and dtypes:\n{_listed(supported)}"
        report += f"\nNot supported:\n{_listed(others)}"
        print(report)
        return report

    def split_preview(self, dump_graph: bool = False) -> str:
        """What splitting gives: the parts, the bytes that cross, and whether each part can be lowered and run."""
        parts = self.put_nodes_into_subgraphs()
        report = _counted("Before", parts)
        parts = self.remove_small_acc_subgraphs(parts)
        report += _counted("After", parts)
        for i, part in enumerate(parts):
            name = "_run_on_acc_" if part.is_acc else self.non_acc_submodule_name
            report += f"{name}{i}: {len(part.nodes)} node(s)\n"
        self.tag(parts)
        result = self.split(remove_tag=True)
        result.eval()
        if dump_graph:
            for name, drawn in FxGraphDrawer(result, "preview", ignore_getattr=True).get_all_dot_graphs().items():
                drawn.write_raw(f"{name}.dot")
        names = [n.target for n in result.graph.nodes if n.op == "call_module" and "acc" in n.target]
        inputs = generate_inputs_for_submodules(result, self.sample_input, names)
        slowest, rate = "", float(self.PCIe_BW)
        for name in names:
            text, own = self._preview(name, getattr(result, name), inputs[name])
            report += text
            slowest, rate = (name, own) if own < rate else (slowest, rate)
        report += f"\nAt most {rate:.6g} runs a second by what crosses; the slowest part is {slowest or 'none'}."
        print(report)
        return report

    def _preview(self, name: str, part: GraphModule, inputs: Tensors) -> tuple[str, float]:
        """The report of one part, and how often a second its data could cross."""
        ShapeProp(part).propagate(*inputs)
        text = f"\nPart {name}\n"
        sizes = []
        results: NodeList = []
        map_arg(part.graph.output_node().args, results.append)
        for title, nodes in (("Input", part.graph.find_nodes(op="placeholder")), ("Output", results)):
            wrong = [n for n in nodes if not is_node_output_tensor(n)]
            text += "".join(f"{title} {n.name} is no tensor; a backend may not take it.\n" for n in wrong)
            sizes.append(sum(get_size_of_node(part, n).output_size for n in nodes if n not in wrong))
        rate = self.PCIe_BW / max(*sizes, 1)
        text += f"{sizes[0]} bytes go in, {sizes[1]} come out: at most {rate:.6g} runs a second.\n"
        try:
            stage = "lowering"
            lowered = self._lower_model_to_backend(part, inputs)
            stage = "inference"
            lowered(*inputs)
        except RuntimeError:
            return f"{text}It fails during {stage}.\n{self._find_culprit(part, inputs)}", rate
        return f"{text}It lowers and runs.\n", rate


def _dtypes(node: Node) -> tuple:
    """dtypes of a node's arguments, None for those that are no tensors; trailing ones left out."""

    def of(arg: Any) -> Any:
        return getattr(arg.meta.get("tensor_meta"), "dtype", None) if isinstance(arg, Node) else None

    found = [of(a) for a in node.args]
    while found and found[-1] is None:
        found.pop()
    return tuple(found), tuple((k, of(a)) for k, a in node.kwargs.items() if isinstance(a, Node))


def _listed(kinds: dict[str, dict[tuple, None]]) -> str:
    return "".join(f"{t}: ({args}, {dict(kwargs)})\n" for t, seen in kinds.items() for args, kwargs in seen)


def _counted(when: str, parts: list[Subgraph]) -> str:
    count = sum(p.is_acc for p in parts)
    return f"{when} small parts were joined: {count} for the accelerator, {len(parts) - count} others.\n"
