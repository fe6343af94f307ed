"""What a branch on elements decides in the call at hand: the graph so far is run on its inputs, to see.

Enters: a truth of the captured program, and the graph that computes it. Leaves: True or False, as this call will have
it; the next may have another, so whoever goes by it has the graph check it (checks.py). None where that cannot be seen.
Nothing outside changes: inputs that the graph writes to are copied, generators and modes put back. Refuses: calls of
the program's own functions, what other processes would see, tensors of other classes, and many or large graphs.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ..._C import Tensor
from ...fx.node import Node, map_arg
from ...nn import Parameter
from ..record.machine import Machine
from ..record.recorder import without_modes
from ..record.thread_modes import modes_now, set_modes
from .checks import is_sent
from .natives import is_ours

_MOST_NODES = 4000
_PURE = frozenset(("_operator", "math", "builtins"))


class Trial:
    """One run along a capture, as far as somebody asked."""

    def __init__(self, machine: Machine, modes: tuple) -> None:
        self.machine, self.modes, self.first_modes = machine, modes, modes
        self.values: dict[Node, Any] = {}
        self.copied: set[int] = set()            # storages of the fakes that stand for copied inputs
        self.generators: dict[Any, Any] = {}     # states, as this run left them
        self.is_over = False

    def truth(self, value: Any) -> bool | None:
        """What `bool(value)` is in this call."""
        recorder = self.machine.recorder
        if self.is_over or len(recorder.graph.nodes) > _MOST_NODES:
            return None
        try:
            self.run()
            if isinstance(value, Tensor):
                with without_modes():
                    return bool(self.values[recorder.nodes[id(value)]])
            return bool(value.expression.evaluate({name: self.number(name) for name in value.expression.names}))
        except Exception:      # noqa: BLE001 - of ops, or of what is not modelled here: nothing is known
            self.is_over = True
            return None

    def number(self, name: str) -> Any:
        """The number behind a symbol."""
        found = self.machine.recorder.sizes.seen.get(name)
        if found is None:
            return self.machine.recorder.env.hints[name]
        proxy, dim = found
        return self.values[proxy.node] if dim is None else self.values[proxy.node].shape[dim]

    def run(self) -> None:
        """Compute what was recorded since the last time."""
        recorder, outside = self.machine.recorder, self.machine.outside
        written = recorder.memory_written()
        placeholders = list(recorder.graph.find_nodes(op="placeholder"))
        if any(node in self.values and Tensor.untyped_storage(fake)._cdata in written - self.copied
               for node in placeholders if isinstance(fake := node.meta["example_value"], Tensor)):
            self.values, self.generators, self.modes = {}, {}, self.first_modes      # it is written to after all
        self.copied |= written
        inputs = dict(zip(placeholders, [real for _, real in outside.inputs], strict=True))
        now, states = modes_now(), {g: g.get_state() for g in self.all_generators(inputs.values())}
        try:
            with without_modes():
                set_modes(self.modes)
                for generator, state in self.generators.items():
                    generator.set_state(state)
                for node in recorder.graph.nodes:
                    if node not in self.values:
                        self.values[node] = self.given(node, inputs[node]) if node.op == "placeholder" \
                            else self.called(node)
                self.modes, self.generators = modes_now(), {g: g.get_state() for g in states}
        finally:
            set_modes(now)
            for generator, state in states.items():
                generator.set_state(state)

    @staticmethod
    def all_generators(inputs: Any) -> list[Any]:
        devices = {real.device for real in inputs if isinstance(real, Tensor) and real.device.type != "cpu"}
        return [_C.default_generator, *map(_C.device_generator, devices)]

    def given(self, node: Node, real: Any) -> Any:
        """An input, without its history."""
        if not isinstance(real, Tensor):
            return real
        if type(real) is not Tensor and type(real) is not Parameter:
            raise TypeError(f"{type(real).__name__} is a tensor with rules of its own")
        fake = node.meta["example_value"]
        is_written = Tensor.untyped_storage(fake)._cdata in self.copied
        return real.detach().clone() if is_written else real.detach()

    def called(self, node: Node) -> Any:
        args, kwargs = map_arg((node.args, node.kwargs), self.values.__getitem__)
        if node.op == "call_method":
            return getattr(args[0], node.target)(*args[1:], **kwargs)
        if node.op != "call_function" or is_sent(node.target) or not _is_known(node.target):
            raise TypeError(f"{node.format_node()} is not known to have no effects")
        return node.target(*args, **kwargs)


def _is_known(target: Any) -> bool:
    """Whether a function of a graph is one of ours, and not of the program."""
    module = getattr(target, "__module__", None) or getattr(getattr(target, "__objclass__", None), "__module__", "")
    return module in _PURE or is_ours(module)
