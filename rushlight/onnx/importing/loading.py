"""ONNX files as modules: `load`, and `run` for one call.

Enters: a path, bytes, an open file, or an `onnx.ModelProto`. Leaves: an `ImportedModel`, an `fx.GraphModule` that
computes what the file says, with the file's weights as parameters under their names. Nothing of the file is executed.
Refuses: files that are damaged or newer than what is known here, operators without a rule, arguments that do not fit.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import _C, fx, ops
from ...autograd.grad_mode import no_grad
from ...base import collector
from ...nn.modules import hooks
from ...nn.modules.module import Module
from ...nn.parameter import Parameter
from ...tensors.interop import as_tensor
from ..kinds import ELEMENTS, Kind
from ..model import PARAMETER, Graph, Model, Node, Value
from . import control, rules  # noqa: F401 - their rules
from .arguments import Arguments
from .checking import check_calls_end, check_supported, check_versions, ordered
from .errors import damaged
from .misfits import MISFITS, misfit
from .quantized_layers import with_integers
from .reader import read_model
from .recorded import RecordedModule
from .stored import Folder, SparseStored, Stored, map_file
from .table import found
from .translating import Item, Scope, Translation

aten = ops.aten
FLOATS = {1, 10, 11, 16}          # types of elements that parameters have
_NUMBER = re.compile(r"(val|scalar_tensor_default)(_\d+)*")


class ImportedModel(RecordedModule):
    """A model that was read. Inputs come in the graph's order, or by their names in the file. Rules compute it until
    somebody looks at its graph, which is of ATen calls."""

    def _aten_graph(self) -> fx.Graph:
        if self.__dict__.get("_by_rules"):
            self.become_aten()
        return self._graph

    graph = property(_aten_graph, fx.GraphModule.graph.fset, doc="The graph, of ATen calls. Assigning one compiles.")

    @property
    def code(self) -> str:
        """The Python text of forward."""
        self._aten_graph()
        return self._code

    def become_aten(self) -> None:
        """Be a graph of ATen calls from now on, and no longer one of rules."""
        from .aten_graph import aten_graph  # noqa: PLC0415 - most programs never look at the graph

        self._by_rules = False
        found, held = aten_graph(self, self._graph, self.arguments.kinds)
        for name, value in [*vars(held).items(), *held._modules.items()]:
            if isinstance(value, (_C.Tensor, Module)):
                _hold(self, found, name, value)
        self.graph = found
        if self.training:
            self.train()

    def train(self, mode: bool = True) -> Any:
        """Training, or evaluation; in a graph of ATen calls those that do not do the same in both become the other."""
        super().train(mode)
        if "_graph" in self.__dict__ and not self.__dict__.get("_by_rules"):
            _switch(self, mode)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        taken: Arguments = self.arguments
        given, replaced = taken.arranged(args, kwargs, self._anchor)
        if replaced:
            from ...func import functional_call  # noqa: PLC0415 - rarely needed

            return functional_call(self, replaced, tuple(given))
        try:
            return Module.__call__(self, *given)
        except MISFITS as error:
            raise misfit(error) from error

    def __deepcopy__(self, memo: Any) -> Any:
        return _restored(super().__deepcopy__(memo), copy.deepcopy(self._facts(), memo))

    def __reduce__(self) -> Any:
        function, given, *_ = super().__reduce__()
        return _unpickled, (function, given, self._facts())

    def _facts(self) -> dict[str, Any]:
        """What a graph module does not keep of itself when it is copied."""
        return {"arguments": self.arguments, "results": self.results, "result_kinds": self.result_kinds,
                "tensors": dict(self.named_buffers()), "passing": [
                    f"{owner}.{leaf}".lstrip(".") for owner, m in self.named_modules()
                    for leaf in sorted(m._non_persistent_buffers_set)], "training": self.training,
                "_by_rules": self._by_rules}


def _hold(module: Module, graph: fx.Graph, name: str, value: Any) -> None:
    """Give a module what its graph names so, under another name if it has one already."""
    free, count = name, 0
    while hasattr(module, free):
        free, count = f"{name}_{count}", count + 1
    for node in graph.nodes:
        if node.op == "get_attr" and node.target == name and free != name:
            node.target = free
    if isinstance(value, Module):
        module.add_module(free, value)
    else:
        _register(module, free, value, "constant")


def _switch(module: fx.GraphModule, mode: bool) -> None:
    """Dropout and normalization over batches as training has them, or evaluation."""
    changed = False
    for node in module._graph.nodes:
        place = {aten.batch_norm.default: 5, aten.dropout.default: 2}.get(node.target)
        if place is not None and node.args[place] is not mode and not (place == 5 and node.args[3] is None):
            node.args = (*node.args[:place], mode, *node.args[place + 1 :])
            changed = True
    if changed:
        module.recompile()


def _unpickled(function: Callable, given: tuple, facts: dict[str, Any]) -> Any:
    return _restored(function(*given), facts)


def _restored(module: Any, facts: dict[str, Any]) -> Any:
    """A copy of a graph module as an imported model."""
    type(module).__bases__ = (ImportedModel,)          # a graph module has a class of its own
    for name in ("arguments", "results", "result_kinds", "_by_rules"):
        setattr(module, name, facts[name])
    for name, value in facts["tensors"].items():
        if not _has(module, name):
            _register(module, name, value, "buffer")
    for name in facts["passing"]:
        owner, _, leaf = name.rpartition(".")
        if _has(module, name):
            module.get_submodule(owner)._non_persistent_buffers_set.add(leaf)
    module.training = facts["training"]
    return module


def load(model: Any, *, custom_ops: Mapping[tuple[str, str], Callable] | None = None, device: Any = None,
         dtype: Any = None) -> Any:
    """An ONNX file as a module in evaluation mode. `custom_ops`: functions of inputs (attributes come by keyword) for
    operators by (domain, name); they come before our own. `dtype`: another type for all floats."""
    with collector.paused():
        record = model if isinstance(model, Model) else read(model)
        try:
            loaded = translated(record, {(_plain(d), op): f for (d, op), f in (custom_ops or {}).items()})
        except MISFITS as error:
            raise damaged(f"its graph is none that operators take ({error or type(error).__name__})") from error
    if device is not None or dtype is not None:
        loaded.to(device=device, dtype=dtype)
    return loaded


def run(model: Any, inputs: Any, **options: Any) -> list[Any]:
    """The results of a model for inputs: a list in the graph's order, or a dict by names. No gradients."""
    loaded = model if isinstance(model, ImportedModel) else load(model, **options)
    with no_grad():
        if isinstance(inputs, Mapping):
            result = loaded(**{name: _as_value(v) for name, v in inputs.items()})
        elif isinstance(inputs, (list, tuple)):
            result = loaded(*[_as_value(v) for v in inputs])
        else:
            raise TypeError("onnx.run: expected a list of inputs or a dict of them by name, got"
                            f" {type(inputs).__name__}")
    return list(result) if isinstance(result, tuple) else [result]


def read(model: Any) -> Model:
    """The records of a file."""
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        found = read_model(memoryview(map_file(path)))
        _attach(found, Folder(os.path.dirname(os.path.abspath(path))))
        return found
    if isinstance(model, (bytes, bytearray, memoryview)):
        return read_model(model)
    if hasattr(model, "SerializeToString"):
        return read_model(model.SerializeToString())
    if hasattr(model, "read"):
        data = model.read()
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError("onnx.load: the file is open for text. Open it with mode 'rb'.")
        found = read_model(data)
        name = getattr(model, "name", None)
        if isinstance(name, str) and os.path.isfile(name):
            _attach(found, Folder(os.path.dirname(os.path.abspath(name))))
        return found
    if hasattr(model, "serialize"):
        return read_model(model.serialize())
    raise TypeError(f"onnx.load: expected a path, bytes, a file that is open for bytes or a ModelProto, got"
                    f" {type(model).__name__}")


def _attach(model: Model, folder: Folder) -> None:
    """Say of every tensor which folder its elements may lie in."""
    def graph(g: Graph) -> None:
        for t in g.tensors.values():
            for part in (t.values, t.indices) if isinstance(t, SparseStored) else (t,):
                part.folder = folder
        nodes(g.nodes)

    def nodes(many: Sequence[Node]) -> None:
        for node in many:
            for value in node.attributes.values():
                for one in value if isinstance(value, list) else [value]:
                    if isinstance(one, Stored):
                        one.folder = folder
                    elif isinstance(one, Graph):
                        graph(one)

    graph(model.graph)
    for function in model.functions.values():
        nodes(function.nodes)


def _plain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _as_value(value: Any) -> Any:
    if value is None or isinstance(value, (_C.Tensor, str)):
        return value
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], (_C.Tensor, list)):
        return list(value)
    if getattr(getattr(value, "dtype", None), "kind", "") in ("O", "U", "S"):
        return value
    return as_tensor(value)


# --- translation ------------------------------------------------------------------------------------------------------


def translated(model: Model, custom: Mapping[tuple[str, str], Callable]) -> ImportedModel:
    """A model as a module."""
    check_versions(model)
    check_calls_end(model)
    check_supported(model, custom)
    model = dataclasses.replace(model, graph=with_integers(_with_weights(model.graph), model.opset))
    graph = model.graph
    translation = Translation(model, custom, _weights(model), _float_type(graph))
    scope = Scope(translation, translation.root, {"": model.opset, **model.opsets})
    inputs = [v for v in graph.inputs if v.name not in graph.tensors]
    seen: set[str] = set()
    for value in inputs:
        if not value.name or value.name in seen:
            raise ValueError(f"onnx: the model has an input without a name, or two that are called {value.name!r}")
        seen.add(value.name)
        scope.items[value.name] = translation.argument(translation.root, value)
    translation.tensors_of(graph, scope)
    scope.run(ordered(graph.nodes, graph, set(scope.items), scope, ""))
    return _module_of(translation, scope, inputs)


WEIGHTED = frozenset(
    "Conv ConvTranspose Gemm MatMul BatchNormalization LayerNormalization InstanceNormalization GroupNormalization"
    " PRelu LSTM GRU RNN".split())


def _with_weights(graph: Graph) -> Graph:
    """A graph whose weights are all initializers: some exporters write them as nodes (Constant)."""
    used = {name for node in graph.nodes if node.op in WEIGHTED and not node.domain for name in node.inputs[1:]}
    moved = {}
    for node in graph.nodes:
        value = node.attributes.get("value")
        if node.op == "Constant" and isinstance(value, Stored) and value.element.number in FLOATS and (
                node.outputs and node.outputs[0] in used and node.outputs[0] not in graph.tensors):
            moved[node.outputs[0]] = value
    if not moved:
        return graph
    kept = [n for n in graph.nodes if not (n.op == "Constant" and n.outputs and n.outputs[0] in moved)]
    return dataclasses.replace(graph, nodes=kept, tensors={**graph.tensors, **moved})


def _module_of(translation: Translation, scope: Scope, inputs: Sequence[Value]) -> ImportedModel:
    """The module around a graph that is translated."""
    graph, root, held = translation.model.graph, translation.root, translation.held
    results = [scope.items[v.name] for v in graph.outputs]
    outputs = [_result(root, item) for item in results]
    root.graph.output(outputs[0] if len(outputs) == 1 else tuple(outputs))
    loaded = ImportedModel(root.graph, root.modules)
    named = {item.name: target for item, target in held.kept.items() if item.holds}
    for name in graph.tensors:                       # held, though only their numbers are used
        item = scope.items[name]
        if item.is_known and item not in held.kept and isinstance(item.value, _C.Tensor):
            named[name] = held.keep(item)
    for target, (value, what) in held.tensors.items():
        _register(loaded, target, value, what)
    _register(loaded, "_anchor", held.anchor.value, "constant")
    loaded._by_rules = True
    weights = {v.name: named.get(v.name, v.name) for v in graph.inputs if v.name in graph.tensors}
    kinds = [v.kind or Kind("tensor") for v in inputs]
    loaded.arguments = Arguments([v.name for v in inputs], kinds, held.anchor.value.dtype, weights)
    loaded.results = [v.name for v in graph.outputs]
    loaded.result_kinds = [v.kind for v in graph.outputs]
    loaded.eval()
    return loaded


def _result(root: Any, item: Item) -> Any:
    return root.tensor(item)


def _register(module: Module, target: str, value: Any, what: str) -> None:
    """A tensor of the module, under a dotted name."""
    owner, _, leaf = target.rpartition(".")
    for part in owner.split(".") if owner else ():
        if part not in module._modules:
            module.add_module(part, Module())
        module = module._modules[part]
    if what == "parameter":
        if hooks._global_parameter_registration_hooks:
            module.register_parameter(leaf, Parameter(value))
        else:                                        # the name is free: `Held.fresh` made it
            module._parameters[leaf] = Parameter(value)
    elif isinstance(value, _C.Tensor):
        if hooks._global_buffer_registration_hooks:
            module.register_buffer(leaf, value, persistent=what == "buffer")
            return
        module._buffers[leaf] = value
        if what != "buffer":
            module._non_persistent_buffers_set.add(leaf)
    else:
        setattr(module, leaf, value)


def _has(module: Any, target: str) -> bool:
    for part in target.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True


def _float_type(graph: Graph) -> Any:
    """The type of most weights; that of casts to it follows the module's (`double()`, `half()`)."""
    counts: Counter[int] = Counter()
    for stored in graph.tensors.values():
        if stored.element.number in FLOATS and isinstance(stored, Stored):
            counts[stored.element.number] += max(stored.numel(), 1)
    for value in graph.inputs:
        if value.kind is not None and value.kind.number in FLOATS:
            counts[value.kind.number] += 1
    return ELEMENTS[counts.most_common(1)[0][0]].dtype if counts else _C.float32


def _weights(model: Model) -> set[str]:
    """The tensors that are parameters: a gradient reaches them, and the file does not say that they are something else.
    Numbers of a program that PyTorch exported have names of their own."""
    roles, is_named = model.graph.roles, model.producer[0] == "pytorch"
    return {name for name in _reached(model) if (
        roles[name] == PARAMETER if name in roles else not (is_named and _NUMBER.fullmatch(name)))}


def _reached(model: Model) -> set[str]:
    """The tensors of a graph that a gradient of some result can reach."""
    graph = model.graph
    open_names = {v.name for v in graph.outputs if v.kind is None or v.kind.form != "tensor" or v.kind.number in (
        0, *FLOATS)}
    opsets = {"": model.opset, **model.opsets}
    makers = {name: node for node in graph.nodes for name in node.outputs}
    pending, done = list(open_names), set()
    while pending:                                   # nodes may come in any order
        node = makers.get(pending.pop())
        if node is None or id(node) in done:
            continue
        done.add(id(node))
        for name in _opened(model, node, opsets):
            if name not in open_names:
                open_names.add(name)
                pending.append(name)
    return {name for name, t in graph.tensors.items() if name in open_names and t.element.number in FLOATS}


def _opened(model: Model, node: Node, opsets: Mapping[str, int]) -> set[str]:
    """Inputs through which a gradient passes."""
    if node.op == "Cast" and not node.domain and node.attributes.get("to") not in FLOATS:
        return set()
    names = set(node.inputs)
    if not model.functions or (node.domain, node.op, node.overload) not in model.functions:
        rule = found(node.domain, node.op, opsets.get(node.domain, 1))
        if rule is not None and rule.closed is True:
            return set()
        if rule is not None and rule.closed:
            names = {n for k, n in enumerate(node.inputs) if k not in rule.closed}
    stack = [v for v in node.attributes.values() if isinstance(v, Graph)]
    while stack:
        inner = stack.pop()
        names |= {v.name for v in inner.outputs}
        for n in inner.nodes:
            names |= set(n.inputs)
            stack.extend(v for v in n.attributes.values() if isinstance(v, Graph))
    return names
