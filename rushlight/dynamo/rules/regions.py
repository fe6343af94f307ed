"""Functions inside of a graph: what `vmap`, `grad`, `cond` and their like call becomes a graph of its own.

Enters: a transform (or a control-flow op), the program's function, and its arguments. The transform runs once on fakes;
the function that it calls is interpreted, its ops recorded in a graph of its own, in which tensors from around it are
further inputs. Leaves: one node that runs the transform with that graph in the place of the function (a graph for each
call, where the transform makes several). What `vjp` and `linearize` return is a value of the graph too, and calls of it
are nodes. Refuses (breaks the graph): transforms that do not call their function, tensors that leave by another way
than as results.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any

from ..._C import Tensor
from ...dispatch.modes import below, state as mode_state
from ...fx._lazy_graph_module import _LazyGraphModule
from ...fx.node import Node
from ...utils import _pytree as pytree
from ..record.breaks import GraphBreak, Raised
from ..record.machine import Machine
from ..record.recorder import Recorder, as_target
from ..values.operators import unwatched


class RegionRecorder(Recorder):
    """The graph of a function inside of another graph."""

    def __init__(self, parent: Recorder) -> None:
        super().__init__(parent.env)
        self.parent, self.fake_mode, self.interpose = parent, parent.fake_mode, parent.interpose
        self.lifted: dict[int, Any] = {}         # values from around, by id, in the order of their placeholders
        self.inner: list[Node] = []

    def add_argument(self, t: Tensor) -> None:
        """One of the function's own arguments."""
        node = self.graph.placeholder(f"inner_{len(self.inner)}")
        self.inner.append(node)
        self.track(t, node)

    def faked(self, a: Any) -> Any:
        if not isinstance(a, Tensor):
            return super().faked(a)
        is_inner = a._wrapped is not None or id(a) in self.nodes
        return a if is_inner else self.parent.faked(a)

    def argument(self, a: Any) -> Any:
        if isinstance(a, (Tensor, Derivative)) and id(a) not in self.nodes:
            self.parent.argument(a)      # refuses tensors of unknown origin
            node = self.graph.placeholder(f"lifted_{len(self.lifted)}")
            self.lifted[id(a)] = a
            self.track(a, node)
        return super().argument(a)

    def bound(self, result: Any, node: Node) -> Any:
        if isinstance(result, Tensor) and id(result) not in self.nodes:
            self.track(result, node)
            return result
        return super().bound(result, node)


class TracedCall:
    """One call of a function of the program by a transform, kept as a graph."""

    def __init__(self, region: RegionRecorder, result: Any) -> None:
        self.region, self.result = region, result
        self.places: list[Any] = []      # of the result's leaves: an int for a tensor of the graph, or the value
        leaves, self.spec = pytree.tree_flatten(result)
        outputs: list[Node] = []
        for leaf in leaves:
            if isinstance(leaf, Tensor):
                self.places.append(len(outputs))
                outputs.append(region.argument(leaf))
            else:
                self.places.append((leaf,))
        region.graph.output(tuple(outputs))
        first = next(iter(region.graph.nodes))
        placeholders = [*region.inner, *(region.nodes[key] for key in region.lifted)]
        for node in reversed(placeholders):
            if node is not first:
                first.prepend(node)
                first = node

    @functools.cached_property
    def module(self) -> Any:
        return _LazyGraphModule(self.region.root, self.region.graph, "region")

    def run(self, args: tuple, kwargs: dict[str, Any], lifted: list[Any]) -> Any:
        """The call again, on other tensors."""
        inner = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        results = self.module.forward(*inner, *lifted)
        return pytree.tree_unflatten([results[p] if isinstance(p, int) else p[0] for p in self.places], self.spec)


class Traced:
    """A function of the program, to be called by a transform: interpreted, and each call kept as a graph."""

    def __init__(self, machine: Machine, function: Any) -> None:
        self.machine, self.function = machine, function
        self.calls: list[TracedCall] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        machine, outer = self.machine, self.machine.recorder
        machine.recorder = region = RegionRecorder(outer)
        try:
            with unwatched(), region, region.env.without_elements():
                for leaf in pytree.tree_leaves((args, kwargs)):
                    if isinstance(leaf, Tensor):
                        region.add_argument(leaf)
                result = machine.call(self.function, args, kwargs)
                self.calls.append(TracedCall(region, result))
            return result
        except Raised as raised:
            raise raised.exception from raised.exception.__cause__
        finally:
            machine.recorder = outer

    def lifted(self) -> list[Any]:
        """What the calls need from around, in their order."""
        return [value for call in self.calls for value in call.region.lifted.values()]

    def runner(self) -> Callable[[list[Any]], Callable]:
        """A function from the lifted values to what the transform calls at run time, as often as it did before."""
        calls = list(self.calls)

        def with_lifted(lifted: list[Any]) -> Callable:
            rest, start = [], 0
            for call in calls:
                count = len(call.region.lifted)
                rest.append((call, lifted[start:start + count]))
                start += count
            following = iter(rest)

            def run(*args: Any, **kwargs: Any) -> Any:
                call, values = next(following)
                return call.run(args, kwargs, values)

            return run

        return with_lifted


class Derivative:
    """What `vjp` or `linearize` returned besides values: a function that belongs to its run, a value of the graph."""

    def __init__(self, function: Callable, name: str) -> None:
        self.function, self.name = function, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def call(self, machine: Machine, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The call, as one node."""
        def run(functions: list[Any], given: tuple, named: dict[str, Any]) -> Any:
            return given[0](*given[1:], **named)

        return call_region(machine, self.name, [], run, (self, *args), kwargs)


class Transformed:
    """`transform(function, **options)`, not called yet."""

    def __init__(self, transform: Callable, function: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        self.transform, self.function, self.args, self.kwargs = transform, function, args, kwargs

    def call(self, machine: Machine, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The call, as one node."""
        options = inspect.signature(self.transform).bind(self.function, *self.args, **self.kwargs).arguments
        if options.get("chunk_size") is not None and options.get("randomness") == "same":
            raise GraphBreak("not modelled", f"chunks of {self.transform.__name__} set the random generator back")

        def run(functions: list[Any], given: tuple, named: dict[str, Any]) -> Any:
            return self.transform(functions[0], *self.args, **self.kwargs)(*given, **named)

        return call_region(machine, self.transform.__name__, [self.function], run, args, kwargs)


def call_region(machine: Machine, name: str, functions: list[Any], run: Callable[[list[Any], tuple, dict], Any],
                args: tuple, kwargs: dict[str, Any]) -> Any:
    """Record `run(functions, args, kwargs)` as one node, the functions as graphs."""
    recorder = machine.recorder
    traced = [Traced(machine, f) for f in functions]

    def native() -> Any:
        with below(mode_state.function_modes):
            return run(traced, args, kwargs)

    result = machine.native(native, (), is_watched=False)
    if not all(one.calls for one in traced):
        raise GraphBreak("not modelled", f"{name} does not call its function")
    given, spec = pytree.tree_flatten((args, kwargs))
    at = [i for i, leaf in enumerate(given) if isinstance(leaf, _VALUES)]
    constants = [None if isinstance(leaf, _VALUES) else leaf for leaf in given]
    lifted = [one.lifted() for one in traced]
    runners = [one.runner() for one in traced]
    counts = [len(one) for one in lifted]

    def region(*values: Any) -> tuple:
        filled = list(constants)
        for i, t in zip(at, values, strict=False):
            filled[i] = t
        rest, start = [], len(at)
        for make, count in zip(runners, counts, strict=True):
            rest.append(make(list(values[start:start + count])))
            start += count
        inner_args, inner_kwargs = pytree.tree_unflatten(filled, spec)
        return tuple(_values_in(run(rest, inner_args, inner_kwargs)))

    inputs = [given[i] for i in at] + [t for one in lifted for t in one]
    node = recorder.graph.call_function(as_target(name, region), tuple(recorder.argument(t) for t in inputs), {})
    recorder.calls += 1
    for i, t in enumerate(_values_in(result)):
        if id(t) not in recorder.nodes:
            recorder.track(t, recorder.graph.call_function(operator.getitem, (node, i), {}))
    return result


_VALUES = (Tensor, Derivative)      # what nodes stand for


def _values_in(result: Any) -> list[Any]:
    return [t for t in pytree.tree_leaves(result) if isinstance(t, _VALUES)]


def with_derivative(transform: Callable) -> Callable[[list[Any], tuple, dict[str, Any]], Any]:
    """A run of `vjp` or `linearize` whose second result is a `Derivative`."""
    def run(functions: list[Any], given: tuple, named: dict[str, Any]) -> Any:
        output, function, *aux = transform(functions[0], *given, **named)
        return output, Derivative(function, f"{transform.__name__}_function"), *aux

    return run
