"""Compiled graphs, kept between processes: a graph that was compiled before is neither traced, cut nor compiled again.

Enters: a graph of Dynamo's, its inputs, and a compiler that can describe what it makes (`AotConfig.keeper`). Leaves: an
`Entry`, which finds what an earlier process made of them, or keeps what this one makes. Its name is a digest of all
that the outcome depends on: the graph as text, types and layouts of the inputs and which of them share memory, the
thread's modes, process-wide settings, the compiler's own settings; below that (codegen/stored_graphs.py) processor and
sources. Refuses (gives None, and `RUSHLIGHT_SHOW=cache` says why): graphs that hold anything of the program's own, and
processes in which ops were registered over ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from .. import _C
from .._C import Tensor
from ..base import settings, show
from ..codegen import stored_graphs
from ..codegen.stored_graphs import NotKept
from ..dispatch import table
from ..dispatch.modes import state as modes
from ..dynamo.stored_values import described_value
from ..loops.digest import digest
from ..nn import Parameter
from ..op import levels
from . import graph_data
from .metadata import GraphMeta, InputInfo, OutputInfo, OutputKind

FORMAT = 2
# what happened to graphs in this process: "found", "missing", "kept", "not kept"
counts: Counter[str] = Counter()
frame_counts: Counter[str] = Counter()      # and to frames


def entry_for(gm: Any, inputs: Sequence[Any], config: Any, state: tuple) -> Entry | None:
    """Where what is made of a graph is kept; None where it cannot be. `state`: what else tracing depends on."""
    if config.keeper is None:
        return None
    keeper = config.keeper()
    try:
        text = repr((FORMAT, process_identity(keeper), state, gm.meta.get("static_inputs"), inputs_text(inputs),
                     graph_data.described(gm)))  # fmt: skip
    except NotKept as reason:
        return _told("not kept", str(reason))
    return Entry(digest(text.encode()), keeper)


def process_identity(keeper: Any) -> Any:
    """What of the process decides what is made of every graph."""
    own = keeper.identity()
    _refuse_registrations()
    return own, vars(settings._settings), _C.get_num_threads(), str(_C.get_default_dtype())


def frame_told(what: str, why: str) -> None:
    """The same as `_told`, of frames."""
    frame_counts[what] += 1
    if show.is_shown("cache"):
        show.show("cache", f"a frame is {what}", why)


def _told(what: str, why: str) -> None:
    counts[what] += 1
    if show.is_shown("cache"):
        show.show("cache", f"a graph is {what}", why)


def _refuse_registrations() -> None:
    """Rules of the program's own decide what our ops do, and nobody can name them."""
    name = next((name for name, _ in table.kernels if "::" not in name), None)
    if name is not None or table.fallbacks or table.python_rules:
        raise NotKept(f"the program registered rules of its own for {name or 'ops'}")
    if modes.dispatch_modes or modes.function_modes or levels.state.stack:
        raise NotKept("a mode or transform of the program's own sees the ops")


# --- names ------------------------------------------------------------------------------------------------------------


def inputs_text(inputs: Sequence[Any]) -> str:
    """What compiling asks of inputs."""
    memory: dict[int, int] = {}
    found: list[Any] = []
    for i, x in enumerate(inputs):
        if not isinstance(x, Tensor):
            found.append(described_value(x))
            continue
        if type(x) not in (Tensor, Parameter) or x._keys:
            raise NotKept(f"an input is a {type(x).__name__} with rules of its own")
        at = memory.setdefault(x.untyped_storage()._cdata, i)
        found.append((tuple(x.shape), x.stride(), x.storage_offset(), str(x.dtype), str(x.device), x.requires_grad,
                      x.is_leaf, at))  # fmt: skip
    return repr(found)


# --- entries ----------------------------------------------------------------------------------------------------------


class Entry:
    """The place of one graph: its forward (or inference) plan with what the wrappers know, and its backward plan."""

    def __init__(self, name: bytes, keeper: Any) -> None:
        self.name, self.keeper = name, keeper

    @property
    def backward_name(self) -> bytes:
        return digest(self.name + b"backward")

    def found(self) -> tuple[GraphMeta, tuple[tuple[str, int], ...], Callable] | None:
        """Metadata, what the backward needs and from where, and the forward; None where nobody made them yet."""
        data = stored_graphs.read(self.name)
        if data is None:
            return _told("missing", self.name.hex())
        try:
            result = restored_meta(data["meta"], self.keeper.restored_value), tuple(map(tuple, data["saved"]))
            forward = self.keeper.restored(data["plan"])
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            return _told("missing", f"the entry cannot be read: {type(error).__name__}: {error}")
        if forward is None:
            return _told("missing", "a kernel of the plan is not on disk")
        _told("found", self.name.hex())
        return *result, forward

    def found_backward(self) -> Callable | None:
        """The backward, where some process made it."""
        data = stored_graphs.read(self.backward_name)
        try:
            return None if data is None else self.keeper.restored(data["plan"])
        except (LookupError, TypeError, ValueError, AttributeError):
            return None

    def keep(self, meta: GraphMeta, saved: Sequence[tuple[str, int]], forward: Callable) -> None:
        self._write(self.name, lambda: {
            "meta": described_meta(meta, self.keeper.described_value), "saved": list(saved),
            "plan": self.keeper.described(forward),
        })  # fmt: skip

    def keep_backward(self, backward: Callable) -> None:
        self._write(self.backward_name, lambda: {"plan": self.keeper.described(backward)})

    def _write(self, name: bytes, describe: Callable[[], Any]) -> None:
        try:
            problem = stored_graphs.write(name, describe())
        except NotKept as reason:
            problem = str(reason)
        if problem is None:
            _told("kept", name.hex())
        else:
            _told("not kept", problem)


def described_meta(meta: GraphMeta, describe: Callable[[Any], Any]) -> Any:
    """The wrappers' records as JSON holds them."""
    inputs = [(i.requires_grad, i.is_leaf, i.mutates_data, i.layout_after) for i in meta.inputs]
    outputs = [(o.kind.value, o.requires_grad, o.source, o.layout, o.shown_at, o.value) for o in meta.outputs]
    rest = (meta.mutated, meta.num_results, meta.differentiable, meta.is_joint, meta.num_lifted, meta.draws)
    return describe((inputs, outputs, rest))


def restored_meta(data: Any, restore: Callable[[Any], Any]) -> GraphMeta:
    inputs, outputs, rest = restore(data)
    return GraphMeta(tuple([InputInfo(*i) for i in inputs]),
                     tuple([OutputInfo(OutputKind(kind), *o) for kind, *o in outputs]), *rest)  # fmt: skip
