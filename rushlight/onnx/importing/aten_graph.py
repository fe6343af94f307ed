"""The graph of an imported model as ATen calls, made when somebody looks at it.

Enters: a graph of rules' calls, its module, and what the file says of its inputs. Leaves: a graph that computes the
same by ATen's overloads for tensors of all sizes: what varies is read from tensors (`sym_size`) where it is needed. It
guesses nothing: a call whose form hangs on elements, or on whether two sizes are equal, stays a call of its rule.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from operator import getitem
from typing import Any

from ... import _C, fx, ops
from ..._higher_order_ops.core import recording_mode
from ...autograd.grad_mode import no_grad
from ...base.sources import PACKAGE
from ...export.recording import ExportTracer, Recorder
from ...fake import FakeTensorMode, ShapeEnv
from ...fx.experimental.proxy_tensor import PythonKeyTracer
from ...fx.node import Node, map_aggregate
from ...nn.modules.module import Module
from ...symbols import DimDynamic, SymInt, symbolic_math
from ..kinds import ELEMENTS, STRING, Kind
from .layers import Dropout, OlderDropout

aten = ops.aten
# Sizes that tensors are imagined with, one pair after another: the sides of images, and the last dims of others.
IMAGINED = ((64, 2), (64, 512), (32, 16), (224, 2048))
_IMPORTING = __file__.rpartition("aten_graph.py")[0]
_PASSED = tuple(os.path.join(PACKAGE, name, "") for name in ("symbols", "base"))
# Functions in which a call runs that has its node already, or whose result will be given sizes of its own.
_RECORDED = (("node", os.path.join("export", "recording.py")), ("expect_alike", os.path.join(
    "_higher_order_ops", "core.py")))


class _Decides(Exception):     # noqa: N818 - it ends the recording of one call
    """A call asked for what other sizes would answer otherwise."""


class _Sizes(ShapeEnv):
    """Symbols of which nothing is learnt: whoever asks about them in Python is told that the answer varies."""

    merges_sizes = True

    def __init__(self) -> None:
        super().__init__(duck_shape=False, specialize_zero_one=False)
        self.guessed = 0
        self.is_open = False             # while the results of a call are imagined that stays as it is

    def guard(self, t: Any) -> bool:
        answer = self.decide(t)
        if answer is not None:
            return answer
        if not self.is_open and not _is_within_op():
            raise _Decides
        self.guessed += 1
        return bool(self.stand_in(t))

    def specialize(self, f: Any) -> Any:
        if not self.is_open and not _is_within_op():
            raise _Decides
        self.guessed += 1
        return self.stand_in(f)


def _is_within_op() -> bool:
    """Whether it is an op that asks, while it runs on tensors without elements: its call is recorded, and asks again
    when it runs. What a rule asks decides which calls there are."""
    frame: Any = sys._getframe(2)
    is_op = False
    while frame is not None:
        name, function = frame.f_code.co_filename, frame.f_code.co_name
        if any(function == f and name.endswith(file) for f, file in _RECORDED):
            return True
        if name.startswith(_IMPORTING) and name != __file__:
            return is_op and recording_mode() is None
        is_op = is_op or not name.startswith((*_PASSED, __file__))
        frame = frame.f_back
    return True


class _Tracer(ExportTracer):
    """Constants are attributes of the graph's module."""

    create_proxy_for_constant = PythonKeyTracer.create_proxy_for_constant


class _Unknown:
    """The value of a node of which nothing is known: elements tell how many sizes it has."""


UNKNOWN = _Unknown()


def _is_unknown(value: Any) -> bool:
    """Whether nothing is known of a value, or of a part of it."""
    return value is UNKNOWN or (isinstance(value, (tuple, list)) and any(_is_unknown(v) for v in value))


def aten_graph(module: Module, graph: fx.Graph, kinds: Sequence[Kind]) -> tuple[fx.Graph, Module]:
    """The graph, and a module with the attributes that it has besides those of `module`. Of several sizes that images
    are imagined with, those count with which most calls are ATen's."""
    best = None
    for side, length in IMAGINED:
        attempt = _Attempt(module, graph, kinds, side, length)
        attempt.run()
        if best is None or attempt.failures < best.failures:
            best = attempt
        if not best.failures or not attempt.has_symbols:
            break
    return best.tracer.graph, best.tracer.root


class _Attempt:
    """One walk over the graph."""

    def __init__(self, module: Module, graph: fx.Graph, kinds: Sequence[Kind], side: int, length: int) -> None:
        self.module, self.source, self.side, self.length = module, graph, side, length
        self.kinds = list(kinds)
        self.env = _Sizes()
        self.mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=self.env)
        self.tracer = _Tracer({})
        self.tracer.env, self.tracer.snapshots = self.env, self.mode
        self.recorder = Recorder(self.tracer)
        self.values: dict[Node, Any] = {}
        self.nodes: dict[Node, Any] = {}         # nodes whose values are no tensors, or unknown
        self.named: dict[str, Any] = {}
        self.failures = 0                        # calls that went wrong at these sizes
        self.has_symbols = False

    def run(self) -> None:
        self.mode.on_scalar, self.mode.on_detach = self.tracer.note_element, self.recorder.detached
        with self.mode, symbolic_math(), no_grad():
            for node in self.source.nodes:
                self.tracer.line = node.name
                getattr(self, node.op)(node)
        self.mode.on_scalar = self.mode.on_detach = None
        found = self.tracer.graph
        found.eliminate_dead_code(is_impure_node=lambda n: n.op in ("placeholder", "output"))
        for node in found.nodes:
            node.meta = {}

    # --- what comes in ------------------------------------------------------------------------------------------------

    def placeholder(self, node: Node) -> None:
        kind = self.kinds.pop(0)
        proxy = self.tracer.create_proxy("placeholder", node.target, node.args, {})
        is_tensor = kind.form == "tensor" and kind.number not in (0, STRING) and kind.shape is not None
        if not is_tensor:
            self.unknown(node, proxy)
            return
        rank = len(kind.shape)
        hints = [2, 2, self.side, self.side] if rank == 4 else [2] * (rank - 1) + [self.length if rank > 1 else 2]
        sizes = [n if isinstance(n, int) else self.size(n, hints[d], f"{node.target}.{d}")
                 for d, n in enumerate(kind.shape)]
        dtype = ELEMENTS[kind.number].dtype
        if dtype is self.module.arguments.floats:
            dtype = self.module._anchor.dtype
        self.known(node, self.mode.empty(sizes, None, dtype, self.module._anchor.device), proxy)

    def size(self, name: Any, hint: int, source: str) -> Any:
        """A symbol for a size that varies; one name is one symbol."""
        self.has_symbols = True
        if not (isinstance(name, str) and name.isidentifier()):
            return self.env.create_symbol(hint, source, DimDynamic.DYNAMIC)
        if name not in self.named:
            self.named[name] = self.env.create_symbol(hint, source, DimDynamic.DYNAMIC)
        return self.named[name]

    def get_attr(self, node: Node) -> None:
        value: Any = self.module
        for part in node.target.split("."):
            value = getattr(value, part)
        proxy = self.tracer.create_proxy("get_attr", node.target, (), {})
        if isinstance(value, _C.Tensor):
            self.known(node, self.mode.from_tensor(value.detach(), static_shapes=True), proxy)
        else:
            self.values[node], self.nodes[node] = value, proxy

    # --- calls --------------------------------------------------------------------------------------------------------

    def call_function(self, node: Node) -> None:
        self.called(node, node.target)

    def call_module(self, node: Node) -> None:
        layer = self.module.get_submodule(node.target)
        self.called(node, _dropped if isinstance(layer, (Dropout, OlderDropout)) else layer)

    def called(self, node: Node, function: Any) -> None:
        args, kwargs = map_aggregate((node.args, node.kwargs), self.value_of)
        if function is getitem and args[0] is not UNKNOWN and args[0][args[1]] is not UNKNOWN:
            self.values[node] = args[0][args[1]]
            return
        if any(_is_unknown(self.values[n]) for n in node.all_input_nodes):
            self.kept(node, args, kwargs)
            return
        last, guessed = next(reversed(self.tracer.graph.nodes)), self.env.guessed
        try:
            result = self.recorder.run_recorded(lambda: function(*args, **kwargs))
        except Exception as error:      # noqa: BLE001 - whatever it is, it will be said when the call runs
            self.erase(last)
            self.failures += not isinstance(error, _Decides)
            self.kept(node, args, kwargs)
            return
        self.values[node] = map_aggregate(result, lambda v: self.settled(v, self.env.guessed > guessed))

    def value_of(self, value: Any) -> Any:
        return self.values[value] if isinstance(value, Node) else value

    def settled(self, value: Any, is_guessed: bool) -> Any:
        """A result whose sizes are symbols of their own where they were formulas, or guesses."""
        if not isinstance(value, _C.Tensor) or not getattr(value, "symbolic", None):
            return value
        sizes = tuple(value.shape)
        plain = [not isinstance(n, SymInt) or (not is_guessed and n.expression.sole_symbol is not None) for n in sizes]
        return value if all(plain) else self.renamed(value, self.tracer.proxy_of(value), plain)

    def renamed(self, value: Any, proxy: Any, plain: Sequence[bool] = ()) -> Any:
        """A tensor like another, whose sizes are new symbols: they are read from it."""
        plain = plain or (False,) * value.ndim
        sizes = [n if keeps else self.env.create_symbol(self.env.stand_in(n.expression) if isinstance(n, SymInt) else n,
                                                        None, DimDynamic.DYNAMIC)
                 for n, keeps in zip(value.shape, plain, strict=True)]
        found = self.mode.empty(sizes, None, value.dtype, value.device)
        self.tracer.track(found, proxy)
        return found

    # --- calls that stay ----------------------------------------------------------------------------------------------

    def kept(self, node: Node, args: Any, kwargs: Any) -> None:
        """The call of the rule, as it is; sizes of its results are unknown, their number where it can be imagined."""
        given = map_aggregate((node.args, node.kwargs), lambda a: self.proxy_of(a) if isinstance(a, Node) else a)
        proxy = self.tracer.create_proxy(node.op, node.target, given[0], given[1], name=node.name)
        result: Any = UNKNOWN
        if not any(_is_unknown(self.values[n]) for n in node.all_input_nodes):
            self.env.is_open = True
            function = self.module.get_submodule(node.target) if node.op == "call_module" else node.target
            before, self.mode.on_scalar = self.mode.on_scalar, None
            try:
                result = function(*args, **kwargs)
            except Exception:      # noqa: BLE001 - then nothing is known of it
                result = UNKNOWN
            finally:
                self.env.is_open, self.mode.on_scalar = False, before
        self.values[node] = self.imagined(result, proxy)
        self.nodes[node] = proxy

    def imagined(self, result: Any, proxy: Any) -> Any:
        """What is known of the results of a call that stays: numbers of dims, types."""
        if isinstance(result, _C.Tensor):
            return self.renamed(result, proxy)
        if isinstance(result, tuple):
            return tuple([self.imagined(r, proxy[k]) for k, r in enumerate(result)])
        if result is None:
            return None
        if isinstance(result, (int, SymInt)) and not isinstance(result, bool):
            hint = self.env.stand_in(result.expression) if isinstance(result, SymInt) else result
            number = self.env.create_symbol(hint, None, DimDynamic.DYNAMIC) if hint >= 0 else (
                self.env.create_unbacked_symint())
            self.tracer.sizes.note(number, proxy, None)
            return number
        return UNKNOWN

    def erase(self, last: Node) -> None:
        """Take back what was recorded since."""
        for node in reversed(list(self.tracer.graph.nodes)):
            if node is last:
                return
            self.tracer.graph.erase_node(node)

    # --- values and nodes ---------------------------------------------------------------------------------------------

    def known(self, node: Node, value: Any, proxy: Any) -> None:
        self.values[node] = value
        self.tracer.track(value, proxy)

    def unknown(self, node: Node, proxy: Any) -> None:
        self.values[node], self.nodes[node] = UNKNOWN, proxy

    def proxy_of(self, node: Node) -> Any:
        """What stands for a node's value in the new graph."""
        if node in self.nodes:
            return self.nodes[node]
        return map_aggregate(self.values[node], self.tracer.proxy_of)

    def output(self, node: Node) -> None:
        results = map_aggregate(node.args[0], lambda a: self.proxy_of(a) if isinstance(a, Node) else a)
        self.tracer.graph.output(self.tracer.create_arg(results))


def _dropped(x: Any, ratio: Any = 0.5, training: Any = None, *, seed: int | None = None, count: int = 1, **older: Any
             ) -> tuple:
    """Dropout as ATen has it, in evaluation; `train()` makes it another."""
    if training is not None or count > 1 or not isinstance(ratio, (int, float)):
        raise _Decides
    return (aten.dropout(x, ratio, False),)
