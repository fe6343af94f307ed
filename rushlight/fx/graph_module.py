"""GraphModule: a module whose forward is generated from a graph.

Enters: a graph, and a module or dict that has what its targets name. Leaves: an `nn.Module` with that forward, its text
in `code`. After changing the graph, `recompile()`. It deep-copies and pickles (its graph as a record, see
`graph_record`), and has parameters and a state_dict like any module. Refuses: targets its root does not have.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import linecache
import warnings
from collections.abc import Callable, Iterator
from os import PathLike
from typing import Any

from .. import nn
from .._C import Tensor
from ..base import late
from ..nn import Module, Parameter
from .codegen import PythonCode, _custom_builtins, _PyTreeCodeGen
from .graph import Graph
from .graph_record import GraphRecord, rebuild, record
from .node import Node
from .spelling import PACKAGE, package, value_text

__all__ = ["GraphModule", "reduce_graph_module"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_KEPT_BY_DEEPCOPY = ("_state_dict_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", "_replace_hooks",
                     "_create_node_hooks", "_erase_node_hooks", "_deepcopy_hooks")
# modules whose repr makes an equal one
_REPR_BUILDS = {"Linear", "Conv1d", "Conv2d", "Conv3d", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d"}      # of nn


# --- source text that runs --------------------------------------------------------------------------------------------


class _EvalCacheLoader:
    """Keeps generated sources where tracebacks and `inspect.getsource` look for them."""

    def __init__(self) -> None:
        self.eval_cache: dict[str, str] = {}
        self.next_id = 0

    def cache(self, src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None) -> str:
        """A file name for `src`."""
        key = f"<eval_with_key>.{self.next_id}"
        self.next_id += 1
        if co_fields:
            key += f" from {co_fields['co_filename']}:{co_fields['co_firstlineno']} in {co_fields['co_name']}"
        self.eval_cache[key] = src
        linecache.lazycache(key, {**globals, "__file__": key, "__name__": key, "__loader__": self})
        return key

    def get_source(self, module_name: str) -> str | None:
        return self.eval_cache.get(module_name)


_loader = _EvalCacheLoader()


def _forward_from_src(src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None) -> Callable:
    """The function `forward` of a source text."""
    names = dict(globals)
    exec(compile(src, _loader.cache(src, names, co_fields), "exec", dont_inherit=True), names)
    return names.pop("forward")


# --- attributes by path -----------------------------------------------------------------------------------------------


def _get_attr(model: Module, attr_name: str) -> Any:
    for item in attr_name.split(".") if attr_name else ():
        model = getattr(model, item)
    return model


def _has_attr(model: Module, attr_name: str) -> bool:
    try:
        _get_attr(model, attr_name)
    except AttributeError:
        return False
    return True


def _del_attr(model: Module, attr_name: str) -> None:
    owner, _, field = attr_name.rpartition(".")
    delattr(_get_attr(model, owner), field)


def _assign_attr(from_obj: Any, to_module: Module, target: str) -> None:
    """Put a value at a path; missing modules on the way are made, tensors become buffers."""
    *prefix, field = target.split(".")
    for item in prefix:
        inner = getattr(to_module, item, None)
        if inner is None:
            inner = Module()
            setattr(to_module, item, inner)
        to_module = inner
    if isinstance(from_obj, Tensor) and not isinstance(from_obj, Parameter):
        to_module.register_buffer(field, from_obj)
    else:
        setattr(to_module, field, from_obj)


def _copy_attr(from_module: Module, to_module: Module, target: str) -> None:
    """Take a value over from the same path of another module; what both share already stays."""
    source: Any = from_module
    mine: Any = to_module
    for item in target.split(".")[:-1]:
        source, mine = getattr(source, item), getattr(mine, item, None)
        if source is mine:
            return
    _assign_attr(_get_attr(from_module, target), to_module, target)


# --- pickling ---------------------------------------------------------------------------------------------------------


class _CodeOnlyModule(Module):
    """The attributes of a GraphModule, without its graph: what a pickle holds."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


def reduce_package_graph_module(importer: Any, body: dict[Any, Any], generated_module_name: str) -> Any:
    """Refused: graph modules in packages are written by their graph here, not by generated code."""
    raise NotImplementedError(
        f"reduce_package_graph_module: {generated_module_name} holds PyTorch's generated code; save the GraphModule"
        " with save() instead"
    )


def reduce_graph_module(body: dict[str, Any], graph: GraphRecord) -> Module:
    """A GraphModule from its attributes and the record of its graph."""
    name = body.pop("_graphmodule_cls_name", "GraphModule")
    result = GraphModule(_CodeOnlyModule(body), rebuild(graph, body.get("_tracer_cls")), name)
    for key, value in body.items():
        if not hasattr(result, key):
            setattr(result, key, value)
    return result


# --- the module -------------------------------------------------------------------------------------------------------


class GraphModule(Module):
    """A module generated from a graph. Every instance has a class of its own,
    whose `forward` is the generated function."""

    __jit_unused_properties__ = ["graph"]

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        base = next(t for t in cls.__mro__ if t.__qualname__.rpartition(".")[2] != "GraphModuleImpl")
        impl = type(
            "GraphModuleImpl",
            (base,),
            {"__module__": base.__module__, "__qualname__": "GraphModule.__new__.<locals>.GraphModuleImpl"},
        )
        return super().__new__(impl)

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        targets = [node.target for node in graph.nodes if node.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            self.training = getattr(root, "training", True)
            if isinstance(root, _CodeOnlyModule):
                targets = [
                    *(
                        name
                        for name, _ in itertools.chain(
                            root.named_children(), root.named_buffers(), root.named_parameters()
                        )
                    ),
                    *targets,
                ]
            for target in targets:
                _copy_attr(root, self, target)
        elif isinstance(root, dict):
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module") and node.target not in root:
                    raise RuntimeError(f"node {node} needs {node.target}, which root does not hold")
            for target in sorted(targets, key=lambda t: t.count(".")):   # owners before what they own
                _assign_attr(root[target], self, target)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self._replace_hooks: list[Callable] = []
        self._create_node_hooks: list[Callable] = []
        self._erase_node_hooks: list[Callable] = []
        self._deepcopy_hooks: list[Callable] = []
        self.graph = graph
        named = graph._tracer_cls is not None and "<locals>" not in graph._tracer_cls.__qualname__
        self._tracer_cls = graph._tracer_cls if named else None
        self._tracer_extras = graph._tracer_extras or {}
        self.meta: dict[str, Any] = {}
        self.shape_env = None

    # --- graph and code -----------------------------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The graph. Assigning another one recompiles."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        assert isinstance(g, Graph), f"Expected a Graph instance, but got {type(g)}"
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The Python text of forward."""
        if not hasattr(self, "_code"):
            raise RuntimeError("GraphModule: no code has been generated yet; call recompile()")
        return self._code

    def recompile(self) -> PythonCode:
        """Generate forward from the graph as it is now."""
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self._in_spec, self._out_spec = codegen.pytree_info.in_spec, codegen.pytree_info.out_spec
        result = self._graph.python_code(root_module="self")
        self._code, self._lineno_map, self._prologue_start = result.src, result._lineno_map, result._prologue_start
        type(self).forward = _forward_from_src(result.src, result.globals, self._graph._co_fields)
        for child in self.children():
            if isinstance(child, GraphModule):
                child.recompile()
        return result

    def print_readable(self, print_output: bool = True, include_stride: bool = False, include_device: bool = False,
                       colored: bool = False, *, fast_sympy_print: bool = False, expanded_def: bool = False,
                       additional_meta: list[str] | None = None) -> str:
        """The code with comments and known values, graph modules inside included."""
        text = _readable(self, self._get_name(),
                         {"include_stride": include_stride, "include_device": include_device, "colored": colored,
                          "expanded_def": expanded_def, "additional_meta": additional_meta})
        if print_output:
            print(text)
        return text

    def _repr_html_(self) -> str:
        """What a notebook shows: the graph, drawn."""
        return late.provided("graph page")(self.graph, type(self).__name__)

    def __str__(self) -> str:
        return "\n".join([super().__str__(), self._code, "# graph_module.print_readable() shows more"])

    # --- submodules ---------------------------------------------------------------------------------------------------

    def add_submodule(self, target: str, m: Module) -> bool:
        """Add a module at a path, making the modules on the way; False if something else is in the way."""
        *prefix, field = target.split(".")
        owner: Module = self
        for item in prefix:
            inner = getattr(owner, item, None)
            if inner is None:
                inner = Module()
                setattr(owner, item, inner)
            if not isinstance(inner, Module):
                return False
            owner = inner
        owner.add_module(field, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Delete the module at a path; False if there is none."""
        owner, _, field = target.rpartition(".")
        if not _has_attr(self, owner) or not isinstance(_get_attr(self, owner), Module):
            return False
        holder = _get_attr(self, owner)
        if not isinstance(getattr(holder, field, None), Module):
            return False
        delattr(holder, field)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Delete submodules that no node names, calls or reaches into."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            used.update(itertools.accumulate(node.target.split("."), "{}.{}".format))
            if node.op == "call_module" and _has_attr(self, node.target):
                used.update(
                    f"{node.target}.{name}" for name, _ in self.get_submodule(node.target).named_modules() if name
                )
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # --- copies -------------------------------------------------------------------------------------------------------

    def __reduce__(self) -> tuple:
        body = {
            key: value
            for key, value in self.__dict__.items()
            if key not in ("_graph", "_lineno_map", "_prologue_start")
        }
        return reduce_graph_module, ({**body, "_graphmodule_cls_name": type(self).__name__}, record(self._graph))

    def _deepcopy_init(self) -> Callable:
        return GraphModule.__init__

    def __deepcopy__(self, memo: dict) -> GraphModule:
        result = type(self).__new__(type(self))
        memo[id(self)] = result
        body = _CodeOnlyModule(copy.deepcopy(self.__dict__, memo))
        self._deepcopy_init()(result, body, body.__dict__["_graph"])
        for name in _KEPT_BY_DEEPCOPY:
            if name in self.__dict__:
                setattr(result, name, copy.deepcopy(self.__dict__[name], memo))
        result.meta = copy.deepcopy(getattr(self, "meta", {}), memo)
        for name, value in result.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(result, name, value)
        for hook in self._deepcopy_hooks:
            hook(result)
        return result

    def __copy__(self) -> GraphModule:
        result = GraphModule(self, self.graph)
        result.meta = getattr(self, "meta", {})
        return result

    def to_folder(self, folder: str | PathLike, module_name: str = "FxModule") -> None:
        """Write a Python package that makes this module: source, state_dict,
        and pickles of children whose repr does not build them."""
        from pathlib import Path  # noqa: PLC0415 - for this alone

        folder = Path(folder)
        folder.mkdir(exist_ok=True)
        save = package().save
        save(self.state_dict(), folder / "state_dict.pt")
        imports = "\n".join(entry.import_str for entry in _custom_builtins.values())
        lines = [f"import {PACKAGE} as torch", imports, f"from {PACKAGE}.nn import *", "",
                 f"class {module_name}(torch.nn.Module):", "    def __init__(self):",
                 "        super().__init__()"]
        pickled = []
        for name, child in self.named_children():
            if type(child).__name__ in _REPR_BUILDS and getattr(nn, type(child).__name__) is type(child):
                lines.append(f"        setattr(self, '{name}', {child!r})")
                continue
            save(child, folder / f"{name}.pt")
            pickled.append(name)
            lines.append(
                f"        setattr(self, '{name}', torch.load(r'{folder / name}.pt', weights_only=False))  #"
                f" {' '.join(repr(child).split())}"
            )
        for name, tensor in self._buffers.items():
            if tensor is not None:
                lines.append(
                    f"        self.register_buffer('{name}', torch.empty({list(tensor.shape)},"
                    f" dtype={value_text(tensor.dtype)}))"
                )
        for name, tensor in self._parameters.items():
            if tensor is not None:
                lines.append(
                    f"        setattr(self, '{name}', torch.nn.Parameter(torch.empty({list(tensor.shape)},"
                    f" dtype={value_text(tensor.dtype)})))"
                )
        lines.append(f"        self.load_state_dict(torch.load(r'{folder}/state_dict.pt'))")
        lines += ["    " + line if line else line for line in self.code.split("\n")]
        (folder / "module.py").write_text("\n".join(lines) + "\n")
        (folder / "__init__.py").write_text("from .module import *")
        if pickled:
            warnings.warn(
                f"these children have no repr that would make them again, and were saved as pickles: {pickled}",
                stacklevel=2,
            )

    # --- hooks of graph changes ---------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _set_replace_hook(self, f: Callable[[Node, str, Node], Any]) -> Iterator[None]:
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)

    def _register_replace_node_hook(self, f: Callable) -> None:
        self._replace_hooks.append(f)

    def _unregister_replace_node_hook(self, f: Callable) -> None:
        self._replace_hooks.remove(f)

    def _register_create_node_hook(self, f: Callable) -> None:
        self._create_node_hooks.append(f)

    def _unregister_create_node_hook(self, f: Callable) -> None:
        self._create_node_hooks.remove(f)

    def _register_erase_node_hook(self, f: Callable) -> None:
        self._erase_node_hooks.append(f)

    def _unregister_erase_node_hook(self, f: Callable) -> None:
        self._erase_node_hooks.remove(f)

    def _register_deepcopy_hook(self, f: Callable) -> None:
        self._deepcopy_hooks.append(f)

    def _unregister_deepcopy_hook(self, f: Callable) -> None:
        self._deepcopy_hooks.remove(f)


def _readable(module: GraphModule, name: str, options: dict[str, Any]) -> str:
    """Commented code as a class, nested graph modules after it."""
    code = module.graph.python_code(root_module="self", verbose=True, **options).src.lstrip("\n")
    text = _indented(f"class {name}(torch.nn.Module):\n{code}")
    inner = [
        _readable(child, child_name, {**options, "expanded_def": False})
        for child_name, child in module.named_children()
        if isinstance(child, GraphModule)
    ]
    return text + _indented("\n".join(["", *inner]))


def _indented(text: str) -> str:
    """All lines but the first, four columns in; blank ones stay empty."""
    first, *rest = text.split("\n")
    return "\n".join([first, *("    " + line if line.strip() else "" for line in rest)])
