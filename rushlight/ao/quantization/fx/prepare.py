"""Preparing: observers (or fake quantizers) put into a graph.

Enters: a traced and fused model, and a QConfigMapping. Leaves: a graph module that calls `activation_post_process_N`
wherever a value is to be quantized, and what converting needs to know in its meta. An operator is observed if it is a
pattern of the backend, has a qconfig, and the backend has its types; all else stays in float.
"""

from __future__ import annotations

from typing import Any

from ...._C import float8_e4m3fn, float8_e5m2, float16, float32, int8, int16, int32, qint8, qint32, quint8, uint8
from ....fx import Graph, GraphModule, Node
from ....nn import Module, functional as F  # noqa: N812
from ...nn.quantized.modules.functional_modules import FloatFunctional, FXFloatFunctional
from ..backend_config import BackendConfig, get_native_backend_config
from ..backend_config.utils import get_module_to_qat_module
from ..qconfig_mapping import QConfigMapping
from ..quantize import convert, propagate_qconfig_
from ..utils import _parent_name, get_swapped_custom_module_class
from ._equalize import add_equalization_observers, is_equalization_observer
from .custom_config import PrepareCustomConfig, StandaloneModuleConfigEntry
from .custom_modules import insert_dequant_stubs, is_custom_lstm, lstm_behind
from .fuse import fuse
from .graph_module import ObservedGraphModuleAttrs, _is_observed_standalone_module
from .match_utils import Match, find_matches, longest_first
from .qconfig_mapping_utils import (
    _generate_node_name_to_qconfig,
    _get_flattened_qconfig_dict,
    _update_qconfig_for_fusion,
    _update_qconfig_for_qat,
)
from .targets import FLOAT_OBSERVER, Entry, Target, Targets, type_of
from .tracer import QuantizationTracer
from .utils import (
    TARGET,
    assert_and_get_unique_device,
    free_name,
    from_deprecated_dict,
    get_custom_module_class_keys,
    get_skipped_module_name_and_classes,
    is_activation_post_process_node,
    node_arg_is_bias,
    node_arg_is_weight,
)

__all__ = ["prepare"]

_OBSERVED_TYPES = (quint8, qint8, qint32, float16, uint8, int8, int16, int32, float8_e5m2, float8_e4m3fn)


def _insert_obs_or_fq(
    node: Node, obs_or_fq: Module, model: Module, named_modules: dict[str, Module], graph: Graph,
    model_device: Any = None,
) -> Node:
    """Add an observer to a model, and a call of it after a node."""
    device = assert_and_get_unique_device(model) if model_device is None else model_device
    if device is not None:
        obs_or_fq.to(device)
    is_equalizing = is_equalization_observer(obs_or_fq)
    name = free_name(model, f"{node.name}_equalization_process_" if is_equalizing else "activation_post_process_")
    setattr(model, name, obs_or_fq)
    named_modules[name] = obs_or_fq
    with graph.inserting_after(node):
        return graph.create_node("call_module", name, (node,), {})


def _save_state(
    observed: GraphModule, node_name_to_qconfig: dict[str, Any], node_name_to_scope: dict[str, tuple[str, type]],
    prepare_custom_config: PrepareCustomConfig, equalization_node_name_to_qconfig: dict[str, Any],
    qconfig_mapping: QConfigMapping, is_qat: bool, observed_node_names: set[str],
) -> None:
    """Keep what converting must know in the meta of a prepared model."""
    observed.meta["_observed_graph_module_attrs"] = ObservedGraphModuleAttrs(
        node_name_to_qconfig, node_name_to_scope, prepare_custom_config, equalization_node_name_to_qconfig,
        qconfig_mapping, is_qat, observed_node_names,
    )


def trace_and_prepare(
    model: Module, qconfig_mapping: Any, is_qat: bool, example_inputs: tuple[Any, ...], custom: PrepareCustomConfig,
    equalization_config: Any = None, backend_config: Any = None, is_standalone_module: bool = False,
) -> GraphModule:
    """A model as it is: traced, fused, and observed."""
    _swap_ff_with_fxff(model)
    tracer = QuantizationTracer(*get_skipped_module_name_and_classes(custom, is_standalone_module))
    traced = GraphModule(model, tracer.trace(model))
    return prepare(
        fuse(traced, is_qat, None, backend_config), qconfig_mapping, is_qat, tracer.node_name_to_scope, example_inputs,
        custom, equalization_config, backend_config, is_standalone_module,
    )


def _swap_ff_with_fxff(model: Module) -> None:
    """Replace FloatFunctional, which observes, by one that tracing goes through."""
    for name, module in list(model.named_children()):
        if isinstance(module, FloatFunctional):
            del model._modules[name]
            model._modules[name] = FXFloatFunctional()
        else:
            _swap_ff_with_fxff(module)


def prepare(
    model: GraphModule, qconfig_mapping: QConfigMapping | dict[str, Any], is_qat: bool,
    node_name_to_scope: dict[str, tuple[str, type]], example_inputs: tuple[Any, ...],
    prepare_custom_config: PrepareCustomConfig | dict[str, Any] | None = None,
    _equalization_config: QConfigMapping | dict[str, Any] | None = None,
    backend_config: BackendConfig | dict[str, Any] | None = None, is_standalone_module: bool = False,
) -> GraphModule:
    """The model with observers in it. `example_inputs` are part of the interface; nothing is run."""
    custom = from_deprecated_dict(PrepareCustomConfig, prepare_custom_config, "prepare") or PrepareCustomConfig()
    mapping = from_deprecated_dict(QConfigMapping, qconfig_mapping, "prepare")
    equalization = from_deprecated_dict(QConfigMapping, _equalization_config, "prepare") or QConfigMapping()
    backend = from_deprecated_dict(BackendConfig, backend_config, "prepare") or get_native_backend_config()
    for name, given in (("qconfig_mapping", mapping), ("_equalization_config", equalization)):
        if not isinstance(given, QConfigMapping):
            raise AssertionError(f"prepare: {name} must be a QConfigMapping, not {type(given).__name__}")
    mapping, equalization = _copied(mapping), _copied(equalization)
    _update_qconfig_for_fusion(model, mapping)
    _update_qconfig_for_fusion(model, equalization)
    propagate_qconfig_(model, _get_flattened_qconfig_dict(mapping), custom.to_dict())
    if is_qat:
        convert(model, mapping=get_module_to_qat_module(backend), inplace=True, remove_qconfig=False)
        _update_qconfig_for_qat(mapping, backend)
    modules = dict(model.named_modules(remove_duplicate=False))
    equalized = _generate_node_name_to_qconfig(model, modules, model.graph, equalization, node_name_to_scope)
    qconfigs = _generate_node_name_to_qconfig(model, modules, model.graph, mapping, node_name_to_scope)
    matches = _find_all(model.graph, modules, backend, custom)
    preparation = _Preparation(model, modules, backend, custom, matches, qconfigs, equalized, is_qat)
    result_node = preparation.run()
    model = GraphModule(model, model.graph)
    _save_state(model, qconfigs, node_name_to_scope, custom, equalized, mapping, is_qat, preparation.observed)
    if is_standalone_module:
        if not isinstance(result_node.args[0], Node):
            raise AssertionError("prepare: a standalone module must return one value, no tuple, list or dict")
        attrs = model.meta["_observed_graph_module_attrs"]
        attrs.is_observed_standalone_module = True
        attrs.standalone_module_input_quantized_idxs = custom.input_quantized_indexes
        attrs.standalone_module_output_quantized_idxs = custom.output_quantized_indexes
    return model


def _copied(mapping: QConfigMapping) -> QConfigMapping:
    """A mapping whose dictionaries can be changed; qconfigs are not copied, they are compared by what they hold."""
    result = QConfigMapping()
    for name, value in vars(mapping).items():
        setattr(result, name, value.copy() if hasattr(value, "copy") else value)
    return result


def _find_all(
    graph: Graph, modules: dict[str, Module], backend: BackendConfig, custom: PrepareCustomConfig
) -> dict[Node, Match]:
    """The match of every node that is in one: patterns of the backend, custom and standalone modules."""
    found = find_matches(graph, modules, longest_first(backend))
    classes = get_custom_module_class_keys(custom.float_to_observed_mapping)
    for node in graph.nodes:
        if node.op != "call_module":
            continue
        module = modules[node.target]
        if node.target in custom.standalone_module_names or type(module) in custom.standalone_module_classes or (
            _is_observed_standalone_module(module)
        ):
            found[node] = Match(node, [node], is_standalone=True)
        elif type(module) in classes:
            found[node] = Match(node, [node], is_custom=True)
    return found


class _Preparation:
    """One run over a graph: the targets of its nodes, then an observer for each value that needs one."""

    def __init__(
        self, model: GraphModule, modules: dict[str, Module], backend: BackendConfig, custom: PrepareCustomConfig,
        matches: dict[Node, Match], qconfigs: dict[str, Any], equalized: dict[str, Any], is_qat: bool,
    ) -> None:
        self.model, self.graph, self.modules = model, model.graph, modules
        self.backend, self.custom, self.is_qat = backend, custom, is_qat
        self.qconfigs, self.equalized = qconfigs, equalized
        self.targets = Targets(modules, backend)
        self.entries: dict[Node, Entry] = {node: (match, qconfigs[node.name]) for node, match in matches.items()}
        self.observed: set[str] = set()
        self.swapped: set[str] = set()
        self.device = assert_and_get_unique_device(model)

    def run(self) -> Node:
        """Observe the graph. Returns its output node."""
        for match in {id(m): m for m, _ in self.entries.values()}.values():
            match.shares_observer = self._shares(match)
        self._prepare_standalone_modules()
        nodes = list(self.graph.nodes)
        self.targets.assign(
            nodes, self.entries, self.custom.input_quantized_indexes, self.custom.output_quantized_indexes
        )
        for node in nodes:
            match, qconfig = self.entries.get(node, (None, None))
            if node.op == "output":
                node.args = tuple(map(_checked_output, node.args))
            elif match is not None and match.is_supported and qconfig is not None and node.op.startswith("call_"):
                self._observe(node, match, qconfig)
        return nodes[-1]

    def _shares(self, match: Match) -> bool:
        """Whether a match's output has its input's observer; for some patterns the number of tensors decides."""
        if match.config is None:
            return False
        observation, by_count = match.config.observation_type, match.config._num_tensor_args_to_observation_type
        if by_count:
            count = sum(isinstance(arg, Node) and not self.targets.is_number(arg) for arg in match.root.args)
            if count not in by_count:
                raise AssertionError(f"{match.nodes}: num_tensor_args_to_observation_type has no entry for {count}")
            observation = by_count[count]
        return observation.name == "OUTPUT_SHARE_OBSERVER_WITH_INPUT"

    # --- standalone and custom modules --------------------------------------------------------------------------------

    def _standalone(self, node: Node, qconfig: Any) -> StandaloneModuleConfigEntry:
        """How a standalone module is prepared: by its name, else its class, else as its parent."""
        entry = self.custom.standalone_module_classes.get(
            type(self.modules[node.target]), StandaloneModuleConfigEntry(None, (), None, None)
        )
        entry = self.custom.standalone_module_names.get(node.target, entry)
        return StandaloneModuleConfigEntry(
            entry.qconfig_mapping or QConfigMapping().set_global(qconfig), entry.example_inputs,
            entry.prepare_custom_config or PrepareCustomConfig(), entry.backend_config or self.backend,
        )

    def _prepare_standalone_modules(self) -> None:
        for node, (match, qconfig) in self.entries.items():
            if match.is_standalone:
                entry = self._standalone(node, qconfig)
                self._replace(node, trace_and_prepare(
                    self.modules[node.target], entry.qconfig_mapping, self.is_qat, entry.example_inputs,
                    entry.prepare_custom_config or PrepareCustomConfig(), backend_config=entry.backend_config,
                    is_standalone_module=True,
                ))

    def _swap_custom_module(self, node: Node, qconfig: Any) -> None:
        if node.target not in self.swapped:
            self.swapped.add(node.target)
            module = self.modules[node.target]
            observed = get_swapped_custom_module_class(module, self.custom.float_to_observed_mapping, qconfig)
            self._replace(node, observed.from_float(module))

    def _replace(self, node: Node, module: Module) -> None:
        """Another module for a node to call."""
        owner, name = _parent_name(node.target)
        setattr(self.modules[owner], name, module)
        self.modules[node.target] = module

    # --- observers ----------------------------------------------------------------------------------------------------

    def _observe(self, node: Node, match: Match, qconfig: Any) -> None:
        self.observed.update(n.name for n in match.all_nodes())
        is_branch = self._is_branch(node)
        if node is match.root:
            self._observe_inputs(node, match, qconfig)
            add_equalization_observers(
                node, self.equalized.get(node.name), self.modules, is_branch,
                lambda arg, made: _insert_obs_or_fq(arg, made, self.model, self.modules, self.graph, self.device),
            )
        if node is not match.last:
            return
        if is_custom_lstm(node, self.modules, qconfig, match.is_custom):
            insert_dequant_stubs(node, self.model, self.modules)
            self._swap_custom_module(node, qconfig)
        else:
            self._observe_output(node, match, qconfig)

    def _is_branch(self, node: Node) -> bool:
        """Whether the node's first input has another user that is quantized."""
        first = node.args[0] if node.args else None
        if not isinstance(first, Node) or len(first.users) < 2:
            return False
        return any(
            user is not node
            and (self.qconfigs.get(user.name) is not None or is_activation_post_process_node(user, self.modules))
            for user in first.users
        )

    def _observe_inputs(self, node: Node, match: Match, qconfig: Any) -> None:
        def observed(arg: Any) -> Any:
            if isinstance(arg, (list, tuple)):
                return type(arg)(map(observed, arg))
            return self._observed_input(arg, node, match, qconfig) if isinstance(arg, Node) else arg

        args = tuple(map(observed, node.args))
        kwargs = {key: observed(arg) for key, arg in node.kwargs.items()}
        node.args, node.kwargs = args, kwargs

    def _observed_input(self, arg: Node, node: Node, match: Match, qconfig: Any) -> Node:
        """An argument, or the observer of it if the node takes another type than it has."""
        constructor = qconfig.activation if match.is_standalone else self._wanted(arg, node)
        dtype, is_dynamic = type_of(constructor)
        if match.is_standalone:
            comes_quantized = self._standalone(node, qconfig).prepare_custom_config.input_quantized_indexes
            index = next((i for i, a in enumerate(node.args) if a is arg), None)
            needed = index in comes_quantized and self._made_type(arg) != quint8
            dtype = quint8
        elif is_dynamic:
            if dtype not in _OBSERVED_TYPES or self._made_type(arg) is None:
                raise AssertionError(f"{node}: {arg} cannot be quantized to {dtype} while running: it is no tensor")
            needed = bool(node.args) and arg is node.args[0]
        else:
            made = self._made_type(arg)
            needed = (
                not node.meta[TARGET].reuses_input
                and dtype in _OBSERVED_TYPES
                and dtype != made
                and made in (*_OBSERVED_TYPES, float32)
            )
        if not needed:
            return arg
        assert constructor is not None
        observer = constructor()
        for user in arg.users:
            if user.op == "call_module" and type(self.modules[user.target]) is type(observer) and (
                self.modules[user.target].dtype == dtype
            ):
                return user
        return _insert_obs_or_fq(arg, observer, self.model, self.modules, self.graph, self.device)

    def _wanted(self, arg: Node, node: Node) -> Any:
        """The observer that a node wants for an argument."""
        target: Target = node.meta[TARGET]
        if node_arg_is_weight(node, arg):
            return None if node.target in _FLOAT_WEIGHTS else target.weight
        return target.bias if node_arg_is_bias(node, arg) else target.input

    def _made_type(self, value: Node) -> Any:
        """The type that a value is quantized to where it is made."""
        lstm = lstm_behind(value, self.modules)
        if lstm is not None:
            value = lstm
        elif is_activation_post_process_node(value, self.modules):
            value = value.args[0]
        return type_of(value.meta[TARGET].output if TARGET in value.meta else FLOAT_OBSERVER)[0]

    def _observe_output(self, node: Node, match: Match, qconfig: Any) -> None:
        """Put an observer after a node, between it and its users, if it makes quantized values."""
        target: Target = node.meta[TARGET]
        dtype, is_dynamic = type_of(target.output)
        if dtype not in _OBSERVED_TYPES or is_dynamic or target.is_standalone or target.output is None:
            return
        made = _insert_obs_or_fq(node, target.output(), self.model, self.modules, self.graph, self.device)
        for user in list(node.users):
            if user is not made:
                user.replace_input_with(node, made)
        first = node.args[0] if node.args else None
        comes_observed = dtype in (quint8, uint8) and isinstance(first, Node) and first.op == "placeholder"
        if (target.shares_observer and not comes_observed) or target.reuses_input:
            for observer in [] if self._share_observer(node) else list(node.users):
                observer.replace_all_uses_with(node)
                self.graph.erase_node(observer)
        if match.is_custom:
            self._swap_custom_module(node, qconfig)

    def _share_observer(self, node: Node) -> bool:
        """Let all inputs of a node, and its output, have the observer of its first input; False if there is none."""
        inputs = next((arg for arg in node.args if isinstance(arg, (Node, list, tuple))), None)
        if inputs is None:
            return False
        first, *others = inputs if isinstance(inputs, (list, tuple)) else (inputs,)
        source = self._observer_behind(first, any_argument=True)
        if source is None:
            return False
        shared = self.modules[source.target]
        for other in others:
            observer = self._observer_behind(other)
            if observer is None:
                return False
            self._replace(observer, shared)
        for observer in node.users:
            if not is_activation_post_process_node(observer, self.modules):
                raise AssertionError(f"{node} has the user {observer} besides its observer")
            self._replace(observer, shared)
        return True

    def _observer_behind(self, value: Any, any_argument: bool = False) -> Node | None:
        """The nearest observer that a value comes from, by first arguments, or by the first that are values."""
        while not is_activation_post_process_node(value, self.modules):
            if not isinstance(value, Node) or value.op == "placeholder" or not value.args:
                return None
            nodes = [arg for arg in value.args if isinstance(arg, Node)]
            value = nodes[0] if any_argument and nodes else value.args[-1 if any_argument else 0]
        return value


# Their weights are not quantized.
_FLOAT_WEIGHTS = (F.layer_norm, F.group_norm, F.instance_norm)


def _checked_output(value: Any) -> Any:
    """What a graph returns, of plain containers; other values than nodes and None are refused."""
    if isinstance(value, dict):
        return {key: _checked_output(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return (list if isinstance(value, list) else tuple)(map(_checked_output, value))
    if value is not None and not isinstance(value, Node):
        raise Exception(f"prepare: the model returns {value!r}, which is no tensor")  # noqa: TRY002 - PyTorch's class
    return value
