"""An op on distributed tensors: how its tensors must lie, then the op on this process's parts.

Enters: an overload and arguments some of which are DTensors. Leaves: DTensors. What may be cut is said by `_axes.py`;
among the ways that leaves, along each mesh dimension the one is taken that has the least to send. Refuses: ops of which
nothing is known, plain tensors among distributed ones, in-place ops whose target would have to be moved.

A decision is kept: it depends on the op, the layouts and the arguments that are not tensors, so a call seen before
costs its collectives and the op itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ... import _C
from ..._C import Tensor
from ...base.shape import Size
from ...dispatch.modes import DisableTorchFunction, disable_dispatch_modes
from ...op import Composite
from ...op.registry import is_body
from ._axes import INSERTIONS, Axes, NoRule, axes_of
from ._dtensor_spec import DTensorSpec, TensorMeta, local_shape
from ._redistribute import redistribute_local_tensor
from .placement_types import Partial, Placement, Replicate, Shard, _StridedShard, is_cut

META = _C.device("meta")
BYTES_PER_MICROSECOND = 87_700.0
SIZES = ("size", "sizes", "shape")


class _State:
    implicit_replication = False


state = _State()
# op -> what runs it in place of the op on parts: function(bound arguments, distributed tensors), or NotImplemented
special: dict[str, Callable[[tuple, list[Any]], Any]] = {}
registered: dict[str, Callable[..., Sequence[tuple]]] = {}      # by op: what programs say of how it may be spread


class Way(NamedTuple):
    """How tensors given and made lie along one mesh dimension."""

    inputs: tuple[Placement, ...]
    outputs: tuple[Placement, ...]


class Decision(NamedTuple):
    """A call as it is run: layouts of the tensors given, of the results, and arguments that mean parts now."""

    inputs: tuple[DTensorSpec, ...]
    outputs: tuple[DTensorSpec, ...]
    replaced: dict[int, Any]


def call(overload: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The op on distributed tensors."""
    params = overload.definition.spec.params
    return call_bound(
        overload, tuple(args[i] if i < len(args) else kwargs.get(p.name, p.default) for i, p in enumerate(params))
    )


def call_bound(overload: Any, bound: tuple) -> Any:
    """The same, with an argument for each parameter of the op."""
    definition = overload.definition
    is_own_rule = definition.batch == "random" or definition.spec.name in INSERTIONS
    is_own_rule = is_own_rule or overload.name in registered
    if not is_own_rule and (isinstance(definition, Composite) or is_body(overload)):
        return definition.run(*bound)     # one with a derivative of its own, or a loop over lists
    tensors = tensors_of(bound)
    given = distributed(overload.name, tensors)
    if overload.name in special:
        answer = special[overload.name](bound, given)
        if answer is not NotImplemented:
            return answer
    mesh = given[0]._spec.mesh
    # a derivative rule writes to what it made: that may come to lie otherwise
    in_place = overload.inplace or definition.is_inplace
    if in_place and getattr(bound[0], "_is_copy", False):
        raise RuntimeError(
            f"{overload.name}: the tensor is a view along a dimension that is cut, so that elements were moved to be "
            "looked at, and writing to it would not change what it is a view of. Redistribute that first."
        )
    is_own = in_place and _C.in_rule()
    decision = decide(overload, bound, given, in_place and not is_own)
    locals_ = iter([moved_local(t, spec) for t, spec in zip(given, decision.inputs, strict=True)])
    parts = [mapped(a, lambda _: next(locals_)) for a in bound]
    for i, value in decision.replaced.items():
        parts[i] = value
    was_moved = overload.is_view and parts[0] is not given[0]._local_tensor
    if was_moved or (overload.is_view and _C.in_rule()):     # what was moved lies in an order of its own
        parts[0] = parts[0].contiguous()
    if mesh.get_coordinate() is None:
        result = [t._local_tensor.new_empty((0,)) for t in given[:1]] * len(decision.outputs)
        result = result[0] if len(result) == 1 else tuple(result)
    else:
        result = overload.call(*parts)
        if overload.name == "squeeze":     # a part may be of length one where the whole is not
            spec = decision.outputs[0]
            result = result.view(local_shape(spec.shape, mesh, spec.placements))
    if is_own:
        bound[0]._local_tensor, bound[0]._spec = parts[0], decision.inputs[0]
    if in_place:
        return bound[0]
    whole = wrapped(type(given[0]), result, decision.outputs)
    if was_moved:
        for t in tensors_of((whole,)):
            t._is_copy = True
    return whole


def tensors_of(args: Sequence[Any]) -> list[Tensor]:
    """Every tensor among the arguments, in order."""
    found: list[Tensor] = []
    for a in args:
        if isinstance(a, Tensor):
            found.append(a)
        elif isinstance(a, (list, tuple)):
            found += tensors_of(a)
    return found


def mapped(value: Any, change: Any) -> Any:
    """Every tensor in a value, changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, (list, tuple)) and any(isinstance(x, (Tensor, list, tuple)) for x in value):
        return type(value)(mapped(x, change) for x in value) if type(value) in (list, tuple) else value
    return value


def distributed(name: str, tensors: list[Tensor]) -> list[Any]:
    """The tensors, with numbers (and what derivative rules make) as copies on every process."""
    first: Any = next(t for t in tensors if hasattr(t, "_local_tensor"))
    spec = first._spec
    found = []
    for t in tensors:
        if hasattr(t, "_local_tensor"):
            if t._spec.mesh is not spec.mesh and t._spec.mesh != spec.mesh:
                raise RuntimeError(
                    f"{name}: tensors lie on different meshes, {spec.mesh} and {t._spec.mesh}. Redistribute them first."
                )
            found.append(t)
        elif t.numel() == 1 or not any(t.stride()) or state.implicit_replication or _C.in_rule():
            meta = TensorMeta(Size(t.shape), tuple(t.stride()), t.dtype)
            copies = DTensorSpec(spec.mesh, (Replicate(),) * spec.mesh.ndim, meta)
            found.append(type(first)(t.detach(), copies, requires_grad=False))
        else:
            raise RuntimeError(
                f"{name}: got both a plain tensor, of shape {tuple(t.shape)}, and DTensors. Make it one with "
                "distribute_tensor or DTensor.from_local, or let plain tensors count as copies on every process with "
                "distributed.tensor.experimental.implicit_replication()."
            )
    return found


def moved_local(tensor: Any, spec: DTensorSpec) -> Any:
    """This process's part in another layout."""
    if tensor._spec.placements == spec.placements:
        return tensor._local_tensor
    return redistribute_local_tensor(tensor._local_tensor, tensor._spec, spec)


def wrapped(cls: type, result: Any, specs: Sequence[DTensorSpec]) -> Any:
    """Parts as distributed tensors."""
    rest = iter(specs)

    def one(value: Any) -> Any:
        if isinstance(value, Tensor):
            return cls(value, next(rest), requires_grad=False)
        if isinstance(value, (list, tuple)):
            results = [one(x) for x in value]
            return value._make(results) if hasattr(value, "_make") else type(value)(results)
        return value

    return one(result)


# --- decisions --------------------------------------------------------------------------------------------------------


def decide(overload: Any, bound: tuple, given: list[Any], stays: bool) -> Decision:
    """How a call is run."""
    known = given[0]._spec.mesh._decisions
    lie = tuple([t._spec.number for t in given])
    key = (overload, lie, tuple([_key(a) for a in bound]), stays, registered.get(overload.name))
    try:
        found = known.get(key)
    except TypeError:      # an argument that cannot be looked up
        key = None
        found = None
    if found is None:
        with disable_dispatch_modes(), DisableTorchFunction():      # what is asked of rules is no part of the program
            found = _decide(overload, bound, given, stays)
        if key is not None:
            known[key] = found
    return found


def _key(value: Any) -> Any:
    if isinstance(value, Tensor):
        return Tensor
    if isinstance(value, (list, tuple)):
        return tuple(_key(x) for x in value)
    return (type(value), value) if isinstance(value, (bool, int, float, complex)) else value


def _decide(overload: Any, bound: tuple, given: list[Any], stays: bool) -> Decision:
    stand_ins = iter([_C.empty(tuple(t.shape), tuple(t.stride()), t.dtype, META) for t in given])
    args = tuple(mapped(a, lambda _: next(stand_ins)) for a in bound)
    args = tuple(META if isinstance(a, _C.device) else a for a in args)
    shapes = tensors_of((overload.call(*args),))
    mesh = given[0]._spec.mesh
    whole = all(p.is_replicate() for t in given for p in t._spec.placements)
    rule = registered.get(overload.name)
    told = None if rule is None else _told_ways(overload, rule, bound, given)
    if told is not None or whole or not shapes:
        axes = Axes([(None,) * t.ndim for t in given], [(None,) * r.ndim for r in shapes])
    else:
        try:
            axes = axes_of(overload, args, shapes)
        except NoRule:
            raise no_rule(overload.name, given) from None
    inputs: list[list[Placement]] = [[] for _ in given]
    outputs: list[list[Placement]] = [[] for _ in shapes]
    for i in range(mesh.ndim):
        way = best_way(overload.name, axes, given, shapes, inputs, i, stays, told)
        for chosen, placement in zip(inputs, way.inputs, strict=True):
            chosen.append(placement)
        for chosen, placement in zip(outputs, way.outputs, strict=True):
            chosen.append(placement)
    results = [
        DTensorSpec(mesh, tuple(placements), TensorMeta(Size(r.shape), tuple(r.stride()), r.dtype))
        for r, placements in zip(shapes, outputs, strict=True)
    ]
    wanted = tuple(t._spec.but(placements=tuple(p)) for t, p in zip(given, inputs, strict=True))
    return Decision(wanted, tuple(results), _replaced(overload, bound, results))


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a tensor whose elements lie one behind the other."""
    return tuple(_C.empty(tuple(shape), None, _C.float32, META).stride())


def no_rule(name: str, given: list[Any]) -> NotImplementedError:
    """What to do about an op of which nothing is known."""
    lie = ", ".join(str(t._spec) for t in given)
    return NotImplementedError(
        f"{name}: there is no sharding rule for it, and its tensors lie as {lie}. Redistribute them to Replicate() "
        "first, or run it on the parts with distributed.tensor.experimental.local_map. (Plain tensors can count as "
        "copies on every process: implicit_replication().)"
    )


def _replaced(overload: Any, bound: tuple, results: list[DTensorSpec]) -> dict[int, Any]:
    """Arguments that say how large the result is, as they are for this process's part."""
    if not results:
        return {}
    part = local_shape(results[0].shape, results[0].mesh, results[0].placements)
    if part == tuple(results[0].shape):
        return {}
    found = {}
    for i, (param, value) in enumerate(zip(overload.definition.spec.params, bound, strict=True)):
        if param.name in SIZES and isinstance(value, (list, tuple)) and len(value) == len(part):
            found[i] = part
    return found


def _told_ways(overload: Any, rule: Callable[..., Sequence[tuple]], bound: tuple, given: list[Any]) -> list[Way]:
    """What a program says of how an op may be spread."""
    specs = iter([t._spec for t in given])
    args = [mapped(a, lambda _: next(specs)) for a in bound]
    params = overload.definition.spec.params
    positional = [a for a, p in zip(args, params, strict=True) if not p.keyword_only]
    named = {p.name: a for a, p in zip(args, params, strict=True) if p.keyword_only}
    count = max(len(overload.definition.spec.returns), 1)
    found = []
    for outputs, inputs in rule(*positional, **named):
        inputs = tuple(p for p in inputs if p is not None)
        if len(inputs) != len(given) or len(outputs) != count:
            raise ValueError(
                f"register_sharding: {overload.name} has {count} results and {len(given)} tensors among its arguments, "
                f"and its rule names placements of {len(outputs)} and {len(inputs)}"
            )
        found.append(Way(inputs, tuple(outputs)))
    if not found:
        raise ValueError(f"register_sharding: the rule of {overload.name} gives no way to spread it")
    return found


def best_way(
    name: str, axes: Axes, given: list[Any], results: list[Any], chosen: list[list[Placement]], i: int, stays: bool,
    told: list[Way] | None = None,
) -> Way:
    """The way that sends least along mesh dimension i; of equal ones the first. `told`: all that there are."""
    best, least = None, float("inf")
    for way in ways(axes, given, results, i) if told is None else told:
        if stays and (way.inputs[0] != given[0]._spec.placements[i] or way.outputs[0] != way.inputs[0]):
            continue
        if not _fits(way, axes, given, chosen, i):
            continue
        cost = sum(_cost(t, i, placement) for t, placement in zip(given, way.inputs, strict=True))
        if cost < least:
            best, least = way, cost
    if best is None:
        now = given[0]._spec.placements
        raise RuntimeError(
            f"{name}: cannot be done in place on a tensor that lies as {now}: it would have to be moved. Use the form "
            "that gives a new tensor, or redistribute it first."
        )
    return best


def ways(axes: Axes, given: list[Any], results: list[Any], i: int) -> Iterator[Way]:
    """Everything that is possible along one mesh dimension."""
    current = [t._spec.placements[i] for t in given]
    outputs = axes.outputs or [(None,) * r.ndim for r in results]
    labels = dict.fromkeys(label for row in axes.inputs for label in row if label is not None)
    if axes.chooses:
        yield Way((Replicate(),) * len(given), (Replicate(),) * len(results))
    for label in labels if axes.chooses else _cut_now(axes, current):
        yield from _cut_way(axes, outputs, label, current)
    for group in axes.linear:
        kinds = {current[k] for k in group if current[k].is_partial()}
        for kind in kinds:
            if type(kind) is Partial and kind.reduce_op in ("sum", "avg"):
                terms = tuple(kind if k in group else Replicate() for k in range(len(given)))
                yield Way(terms, (kind,) * len(results))
    if axes.alike and current[0] == Partial(axes.alike):
        yield Way((current[0], *(Replicate(),) * (len(given) - 1)), (current[0],) * len(results))
    yield Way((Replicate(),) * len(given), (Replicate(),) * len(results))


def _cut_now(axes: Axes, current: list[Placement]) -> list[Any]:
    """Labels that some tensor is cut at."""
    found = [
        row[placement.dim]
        for row, placement in zip(axes.inputs, current, strict=True)
        if is_cut(placement) and placement.dim < len(row) and row[placement.dim] is not None
    ]
    return list(dict.fromkeys(found))


def _cut_way(axes: Axes, outputs: list[tuple], label: Any, current: list[Placement]) -> Iterator[Way]:
    """One label cut along one mesh dimension, as those of the tensors are that are cut there."""
    kinds: dict[Any, Any] = {}
    for row, placement in zip(axes.inputs, current, strict=True):
        if is_cut(placement) and placement.dim < len(row) and row[placement.dim] == label:
            kinds.setdefault(placement.at(0), placement.at)
    for at in kinds.values() or (Shard,):
        inputs = []
        fold = axes.folds.get(label)
        for k, row in enumerate(axes.inputs):
            if label in row:
                inputs.append(at(row.index(label)))
            else:
                inputs.append(fold if k in axes.added and fold is not None else Replicate())
        results: list[Placement] = []
        for row in outputs:
            if label in row:
                results.append(at(row.index(label)))
            elif fold is not None:
                results.append(fold)
            else:
                break
        else:
            yield Way(tuple(inputs), tuple(results))


def _fits(way: Way, axes: Axes, given: list[Any], chosen: list[list[Placement]], i: int) -> bool:
    """Whether parts are what the op takes for parts: where dimensions are merged or split, whole pieces."""
    if not axes.needs and not axes.even:
        return True
    for k, placement in enumerate(way.inputs):
        if not is_cut(placement):
            continue
        label = axes.inputs[k][placement.dim]
        count = given[k]._spec.mesh.size(i)
        for before, earlier in enumerate(chosen[k]):
            if is_cut(earlier) and earlier.dim == placement.dim:
                count *= given[k]._spec.mesh.size(before)
        if label in axes.needs and (axes.needs[label] % count or isinstance(placement, _StridedShard)):
            return False
        if label in axes.even and given[k].shape[placement.dim] % count:
            return False
    return True


def _cost(tensor: Any, i: int, target: Placement) -> float:
    """Microseconds to move it, about: a collective takes its time whatever it sends, then bytes count."""
    source = tensor._spec.placements[i]
    if source == target:
        return 0.0
    if source.is_replicate():
        return 0.0
    # of a part, if all were as long: everyone must come to the same decision
    size, count = tensor.numel() * tensor.itemsize / tensor._spec.num_shards, tensor._spec.mesh.size(i)
    if is_cut(source):
        if target.is_partial():
            return float("inf")
        return _collective(size * count, count) if target.is_replicate() else _collective(size, count) + 1.0
    if target.is_partial():
        return float("inf")
    return _collective(size, count, 2 if target.is_replicate() else 1)


def _collective(size: float, count: int, rounds: int = 1) -> float:
    """A gathering of `size` bytes among `count`: latency, a hop for each, bytes over the wire."""
    hops = rounds * (count - 1)
    return 6.6 + 0.6 * hops + size * hops / count / BYTES_PER_MICROSECOND


@contextmanager
def implicit_replication() -> Iterator[None]:
    """Within, plain tensors among distributed ones count as copies on every process."""
    before, state.implicit_replication = state.implicit_replication, True
    try:
        yield
    finally:
        state.implicit_replication = before
