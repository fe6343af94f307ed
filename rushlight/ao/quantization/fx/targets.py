"""What each node of a graph wants to be observed by, and whether the backend can give it that.

Enters: matches of a backend's patterns with their qconfigs. Leaves: a `Target` in the meta of every node: the observers
(constructors) of its input, output, weight and bias, and where the last two are among its arguments.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ...._C import float16, float32
from ....fx import Node
from ....nn import Module
from ..backend_config import BackendConfig, DTypeConfig, DTypeWithConstraints
from ..fake_quantize import FixedQParamsFakeQuantize
from ..observer import FixedQParamsObserver, ObserverBase, PlaceholderObserver
from ..qconfig import (
    _default_fp32_placeholder_qconfig,
    _default_quint8_placeholder_qconfig,
    _is_reuse_input_qconfig,
    float16_dynamic_qconfig,
    float16_static_qconfig,
    qconfig_equals,
)
from ..utils import get_qconfig_dtypes
from .match_utils import Match
from .utils import TARGET, all_node_args_have_no_tensors, node_arg_is_bias, node_arg_is_weight

FLOAT_OBSERVER = PlaceholderObserver.with_args(dtype=float32)


@dataclass(frozen=True)
class Target:
    """Constructors of observers (None: the value is no tensor), and how they are placed."""

    input: Callable | None
    output: Callable | None
    weight: Callable | None = FLOAT_OBSERVER
    bias: Callable | None = FLOAT_OBSERVER
    weight_index: int | None = None
    bias_index: int | None = None
    reuses_input: bool = False
    shares_observer: bool = False
    is_standalone: bool = False


FLOAT = Target(_default_fp32_placeholder_qconfig.activation, _default_fp32_placeholder_qconfig.activation)
QUANTIZED = Target(_default_quint8_placeholder_qconfig.activation, _default_quint8_placeholder_qconfig.activation)
NO_TENSOR = Target(None, None)

Entry = tuple[Match, Any]       # a node's match, and its own qconfig
# Methods whose later arguments are no tensors, or none that can be quantized: which of them.
_UNOBSERVED = {
    "masked_fill": (1, 2), "size": (1,), "unsqueeze": (1,), "unsqueeze_": (1,),
    **dict.fromkeys(("permute", "repeat", "reshape", "transpose", "view"), range(1, 100)),
}


def type_of(constructor: Callable | None) -> tuple[Any, bool]:
    """(dtype, whether dynamic) of the observers a constructor makes; (None, False) of none."""
    if constructor is None:
        return None, False
    observer = constructor()
    return observer.dtype, bool(getattr(observer, "is_dynamic", False))


class Targets:
    """The targets of a graph's nodes."""

    def __init__(self, modules: dict[str, Module], backend: BackendConfig) -> None:
        self.modules = modules
        self.backend = backend
        self.numbers: dict[Node, bool] = {}

    def is_number(self, node: Any) -> bool:
        return all_node_args_have_no_tensors(node, self.modules, self.numbers)

    def assign(
        self, nodes: list[Node], entries: dict[Node, Entry], input_indexes: list[int], output_indexes: list[int]
    ) -> None:
        """Give every node its target, and mark matches that the backend does not support (they stay in float)."""
        for node in nodes:
            node.meta[TARGET] = FLOAT
        self._assign_matches(entries)
        inputs = [node for node in nodes if node.op == "placeholder"]
        for index, node in enumerate(inputs):
            if index in input_indexes:
                node.meta[TARGET] = QUANTIZED
        for node in nodes:
            if node.op.startswith("call_") and self.is_number(node):
                node.meta[TARGET] = NO_TENSOR
            elif node.op == "output" and 0 in output_indexes:
                node.meta[TARGET] = QUANTIZED
        for node in nodes:
            for index in _UNOBSERVED.get(node.target, ()) if node.op == "call_method" else ():
                self._no_tensor(node.args[index] if index < len(node.args) else None, entries)
        for match, qconfig in entries.values():
            match.is_supported = match.is_supported and self.is_supported(match, qconfig)
        for match, _ in entries.values():
            for node in () if match.is_supported else match.all_nodes():
                node.meta[TARGET] = self.target_of(node, _default_fp32_placeholder_qconfig, None)

    def _assign_matches(self, entries: dict[Node, Entry]) -> None:
        seen: set[Node] = set()
        for match, qconfig in entries.values():
            for node in match.all_nodes():
                if node not in seen and qconfig is not None:
                    node.meta[TARGET] = self.target_of(node, qconfig, match)
                seen.add(node)

    def target_of(self, node: Node, qconfig: Any, match: Match | None) -> Target:
        """What a qconfig means for a node."""
        if self.is_number(node):
            return NO_TENSOR
        activation, weight, is_dynamic = get_qconfig_dtypes(qconfig)
        half = activation == weight == float16 and not is_dynamic
        known = self.backend._pattern_complex_format_to_config
        at = known[node.target]._input_type_to_index if node.op == "call_function" and node.target in known else {}
        return Target(
            qconfig.activation, qconfig.activation, qconfig.weight,
            PlaceholderObserver.with_args(dtype=float16 if half else float32), at.get("weight"), at.get("bias"),
            _is_reuse_input_qconfig(qconfig), match is not None and match.shares_observer,
            match is not None and match.is_standalone,
        )

    def _no_tensor(self, value: Any, entries: dict[Node, Entry]) -> None:
        """Note that a value is no tensor, and neither is what operators that pass it on made it of."""
        for node in value if isinstance(value, (tuple, list)) else (value,):
            while isinstance(node, Node):
                node.meta[TARGET] = replace(node.meta[TARGET], input=None, output=None)
                passes_on = node in entries and entries[node][0].shares_observer and node.args
                node = node.args[0] if passes_on else None

    # --- what the backend supports ------------------------------------------------------------------------------------

    def is_supported(self, match: Match, qconfig: Any) -> bool:
        """Whether one of the pattern's combinations of types is what its nodes want."""
        if match.config is None:
            return True
        root, last = match.root, match.nodes[0]
        return any(
            all(self._input_fits(arg, root, qconfig, config) for arg in (*root.args, *root.kwargs.values()))
            and self._output_fits(last, qconfig, config)
            for config in match.config.dtype_configs
        )

    def _input_fits(self, arg: Any, node: Node, qconfig: Any, config: DTypeConfig) -> bool:
        if isinstance(arg, (list, tuple)):
            return all(self._input_fits(a, node, qconfig, config) for a in arg)
        if not isinstance(arg, Node):
            return True
        target: Target = node.meta[TARGET]
        if node_arg_is_weight(node, arg):
            return config.weight_dtype is None or (
                type_of(target.weight)[0] == config.weight_dtype
                and satisfies(qconfig, config.weight_dtype_with_constraints, is_activation=False)
            )
        if node_arg_is_bias(node, arg):
            return config.bias_dtype is None or type_of(target.bias)[0] == config.bias_dtype
        return config.input_dtype is None or (
            type_of(target.input) == (config.input_dtype, bool(config.is_dynamic))
            and satisfies(qconfig, config.input_dtype_with_constraints)
        )

    def _output_fits(self, node: Node, qconfig: Any, config: DTypeConfig) -> bool:
        dtype, is_dynamic = type_of(node.meta[TARGET].output)
        if is_dynamic:
            dtype = float32     # a qconfig has one activation: of dynamic operators it is the input's
        return config.output_dtype is None or (
            dtype == config.output_dtype and satisfies(qconfig, config.output_dtype_with_constraints)
        )


def satisfies(qconfig: Any, constraints: DTypeWithConstraints, is_activation: bool = True) -> bool:
    """Whether the observer of a qconfig keeps to a backend's constraints. If not, a warning says why; an observer of
    another type is not asked."""
    if qconfig is None or constraints.dtype is None:
        return True
    constructor = qconfig.activation if is_activation else qconfig.weight
    if constructor is None:
        return True
    made = constructor()
    if made.dtype != constraints.dtype:
        return True
    reason = _broken(made, qconfig, constraints)
    if reason:
        what = "activation" if is_activation else "weight"
        warnings.warn(f"QConfig {what} {reason}, ignoring {qconfig}", stacklevel=2)
    return not reason


def _broken(made: Any, qconfig: Any, backend: DTypeWithConstraints) -> str:
    """Why an observer does not keep to constraints; "" if it does."""
    observer = made if isinstance(made, ObserverBase) else made.activation_post_process
    low, high, eps = (getattr(observer, name, None) for name in ("quant_min", "quant_max", "eps"))
    bounds = (backend.quant_min_lower_bound, backend.quant_max_upper_bound)
    if None not in bounds:
        if low is None or high is None:
            return "must specify 'quant_min' and 'quant_max'"
        if low < bounds[0] or high > bounds[1]:
            return f"has the range ({low}, {high}), which the backend's {bounds} does not hold"
    if backend.scale_min_lower_bound is not None:
        if eps is None:
            return "must specify 'eps'"
        if eps < backend.scale_min_lower_bound:
            return f"has eps {eps}, below the backend's smallest scale {backend.scale_min_lower_bound}"
    qparams = (backend.scale_exact_match, backend.zero_point_exact_match)
    if None in qparams or any(qconfig_equals(qconfig, q) for q in (float16_static_qconfig, float16_dynamic_qconfig)):
        return ""
    if not isinstance(made, (FixedQParamsObserver, FixedQParamsFakeQuantize)):
        return (
            "must be a FixedQParamsObserver or a FixedQParamsFakeQuantize for operators with fixed qparams "
            "(get_default_qconfig_mapping and get_default_qat_qconfig_mapping have them)"
        )
    if observer.scale != qparams[0] or observer.zero_point != qparams[1]:
        return f"has scale {observer.scale} and zero point {observer.zero_point}, but the operator's are {qparams}"
    return ""
