"""Finding the nodes that make two ways of running a module disagree.

Enters: a module, example inputs, a function that compares results, settings. Leaves: `minimize()`, the culprits: nodes
whose own submodule, cut out and run both ways (`run_a`, `run_b`), differs or fails. Backends subclass `_MinimizerBase`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..graph_module import GraphModule
from ..node import Node, map_arg
from .shape_prop import ShapeProp
from .split_utils import split_by_tags
from .splitter_base import generate_inputs_for_submodules
from .tools_common import CALLABLE_NODE_OPS, FxNetAccFusionsFinder, Names, NodeList, NodeSet, Tensors

__all__ = ["FxNetMinimizerBadModuleError", "FxNetMinimizerResultMismatchError", "FxNetMinimizerRunFuncError"]


class FxNetMinimizerBadModuleError(Exception):
    """The chosen nodes are no submodule: others lie between them."""


class FxNetMinimizerRunFuncError(Exception):
    """One of the two ways failed to run."""


class FxNetMinimizerResultMismatchError(Exception):
    """The results differ."""


_FOUND = (FxNetMinimizerRunFuncError, FxNetMinimizerResultMismatchError)


@dataclass
class _MinimizerSettingBase:
    """accumulate_error: the second way goes on with its own results. traverse_method: sequential, binary, accumulate,
    skip, defined or block. find_all: do not stop at the first culprit. return_intermediate: `run_nodes` compares every
    node. all_outputs: compare all results of a submodule, not that of its last node."""

    accumulate_error: bool = False
    traverse_method: str = "sequential"
    find_all: bool = False
    return_intermediate: bool = False
    all_outputs: bool = False

    def __str__(self) -> str:
        return "minimizer:\n" + "".join(f"\t{k}: {v}\n" for k, v in vars(self).items())


class _MinimizerBase:
    """Runs parts of a module in two ways and compares."""

    def __init__(self, module: GraphModule, sample_input: Tensors,
                 compare_fn: Callable[[Any, Any, Names], tuple[float, bool]], settings: _MinimizerSettingBase,
                 module_exporter: Callable[[Tensors, GraphModule, str], None] | None = None,
                 exclusion_fn: Callable[[NodeList, int, int], None] | None = None) -> None:
        if not isinstance(module, GraphModule):
            raise AssertionError(f"minimizer: expected a GraphModule, got {type(module).__name__}")
        self.module, self.sample_input, self.compare_fn = module, sample_input, compare_fn
        self.module_exporter, self.settings, self.exclusion_fn = module_exporter, settings, exclusion_fn
        self.a_outputs: dict[str, Any] = {}
        self.b_outputs: dict[str, Any] = {}
        self.results: dict[Any, Any] = {}
        self.reports: list[list[str]] = []
        self.iteration = 0
        self.run_shape_prop()
        calls = {n for n in module.graph.nodes if n.op in CALLABLE_NODE_OPS}
        self.fusions = FxNetAccFusionsFinder(module, calls)()
        names = [n.name for n in module.graph.find_nodes(op="placeholder")]
        if len(names) != len(sample_input):
            raise AssertionError(f"minimizer: the module takes {len(names)} inputs, got {len(sample_input)}")
        for name, value in zip(names, sample_input, strict=True):
            self.a_outputs[name] = self.b_outputs[name] = value

    # --- for backends -------------------------------------------------------------------------------------------------

    def run_shape_prop(self) -> None:
        """Note the shapes of the module's values."""
        ShapeProp(self.module).propagate(*self.sample_input)

    def run_a(self, mod: GraphModule, inputs: Tensors, report_idx: int = -1) -> Any:
        """Run a part the first way."""
        raise RuntimeError("minimizer: run_a() is not implemented; subclasses say how to run a part")

    def run_b(self, mod: GraphModule, inputs: Tensors, report_idx: int = -1) -> Any:
        """Run a part the second way."""
        raise RuntimeError("minimizer: run_b() is not implemented; subclasses say how to run a part")

    # --- one part -----------------------------------------------------------------------------------------------------

    def _tag_nodes(self, selected_nodes: NodeSet) -> None:
        """The chosen nodes, what comes before them, and what depends on them."""
        for node in self.module.graph.nodes:
            if node.op not in CALLABLE_NODE_OPS:
                continue
            used = [n.tag for n in node.all_input_nodes if n.op in CALLABLE_NODE_OPS]
            is_after = "minimize" in used or "main_1" in used
            node.tag = "minimize" if node in selected_nodes else "main_1" if is_after else "main_0"

    def _build_submodule(self, nodes: NodeSet) -> tuple[GraphModule, str]:
        """The module with the chosen nodes as a submodule, and that one's name."""
        self._tag_nodes(nodes)
        result = split_by_tags(self.module, ["main_0", "minimize", "main_1"])
        found = [name for name, _ in result.named_children() if "minimize" in name]
        if len(found) != 1:
            raise FxNetMinimizerBadModuleError(
                f"minimizer: expected one submodule of the nodes {sorted(n.name for n in nodes)}, got {len(found)}"
            )
        return result, found[0]

    def _get_submod_inputs(self, main_module: GraphModule, submod_path: str) -> tuple[Tensors, Tensors]:
        """What the submodule is given, each way."""
        submodule = getattr(main_module, submod_path)
        if self.settings.accumulate_error:
            names = [n.name for n in submodule.graph.find_nodes(op="placeholder")]
            missing = [n for n in names if n not in self.a_outputs]
            if missing:
                raise FxNetMinimizerBadModuleError(f"minimizer: {missing} were not computed before {submod_path}")
            return [self.a_outputs[n] for n in names], [self.b_outputs[n] for n in names]
        given = generate_inputs_for_submodules(main_module, self.sample_input, [submod_path])[submod_path]
        return given, given

    def _store_outputs(self, a_result: Any, b_result: Any, submodule: GraphModule) -> None:
        names: list[str] = []
        map_arg(submodule.graph.output_node().args[0], lambda n: names.append(n.name))
        for kept, result in ((self.a_outputs, a_result), (self.b_outputs, b_result)):
            values = result if isinstance(result, (tuple, list)) else [result]
            kept.update(zip(names, values, strict=False))

    def _run_and_compare(self, split_module: GraphModule, submod_name: str, output_names: Names,
                         report_idx: int = -1) -> None:
        """Run a submodule both ways; raises where they differ or fail."""
        submodule = getattr(split_module, submod_name)
        a_input, b_input = self._get_submod_inputs(split_module, submod_name)
        if not self.reports:
            self.reports.append([])
            self.iteration = 1
        report = self.reports[report_idx if report_idx >= 0 else self.iteration - 1]
        report.append(f"Run {submod_name} both ways.")
        if output_names and not self.settings.all_outputs:
            self._return_only(submodule, output_names)
        key = map_arg(submodule.graph.output_node().args, lambda n: n.name)
        try:
            a_result = self.run_a(submodule, a_input, report_idx)
            b_result = self.run_b(submodule, b_input, report_idx)
        except Exception as error:
            raise FxNetMinimizerRunFuncError(f"{submod_name} cannot be run: {error}") from error
        self._store_outputs(a_result, b_result, submodule)
        names = output_names or [str(k) for k in key]
        number, is_same = self.compare_fn(a_result, b_result, names)
        self.results[key] = number
        report.append(f"Compared: {number}")
        if is_same:
            return
        if self.module_exporter is not None:
            for given, suffix in ((a_input, "_cpu"), (b_input, "_acc")):
                self.module_exporter(given, submodule, f"{names[0]}{suffix}")
        raise FxNetMinimizerResultMismatchError(f"the results of {key} differ")

    @staticmethod
    def _return_only(submodule: GraphModule, names: Names) -> None:
        graph = submodule.graph
        graph.erase_node(graph.output_node())
        nodes = [n for n in graph.nodes if n.name in names]
        graph.output(nodes[0] if len(nodes) == 1 else tuple(nodes))
        graph.lint()
        submodule.recompile()

    def _begin(self, title: str, *lines: str) -> list[str]:
        """A new report."""
        self.iteration += 1
        self.reports.append([f"{title} iteration {self.iteration}.", *lines])
        return self.reports[-1]

    def _fails(self, nodes: Sequence[Node], output_names: Names, report: list[str]) -> bool:
        """Whether the two ways disagree on these nodes."""
        try:
            self._run_and_compare(*self._build_submodule(set(nodes)), output_names)
        except _FOUND as error:
            report.append(f"Found: {error}")
            self.print_report(report)
            return True
        report.append("They agree.")
        self.print_report(report)
        return False

    def _included(self, nodes: NodeList, start: int = -1, end: int = -1) -> NodeList:
        """The nodes without those that the user excludes."""
        kept = list(nodes)
        if self.exclusion_fn is not None:
            self.exclusion_fn(kept, start, end)
        return kept

    # --- searches -----------------------------------------------------------------------------------------------------

    def _sequential_traverse(self, nodes: NodeList) -> NodeSet:
        """Each node by itself, with the group it belongs to."""
        culprits: NodeSet = set()
        for node in nodes:
            report = self._begin("Sequential traverse", f"Visit node: {node.name}")
            if not self._included([node]):
                report.append(f"Excluded: {node.name}")
                continue
            if self._fails(list(self.fusions.get(node, {node})), [node.name], report):
                culprits.add(node)
                if not self.settings.find_all:
                    return culprits
        return culprits

    def _binary_traverse(self, nodes: NodeList) -> NodeSet:
        """Halves, and halves of those that fail."""

        def search(start: int, end: int) -> NodeSet:
            part = self._included(nodes[start:end], start, end)
            if not part:
                return set()
            report = self._begin("Binary search", f"Nodes {start} to {end - 1}: {part[0].name} to {part[-1].name}")
            if not self._fails(part, [part[-1].name], report):
                return set()
            if len(part) == 1:
                return set(part)
            middle = start + (end - start) // 2
            first = search(start, middle)
            return first if first and not self.settings.find_all else first | search(middle, end)

        return search(0, len(nodes)) if nodes else set()

    def _accumulate_traverse(self, nodes: NodeList) -> NodeSet:
        """One node more each time, from the first on."""
        if self.settings.find_all:
            raise RuntimeError("minimizer: find_all has no meaning with the accumulate method, which ends at the first")
        for count in range(1, len(nodes) + 1):
            report = self._begin("Accumulate traverse", f"Add node: {nodes[count - 1].name}")
            if self._fails(nodes[:count], [nodes[count - 1].name], report):
                return {nodes[count - 1]}
        return set()

    def _skip_traverse(self, all_nodes: NodeList, skip_nodes: list[str]) -> NodeSet:
        """The stretches between nodes that are left out."""
        culprits: NodeSet = set()
        part: NodeList = []
        for node in [*all_nodes, None]:
            if node is not None and node.name not in skip_nodes:
                part.append(node)
                continue
            if part:
                whole = {n for p in part for n in (p, *self.fusions.get(p, ()))}
                report = self._begin("Skip traverse", f"Nodes {part[0].name} to {part[-1].name}")
                if self._fails(list(whole), [], report):
                    culprits |= whole
            part = []
        return culprits

    def _defined_traverse(self, nodes: NodeList) -> NodeSet:
        """All of the nodes at once."""
        part = self._included(nodes)
        if not part:
            return set()
        report = self._begin("Defined graph", f"From {part[0].name} to {part[-1].name}")
        return set(part) if self._fails(part, [part[-1].name], report) else set()

    def _block_traverse(self, nodes: NodeList, find_last_node: bool | None) -> NodeSet:
        """The shortest stretch that fails: its end (True), its beginning (False), or both (None)."""

        def fails(start: int, end: int) -> bool:
            part = nodes[start:end]
            report = self._begin("Block traverse", f"Nodes {part[0].name} to {part[-1].name}")
            return self._fails(part, [part[-1].name], report)

        if not nodes or not fails(0, len(nodes)):
            return set()
        low, high = 1, len(nodes)
        while find_last_node is not False and low < high:         # the least end that fails from the beginning
            middle = (low + high) // 2
            low, high = (low, middle) if fails(0, middle) else (middle + 1, high)
        end = high
        low, high = 0, end - 1
        while find_last_node is not True and low < high:          # the last beginning that fails up to there
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fails(middle, end) else (low, middle - 1)
        return {nodes[end - 1]} if find_last_node else {nodes[low]} if find_last_node is False else set(nodes[low:end])

    # --- entries ------------------------------------------------------------------------------------------------------

    def _collect_nodes(self, start: str | None, end: str | None) -> NodeList:
        """Calls from one name to another, both included."""
        calls = [n for n in self.module.graph.nodes if n.op in CALLABLE_NODE_OPS]
        names = [n.name for n in calls]
        first = names.index(start) if start in names else 0 if start is None else len(names)
        last = names.index(end) if end in names else len(names) - 1
        return calls[first : last + 1]

    def run_nodes(self, start: str | None = None, end: str | None = None) -> None:
        """Run a stretch of the module both ways, and print where they differ."""
        nodes = self._collect_nodes(start, end)
        whole = {n for p in nodes for n in (p, *self.fusions.get(p, ()))}
        names = [n.name for n in nodes] if self.settings.return_intermediate else []
        try:
            self._run_and_compare(*self._build_submodule(whole), names)
        except _FOUND as error:
            print(error)

    def print_report(self, report: list[str]) -> None:
        """Print one report."""
        for i, line in enumerate(report):
            print(f" . {line}" if i else line)

    def print_reports(self) -> None:
        """Print all reports."""
        for report in self.reports:
            self.print_report(report)

    def minimize(self, start: str | None = None, end: str | None = None, skip_nodes: list[str] | None = None,
                 find_last_node: bool | None = None) -> NodeSet:
        """The culprits between two nodes, found by the method of the settings."""
        print(self.settings)
        print(self.module.graph)
        nodes, method = self._collect_nodes(start, end), self.settings.traverse_method
        if method == "skip":
            if skip_nodes is None:
                raise RuntimeError("minimizer: the skip method needs skip_nodes, the names of nodes to leave out")
            return self._skip_traverse(nodes, skip_nodes)
        if method == "block":
            return self._block_traverse(nodes, find_last_node)
        methods = {"sequential": self._sequential_traverse, "binary": self._binary_traverse,
                   "accumulate": self._accumulate_traverse, "defined": self._defined_traverse}
        if method not in methods:
            raise RuntimeError(f"minimizer: unknown traverse_method {method!r}. Known: {[*methods, 'skip', 'block']}.")
        return methods[method](nodes)
