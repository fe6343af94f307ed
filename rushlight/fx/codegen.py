"""Graphs as Python: the function a GraphModule runs, as source text and the globals it needs.

Enters: the nodes of a graph. Leaves: `PythonCode`: one statement per node, values freed after their last use, functions
under the names PyTorch prints. `CodeGen` can be subclassed to change signature, results or globals; `on_generate_code`
rewrites the lines. Refuses: opcodes it does not know.
"""

from __future__ import annotations

import builtins
import enum
import inspect
import keyword
import math
import pprint
import re
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .. import _C
from .._C import Tensor
from ..aten.overloads import AtenOverload
from ..base import environment
from ..utils import _pytree as pytree
from ..utils._dtype_abbrs import dtype_abbrs
from . import _pytree as fx_pytree
from .node import Node
from .spelling import is_ours, package, qualified_name, type_text, value_text
from .tensor_type import TensorType
from .wrapping import wrap

TransformCodeFunc = Callable[[list[str]], list[str]]

magic_methods = {
    **{name: f"{{}} {sign} {{}}" for name, sign in (
        ("eq", "=="), ("ne", "!="), ("lt", "<"), ("gt", ">"), ("le", "<="), ("ge", ">="),
        ("add", "+"), ("sub", "-"), ("mul", "*"), ("floordiv", "//"), ("truediv", "/"), ("div", "/"), ("mod", "%"),
        ("pow", "**"), ("lshift", "<<"), ("rshift", ">>"), ("and_", "&"), ("or_", "|"), ("xor", "^"), ("matmul", "@"))},
    "pos": "+{}", "neg": "-{}", "invert": "~{}", "getitem": "{}[{}]",
}
reflectable_magic_methods = {name: magic_methods[name] for name in (
    "add", "sub", "mul", "floordiv", "truediv", "div", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor",
    "getitem", "matmul")}
inplace_methods = {
    "iadd": "{} += {}", "iand": "{} &= {}", "ifloordiv": "{} //= {}", "ilshift": "{} <<= {}", "imod": "{} %= {}",
    "imul": "{} *= {}", "imatmul": "{} @= {}", "ior": "{} |= {}", "ipow": "{} **= {}", "irshift": "{} >>= {}",
    "isub": "{} -= {}", "itruediv": "{} /= {}", "ixor": "{} ^= {}", "setitem": "{}[{}] = {}",
}

_OLD_GENERICS = {kind: getattr(typing, name) for kind, name in (
    (list, "List"), (dict, "Dict"), (set, "Set"), (frozenset, "FrozenSet"), (tuple, "Tuple"))}
_COLORS = {
    "red": "\x1b[31m",
    "blue": "\x1b[34m",
    "dim": "\x1b[2m",
    "dim_blue": "\x1b[2m\x1b[34m",
    "dim_green": "\x1b[2m\x1b[32m",
}
_COUNTER = re.compile(r"# COUNTER: (\d+)")


# --- names ------------------------------------------------------------------------------------------------------------


class _CustomBuiltin(NamedTuple):
    """A global every graph has: the line that imports it, and the thing itself."""

    import_str: str
    obj: Any


_illegal_names: dict[str, Any] = {**{k: object() for k in keyword.kwlist}, **vars(builtins)}
_custom_builtins: dict[str, _CustomBuiltin] = {}


def _register_custom_builtin(name: str, import_str: str, obj: Any) -> None:
    _custom_builtins[name] = _CustomBuiltin(import_str, obj)
    _illegal_names[name] = obj


_OURS = package().__name__
for _name, _line, _obj in (
    ("inf", "from math import inf", math.inf), ("nan", "from math import nan", math.nan),
    ("NoneType", "NoneType = type(None)", type(None)), ("torch", f"import {_OURS} as torch", package()),
    ("device", f"from {_OURS} import device", _C.device),
    ("fx_pytree", f"import {_OURS}.fx._pytree as fx_pytree", fx_pytree),
    ("pytree", f"import {_OURS}.utils._pytree as pytree", pytree),
):
    _register_custom_builtin(_name, _line, _obj)

_VALID_NAME = re.compile(r"^([a-zA-Z_][0-9a-zA-Z_]*?)(?:_(\d+))?$")
_ILLEGAL_CHARACTERS = re.compile(r"[^0-9a-zA-Z_]+")
_CAMEL = re.compile(r"(?<=[a-z])([A-Z])")


def _snake_case(text: str) -> str:
    return _CAMEL.sub(r"_\1", text).lower()


def _is_magic(x: str) -> bool:
    return x.startswith("__") and x.endswith("__")


class _Namespace:
    """Unique names: one per object, none that hides a builtin which is not that very object."""

    def __init__(self) -> None:
        self._obj_to_name: dict[Any, str] = {}
        self._used_names: set[str] = set()
        self._base_count: dict[str, int] = {}

    def create_name(self, candidate: str, obj: Any | None) -> str:
        """A free name like `candidate`; an object that has one keeps it."""
        if obj is not None and obj in self._obj_to_name:
            return self._obj_to_name[obj]
        fits = _VALID_NAME.match(candidate)
        if fits is None:
            candidate = _ILLEGAL_CHARACTERS.sub("_", candidate) or "_unnamed"
            candidate = f"_{candidate}" if candidate[0].isdigit() else candidate
            fits = _VALID_NAME.match(candidate)
            assert fits is not None, f"fx: no name can be made of {candidate!r}"
        base, suffix = fits.groups()
        if suffix is not None and candidate not in self._used_names:
            number = int(suffix)
        else:
            number = self._base_count.get(base, 0)
            if _illegal_names.get(candidate, obj) is not obj:
                number += 1
                candidate = f"{base}_{number}"
        while candidate in self._used_names:
            number += 1
            candidate = f"{base}_{number}"
        self._used_names.add(candidate)
        self._base_count[base] = number
        if obj is not None:
            self._obj_to_name[obj] = candidate
        return candidate

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Give an object a name that is already taken for it."""
        assert self._obj_to_name.setdefault(obj, name) is name, f"fx: {obj} already has a name"

    def _rename_object(self, obj: Any, name: str) -> None:
        assert obj in self._obj_to_name, f"fx: {obj} has no name to change"
        self._obj_to_name[obj] = name
        self._used_names.add(name)


# --- results ----------------------------------------------------------------------------------------------------------


@dataclass
class PythonCode:
    """Source of the function, and the values it finds in its globals."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = None   # line after the prologue -> index of its node
    _prologue_start: int = 0


class _PyTreeInfo(NamedTuple):
    """How a function's own arguments unfold into placeholders, and outputs back."""

    orig_args: list[str]
    in_spec: Any
    out_spec: Any | None


def _format_target(base: str, target: str) -> str:
    """`base.a.b`, with getattr for parts that are no names: the children of a Sequential, the overload `from`."""
    for part in target.split("."):
        is_name = part.isidentifier() and not keyword.iskeyword(part)
        base = f"{base}.{part}" if is_name else f'getattr({base}, "{part}")'
    return base


def _where_recorded(trace: str | None) -> str:
    """The innermost frame of a recorded stack, in one line."""
    lines = (trace or "").strip().split("\n")
    for i in range(len(lines) - 2, -1, -1):
        found = re.match(r'^File "(.+)", line (\d+), in (.+)$', lines[i].strip())
        if found:
            return f"File: {found[1]}:{found[2]} in {found[3]}, code: {lines[i + 1].strip()}"
    return "No stacktrace found for following nodes"


# --- one generation ---------------------------------------------------------------------------------------------------


@dataclass
class _Options:
    verbose: bool = False
    include_stride: bool = False
    include_device: bool = False
    colored: bool = False
    expanded_def: bool = False
    additional_meta: list[str] | None = None


class _Writer:
    """Turns the nodes of one graph into statements."""

    def __init__(self, codegen: CodeGen, root_module: str, namespace: _Namespace, options: _Options) -> None:
        self.codegen, self.root, self.namespace, self.options = codegen, root_module, namespace, options
        self.free_vars: list[str] = []
        self.body: list[str] = []
        self.globals: dict[str, Any] = {}
        self.wrapped: dict[str, None] = {}
        self.returns = ""
        self.last_summary: str | None = None
        self.last_uses: dict[Node, list[Node]] = {}
        self.shows_meta = environment.get("FX_GRAPH_SHOW_META") == "1"
        for name, (_, obj) in _custom_builtins.items():
            self.add_global(name, obj)

    def paint(self, color: str, text: str) -> str:
        return f"{_COLORS[color]}{text}\x1b[0m" if self.options.colored else text

    def add_global(self, hint: str, obj: Any) -> str:
        """The name under which generated code reaches `obj`."""
        if is_ours(obj) and obj is not _C.device:
            module, _, rest = (hint if hint.startswith("torch") else qualified_name(obj)).partition(".")
            return _format_target(module, rest) if rest else module
        name = self.namespace.create_name(hint, obj)
        assert (
            self.globals.get(name, obj) is obj or self.globals[name] == obj
        ), f"fx: the global {name} already stands for another object"
        self.globals.setdefault(name, obj)
        return name

    # --- values and types ---------------------------------------------------------------------------------------------

    def annotation(self, kind: Any) -> str:
        """A type as source."""
        if isinstance(kind, tuple) and not kind:
            return "()"
        text = type_text(kind)
        if isinstance(kind, types.UnionType):
            return "|".join(self.annotation(a) for a in typing.get_args(kind))
        origin = getattr(kind, "__origin__", None)
        if origin is None:
            return self.add_global(text, kind)
        if isinstance(kind, typing._GenericAlias):  # type: ignore[attr-defined]
            origin = _OLD_GENERICS.get(origin, origin)
        name = self.add_global(type_text(origin), origin)
        parts = kind.dims if isinstance(kind, TensorType) else typing.get_args(kind)
        return f"{name}[{','.join(self.annotation(p) for p in parts)}]" if parts else name

    def value(self, arg: Any) -> str:
        """An argument as source."""
        if isinstance(arg, Node):
            return repr(arg)
        if isinstance(arg, tuple) and hasattr(arg, "_fields"):
            return self.add_global(qualified_name(type(arg)), type(arg)) + repr(tuple(arg))
        if isinstance(arg, (_C.Overload, _C.Op, AtenOverload)):
            return self.add_global(qualified_name(arg), arg)
        if isinstance(arg, type):
            return self.annotation(arg)
        if isinstance(arg, enum.Enum):
            return f"{self.add_global(type(arg).__name__, type(arg))}.{arg.name}"
        if isinstance(arg, Tensor):
            return f"torch.Tensor(size={list(arg.size())}, dtype={value_text(arg.dtype).split('.')[-1]})"
        if isinstance(arg, tuple):
            return f"({', '.join(map(self.value, arg))}{',' if len(arg) == 1 else ''})"
        if isinstance(arg, list):
            return f"[{', '.join(map(self.value, arg))}]"
        if isinstance(arg, dict):
            return "{" + ", ".join(f"{k!r}: {self.value(v)}" for k, v in arg.items()) + "}"
        if isinstance(arg, slice):
            return f"slice({self.value(arg.start)}, {self.value(arg.stop)}, {self.value(arg.step)})"
        return self.paint("blue", value_text(arg))

    def arguments(self, args: Iterable[Any], kwargs: dict[str, Any]) -> str:
        return ", ".join([*map(self.value, args), *(f"{k} = {self.value(v)}" for k, v in kwargs.items())])

    def value_note(self, node: Node) -> str | None:
        """In readable code, what is known of the node's value in place of its type."""
        known = node.meta.get("val", node.meta.get("tensor_meta", node.meta.get("example_value")))
        if isinstance(known, Tensor):
            strides = f"[{', '.join(map(str, known.stride()))}]" if self.options.include_stride else ""
            device = str(known.device) if self.options.include_device else ""
            shape = f"[{', '.join(map(str, known.shape))}]"
            text = (
                self.paint("red", dtype_abbrs[known.dtype])
                + self.paint("blue", shape)
                + self.paint("dim_blue", strides)
                + self.paint("dim_green", device)
            )
            plain = type(known) is Tensor or hasattr(known, "fake_mode")
            return f': "{text}"' if plain else f': "{type(known).__name__}({text})"'
        if isinstance(known, int) and hasattr(known, "expression"):
            return f': "Sym({known})"'
        if hasattr(known, "qparams") and hasattr(known, "shape"):
            return f': "{dtype_abbrs[known.dtype]}[{", ".join(map(str, known.shape))}]"'
        return None

    # --- statements ---------------------------------------------------------------------------------------------------

    def find_last_uses(self, nodes: Any) -> None:
        seen: set[Node] = set()
        for node in reversed(nodes):
            for used in node._input_nodes:
                if used not in seen:
                    seen.add(used)
                    self.last_uses.setdefault(node, []).append(used)

    def free_unused(self, node: Node) -> None:
        """End the statement; values no later one needs are set to None."""
        if node.op == "placeholder":
            return
        unused = [] if node.op == "output" else [*self.last_uses.get(node, ()), *(() if node.users else (node,))]
        if unused:
            self.body.append(f";  {self.paint('dim', ' = '.join([*map(repr, unused), 'None']))}")
        self.body.append("\n")

    def summarize(self, node: Node) -> None:
        """A comment with the place in the user's code, once for neighbours from the same place."""
        if node.op in ("placeholder", "output"):
            return
        extra = [f"{key}: {node.meta[key]}" for key in self.options.additional_meta or () if key in node.meta]
        custom = {k: v if len(str(v)) <= 40 else f"{str(v)[:40]}..." for k, v in node.meta.get("custom", {}).items()}
        text = (f"# {', '.join(extra)} " if extra else "") + "#" + (f" Annotation: {custom}" if custom else "")
        summary = f"\n{self.paint('dim', f'{text} {_where_recorded(node.stack_trace)}')}\n"
        if summary != self.last_summary:
            self.last_summary = summary
            self.body.append(summary)

    def emit(self, node: Node) -> None:
        """The statement of one node, without its end."""
        annotation = "" if node.type is None else f" : {self.annotation(node.type)}"
        if self.options.verbose:
            annotation = self.value_note(node) or annotation
        if self.shows_meta and node.meta:
            self.body += [
                '"""\n',
                *(f"{k}: {pprint.pformat(str(v), width=80, compact=True)}\n" for k, v in node.meta.items()),
                '"""\n',
            ]
        if node.op == "placeholder":
            self.emit_placeholder(node, annotation)
        elif node.op == "output":
            if node.type is not None:
                self.returns = f" -> {self.annotation(node.type)}"
            descs = node.meta.get("desc") if self.options.expanded_def else None
            self.body.append(
                _call_with_known(self.codegen.generate_output, node.args[0], descs=descs, repr_fn=self.value)
            )
        else:
            text = self.expression(node)
            inplace = inplace_methods.get(node.target.__name__) if _is_operator(node) else None
            if inplace is not None:
                self.body.append(
                    f"{inplace.format(*map(self.value, node.args))};  {node!r}{annotation} = {self.value(node.args[0])}"
                )
            else:
                self.body.append(f"{node!r}{annotation} = {text}")

    def emit_placeholder(self, node: Node, annotation: str) -> None:
        default = f" = {self.value(node.args[0])}" if node.args else ""
        desc = node.meta.get("desc") if self.options.expanded_def else None
        comment = "" if desc is None else f"  # {desc}"
        self.free_vars.append(f"{node.target}{annotation}{default}{comment}")
        raw_name = node.target.replace("*", "")
        if raw_name != repr(node):
            self.body.append(f"{node!r} = {raw_name}\n")

    def expression(self, node: Node) -> str:
        """The right-hand side of a node's statement."""
        if node.op == "call_method":
            return (
                f"{_format_target(self.value(node.args[0]), node.target)}({self.arguments(node.args[1:], node.kwargs)})"
            )
        if node.op == "call_module":
            return f"{_format_target(self.root, node.target)}({self.arguments(node.args, node.kwargs)})"
        if node.op == "get_attr":
            return _format_target(self.root, node.target)
        if node.op != "call_function":
            raise NotImplementedError(f"node: {node.op} {node.target}")
        if _is_operator(node):
            if node.target.__name__ in magic_methods:
                return magic_methods[node.target.__name__].format(*map(self.value, node.args))
            if node.target.__name__ in inplace_methods:
                return ""
        name = self.add_global(qualified_name(node.target), node.target)
        if name == "getattr" and len(node.args) == 2 and isinstance(node.args[1], str) and node.args[1].isidentifier():
            return _format_target(self.value(node.args[0]), node.args[1])
        if node.meta.get("is_wrapped", False):
            self.wrapped.setdefault(name)
        return f"{name}({self.arguments(node.args, node.kwargs)})"


def _is_operator(node: Node) -> bool:
    return node.op == "call_function" and getattr(node.target, "__module__", "") == "_operator"


def _call_with_known(method: Callable, *args: Any, **kwargs: Any) -> Any:
    """Call an overridable method with the keywords its own signature has."""
    known = inspect.signature(method).parameters
    return method(*args, **{k: v for k, v in kwargs.items() if k in known})


# --- the overridable form ---------------------------------------------------------------------------------------------


class CodeGen:
    """How a graph becomes a function. Subclass to change the signature, what enters the graph, or what is returned."""

    def __init__(self) -> None:
        self._body_transformer: TransformCodeFunc | None = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """The `def` line (and what must come first in the body)."""
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        if not expanded_def:
            return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"
        lines = []
        for var in free_vars:
            name, _, comment = var.partition("#")
            lines.append(f"    {name.rstrip()},  # {comment.lstrip()}\n" if comment else f"    {var},\n")
        return f"def {self._func_name}(\n{''.join(lines)}){maybe_return_annotation}:"

    def generate_output(
        self, output_args: Any, *, descs: Sequence[str] | None = None, repr_fn: Callable[[Any], str] | None = None
    ) -> str:
        """The return statement, unindented."""
        return f"return {self._listed(output_args, descs, repr_fn or repr)}"

    def _listed(self, output_args: Any, descs: Sequence[str] | None, show: Callable[[Any], str]) -> str:
        """The results; one to a line where each has a description."""
        if descs is None or not isinstance(output_args, (list, tuple)):
            return show(output_args)
        left, right = ("(", ")") if isinstance(output_args, tuple) else ("[", "]")
        return (
            f"{left}\n" + "".join(f"    {show(a)},  # {d}\n" for a, d in zip(output_args, descs, strict=False)) + right
        )

    def process_inputs(self, *args: Any) -> Any:
        """A caller's arguments as the graph's placeholders take them."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """The graph's outputs as the caller gets them."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Pairs (name, value) that the generated text needs besides what the nodes name."""
        return []

    def _gen_python_code(self, nodes: Any, root_module: str, namespace: _Namespace, *, verbose: bool = False,
                         include_stride: bool = False, include_device: bool = False, colored: bool = False,
                         expanded_def: bool = False, record_func: bool = False,
                         additional_meta: list[str] | None = None) -> PythonCode:
        if record_func:
            raise NotImplementedError(
                "fx: record_func=True marks nodes for the profiler, which Rushlight does not have yet"
            )
        options = _Options(verbose, include_stride or environment.get("FX_GRAPH_SHOW_STRIDE") == "1",
                           include_device or environment.get("FX_GRAPH_SHOW_DEVICE") == "1", colored, expanded_def,
                           additional_meta)
        writer = _Writer(self, root_module, namespace, options)
        writer.find_last_uses(nodes)
        for i, node in enumerate(nodes):
            if verbose:
                writer.summarize(node)
            writer.body.append(f"# COUNTER: {i}\n")
            writer.emit(node)
            writer.free_unused(node)
        return self._assemble(writer)

    def _assemble(self, writer: _Writer) -> PythonCode:
        """Lines, prologue and globals as one function."""
        body = writer.body or ["pass\n"]
        wraps = ""
        if writer.wrapped:
            wrap_name = writer.add_global("wrap", wrap)
            wraps = "\n".join(f'{wrap_name}("{name}")' for name in writer.wrapped)
        if self._body_transformer is not None:
            body = self._body_transformer(body)
        for name, value in self.additional_globals():
            writer.add_global(name, value)
        prologue = _call_with_known(
            self.gen_fn_def, writer.free_vars, writer.returns, expanded_def=writer.options.expanded_def
        )
        numbers: dict[int, int | None] = {}
        first, at, lines = prologue.count("\n") + 1, None, []
        for line in "".join(body).split("\n"):
            counter = _COUNTER.search(line)
            if counter is not None:
                at = int(counter[1])
            else:
                numbers[len(lines) + first] = at
                lines.append(line)
        code = "\n".join("    " + line for line in "\n".join(lines).lstrip("\n").split("\n"))
        return PythonCode(f"\n{wraps}\n\n{prologue}\n{code}", writer.globals, numbers, wraps.count("\n") + 4)


class _PyTreeCodeGen(CodeGen):
    """Arguments and results are trees of containers; the graph sees their leaves."""

    def __init__(self, pytree_info: _PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs: Any) -> Any:
        return pytree.tree_leaves(inputs)

    def process_outputs(self, out: Any) -> Any:
        if self.pytree_info is None or self.pytree_info.out_spec is None:
            return out
        return pytree.tree_unflatten(list(out) if isinstance(out, (list, tuple)) else [out], self.pytree_info.out_spec)

    def gen_var_bindings(self, fn_args: list[str], free_vars: list[str], expanded_def: bool) -> str:
        """The line that unfolds arguments into the graph's placeholders."""
        given = f"[{', '.join(fn_args)}], self._in_spec"
        spec = self.pytree_info.in_spec
        children = spec.children_specs
        if spec.type is tuple and len(children) == 2 and children[0].type is tuple and children[1].type is dict:
            count, names = len(children[0].children_specs), self.pytree_info.orig_args
            keywords = ", ".join(f"'{k}':{v}" for k, v in zip(children[1].context, names[count:], strict=False))
            given = f"([{', '.join(names[:count])}], {{{keywords}}}), self._in_spec"
        annotated = [x for x in free_vars if ":" in x]
        lines = ""
        if annotated:
            lines = "\n    " + (
                "\n    ".join(annotated) if expanded_def else "".join(f"{x}; " for x in annotated) + "\n"
            )
        bare = ", ".join(x.split(":")[0].split("#")[0] for x in free_vars)
        return f"{lines}\n    {bare}, = fx_pytree.tree_flatten_spec({given})"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        if self.pytree_info is None:
            return super().gen_fn_def(free_vars, maybe_return_annotation, expanded_def=expanded_def)
        names = self.pytree_info.orig_args
        if names and names[0] == "self":
            free_vars.insert(0, "self")
        definition = super().gen_fn_def(list(names), maybe_return_annotation, expanded_def=expanded_def)
        return definition + (self.gen_var_bindings(names, free_vars, expanded_def) if free_vars else "")

    def generate_output(
        self, output_args: Any, *, descs: Sequence[str] | None = None, repr_fn: Callable[[Any], str] | None = None
    ) -> str:
        if not self.pytree_info or not self.pytree_info.out_spec:
            return super().generate_output(output_args, descs=descs, repr_fn=repr_fn)
        return f"return pytree.tree_unflatten({self._listed(output_args, descs, repr_fn or repr)}, self._out_spec)"
