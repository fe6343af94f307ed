"""Compiled graphs, kept between processes: a graph that was compiled before is neither traced, cut nor compiled again.

Enters: a graph of Dynamo's, its inputs, and a compiler that can describe what it makes (`AotConfig.keeper`). Leaves: an
`Entry`, which finds what an earlier process made of them, or keeps what this one makes. Its name is a digest of all
that the outcome depends on: the graph as text, types and layouts of the inputs and which of them share memory, the
thread's modes, process-wide settings, the compiler's own settings; below that (codegen/stored/graphs.py) processor and
sources. Refuses (gives None, and `RUSHLIGHT_SHOW=cache` says why): graphs that hold anything of the program's own, and
processes in which ops were registered over ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ... import _C
from ..._C import Tensor
from ...base import settings, show
from ...base.codec import CONSTANTS
from ...base.digest import digest
from ...base.disk_cache import NotKept
from ...codegen.stored import graphs as stored_graphs
from ...devices import told_apart
from ...dispatch import table
from ...dispatch.modes import state as modes
from ...loops.record import Record
from ...nn import Parameter
from ...rules import levels
from ..metadata import GraphMeta, InputInfo, OutputInfo, OutputKind
from . import data as graph_data

FORMAT = 6
# what happened to graphs in this process: "found", "missing", "kept", "not kept"
counts: Counter[str] = Counter()
frame_counts: Counter[str] = Counter()      # and to frames


def entry_for(gm: Any, inputs: Sequence[Any], dims: Sequence[tuple[int, ...]], config: Any, state: tuple
              ) -> Entry | None:
    """Where what is made of a graph is kept; None where it cannot be. `dims`: of each input, those that are symbols;
    `state`: what else tracing depends on."""
    if config.keeper is None:
        return None
    keeper = config.keeper()
    try:
        text = repr((FORMAT, process_identity(keeper), state, gm.meta.get("static_inputs"), inputs_text(inputs, dims),
                     graph_data.described(gm)))
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
    if name is not None or table.fallbacks:
        raise NotKept(f"the program registered rules of its own for {name or 'ops'}")
    if modes.dispatch_modes or modes.function_modes or levels.state.stack:
        raise NotKept("a mode or transform of the program's own sees the ops")


# --- names ------------------------------------------------------------------------------------------------------------


def inputs_text(inputs: Sequence[Any], dims: Sequence[tuple[int, ...]]) -> str:
    """What compiling asks of inputs."""
    memory: dict[int, int] = {}
    found: list[Any] = []
    for i, x in enumerate(inputs):
        if not isinstance(x, Tensor):
            found.append("a symbol" if dims[i] else CONSTANTS.described(x))
            continue
        if type(x) not in (Tensor, Parameter) or x._keys:
            raise NotKept(f"an input is a {type(x).__name__} with rules of its own")
        at = memory.setdefault(x.untyped_storage()._cdata, i)
        sizes = tuple(["a symbol" if d in dims[i] else n for d, n in enumerate(x.shape)]) if dims[i] else tuple(x.shape)
        strides = x.is_contiguous() or x.stride() if dims[i] else x.stride()
        found.append((sizes, strides, x.storage_offset(), str(x.dtype), told_apart(x.device), x.requires_grad,
                      x.is_leaf, at))
    return repr(found)


# --- entries ----------------------------------------------------------------------------------------------------------


class Found(Record):
    """What another process made of a graph."""

    meta: GraphMeta
    saved: tuple[tuple[str, int], ...]      # what the backward needs, and from where
    forward: Callable
    env: Any = None                         # what was assumed of symbols
    formulas: dict[int, Any] = {}           # results that are numbers


def _described_numbers(env: Any, formulas: Mapping[int, Any]) -> Any:
    if env is None:
        return None
    from ...symbols.stored import described, described_env  # noqa: PLC0415 - most graphs have no symbols

    return [described_env(env), [[k, described(f)] for k, f in formulas.items()]]


def _restored_numbers(data: Any) -> tuple[Any, ...]:
    if data is None:
        return ()
    from ...symbols.stored import restored, restored_env  # noqa: PLC0415 - as above

    env, formulas = data
    return restored_env(env), {int(k): restored(f) for k, f in formulas}


class Entry:
    """The place of one graph: its forward (or inference) plan with what the wrappers know, and its backward plan."""

    def __init__(self, name: bytes, keeper: Any) -> None:
        self.name, self.keeper = name, keeper

    @property
    def backward_name(self) -> bytes:
        return digest(self.name + b"backward")

    def found(self, again: Callable[[bool], Callable], sized: Sequence[Any]) -> Found | None:
        """What another process made; None where nobody made it yet, or not for these sizes. `again` makes the forward
        (or the backward) of this graph anew; `sized`: the inputs that have symbols."""
        data = stored_graphs.read(self.name)
        if data is None:
            return _told("missing", self.name.hex())
        try:
            meta = restored_meta(data["meta"], self.keeper.restored_value)
            numbers = _restored_numbers(data.get("sizes"))
            if numbers and not numbers[0].accepts(*sized):
                return _told("missing", "a graph was kept for other sizes")
            forward = self.keeper.restored(data["plan"], lambda: again(True))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            return _told("missing", f"the entry cannot be read: {type(error).__name__}: {error}")
        if forward is None:
            return _told("missing", "a kernel of the plan is not on disk")
        _told("found", self.name.hex())
        return Found(meta, tuple(map(tuple, data["saved"])), forward, *numbers)

    def found_backward(self, again: Callable[[bool], Callable]) -> Callable | None:
        """The backward, where some process made it."""
        data = stored_graphs.read(self.backward_name)
        try:
            return None if data is None else self.keeper.restored(data["plan"], lambda: again(False))
        except (LookupError, TypeError, ValueError, AttributeError):
            return None

    def keep(self, meta: GraphMeta, saved: Sequence[tuple[str, int]], forward: Callable, env: Any = None,
             formulas: Mapping[int, Any] = MappingProxyType({})) -> None:
        """`env`: what was assumed of symbols; `formulas`: results that are numbers."""
        self.keeper.when_ready(forward, lambda: self._write(self.name, lambda: {
            "meta": described_meta(meta, self.keeper.described_value), "saved": list(saved),
            "plan": self.keeper.described(forward), "sizes": _described_numbers(env, formulas),
        }))

    def keep_backward(self, backward: Callable) -> None:
        self.keeper.when_ready(backward, lambda: self._write(self.backward_name, lambda: {
            "plan": self.keeper.described(backward)}))

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
    outputs = [(o.kind.value, o.requires_grad, o.source, o.layout, o.shown_at, o.value, o.flips) for o in meta.outputs]
    rest = (meta.mutated, meta.num_results, meta.differentiable, meta.is_joint, meta.num_lifted, meta.draws)
    return describe((inputs, outputs, rest))


def restored_meta(data: Any, restore: Callable[[Any], Any]) -> GraphMeta:
    inputs, outputs, rest = restore(data)
    return GraphMeta(tuple([InputInfo(*i) for i in inputs]),
                     tuple([OutputInfo(OutputKind(kind), *o) for kind, *o in outputs]), *rest)
