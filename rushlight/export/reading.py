"""The JSON of `.pt2` files as a program.

Enters: what a file says, as PyTorch 2.13 or `writing.py` wrote it, and its tensors. Leaves: an ExportedProgram. Nothing
in the file is run: ops are looked up by name among those there are, arithmetic among those listed in `codes.py`, sizes
are read as formulas. Refuses: other versions, unknown ops and kinds, and files that contradict themselves.
"""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from .. import _C
from .._C import Tensor
from .._higher_order_ops import HigherOrderOp
from .._higher_order_ops.core import REGISTRY
from ..aten.namespaces import namespace
from ..aten.overloads import AtenOverload
from ..aten.plain import ASSERT_SCALAR
from ..fake import FakeTensorMode, ShapeEnv
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.node import Node
from ..nn import Module
from ..op import ops
from ..symbols.expression import symbol
from ..symbols.numbers import wrapped
from ..utils._pytree import treespec_loads
from . import codes
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from .recording import keep_name
from .size_text import read_size, read_truth
from .sizes import ValueRange
from .writing import VERSION

_LISTS = ("as_tensors", "as_ints", "as_floats", "as_strings", "as_bools", "as_sym_ints", "as_sym_floats",
          "as_sym_bools", "as_optional_tensors", "as_int_lists", "as_float_lists")
# Words of Python's data model, and writes to what only one tensor sees.
_OTHER_NAMES = {"__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor",
                "__lshift__": "bitwise_left_shift", "__rshift__": "bitwise_right_shift",
                "detach_": "detach", "item": "_local_scalar_dense"}
# Checks of what the graph fixes and `Guards` check of arguments: dtype and layout of a value.
_IMPLIED = ("torch.ops.aten._assert_tensor_metadata.default",)
_NUMBERS = {"as_sym_int": SymIntArgument, "as_sym_float": SymFloatArgument, "as_sym_bool": SymBoolArgument}
_ASSERTIONS = {"torch.ops.aten._assert_scalar.default": ASSERT_SCALAR}


def read(said: Mapping[str, Any], state: dict[str, Any], constants: dict[str, Any],
         example_inputs: tuple | None) -> ExportedProgram:
    """The program that a file holds."""
    try:
        return _Reader(said).program(state, constants, example_inputs)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"load: the description of the program is damaged or of another form ({error!r})") from error


def _only(entry: Mapping[str, Any]) -> tuple[str, Any]:
    """The one kind that an entry is of, and its value."""
    found = [(k, v) for k, v in entry.items() if v is not None]
    if len(found) != 1:
        raise ValueError(f"load: expected one kind of value, got {list(entry)}")
    return found[0]


class _Reader:
    """One file."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        version = said["schema_version"]
        if version["major"] != VERSION["major"]:
            raise ValueError(
                f"load: the file has version {version['major']}.{version['minor']} of the format; this reads "
                f"{VERSION['major']}.x, which PyTorch 2.7 to 2.13 write"
            )
        self.said, self.module = said, said["graph_module"]
        self.json = self.module["graph"]
        self.graph, self.nodes, self.root = Graph(), {}, Module()
        self.env = ShapeEnv(duck_shape=False)
        self.env.merges_sizes = True
        self.mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=self.env)
        self.symbols: dict[str, Any] = {}

    # --- values -------------------------------------------------------------------------------------------------------

    def size(self, entry: Mapping[str, Any]) -> Any:
        kind, value = _only(entry)
        if kind == "as_int":
            return int(value)
        expression = read_size(value["expr_str"])
        hint = value.get("hint")
        name = expression.sole_symbol
        if name is not None and hint is not None:
            self.note_symbol(name, int(hint["as_int"]))
        for other in sorted(expression.names):
            if other not in self.symbols:
                self.note_symbol(other, None)
        return self.env.create_symintnode(expression)

    def note_symbol(self, name: str, hint: int | None) -> None:
        """A symbol by the name it has in the file."""
        if name in self.symbols:
            return
        limits = self.said["range_constraints"].get(name) or {}
        low, high = limits.get("min_val"), limits.get("max_val")
        self.symbols[name] = hint
        if hint is None:
            self.env.stand_ins[name] = 10007 + 2 * len(self.env.stand_ins)
            self.env._ranges[name] = (low, high)
            return
        self.env.hints[name] = hint
        self.env.sources[name] = [name]
        self.env._ranges[name] = (max(2, low or 0), high)

    def tensor(self, meta: Mapping[str, Any]) -> Tensor:
        """A fake tensor for what the file says of one."""
        codes.layout_of(meta["layout"])
        sizes, strides = [self.size(n) for n in meta["sizes"]], [self.size(s) for s in meta["strides"]]
        device = _C.device(meta["device"]["type"])
        result = self.mode.empty(sizes, strides, codes.dtype_of(meta["dtype"]), device)
        return result.requires_grad_() if meta["requires_grad"] else result

    def value_of(self, name: str) -> Any:
        """What the file says of a value."""
        if name in self.json["tensor_values"]:
            return self.tensor(self.json["tensor_values"][name])
        for key in ("sym_int_values", "sym_bool_values", "sym_float_values"):
            if name in self.json.get(key, {}):
                kind, value = _only(self.json[key][name])
                if key == "sym_int_values":
                    return self.size({kind: value})
                return self.computed(key, value["expr_str"]) if kind == "as_expr" else value
        return None

    def computed(self, key: str, text: str) -> Any:
        """A float or a truth that depends on elements or sizes."""
        if key == "sym_float_values":
            return self.env.create_unbacked_symfloat()
        found = read_truth(text)
        if found is None:
            return self.env.create_unbacked_symbool()
        for name in sorted(found.names):
            self.note_symbol(name, None)
        return wrapped(found, self.env)

    def named(self, name: str) -> Node:
        if name not in self.nodes:
            raise ValueError(f"load: {name!r} is used before it is computed")
        return self.nodes[name]

    def argument(self, entry: Mapping[str, Any]) -> Any:
        kind, value = _only(entry)
        if kind in _LISTS:
            return [self.item(kind, v) for v in value]
        if kind == "as_none":
            return None
        if kind in ("as_tensor", "as_optional_tensor"):
            return self.argument(value) if kind == "as_optional_tensor" else self.named(value["name"])
        if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
            inner, name = _only(value)
            return self.named(name) if inner == "as_name" else name
        if kind == "as_float":
            return float(value)
        if kind in ("as_int", "as_bool", "as_string"):
            return value
        if kind == "as_complex":
            return complex(value["real"], value["imag"])
        if kind == "as_scalar_type":
            return codes.dtype_of(value)
        if kind == "as_device":
            return _C.device(value["type"]) if value["index"] is None else _C.device(value["type"], value["index"])
        if kind == "as_memory_format":
            return codes.FORMATS[value]
        if kind == "as_layout":
            return codes.layout_of(value)
        if kind == "as_graph":
            return self.inner_graph(value["name"], value["graph"])
        raise ValueError(f"load: arguments of kind {kind} are not supported")

    def inner_graph(self, name: str, said: Mapping[str, Any]) -> Node:
        """A graph that an op over functions calls: an attribute of the program's."""
        if not name.isidentifier() or hasattr(self.root, name):
            raise ValueError(f"load: {name!r} cannot be the name of a graph")
        outer = self.json, self.graph, self.nodes, self.root
        self.json, self.graph, self.nodes, self.root = said, Graph(), {}, Module()
        for entry in said["inputs"]:
            own = self._named(entry)
            node = self.graph.placeholder(own)
            keep_name(node, own)
            self.put(own, node, self.value_of(own))
        module = self.finished(name)
        self.json, self.graph, self.nodes, self.root = outer
        setattr(self.root, name, module)
        return self.graph.get_attr(name)

    def _named(self, entry: Mapping[str, Any]) -> str:
        kind, value = _only(entry)
        return value["name"] if kind == "as_tensor" else _only(value)[1]

    def finished(self, name: str) -> GraphModule:
        """The calls and results of the graph that is read, as a module."""
        for entry in self.json["nodes"]:
            self.call(entry)
        self.graph.output(tuple([self.argument(a) for a in self.json["outputs"]]))
        for node in reversed(self.graph.find_nodes(op="call_function", target=operator.getitem)):
            if not node.users:
                self.graph.erase_node(node)
        return GraphModule(self.root, self.graph, name)

    def item(self, kind: str, value: Any) -> Any:
        if kind == "as_tensors":
            return self.named(value["name"])
        if kind == "as_floats":
            return float(value)
        return self.argument(value) if isinstance(value, Mapping) and kind != "as_sym_ints" else self._symbolic(value)

    def _symbolic(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        kind, inner = _only(value)
        return self.named(inner) if kind == "as_name" else inner

    # --- the graph ----------------------------------------------------------------------------------------------------

    def program(
        self, state: dict[str, Any], constants: dict[str, Any], example_inputs: tuple | None
    ) -> ExportedProgram:
        signature = self.module["signature"]
        inputs = [self.input_spec(s) for s in signature["input_specs"]]
        for spec, entry in zip(inputs, self.json["inputs"], strict=True):
            _only(entry)
            node = self.graph.placeholder(spec.arg.name)
            keep_name(node, spec.arg.name)
            fixed = isinstance(spec.arg, ConstantArgument)
            self.put(spec.arg.name, node, spec.arg.value if fixed else self.value_of(spec.arg.name))
            if node.name != spec.arg.name:
                raise ValueError(f"load: {spec.arg.name!r} cannot be the name of an input")
        module = self.finished("GraphModule")
        outputs = [self.output_spec(s) for s in signature["output_specs"]]
        ranges = {symbol(n): ValueRange(r.get("min_val") or 0, r.get("max_val"))
                  for n, r in self.said["range_constraints"].items()}
        dialect = (self.said.get("verifiers") or ["TRAINING"])[0]
        return ExportedProgram(
            module, self.graph, ExportGraphSignature(inputs, outputs), state, ranges,
            self.calls(), example_inputs, constants, shape_env=self.env, dialect=dialect,
        )

    def put(self, name: str, node: Node, value: Any) -> None:
        self.nodes[name] = node
        node.meta["val"] = value

    def call(self, entry: Mapping[str, Any]) -> None:
        name = entry["target"]
        if name in _IMPLIED:
            return
        target = _ASSERTIONS.get(name) or codes.NUMBERS.get(name) or _over_functions(name) or self.op(name)
        args, kwargs = [], {}
        params = target._schema.arguments if isinstance(target, AtenOverload) else ()
        keyword_only = {p.name for p in params if p.kwarg_only}
        for given in entry["inputs"]:
            value = self.argument(given["arg"])
            if given.get("kind", 1) == 2 or given["name"] in keyword_only:
                kwargs[given["name"]] = value
            else:
                args.append(value)
        outputs = [o for o in entry["outputs"] if _only(o)[0] != "as_none"]
        own = entry.get("name") or self._first_name(outputs)
        node = self.graph.create_node("call_function", target, tuple(args), kwargs, name=own)
        node.meta.update(_metadata(entry.get("metadata") or {}))
        self.results(node, outputs)

    def _first_name(self, outputs: list[Any]) -> str | None:
        if len(outputs) == 1:
            kind, value = _only(outputs[0])
            return value["name"] if kind == "as_tensor" else None
        return None

    def results(self, node: Node, outputs: list[Any]) -> None:
        """The names of what a call gives."""
        if not outputs:
            return
        kind, value = _only(outputs[0])
        if len(outputs) == 1 and kind != "as_tensors" and not isinstance(node.target, HigherOrderOp):
            name = value["name"] if kind == "as_tensor" else _only(value)[1]
            self.put(name, node, self.value_of(name))
            return
        is_list = kind == "as_tensors"
        names = [v["name"] for v in value] if is_list else [_only(o)[1]["name"] for o in outputs]
        members = []
        for i, name in enumerate(names):
            members.append(self.value_of(name))
            part = self.graph.create_node("call_function", operator.getitem, (node, i), {}, name=name)
            self.put(name, part, members[-1])
        node.meta["val"] = members if is_list else tuple(members)

    def op(self, name: str) -> Any:
        parts = name.split(".")
        if len(parts) != 5 or parts[:2] != ["torch", "ops"] or not all(p.isidentifier() for p in parts):
            raise ValueError(f"load: {name!r} is no op")
        space, op, label = parts[2:]
        op = _OTHER_NAMES.get(op, op) if space == "aten" else op
        known = namespace(space) if space in ("aten", "prims") or any(n.startswith(f"{space}::") for n in ops) else None
        packet = getattr(known, op, None) if known is not None and not op.startswith("__") else None
        found = getattr(packet, label, None) if packet is not None else None
        if not isinstance(found, (AtenOverload, _C.Overload)):
            raise ValueError(
                f"load: the program calls {name}, which is not known here. Import the library that defines it first."
            )
        return found

    # --- the signature ------------------------------------------------------------------------------------------------

    def input_spec(self, said: Mapping[str, Any]) -> InputSpec:
        kind, value = _only(said)
        if kind == "user_input":
            inner, arg = _only(value["arg"])
            if inner == "as_tensor":
                return InputSpec(InputKind.USER_INPUT, TensorArgument(arg["name"]), None)
            if inner == "as_sym_int":
                return InputSpec(InputKind.USER_INPUT, SymIntArgument(_only(arg)[1]), None)
            raise ValueError(f"load: inputs of kind {inner} are not supported")
        if kind == "constant_input":
            inner, constant = _only(value["value"])
            fixed = None if inner == "as_none" else float(constant) if inner == "as_float" else constant
            return InputSpec(InputKind.USER_INPUT, ConstantArgument(value["name"], fixed), None)
        arg = TensorArgument(value["arg"]["name"]) if "arg" in value else None
        if kind == "parameter":
            return InputSpec(InputKind.PARAMETER, arg, value["parameter_name"])
        if kind == "buffer":
            return InputSpec(InputKind.BUFFER, arg, value["buffer_name"], bool(value["persistent"]))
        if kind == "tensor_constant":
            return InputSpec(InputKind.CONSTANT_TENSOR, arg, value["tensor_constant_name"])
        raise ValueError(f"load: inputs of kind {kind} are not supported")

    def output_spec(self, said: Mapping[str, Any]) -> OutputSpec:
        kind, value = _only(said)
        words = {
            "buffer_mutation": (OutputKind.BUFFER_MUTATION, "buffer_name"),
            "user_input_mutation": (OutputKind.USER_INPUT_MUTATION, "user_input_name"),
            "parameter_mutation": (OutputKind.PARAMETER_MUTATION, "parameter_name"),
        }
        if kind == "user_output":
            inner, arg = _only(value["arg"])
            if inner == "as_tensor":
                return OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(arg["name"]), None)
            if inner == "as_sym_int" and _only(arg)[0] == "as_name":
                return OutputSpec(OutputKind.USER_OUTPUT, SymIntArgument(_only(arg)[1]), None)
            return OutputSpec(OutputKind.USER_OUTPUT, ConstantArgument("", self.argument(value["arg"])), None)
        if kind not in words:
            raise ValueError(f"load: outputs of kind {kind} are not supported")
        out, target = words[kind]
        return OutputSpec(out, TensorArgument(value["arg"]["name"]), value[target])

    def calls(self) -> list[ModuleCallEntry]:
        found = []
        for entry in self.module["module_call_graph"]:
            s = entry["signature"]
            found.append(ModuleCallEntry(entry["fqn"], None if s is None else ModuleCallSignature(
                [self.spec_of(a) for a in s["inputs"]], [self.spec_of(a) for a in s["outputs"]],
                _structure(s["in_spec"]), _structure(s["out_spec"]), s.get("forward_arg_names"))))
        return found

    def spec_of(self, said: Mapping[str, Any]) -> Any:
        """An argument or result of a module that is called."""
        kind, value = _only(said)
        if kind == "as_tensor":
            return TensorArgument(value["name"])
        if kind in _NUMBERS and _only(value)[0] == "as_name":
            return _NUMBERS[kind](_only(value)[1])
        return ConstantArgument("", self.argument(said))


def _over_functions(name: str) -> HigherOrderOp | None:
    """The op over functions of this name."""
    space, _, op = name.rpartition(".")
    if space != "torch.ops.higher_order":
        return None
    if op not in REGISTRY:
        raise ValueError(f"load: the program calls {name}, which is not known here")
    return REGISTRY[op]


def _structure(text: str) -> Any:
    """A structure of arguments; kinds that would have to be imported are refused."""
    if "__enum__" in text:
        raise ValueError("load: a structure with enum members as keys is not supported")
    return treespec_loads(text)


def _metadata(said: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if said.get("stack_trace"):
        found["stack_trace"] = said["stack_trace"]
    stack = OrderedDict()
    for entry in filter(None, said.get("nn_module_stack", "").split(";")):
        key, _, rest = entry.partition(",")
        path, _, kind = rest.partition(",")
        stack[key] = (path, kind)
    if stack:
        found["nn_module_stack"] = stack
    if said.get("torch_fn"):
        found["torch_fn"] = tuple(said["torch_fn"].split(";"))
    return found
