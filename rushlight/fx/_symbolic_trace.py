"""Symbolic tracing: run a module's forward, or a function, on proxies and keep what it did as a graph.

Enters: a module or function, and concrete values for arguments it must not be traced in (`concrete_args`, containers
with `PH` where placeholders go). Leaves: a `Graph`, or from `symbolic_trace` a `GraphModule`. Leaf modules (all of `nn`
but Sequential) are recorded as one call. Refuses: control flow on traced values (TraceError), and arguments that cannot
stand in a graph.
"""

from __future__ import annotations

import collections
import copy
import functools
import inspect
import math
import warnings
from collections.abc import Callable, Iterable
from itertools import chain
from types import CodeType, FunctionType, ModuleType
from typing import Any

from .._C import Tensor
from ..base import assertions, homes
from ..nn import Module, Parameter, Sequential
from ..quantized.packed import ScriptObject
from ..utils import _pytree as pytree
from . import patching
from ._compatibility import compatibility  # noqa: F401 - libraries look for it here
from .codegen import _PyTreeCodeGen, _PyTreeInfo
from .graph import Graph
from .graph_module import GraphModule
from .node import base_types
from .patching import (
    _autowrap_check,
    _create_wrapped_func,
    _find_proxy,
    _new_patcher,
    _patch_wrapped_functions,
    _Patcher,
)
from .proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase
from .spelling import PACKAGE
from .wrapping import _wrapped_fns_to_patch, wrap

__all__ = ["PH", "PHBase", "PHWithMeta", "ProxyableClassMeta", "Tracer", "_create_wrapped_func", "_find_proxy",
           "_wrapped_fns_to_patch", "is_fx_symbolic_tracing", "is_fx_tracing", "symbolic_trace", "wrap"]

HAS_VARSTUFF = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_orig_module_call: Callable = Module.__call__
_orig_module_getattr: Callable = Module.__getattr__
_proxyable_classes: dict[type, None] = {}
_is_fx_tracing_flag = False


def is_fx_tracing() -> bool:
    """Whether a symbolic trace is running."""
    return _is_fx_tracing_flag


def is_fx_symbolic_tracing() -> bool:
    """Whether a symbolic trace is running, rather than compilation or export."""
    return _is_fx_tracing_flag


class ProxyableClassMeta(type):
    """Metaclass: making an instance from proxies is recorded as a call of the class."""

    def __init__(cls, name: str, bases: tuple, attrs: dict[str, Any]) -> None:
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs) if is_fx_tracing() else None
        if proxy is not None:
            return proxy.tracer.create_proxy("call_function", cls, args, kwargs)
        instance = cls.__new__(cls)
        cls.__init__(instance, *args, **kwargs)
        return instance


class PHBase:
    """Marks a placeholder in `concrete_args`."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """A placeholder whose node takes over its attributes."""

    def __init__(self, ph_key: str | None = None) -> None:
        self.ph_key = ph_key


def _transfer_attrs(fr: Any, to: Any) -> None:
    for name in dir(fr):
        value = getattr(fr, name)
        if not callable(value) and not name.startswith("__") and not hasattr(to, name):
            setattr(to, name, value)


def _patch_function(fn: FunctionType, nargs: int) -> FunctionType:
    """The function with `*args`, `**kwargs` and keyword-only parameters as plain positional ones:
    each gets one proxy."""
    code: CodeType = fn.__code__.replace(
        co_argcount=nargs, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=fn.__code__.co_flags & ~HAS_VARSTUFF
    )
    return FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)


class Tracer(TracerBase):
    """Symbolic tracing. Override `is_leaf_module`, `call_module`, `create_arg`, `getattr`, ... to trace differently."""

    _qualname_counter: dict[str, int] = collections.defaultdict(int)

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable, ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        functions = chain.from_iterable(vars(m).items() for m in autowrap_modules)
        self._autowrap_function_ids = {
            id(value) for name, value in functions if not name.startswith("_") and callable(value)
        } | {id(f) for f in autowrap_functions}
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}

    # --- what may be overridden ---------------------------------------------------------------------------------------

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether calls of `m` are recorded as one node instead of being traced through."""
        return m.__module__.startswith(
            (f"{PACKAGE}.nn", "torch.nn", f"{PACKAGE}.ao.nn", "torch.ao.nn")
        ) and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The path of a submodule from the root."""
        paths = self.submodule_paths or {m: name for name, m in self.root.named_modules()}
        if mod not in paths:
            raise NameError("module is not installed as a submodule")
        return paths[mod]

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        """A module was called: record it if it is a leaf, else run its forward on."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            calls = self.num_calls.get(path, 0)
            key = f"{path}@{calls}" if calls else path
            self.module_stack[key] = (path, type(m))
            self.num_calls[path] = calls + 1
            try:
                return (
                    self.create_proxy("call_module", path, args, kwargs)
                    if self.is_leaf_module(m, path)
                    else forward(*args, **kwargs)
                )
            finally:
                self.module_stack.pop(key, None)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """An attribute of a module was read: parameters (and buffers, if asked for) become proxies."""
        found = None
        if isinstance(attr_val, Parameter):
            found = self._proxy_of_attribute(attr_val, self.root.named_parameters(), parameter_proxy_cache)
        elif self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            found = self._proxy_of_attribute(attr_val, self.root.named_buffers(), parameter_proxy_cache)
        return attr_val if found is None else found

    def _proxy_of_attribute(
        self, value: Any, named: Iterable[tuple[str, Any]], cache: dict[str, Proxy]
    ) -> Proxy | None:
        name = next((n for n, p in named if p is value), None)
        if name is None:
            return None
        if name not in cache:
            options = {}
            if "proxy_factory_fn" in inspect.signature(self.create_proxy).parameters:
                options["proxy_factory_fn"] = (
                    (lambda node: ParameterProxy(self, node, name, value)) if self.param_shapes_constant else None
                )
            cache[name] = self.create_proxy("get_attr", name, (), {}, **options)
        return cache[name]

    def create_arg(self, a: Any) -> Any:
        """As TracerBase; parameters, buffers and modules of the root become get_attr nodes,
        other tensors constants of it."""
        if isinstance(a, Parameter):
            name = next((n for n, p in self.root.named_parameters() if p is a), None)
            if name is None:
                raise NameError("parameter is not a member of this module")
            return self.create_node("get_attr", name, (), {})
        if isinstance(a, (Tensor, Module)):
            named = self.root.named_buffers() if isinstance(a, Tensor) else self.root.named_modules()
            name = next((n for n, p in named if p is a), None)
            if name is not None:
                return self.create_node("get_attr", name, (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return self.create_node("call_function", type(a), tuple(self.create_arg(x) for x in a), {})
        if isinstance(a, (Tensor, ScriptObject, pytree.TreeSpec)):
            return self._constant(a, "_tree_spec_constant" if isinstance(a, pytree.TreeSpec) else "_tensor_constant")
        if type(a) in _proxyable_classes:
            name = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def _constant(self, value: Any, prefix: str) -> Any:
        """A value kept as an attribute of the root, once."""
        key = value if isinstance(value, Tensor) else id(value)     # a spec has no hash
        name = self.tensor_attrs.get(key)
        if name is None:
            name = self.tensor_attrs[key] = self.get_fresh_qualname(prefix)
            setattr(self.root, name, value)
        return self.create_node("get_attr", name, (), {})

    def get_fresh_qualname(self, prefix: str) -> str:
        """An attribute name the root does not have yet."""
        number = 0 if not hasattr(self.root, f"{prefix}0") else self._qualname_counter[prefix]
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        self._qualname_counter[prefix] = number
        return f"{prefix}{number}"

    # --- arguments of the root ----------------------------------------------------------------------------------------

    def create_args_for_root(
        self, root_fn: Callable, is_module: bool, concrete_args: dict[str, Any] | tuple | None = None
    ) -> tuple[Callable, list[Any]]:
        """Placeholders for the parameters of the root, and the function to call with them."""
        fn = inspect.unwrap(root_fn)
        code = fn.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        if is_module and total == 0:
            raise RuntimeError("trace: self must be a parameter of its own, not part of *args")
        args: list[Any] = [self.root] if is_module else []
        if isinstance(concrete_args, tuple) and concrete_args and code.co_flags & HAS_VARSTUFF and total == 1:
            return root_fn, [*args, *self._numbered_placeholders(concrete_args)]
        names = list(code.co_varnames[len(args) : total])
        if isinstance(concrete_args, tuple):
            if len(names) != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {len(names)} arguments but got {len(concrete_args)} concrete arguments"
                )
            concrete_args = dict(zip(names, concrete_args, strict=True))
        signature = inspect.signature(fn)
        at = total
        extra = []
        for flag, stars in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")):
            if code.co_flags & flag:
                extra.append(stars + code.co_varnames[at])
                at += 1
        args += [self._proxy_placeholder(name, concrete_args, signature, fn) for name in (*names, *extra)]
        if code.co_kwonlyargcount or extra:
            root_fn = _patch_function(fn, len(args))
        flat_args, in_spec = pytree.tree_flatten(tuple(args))
        if all(child.is_leaf() for child in in_spec.children_specs):
            return root_fn, args
        self.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(list(code.co_varnames[:total]), in_spec, None))
        return self._flattening(root_fn, in_spec), flat_args

    def _flattening(self, root_fn: Callable, in_spec: Any) -> Callable:
        """The root as a function of leaves, which notes the shape of what it returns."""

        def flatten_fn(*leaves):  # noqa: ANN002, ANN202 - what is annotated here would annotate the graph
            out, out_spec = pytree.tree_flatten(root_fn(*pytree.tree_unflatten(list(leaves), in_spec)))
            codegen = self.graph._codegen
            assert isinstance(codegen, _PyTreeCodeGen), "the code generator was replaced while tracing"
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return out

        return flatten_fn

    def _numbered_placeholders(self, concrete_args: tuple) -> list[Proxy]:
        result = []
        for i, concrete in enumerate(concrete_args):
            out = self.create_proxy("placeholder", f"input_{i}", (), {})
            if isinstance(concrete, PHBase) and concrete is not PH:
                _transfer_attrs(concrete, out.node)
            result.append(out)
        return result

    def _proxy_placeholder(
        self, name: str, concrete_args: dict[str, Any] | None, signature: inspect.Signature, fn: Callable
    ) -> Any:
        default: tuple = ()
        if name[0] != "*" and signature.parameters[name].default is not inspect.Parameter.empty:
            default = (signature.parameters[name].default,)
        if concrete_args is None or name not in concrete_args:
            return self.create_proxy("placeholder", name, default, {}, type_expr=_annotations(fn).get(name))
        count = 0

        def replace(x: Any) -> Any:
            nonlocal count
            count += 1
            out = self.create_proxy("placeholder", f"{name}_{count}", default, {})
            if isinstance(x, PHBase):
                if x is not PH:
                    _transfer_attrs(x, out.node)
                return out
            self._specialize(name, out, x)
            return x

        return pytree.tree_map(replace, concrete_args[name])

    def _specialize(self, name: str, out: Proxy, value: Any) -> None:
        """Record that an argument must have the value it was traced with."""
        message = f"{name} has been specialized to have value {value} but got another value"
        if type(value) is bool or (type(value) in base_types and not isinstance(value, Tensor)):
            self.create_proxy("call_function", assertions.PUBLIC["_assert"], (out == value, message), {})
        elif value is None:
            self.create_proxy("call_function", _assert_is_none, (out, message), {})
        else:
            warnings.warn(
                f"concrete_args: the graph has no check that {name} equals the value it was specialized for. See to it "
                "in the code that calls it.",
                stacklevel=2,
            )

    # --- the trace itself ---------------------------------------------------------------------------------------------

    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module's forward, or of a function."""
        global _is_fx_tracing_flag
        before, _is_fx_tracing_flag = _is_fx_tracing_flag, True
        try:
            return self._trace(root, concrete_args)
        finally:
            _is_fx_tracing_flag = before
            self.submodule_paths = None

    def _trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None) -> Graph:
        is_module = isinstance(root, Module)
        if is_module:
            self.root = root
            if isinstance(root, GraphModule):
                root.code.strip()      # made when it is first looked at
            assert hasattr(
                type(root), self.traced_func_name
            ), f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}"
            fn = getattr(type(root), self.traced_func_name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {mod: name for name, mod in root.named_modules()}
        else:
            self.root, fn = Module(), root
        self.graph = Graph(tracer_cls=type(self))
        if hasattr(fn, "__code__"):
            self.graph._co_fields = {
                key: getattr(fn.__code__, key) for key in ("co_name", "co_filename", "co_firstlineno")
            }
        self.tensor_attrs = {
            v if isinstance(v, Tensor) else id(v): path for path, v in _tensor_attributes(self.root, "")
        }
        assert isinstance(fn, FunctionType), f"symbolic_trace: expected a module or a Python function, got {type(fn)}"
        fn_globals = fn.__globals__
        fn, args = self.create_args_for_root(fn, is_module, concrete_args)
        with _new_patcher() as patcher:
            self._patch_modules(patcher)
            _patch_wrapped_functions(patcher)
            _autowrap_check(patcher, fn_globals, self._autowrap_function_ids)
            for module in self._autowrap_search:
                _autowrap_check(patcher, vars(module), self._autowrap_function_ids)
            returns = _annotations(inspect.unwrap(fn)).get("return")
            self.create_node("output", "output", (self.create_arg(fn(*args)),), {}, type_expr=returns)
        return self.graph

    def _patch_modules(self, patcher: _Patcher) -> None:
        """Route calls of modules and reads of their parameters through this tracer."""
        cache: dict[str, Proxy] = {}

        @functools.wraps(_orig_module_getattr)
        def module_getattr(mod: Module, attr: str) -> Any:
            return self.getattr(attr, _orig_module_getattr(mod, attr), cache)

        @functools.wraps(_orig_module_call)
        def module_call(mod: Module, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return _orig_module_call(mod, *args, **kwargs)

            _autowrap_check(
                patcher, getattr(getattr(mod, "forward", mod), "__globals__", {}), self._autowrap_function_ids
            )
            return self.call_module(mod, forward, args, kwargs)

        patcher.patch_method(Module, "__getattr__", module_getattr, deduplicate=False)
        patcher.patch_method(Module, "__call__", module_call, deduplicate=False)

    def __deepcopy__(self, memo: dict) -> Tracer:
        result = type(self).__new__(type(self))
        for key, value in self.__dict__.items():
            result.__dict__[key] = copy.copy(value) if key == "_autowrap_search" else copy.deepcopy(value, memo)
        return result


def _annotations(fn: Callable) -> dict[str, Any]:
    """The annotations of a function. Ours are strings to spare the import; where they name a plain type,
    that is meant."""
    found = inspect.get_annotations(fn)
    if not homes.is_ours(getattr(fn, "__module__", None)):
        return found
    return {name: Tensor for name, kind in found.items() if kind in ("Tensor", Tensor)}


def _tensor_attributes(module: Module, prefix: str) -> Iterable[tuple[str, Any]]:
    """Tensors that are plain attributes of modules, with their paths."""
    for name, value in vars(module).items():
        if isinstance(value, (Tensor, ScriptObject, pytree.TreeSpec)):
            yield prefix + name, value
    for name, child in module.named_children():
        yield from _tensor_attributes(child, f"{prefix}{name}.")


def symbolic_trace(root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """A module or function as a GraphModule that computes the same.

    Arguments:
        root: a module or function
        concrete_args: arguments that are fixed to a value, by name

    Example:
        >>> traced = rl.fx.symbolic_trace(lambda x: rl.relu(x) + 1)
        >>> [node.op for node in traced.graph.nodes]
        ['placeholder', 'call_function', 'call_function', 'output']
        >>> traced(rl.tensor([-1.0, 2.0]))
        tensor([1., 3.])
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    return GraphModule(tracer.root, graph, type(root).__name__ if isinstance(root, Module) else root.__name__)


@wrap
def _assert_is_none(value: Any, msg: str) -> None:
    assert value is None, msg


def __getattr__(name: str) -> Any:
    if name == "CURRENT_PATCHER":
        return patching.current
    if name == "ScriptObject":
        from ..quantized.packed import ScriptObject

        return ScriptObject
    if name in ("_maybe_revert_all_patches", "_wrapped_methods_to_patch", "_create_wrapped_method"):
        return getattr(patching, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
