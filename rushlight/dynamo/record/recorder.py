"""The graph that capture writes: calls of ops on fake tensors, in order.

Enters: op calls (a `TorchFunctionMode` sees them, whoever makes them), tensors from outside as inputs. Leaves: an
fx.Graph with an example in each node's `meta["example_value"]`, and the node of each fake tensor. Refuses (breaks the
graph): tensors of unknown origin, reads of elements, arguments that a graph cannot hold.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable
from typing import Any

from ... import _C
from ..._C import Tensor
from ...autograd import grad_mode
from ...base.quantizers import qscheme
from ...base.shape import layout, memory_format
from ...dispatch.modes import TorchFunctionMode, below, disable_dispatch_modes, state as mode_state
from ...fake import DataDependentOutputException, FakeTensor, FakeTensorMode, GuardOnDataDependentSymNode, ShapeEnv
from ...fx.experimental.symbolic_sizes import SYMBOLIC, SizeProxies, symbol_of
from ...fx.graph import Graph
from ...fx.node import Node
from ...fx.proxy import GraphAppendingTracer, Proxy
from ...nn import Module
from ...utils import _pytree as pytree
from ...utils._python_dispatch import transform_subclass
from . import marks
from .breaks import GraphBreak, shown
from .hidden import checked, needs
from .tensor_classes import is_whole, is_wrapper

READS = (DataDependentOutputException, GuardOnDataDependentSymNode)
_PLAIN = (int, float, bool, str, bytes, complex, type(None), type(...), _C.dtype, _C.device, range)
_TARGETS = {"__getitem__": operator.getitem, "__setitem__": operator.setitem}


class Recorder(TorchFunctionMode):
    """One graph."""

    def __init__(self, env: ShapeEnv | None) -> None:
        super().__init__()
        self.env = env
        self.fake_mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)     # constants that ops make
        self.elements: dict[str, tuple[Tensor, int, Node]] = {}     # symbol -> tensor, its version, the node that reads
        self.graph = Graph()
        self.tracer = GraphAppendingTracer(self.graph)
        self.sizes = SizeProxies()
        self.nodes: dict[int, Node] = {}        # by the id of the fake tensor
        self.kept: list[Any] = []               # ids must stay theirs
        self.versions: list[int | None] = []    # of what is kept, when it came; None where nobody counts
        self.find_real: Callable[[Tensor], FakeTensor | None] = lambda t: None
        self.interpose: Callable | None = None  # sees ops first
        self.with_floats: Callable = lambda function, args, kwargs: NotImplemented      # ops on floats that vary
        self.calls = 0                          # ops so far
        self.root = Module()                    # holds the graphs of functions
        self.follower: Any = None               # telling.Follower: told of each call

    # --- tensors ------------------------------------------------------------------------------------------------------

    def add_input(self, name: str, real: Tensor, dims: Any, source: str) -> FakeTensor:
        """A placeholder, and the fake tensor that stands for the real one."""
        with without_modes(), grad_mode.inference_mode(False), grad_mode.enable_grad():
            fake = self.fake_mode.from_tensor(
                real.detach(), source=source, static_shapes=not dims, dynamic_dims=dims or None
            )
            if real.requires_grad:
                fake = fake.requires_grad_()
                if not real.is_leaf:
                    fake = fake.clone()
        node = self.graph.placeholder(name)
        self.track(fake, node)
        return fake

    def add_wrapper(self, name: str, real: Any, source: str) -> Tensor:
        """A placeholder for a tensor made of others, and one made of fakes that stands for it."""
        with without_modes(), grad_mode.inference_mode(False), grad_mode.enable_grad():
            fake = self.imitated(real)
            if real.requires_grad:
                fake = fake.requires_grad_()
        if real.requires_grad and not real.is_leaf:
            with grad_mode.inference_mode(False), grad_mode.enable_grad(), below(mode_state.function_modes):
                fake = fake.clone()
        self.track(fake, self.graph.placeholder(name))
        return fake

    def imitated(self, real: Any) -> Any:
        """A tensor with fakes for what has elements in it."""
        if not is_wrapper(real):
            return self.fake_mode.from_tensor(real.detach(), static_shapes=True)
        return transform_subclass(real, lambda name, inner: self.imitated(inner))

    def add_taken_apart(self, name: str, real: Any) -> Tensor:
        """A placeholder for a tensor around another, and one like it around a fake."""
        with without_modes(), grad_mode.inference_mode(False), grad_mode.enable_grad():
            names, context = real.__tensor_flatten__()
            inner = {n: self.fake_mode.from_tensor(getattr(real, n).detach(), static_shapes=True) for n in names}
            fake = type(real).__tensor_unflatten__(inner, context, tuple(real.shape), tuple(real.stride()))
            if real.requires_grad and not real.is_leaf:
                fake = fake.clone()
        fake.__dict__.update({k: v for k, v in real.__dict__.items() if k not in fake.__dict__})
        self.track(fake, self.graph.placeholder(name))
        return fake

    def add_number(self, name: str, number: Any) -> Node:
        """A placeholder for a symbolic number."""
        node = self.graph.placeholder(name)
        node.meta["example_value"] = number
        self.sizes.note(number, Proxy(node, self.tracer), None)
        return node

    def track(self, fake: Any, node: Node) -> None:
        """From now on `fake` is the value of `node`."""
        self.nodes[id(fake)] = node
        self.kept.append(fake)
        node.meta["example_value"] = fake
        is_counted = isinstance(fake, Tensor) and not fake.is_inference()
        self.versions.append(fake._version if is_counted else None)
        if not isinstance(fake, Tensor):      # a function that the graph computed
            return
        if self.env is not None:
            proxy = Proxy(node, self.tracer)
            for d, size in enumerate(fake.shape):
                self.sizes.note(size, proxy, d)

    def memory_written(self) -> set[int]:
        """Storages of tensors that were written to since they came. Those of inference mode are of its own making:
        views of inputs are none of them."""
        return {Tensor.untyped_storage(t)._cdata for t, version in zip(self.kept, self.versions, strict=True)
                if version is not None and t._version != version}

    def note_element(self, t: Tensor, number: Any) -> None:
        """`number` is the only element of `t` now."""
        node = self.nodes.get(id(t))
        if node is None:
            raise GraphBreak("elements", "an op reads an element")
        read = self.graph.call_method("item", (node,), {})
        read.meta["example_value"] = number
        self.sizes.note(number, Proxy(read, self.tracer), None)
        self.elements[symbol_of(number.formula)] = t, t._version, read

    def note_check(self, condition: Any, error: type[Exception], message: str) -> None:
        """What the program requires of numbers from elements is checked here. (What ops require they check.)"""
        given = self.sizes.build(condition)
        self.graph.call_function(checked, (given.node if isinstance(given, Proxy) else given, error.__name__, message))

    # --- calls --------------------------------------------------------------------------------------------------------

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if self.interpose is not None:
            return self.interpose(func, args, kwargs or {})
        return self.call(func, args, kwargs or {})

    def call(self, func: Any, args: tuple, kwargs: dict[str, Any], target: Any = None) -> Any:
        """Run a function on fakes, and write it down if tensors come out or are written to."""
        found = self.with_floats(func, args, kwargs)
        if found is not NotImplemented:
            return found
        args = tuple(self.faked(a) for a in args)
        kwargs = {k: self.faked(v) for k, v in kwargs.items()}
        try:
            result = func(*args, **kwargs)
        except READS as error:
            raise read_by(func, error) from error
        if result is NotImplemented:
            return result
        name = getattr(func, "__name__", "")
        tensors = _tensors_in(result)
        writes = result is None or (name.endswith("_") and not name.endswith("__")) or "out" in kwargs
        if not tensors and not (writes and _tensors_in((args, kwargs))):
            return result
        self.calls += 1
        if marks.of(func) == marks.IN_GRAPH:
            return self.bound(result, self.held_call(func, args, kwargs))
        where = target if target is not None else _TARGETS.get(name, func) if _is_slot(func) else func
        node = self.graph.call_function(
            where, tuple(self.argument(a) for a in args), {k: self.argument(v) for k, v in kwargs.items()}
        )
        if self.follower is not None:
            self.follower.call(node)
        return self.bound(result, node)

    def held_call(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Node:
        """A call whose arguments, all but the tensors, are part of the function."""
        given, spec = pytree.tree_flatten((args, kwargs))
        at = [i for i, leaf in enumerate(given) if isinstance(leaf, Tensor)]
        constants = [None if isinstance(leaf, Tensor) else leaf for leaf in given]

        def whole(*tensors: Any) -> Any:
            filled = list(constants)
            for i, t in zip(at, tensors, strict=True):
                filled[i] = t
            inner, named = pytree.tree_unflatten(filled, spec)
            return func(*inner, **named)

        return self.graph.call_function(
            as_target(func.__name__, whole), tuple(self.argument(given[i]) for i in at), {}
        )

    def bound(self, result: Any, node: Node) -> Any:
        """A result whose tensors are known by their nodes."""
        if isinstance(result, Tensor):
            if id(result) in self.nodes:
                return result
            if not isinstance(result, FakeTensor) and not is_whole(result):
                with without_modes():
                    if result.is_meta and type(result) is not FakeTensor:
                        result = self.fake_mode.wrap(result, _C.device("cpu"), None)
                    else:
                        result = self.fake_mode.from_tensor(result, static_shapes=True)
            self.track(result, node)
            return result
        if type(result) in (tuple, list) or (isinstance(result, tuple) and _tensors_in(result)):
            members = [
                self.bound(m, self.graph.call_function(operator.getitem, (node, i), {})) if _tensors_in(m) else m
                for i, m in enumerate(result)
            ]
            same = all(a is b for a, b in zip(members, result, strict=True))
            return result if same else type(result)(members)
        return result

    def faked(self, a: Any) -> Any:
        """An argument with fakes in the place of tensors from outside."""
        if isinstance(a, Tensor):
            if isinstance(a, FakeTensor) or id(a) in self.nodes:
                return a
            found = self.find_real(a)
            if found is None:
                raise GraphBreak("unknown tensor", "a tensor of unknown origin takes part in an op")
            return found
        if type(a) in (list, tuple):
            results = [self.faked(x) for x in a]
            return a if all(x is y for x, y in zip(a, results, strict=True)) else type(a)(results)
        return a

    def argument(self, a: Any) -> Any:
        """What a node holds for an argument."""
        if isinstance(a, Tensor) or id(a) in self.nodes:
            node = self.nodes.get(id(a))
            if node is None:
                raise GraphBreak("unknown tensor", "a tensor that no recorded op made takes part in an op")
            return node
        if isinstance(a, SYMBOLIC):
            result = self.sizes.proxy(a)
            return result.node if isinstance(result, Proxy) else result
        if isinstance(a, (list, tuple)):
            parts = [self.argument(x) for x in a]
            return parts if isinstance(a, list) else tuple(parts)
        if type(a) is dict:
            return {k: self.argument(v) for k, v in a.items()}
        if type(a) is slice:
            return slice(self.argument(a.start), self.argument(a.stop), self.argument(a.step))
        if isinstance(a, enum.Enum) and isinstance(a, (int, float, str)):
            return self.argument(a.value)      # to an op a member is a number or text, and several flags have no name
        if isinstance(a, _PLAIN) or isinstance(a, (layout, memory_format, qscheme, type)):
            return a
        raise GraphBreak("not modelled", f"an op takes {shown(a)}, which a graph cannot hold")

    def hold(self, name: str, graph: Module) -> Node:
        """A node for a graph of its own, which the module of this one holds."""
        number = 0
        while hasattr(self.root, f"{name}_{number}"):
            number += 1
        setattr(self.root, f"{name}_{number}", graph)
        return self.graph.get_attr(f"{name}_{number}")

    def note_state(self, function: Callable, args: tuple) -> None:
        """A call that changes a mode of the thread, at its place in the graph."""
        self.graph.call_function(function, args, {})


def read_by(func: Any, error: BaseException) -> GraphBreak:
    """The break where a function asks for what only elements can tell."""
    names = getattr(error, "names", frozenset())
    if names:
        return needs(f"{shown(func)}: {str(error).partition('. Say')[0].partition('. Keep')[0]}", names)
    return GraphBreak("elements", f"{shown(func)} needs the elements of a tensor")


def _is_slot(func: Any) -> bool:
    return type(func).__name__ in ("wrapper_descriptor", "method_descriptor", "method-wrapper")


def _tensors_in(value: Any) -> bool:
    if isinstance(value, Tensor):
        return True
    if isinstance(value, (list, tuple)):
        return any(_tensors_in(v) for v in value)
    return isinstance(value, dict) and any(_tensors_in(v) for v in value.values())


class without_modes:  # noqa: N801 - used as a function
    """Inside, no mode sees ops, but those that are entered there."""

    def __enter__(self) -> None:
        now, self.inner = mode_state, disable_dispatch_modes()
        self.before = now.function_modes, now.subclass_functions_disabled, now.all_functions_disabled
        now.function_modes, now.subclass_functions_disabled, now.all_functions_disabled = [], False, False
        self.inner.__enter__()

    def __exit__(self, *exc: Any) -> None:
        now = mode_state
        now.function_modes, now.subclass_functions_disabled, now.all_functions_disabled = self.before
        self.inner.__exit__(*exc)


def as_target(name: str, call: Callable) -> Callable:
    """A callable of the program as a function that a graph can name."""
    def target(*args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs)

    target.__module__, target.__name__, target.__qualname__ = "program", name, name
    return target
