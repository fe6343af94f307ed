"""A program as the JSON of `.pt2` files, and its tensors as records.

Enters: an ExportedProgram. Leaves: the text of its graph and signature, in the form PyTorch 2.13 writes
(schema version 8), and what is to be stored of each tensor.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from .. import _C
from .._C import Tensor
from .._higher_order_ops.core import HigherOrderOp
from ..aten.overloads import AtenOverload, AtenSchema, schemas_of
from ..aten.plain import ASSERT_SCALAR
from ..base.shape import layout, memory_format
from ..fx.graph_module import GraphModule
from ..fx.node import Node
from ..nn import Parameter
from ..symbols import SymBool, SymFloat, SymInt
from ..utils._pytree import treespec_dumps
from . import codes
from .graph_signature import (
    ConstantArgument,
    InputKind,
    OutputKind,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
)
from .size_text import size_text, truth_text

VERSION = {"major": 8, "minor": 20}
OPSET = {"aten": 10}
_NUMBERS = {SymIntArgument: "as_sym_int", SymFloatArgument: "as_sym_float", SymBoolArgument: "as_sym_bool"}
TORCH_VERSION = "2.13.0"


def written(program: Any) -> dict[str, Any]:
    """The program as JSON."""
    specs = {s.arg.name: s for s in program.graph_signature.input_specs}
    graph = _Graph(program.graph_module, {n: s.arg.value for n, s in specs.items()
                                          if isinstance(s.arg, ConstantArgument)})
    return {
        "graph_module": {
            "graph": graph.json(), "signature": _signature(program), "module_call_graph": _calls(program),
            "metadata": {}, "treespec_namedtuple_fields": {},
        },
        "opset_version": OPSET,
        "range_constraints": {_symbol_name(e): {"min_val": r.lower, "max_val": r.upper}
                              for e, r in program.range_constraints.items()},
        "schema_version": VERSION, "verifiers": [program.dialect], "torch_version": TORCH_VERSION, "guards_code": [],
    }


def _symbol_name(e: Any) -> str:
    return e if isinstance(e, str) else e.sole_symbol


class _Graph:
    """The graph of a program, or one that an op over functions calls."""

    def __init__(self, module: GraphModule, fixed: Mapping[str, Any]) -> None:
        self.module, self.fixed = module, fixed          # `fixed`: inputs that are constants
        self.tensors: dict[str, Any] = {}
        self.numbers: dict[str, dict[str, Any]] = {"sym_int_values": {}, "sym_bool_values": {}, "sym_float_values": {}}

    def json(self) -> dict[str, Any]:
        inputs, nodes, outputs = [], [], []
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                is_fixed = node.name in self.fixed
                inputs.append(self.constant(self.fixed[node.name]) if is_fixed else self.of_node(node))
            elif node.op == "output":
                outputs = [self.argument(a) for a in node.args[0]]
            elif node.op == "call_function":
                if node.target is not operator.getitem or not _is_part(node):
                    nodes.append(self.call(node))
            elif node.op != "get_attr":       # graphs are written where they are called
                raise NotImplementedError(f"save: a graph with {node.op} nodes ({node.format_node()}) cannot be saved")
        return {
            "inputs": inputs, "outputs": outputs, "nodes": nodes, "tensor_values": self.tensors, **self.numbers,
            "is_single_tensor_return": False, "custom_obj_values": {},
        }

    # --- values -------------------------------------------------------------------------------------------------------

    def of_node(self, node: Node) -> dict[str, Any]:
        value = node.meta.get("val")
        if isinstance(value, Tensor):
            self.tensors[node.name] = tensor_meta(value)
            return {"as_tensor": {"name": node.name}}
        for kind, key, name in ((SymInt, "sym_int_values", "as_sym_int"), (SymFloat, "sym_float_values",
                                "as_sym_float"), (SymBool, "sym_bool_values", "as_sym_bool")):
            if isinstance(value, kind):
                self.numbers[key][node.name] = _number(value)
                return {name: {"as_name": node.name}}
        plain = {bool: "as_sym_bool", int: "as_sym_int", float: "as_sym_float"}.get(type(value))
        if plain is None:
            raise NotImplementedError(f"save: the value of {node.name} is a {type(value).__name__}, which is not saved")
        key = {"as_sym_int": "sym_int_values", "as_sym_bool": "sym_bool_values", "as_sym_float": "sym_float_values"}
        self.numbers[key[plain]][node.name] = {plain.replace("_sym", ""): value}
        return {plain: {"as_name": node.name}}

    def constant(self, value: Any) -> dict[str, Any]:
        if value is None:
            return {"as_none": True}
        if isinstance(value, bool):
            return {"as_bool": value}
        if isinstance(value, int):
            return {"as_int": value}
        if isinstance(value, float):
            return {"as_float": _real(value)}
        if isinstance(value, complex):
            return {"as_complex": {"real": value.real, "imag": value.imag}}
        if isinstance(value, str):
            return {"as_string": value}
        if isinstance(value, _C.dtype):
            return {"as_scalar_type": codes.code_of(value)}
        if isinstance(value, _C.device):
            return {"as_device": {"type": value.type, "index": value.index}}
        if isinstance(value, memory_format):
            return {"as_memory_format": codes.format_code(value)}
        if isinstance(value, layout):
            return {"as_layout": codes.STRIDED}
        raise NotImplementedError(f"save: a {type(value).__name__} among arguments is not saved: {value!r}")

    def argument(self, value: Any, kind: str = "") -> dict[str, Any]:
        if isinstance(value, Node) and value.op == "get_attr":
            inner = _Graph(getattr(self.module, value.target), {})
            return {"as_graph": {"name": value.target, "graph": inner.json()}}
        if isinstance(value, Node):
            return self.of_node(value)
        if isinstance(value, (list, tuple)):
            return self.listed(list(value), kind)
        return self.constant(value)

    def listed(self, values: list[Any], kind: str) -> dict[str, Any]:
        if "Tensor?" in kind:
            parts = [{"as_none": True} if v is None else {"as_tensor": self.of_node(v)["as_tensor"]} for v in values]
            return {"as_optional_tensors": parts}
        nodes = [v for v in values if isinstance(v, Node)]
        if nodes and all(isinstance(v.meta.get("val"), Tensor) for v in nodes):
            return {"as_tensors": [self.of_node(v)["as_tensor"] for v in values]}
        if nodes:
            return {"as_sym_ints": [self.of_node(v)["as_sym_int"] if isinstance(v, Node) else {"as_int": v}
                                    for v in values]}
        if "Tensor" in kind and not values:
            return {"as_tensors": []}
        if all(isinstance(v, bool) for v in values) and values:
            return {"as_bools": values}
        if all(isinstance(v, int) for v in values):
            return {"as_ints": values} if "float" not in kind else {"as_floats": [float(v) for v in values]}
        if all(isinstance(v, (int, float)) for v in values):
            return {"as_floats": [_real(float(v)) for v in values]}
        if all(isinstance(v, str) for v in values):
            return {"as_strings": values}
        raise NotImplementedError(f"save: a list of {[type(v).__name__ for v in values]} is not saved")

    # --- calls --------------------------------------------------------------------------------------------------------

    def call(self, node: Node) -> dict[str, Any]:
        target, is_single = node.target, None
        if id(target) in codes.NAMES:
            name, inputs = codes.NAMES[id(target)], [
                {"name": n, "arg": self.argument(a), "kind": 1} for n, a in zip("abc", node.args, strict=False)
            ]
            outputs = [self.of_node(node)]
        elif target is ASSERT_SCALAR:
            name, outputs = "torch.ops.aten._assert_scalar.default", []
            inputs = [{"name": n, "arg": self.argument(a), "kind": 1}
                      for n, a in zip(("self", "assert_msg"), node.args, strict=True)]
        elif isinstance(target, HigherOrderOp):
            name, is_single = f"torch.ops.higher_order.{target.name}", False
            inputs = [{"name": "", "arg": self.argument(a, "Tensor"), "kind": 1} for a in node.args]
            outputs = [{"as_tensor": name} for name in self.parts(node)]
        else:
            name = _target_name(target)
            schema = schema_of(target)
            inputs = self.inputs(node, schema)
            outputs = self.outputs(node, schema)
        return {
            "target": name, "inputs": inputs, "outputs": outputs, "metadata": _metadata(node),
            "is_hop_single_tensor_return": is_single, "name": node.name,
        }

    def inputs(self, node: Node, schema: AtenSchema | None) -> list[dict[str, Any]]:
        if schema is None:
            names = [p.name for p in node.target.definition.spec.params]
            types = dict.fromkeys(names, "")
        else:
            names, types = [p.name for p in schema.arguments], {p.name: p.type for p in schema.arguments}
        found = [
            {"name": n, "arg": self.argument(a, types[n]), "kind": 1} for n, a in zip(names, node.args, strict=False)
        ]
        return found + [{"name": n, "arg": self.argument(a, types.get(n, "")), "kind": 2}
                        for n, a in node.kwargs.items()]

    def outputs(self, node: Node, schema: AtenSchema | None) -> list[dict[str, Any]]:
        value = node.meta.get("val")
        plain = ["Tensor[]" if isinstance(value, list) else "Tensor"]
        returns = plain if schema is None else [r.type for r in schema.returns]
        if not returns or value is None:
            return [{"as_none": True}] if returns else []
        if not isinstance(value, (tuple, list)):
            return [self.of_node(node)]
        names = self.parts(node)
        return [{"as_tensors": names}] if len(returns) == 1 else [{"as_tensor": n} for n in names]


    def parts(self, node: Node) -> list[dict[str, str]]:
        """The names of the members of a call's result."""
        parts = {u.args[1]: u for u in node.users if u.target is operator.getitem}
        names = []
        for i, member in enumerate(node.meta["val"]):
            name = parts[i].name if i in parts else f"{node.name}_unused_{i}"
            self.tensors[name] = tensor_meta(member)
            names.append({"name": name})
        return names


def _is_part(node: Node) -> bool:
    return isinstance(node.args[0], Node) and isinstance(node.args[0].meta.get("val"), (tuple, list))


def _target_name(target: Any) -> str:
    if isinstance(target, (AtenOverload, _C.Overload)):
        return f"torch.ops.{target}"
    raise NotImplementedError(f"save: a call of {target!r} is not saved; only ops and arithmetic on sizes are")


def schema_of(target: Any) -> AtenSchema | None:
    """PyTorch's signature of a target, if it has one."""
    if isinstance(target, AtenOverload):
        return target._schema
    if target.namespace != "aten":
        return None
    label = "" if target._overloadname == "default" else target._overloadname
    return next((s for s in schemas_of(target._opname) if s.overload_name == label), None)


def _metadata(node: Node) -> dict[str, str]:
    found = {}
    if node.meta.get("stack_trace"):
        found["stack_trace"] = node.meta["stack_trace"]
    stack = node.meta.get("nn_module_stack")
    if stack:
        found["nn_module_stack"] = ";".join(f"{key},{path},{kind}" for key, (path, kind) in stack.items())
    if node.meta.get("torch_fn"):
        found["torch_fn"] = ";".join(node.meta["torch_fn"])
    return found


def _real(value: float) -> Any:
    """JSON has no word for what is no number."""
    if value != value:
        return "NaN"
    return value if abs(value) != float("inf") else "Infinity" if value > 0 else "-Infinity"


def _number(value: Any) -> dict[str, Any]:
    """A symbolic number."""
    formula = value.expression
    if formula.constant is not None:
        return {f"as_{type(formula.constant).__name__}": formula.constant}
    if isinstance(value, SymInt):
        text = size_text(formula)
    elif isinstance(value, SymFloat) and not formula.arguments:
        text = f"Symbol('{formula.function}')"
    else:
        text = truth_text(formula) if isinstance(value, SymBool) else None
    if text is None:
        raise NotImplementedError(f"save: {value!r} is computed from elements in a way that files have no word for")
    hint = {"as_int": value.hint} if isinstance(value, SymInt) and value.has_hint() else None
    return {"as_expr": {"expr_str": text, "hint": hint}}


def _size(n: Any) -> dict[str, Any]:
    return _number(n) if isinstance(n, SymInt) else {"as_int": int(n)}


def tensor_meta(t: Tensor) -> dict[str, Any]:
    """Everything about a tensor but its elements."""
    return {
        "dtype": codes.code_of(t.dtype), "sizes": [_size(n) for n in t.shape], "requires_grad": t.requires_grad,
        "device": {"type": t.device.type, "index": t.device.index}, "strides": [_size(s) for s in t.stride()],
        "storage_offset": _size(t.storage_offset()), "layout": codes.STRIDED,
    }


# --- signature --------------------------------------------------------------------------------------------------------


def _signature(program: Any) -> dict[str, Any]:
    signature = program.graph_signature
    return {
        "input_specs": [_input(s) for s in signature.input_specs],
        "output_specs": [_output(s) for s in signature.output_specs],
    }


def _input(spec: Any) -> dict[str, Any]:
    name = {"name": spec.arg.name}
    if spec.kind is InputKind.PARAMETER:
        return {"parameter": {"arg": name, "parameter_name": spec.target}}
    if spec.kind is InputKind.BUFFER:
        return {"buffer": {"arg": name, "buffer_name": spec.target, "persistent": bool(spec.persistent)}}
    if spec.kind is InputKind.CONSTANT_TENSOR:
        return {"tensor_constant": {"arg": name, "tensor_constant_name": spec.target}}
    if spec.kind is InputKind.USER_INPUT:
        if isinstance(spec.arg, ConstantArgument):
            return {"constant_input": {"name": spec.arg.name, "value": _plain(spec.arg.value)}}
        return {"user_input": {"arg": _named(spec.arg)}}
    raise NotImplementedError(f"save: inputs of kind {spec.kind.name} are not saved")


def _plain(value: Any) -> dict[str, Any]:
    kinds = {type(None): "as_none", bool: "as_bool", int: "as_int", float: "as_float", str: "as_string"}
    kind = kinds[type(value)]
    return {kind: True if value is None else _real(value) if kind == "as_float" else value}


def _named(arg: Any) -> dict[str, Any]:
    if isinstance(arg, ConstantArgument):
        return _plain(arg.value)
    number = _NUMBERS.get(type(arg))
    return {"as_tensor": {"name": arg.name}} if number is None else {number: {"as_name": arg.name}}


def _output(spec: Any) -> dict[str, Any]:
    name = {"name": spec.arg.name}
    words = {
        OutputKind.BUFFER_MUTATION: ("buffer_mutation", "buffer_name"),
        OutputKind.USER_INPUT_MUTATION: ("user_input_mutation", "user_input_name"),
        OutputKind.PARAMETER_MUTATION: ("parameter_mutation", "parameter_name"),
        OutputKind.GRADIENT_TO_PARAMETER: ("gradient_to_parameter", "parameter_name"),
        OutputKind.GRADIENT_TO_USER_INPUT: ("gradient_to_user_input", "user_input_name"),
    }
    if spec.kind is OutputKind.USER_OUTPUT:
        return {"user_output": {"arg": _named(spec.arg)}}
    if spec.kind is OutputKind.LOSS_OUTPUT:
        return {"loss_output": {"arg": name}}
    if spec.kind not in words:
        raise NotImplementedError(f"save: outputs of kind {spec.kind.name} are not saved")
    kind, target = words[spec.kind]
    return {kind: {"arg": name, target: spec.target}}


def _calls(program: Any) -> list[dict[str, Any]]:
    found = []
    for entry in program.module_call_graph:
        s = entry.signature
        found.append({"fqn": entry.fqn, "signature": None if s is None else {
            "inputs": [_named(a) for a in s.inputs], "outputs": [_named(a) for a in s.outputs],
            "in_spec": treespec_dumps(s.in_spec), "out_spec": treespec_dumps(s.out_spec),
            "forward_arg_names": s.forward_arg_names,
        }})
    return found


# --- tensors ----------------------------------------------------------------------------------------------------------


def tensor_entry(t: Tensor, record: str) -> dict[str, Any]:
    """What the list of weights says of a tensor."""
    return {"path_name": record, "is_param": isinstance(t, Parameter), "use_pickle": False,
            "tensor_meta": tensor_meta(t)}
