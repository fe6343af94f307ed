"""Proxies: values that stand for a node while Python runs, and record what is done to them.

Enters: a node and the tracer that records. Leaves: more proxies: operators, attributes, methods, and every function
that honours `__torch_function__` become nodes. Refuses: what needs a value now (truth, iteration, len, int),
with a TraceError that says so.
"""

from __future__ import annotations

import collections
import copy
import dis
import enum
import inspect
import operator
import os
import traceback
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from types import FrameType
from typing import Any

from .. import _C
from ..base.sources import PACKAGE
from . import traceback as fx_traceback
from .calls import as_recorded
from .codegen import magic_methods, reflectable_magic_methods
from .graph import Graph
from .node import Node, Target, base_types, map_aggregate, map_arg

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "MetaProxy",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
]

_PACKAGE_FOLDER = PACKAGE + os.sep
_COPIED_META = ("nn_module_stack", "torch_fn", "source_fn_stack", "original_aten", "recompute", "ac_graph_id",
                "from_node", "quantization_tag", "custom", "partitioner_tag")
_CONTROL_FLOW = "a value that is being traced cannot decide control flow"


class TraceError(ValueError):
    """Tracing met something that needs a value."""


class Scope:
    """The module being traced: its path and class."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path, self.module_type = module_path, module_type


class ScopeContextManager:
    """Inside, `scope` is `current_scope`."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._before = copy.copy(scope)
        self._scope = scope
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *exc: object) -> None:
        self._scope.module_path, self._scope.module_type = self._before.module_path, self._before.module_type


# --- tracers ----------------------------------------------------------------------------------------------------------


class TracerBase:
    """Records nodes in `self.graph`. Override `create_arg`, `to_bool`, `iter`,
    `keys` or `proxy` to change what is recorded and how."""

    graph: Graph
    record_stack_traces: bool = False
    _record_forward_stack_traces_only: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    scope: Scope
    module_stack: OrderedDict[str, tuple[str, Any]]
    node_name_to_scope: dict[str, tuple[str, Any]]

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple,
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """A node in the graph, with the metadata of this moment."""
        if kind == "call_function" and self.check_mutable_operations:
            from .operator_schemas import check_for_mutable_operation

            check_for_mutable_operation(target, args, kwargs)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if fx_traceback.has_preserved_node_meta():
            self._take_over_meta(node)
        elif self.module_stack:
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        if self.record_stack_traces and not node.stack_trace:
            frames = self._filter_traceback_frames(traceback.extract_stack())
            if frames:
                node.stack_trace = "".join(frames.format()).strip()
        return node

    def _take_over_meta(self, node: Node) -> None:
        current = fx_traceback.get_current_meta()
        if current.get("stack_trace"):
            node.stack_trace = current["stack_trace"]
        for key in _COPIED_META:
            if key in current:
                node.meta[key] = copy.copy(current[key])
        replayed = fx_traceback.get_current_replay_node()
        if replayed is not None:
            node.meta["is_functional_regenerated"] = True
            node.meta.update({key: replayed.meta[key] for key in ("custom", "stack_trace") if key in replayed.meta})
        if current.get("autograd_backward", False):
            node.meta["autograd_backward"] = True

    def _filter_traceback_frames(self, stack: traceback.StackSummary) -> traceback.StackSummary:
        """The user's frames: from the first `forward` on, ours left out."""
        if self._record_forward_stack_traces_only:
            kept = [frame for frame in stack if frame.name == "forward"]
        else:
            start = next((i for i, frame in enumerate(stack) if frame.name == "forward"), len(stack))
            kept = list(stack[start:])
        return traceback.StackSummary.from_list(
            [frame for frame in kept if not frame.filename.startswith(_PACKAGE_FOLDER)]
        )

    def proxy(self, node: Node) -> Proxy:
        """The proxy that stands for a node."""
        return Proxy(node, self)

    def create_proxy(self, kind: str, target: Target, args: tuple, kwargs: dict[str, Any], name: str | None = None,
                     type_expr: Any | None = None,
                     proxy_factory_fn: Callable[[Node], Proxy] | None = None) -> Proxy:
        """Record a node from arguments that may hold proxies, and answer with its proxy."""
        node = self.create_node(
            kind, target, self.create_arg(tuple(args)), self.create_arg(dict(kwargs)), name, type_expr
        )
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def _find_user_frame(self) -> FrameType | None:
        frame = inspect.currentframe()
        while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE_FOLDER):
            frame = frame.f_back
        return frame

    def create_arg(self, a: Any) -> Any:
        """An argument as nodes hold it: proxies become nodes, in containers too."""
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            parts = [self.create_arg(x) for x in a]
            return type(a)(*parts) if hasattr(a, "_fields") else type(a)(parts)
        if isinstance(a, list):
            return [self.create_arg(x) for x in a]
        if isinstance(a, dict):
            return {self._create_key(k): self.create_arg(v) for k, v in a.items()}
        if isinstance(a, (slice, range)):
            return type(a)(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, (_C.Op, _C.Overload, *base_types, enum.Enum)) or a is None or a is ...:
            return a
        if is_dataclass(a) and not isinstance(a, type):
            return self.create_node(
                "call_function", type(a), (), {f.name: self.create_arg(getattr(a, f.name)) for f in fields(a)}
            )
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _create_key(self, key: Any) -> Any:
        if isinstance(key, str):
            return key
        result = self.create_arg(key)

        def refuse(node: Node) -> Any:
            raise RuntimeError(
                f"a dictionary in the arguments has a Node in its key {result}: keys must be plain values"
            )

        map_arg(result, refuse)
        return result

    def to_bool(self, obj: Proxy) -> bool:
        """Asked when the truth of a proxy is needed."""
        raise TraceError(_CONTROL_FLOW)

    def iter(self, obj: Proxy) -> Iterator:
        """Asked when a proxy is iterated over."""
        raise TraceError(
            "a Proxy cannot be iterated: it was used in a loop, or as *args or **kwargs of a call, and its length is"
            " not known while tracing. Unpack a known number of items (`a, b = x`), index it, or wrap the function with"
            " torch.fx.wrap so that it is recorded as one call"
        )

    def keys(self, obj: Proxy) -> Any:
        """Asked for the keys of a proxy, as `**proxy` does."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Records at the insert point of an existing graph: what `Proxy(node)` uses."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.node_name_to_scope = {}


# --- proxies ----------------------------------------------------------------------------------------------------------


def assert_fn(x: Any) -> None:
    """`assert x`, as a recorded call."""
    assert x


def _instruction_at(frame: FrameType) -> tuple[list[dis.Instruction], int]:
    instructions = list(dis.get_instructions(frame.f_code))
    return instructions, bisect_left(instructions, frame.f_lasti, key=lambda i: i.offset)


class Proxy:
    """Stands for a node's value. What is done to it is recorded."""

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        if k in ("tracer", "node"):   # while being copied or unpickled there is none yet
            raise AttributeError(k)
        return Attribute(self, k)

    def __getstate__(self) -> dict:
        return self.__dict__

    def __setstate__(self, d: dict) -> None:
        self.__dict__.update(d)

    def __deepcopy__(self, memo: dict) -> Proxy:
        return Proxy(copy.deepcopy(self.node, memo), self.tracer)

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Proxy]:
        caller = inspect.currentframe().f_back
        instructions, at = _instruction_at(caller)
        # the number of items is written in the code
        if at < len(instructions) and instructions[at].opname == "UNPACK_SEQUENCE":
            return (self[i] for i in range(instructions[at].argval))
        return self.tracer.iter(self)

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and _is_assertion(inspect.currentframe().f_back):
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "len() of a traced value is not recorded unless fx.wrap('len') stands at the top of the module"
        )

    @classmethod
    def __torch_function__(
        cls, orig_method: Any, types: Any, args: tuple | None = None, kwargs: dict[str, Any] | None = None
    ) -> Any:
        args, kwargs = args or (), kwargs or {}
        tracers: dict[int, TracerBase] = {}

        def note(a: Any) -> None:
            if isinstance(a, Proxy):
                tracers[id(a.tracer)] = a.tracer

        map_aggregate((args, kwargs), note)
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers.values())} while trying to trace operations"
                f" {orig_method}"
            )
        tracer = next(iter(tracers.values()))
        kind, target, args, kwargs = as_recorded(orig_method, args, kwargs)
        name = tracer.graph._target_to_str(target) if kind == "call_function" else None
        return tracer.create_proxy(kind, target, args, kwargs, name=name)


def _is_assertion(frame: FrameType) -> bool:
    """Whether a frame is about to test the condition of an assert statement."""
    instructions, at = _instruction_at(frame)
    # what versions of Python put between
    found = [i for i in instructions[at : at + 6] if i.opname not in ("CACHE", "TO_BOOL", "NOT_TAKEN")]
    # from 3.13 on a comparison asks for the truth itself
    if found and found[0].opname == "COMPARE_OP" and found[0].argrepr.startswith("bool("):
        del found[0]
    if len(found) < 2 or not (found[0].opname.startswith("POP_JUMP") and found[0].opname.endswith("IF_TRUE")):
        return False
    # From Python 3.14 on the class of the error is one of several common constants.
    return found[1].opname == "LOAD_ASSERTION_ERROR" or (
        found[1].opname == "LOAD_COMMON_CONSTANT" and "AssertionError" in found[1].argrepr
    )


class MetaProxy(Proxy):
    """A proxy whose node carries a fake value, computed along."""

    def __init__(self, node: Node, tracer: TracerBase | None = None, fake_mode: Any = None) -> None:
        super().__init__(node, tracer)
        self.fake_mode = fake_mode

    def __repr__(self) -> str:
        return f"MetaProxy({self.node.name})"

    @classmethod
    def __torch_function__(
        cls, orig_method: Any, types: Any, args: tuple | None = None, kwargs: dict[str, Any] | None = None
    ) -> Any:
        first = next((a for a in args or () if isinstance(a, MetaProxy)), None)
        assert first is not None, "a MetaProxy was expected among the arguments"
        result = super().__torch_function__(orig_method, types, args, kwargs)
        with first.fake_mode:
            result.node.meta["val"] = orig_method(
                *[a.node.meta["val"] if isinstance(a, Proxy) else a for a in args or ()], **(kwargs or {})
            )
        return MetaProxy(result.node, result.tracer, first.fake_mode)


class Attribute(Proxy):
    """`proxy.name`: a method if it is called, else a getattr, recorded when its value is used."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    def __getattr__(self, k: str) -> Attribute:
        if k in ("root", "attr", "tracer", "_node"):
            raise AttributeError(k)
        return Attribute(self, k)

    @property
    def node(self) -> Node:
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A parameter whose sizes are known while tracing (`param_shapes_constant`)."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Any) -> None:
        super().__init__(node, tracer)
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        return self.param.shape

    @property
    def ndim(self) -> int:
        return self.param.ndim

    def size(self, *args: Any) -> Any:
        return self.param.size(*args)

    def dim(self) -> int:
        return self.param.dim()

    def numel(self) -> int:
        return self.param.numel()

    def nelement(self) -> int:
        return self.param.nelement()


def _operator_method(target: Callable, is_reflected: bool) -> Callable[..., Proxy]:
    def record(self: Proxy, *args: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", target, (*args, self) if is_reflected else (self, *args), {})

    return record


for _name in magic_methods:
    _target = getattr(operator, _name, None)
    if _target is None:
        continue
    setattr(Proxy, f"__{_name.strip('_')}__", _operator_method(_target, False))
    if _name in reflectable_magic_methods:
        setattr(Proxy, f"__r{_name.strip('_')}__", _operator_method(_target, True))
