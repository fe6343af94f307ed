"""The numeric suite for graphs: weights, outputs, and errors of two forms of a model, operator by operator.

Enters: two models that can be traced, such as a prepared and a converted one. Leaves: results by layer, kind ("weight",
"node_output", "node_input") and model name: lists of dictionaries with "values", names and types.

    a, b = add_loggers("float", prepared, "int8", quantized, OutputLogger)
    a(data), b(data)
    results = extract_logger_info(a, b, OutputLogger, "int8")
    extend_logger_results_with_comparison(results, "float", "int8", compute_sqnr, "sqnr")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._C import Tensor
from ...fx import GraphModule
from ...nn import Module
from ..quantization.fake_quantize import FakeQuantizeBase
from ..quantization.fx.graph_module import _get_observed_graph_module_attr
from ..quantization.fx.tracer import QuantizationTracer
from ..quantization.observer import ObserverBase
from .fx.graph_matcher import get_matching_subgraph_pairs
from .fx.graph_passes import add_loggers_to_model, create_a_shadows_b
from .fx.ns_types import NSNodeTargetType, NSResultsType, NSSingleResultValuesType
from .fx.utils import (
    compute_sqnr,
    get_target_type_str,
    maybe_add_missing_fqns,
    rekey_logger_info_on_node_name_of_model,
)
from .fx.weight_utils import extract_weight_from_node

Sets = dict[str, set[NSNodeTargetType]] | None
_NOT_SHOWN = ("training",)


class OutputLogger(Module):
    """Keeps what passes through it: tensors in `stats`, the results of recurrent layers in `stats_rnn`."""

    _is_impure = True      # dead code elimination leaves it

    def __init__(
        self, ref_node_name: str, prev_node_name: str, model_name: str, ref_name: str, prev_node_target_type: str,
        ref_node_target_type: str, results_type: str, index_within_arg: int, index_of_arg: int, fqn: str | None,
        qconfig_str: str | None = "",
    ) -> None:
        super().__init__()
        self.stats: list[Tensor] = []
        self.stats_rnn: list[Any] = []
        self.ref_node_name = ref_node_name
        self.prev_node_name = prev_node_name
        self.model_name = model_name
        self.ref_name = ref_name
        self.prev_node_target_type = prev_node_target_type
        self.ref_node_target_type = ref_node_target_type
        self.results_type = results_type
        self.index_within_arg = index_within_arg
        self.index_of_arg = index_of_arg
        self.fqn = fqn
        self.enabled = True
        self.qconfig_str = qconfig_str
        self.save_activations = True

    def forward(self, x: Any) -> Any:
        if self.enabled and self.save_activations:
            if isinstance(x, Tensor):
                self.stats.append(x.detach())
            elif isinstance(x, tuple) and len(x) == 2 and len(x[1]) == 2:
                self.stats_rnn.append((x[0].detach(), (x[1][0].detach(), x[1][1].detach())))
        return x

    def __repr__(self) -> str:
        shown = {k: v for k, v in self.__dict__.items() if k not in _NOT_SHOWN and not k.startswith("_")}
        return f"{type(self).__name__}({shown})"


class OutputComparisonLogger(OutputLogger):
    """Compares what passes through it with a reference, and keeps the measures in `comparisons`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.comparison_fn = compute_sqnr
        self.comparison_fn_name = "sqnr"
        self.comparisons: list[Any] = []

    def forward(self, x: Any, x_ref: Any) -> Any:  # type: ignore[override]
        if self.enabled:
            if not isinstance(x, Tensor):
                raise AssertionError(f"OutputComparisonLogger: expected a tensor, got {type(x).__name__}")
            if self.save_activations:
                self.stats.append(x.detach())
            self.comparisons.append(self.comparison_fn(x, x_ref))
        return x


class NSTracer(QuantizationTracer):
    """Traces a model that may have observers in it: they stay whole."""

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        is_observer = isinstance(m, (ObserverBase, FakeQuantizeBase))
        return is_observer or super().is_leaf_module(m, module_qualified_name)


def _traced(model: Module) -> GraphModule:
    """A model traced anew; a prepared one's knowledge of scopes is kept."""
    traced = GraphModule(model, NSTracer([], []).trace(model))
    scopes = _get_observed_graph_module_attr(model, "node_name_to_scope")
    if scopes is not None:
        traced._node_name_to_scope = scopes
    return traced


def extract_weights(
    model_name_a: str, model_a: Module, model_name_b: str, model_b: Module,
    base_name_to_sets_of_related_ops: Sets = None, unmatchable_types_map: Sets = None,
    op_to_type_to_weight_extraction_fn: dict[str, dict[Callable, Callable]] | None = None,
) -> NSResultsType:
    """The weights of matched layers of two models."""
    gm_a, gm_b = _traced(model_a), _traced(model_b)
    pairs = get_matching_subgraph_pairs(gm_a, gm_b, base_name_to_sets_of_related_ops, unmatchable_types_map)
    results: NSResultsType = {}
    for side, (model_name, gm) in enumerate(((model_name_a, gm_a), (model_name_b, gm_b))):
        for name, pair in pairs.items():
            weight = extract_weight_from_node(pair[side].base_op_node, gm, op_to_type_to_weight_extraction_fn)
            if weight:
                kinds = results.setdefault(name, {NSSingleResultValuesType.WEIGHT.value: {}})
                kinds[NSSingleResultValuesType.WEIGHT.value][model_name] = [weight]
    maybe_add_missing_fqns(results)
    return rekey_logger_info_on_node_name_of_model(results, model_name_b)


def add_loggers(
    name_a: str, model_a: Module, name_b: str, model_b: Module, logger_cls: Callable, should_log_inputs: bool = False,
    base_name_to_sets_of_related_ops: Sets = None, unmatchable_types_map: Sets = None,
) -> tuple[Module, Module]:
    """Both models with loggers after their matched operators, and before them if asked."""
    models = (_traced(model_a), _traced(model_b))
    pairs = get_matching_subgraph_pairs(*models, base_name_to_sets_of_related_ops, unmatchable_types_map)
    logged = []
    for side, (model_name, gm) in enumerate(zip((name_a, name_b), models, strict=True)):
        inputs, outputs = {}, {}
        for name, pair in pairs.items():
            under = (name, get_target_type_str(pair[side].base_op_node, gm))
            outputs[pair[side].end_node] = under
            if should_log_inputs:
                inputs[pair[side].start_node] = under
        logged.append(add_loggers_to_model(gm, inputs, outputs, logger_cls, model_name))
    return logged[0], logged[1]


def _extract_logger_info_one_model(model: Module, results: NSResultsType, logger_cls: Any) -> None:
    """What a model's loggers have kept, added to results."""
    for _, logger in model.named_modules():
        if not isinstance(logger, logger_cls):
            continue
        entries = results.setdefault(logger.ref_name, {}).setdefault(logger.results_type, {}).setdefault(
            logger.model_name, []
        )
        fields = ("ref_node_name", "ref_node_target_type", "prev_node_name", "prev_node_target_type",
                  "index_within_arg", "index_of_arg", "fqn", "qconfig_str")
        entries.append({
            "type": logger.results_type,
            "values": logger.stats_rnn or logger.stats,
            **{field: getattr(logger, field) for field in fields},
            "comparisons": getattr(logger, "comparisons", []),
            "comparison_fn_name": getattr(logger, "comparison_fn_name", ""),
        })
        entries.sort(key=lambda entry: f"{entry['index_of_arg']}:{entry['index_within_arg']}")


def extract_logger_info(
    model_a: Module, model_b: Module, logger_cls: Callable, model_name_to_use_for_layer_names: str
) -> NSResultsType:
    """What the loggers of both models have kept."""
    results: NSResultsType = {}
    for model in (model_a, model_b):
        _extract_logger_info_one_model(model, results, logger_cls)
    maybe_add_missing_fqns(results)
    return rekey_logger_info_on_node_name_of_model(results, model_name_to_use_for_layer_names)


def add_shadow_loggers(
    name_a: str, model_a: Module, name_b: str, model_b: Module, logger_cls: Callable, should_log_inputs: bool = False,
    base_name_to_sets_of_related_ops: Sets = None, node_type_to_io_type_map: Sets = None,
    unmatchable_types_map: Sets = None,
) -> Module:
    """Model B in which A's operators run on B's inputs, beside B's own; both are logged."""
    gm_a, gm_b = _traced(model_a), _traced(model_b)
    pairs = get_matching_subgraph_pairs(gm_a, gm_b, base_name_to_sets_of_related_ops, unmatchable_types_map)
    return create_a_shadows_b(
        name_a, gm_a, name_b, gm_b, pairs, logger_cls, should_log_inputs, node_type_to_io_type_map
    )


def extract_shadow_logger_info(
    model_a_shadows_b: Module, logger_cls: Callable, model_name_to_use_for_layer_names: str
) -> NSResultsType:
    """What the loggers of a shadowed model have kept."""
    results: NSResultsType = {}
    _extract_logger_info_one_model(model_a_shadows_b, results, logger_cls)
    maybe_add_missing_fqns(results)
    return rekey_logger_info_on_node_name_of_model(results, model_name_to_use_for_layer_names)


def extend_logger_results_with_comparison(
    results: NSResultsType, model_name_1: str, model_name_2: str, comparison_fn: Callable[[Any, Any], Any],
    comparison_name: str,
) -> None:
    """Compare what two models gave, value by value; the measures are added to the second's results."""
    for kinds in results.values():
        for models in kinds.values():
            for name in (model_name_1, model_name_2):
                if name not in models:
                    raise AssertionError(f"the results have no model {name!r}, only {sorted(models)}")
            places = {(entry["index_within_arg"], entry["index_of_arg"]): entry for entry in models[model_name_1]}
            for entry in models[model_name_2]:
                other = places[entry["index_within_arg"], entry["index_of_arg"]]
                pairs = zip(other["values"], entry["values"], strict=False)
                entry[comparison_name] = [comparison_fn(one, two) for one, two in pairs]


def loggers_set_enabled(model: Module, enabled: bool) -> None:
    """Switch the loggers of a model on or off."""
    for module in model.modules():
        if isinstance(module, OutputLogger):
            module.enabled = enabled


def loggers_set_save_activations(model: Module, save_activations: bool) -> None:
    """Let the loggers of a model keep values, or compare only."""
    for module in model.modules():
        if isinstance(module, OutputLogger):
            module.save_activations = save_activations
