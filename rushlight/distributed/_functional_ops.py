"""`ops._c10d_functional`: collectives as ops, which graphs hold.

Enters: a tensor, what is to be done, and the name of a group. Leaves: a new tensor that is filled while the program
goes on; `wait_tensor` gives it when it is there. A compiler may put what it likes between the two: it sees that an op
`begins` something and which one `ends` it, and begins it with memory of its own. All have gradients.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ..aten.namespaces import namespace
from ..library import register_autograd
from ..library.definition import CustomOp, file_op
from ..op.schema import parse
from . import collectives as c
from .groups import _world, get_rank
from .reduce_op import RedOpType, ReduceOp

_OPS = {"sum": ReduceOp.SUM, "avg": ReduceOp.AVG, "product": ReduceOp.PRODUCT, "min": ReduceOp.MIN,
        "max": ReduceOp.MAX, "band": ReduceOp.BAND, "bor": ReduceOp.BOR, "bxor": ReduceOp.BXOR}
MOST_FORGOTTEN = 64      # results nobody waited for, before those that are done are let go of
ops = namespace("_c10d_functional")


def reduction(name: Any) -> Any:
    """A reduction from its name."""
    if isinstance(name, (RedOpType, ReduceOp)):
        return name
    try:
        return _OPS[str(name).lower()]
    except KeyError:
        raise ValueError(f"reduceOp {name!r} is none of {', '.join(_OPS)}") from None


def name_of_reduction(op: Any) -> str:
    """What ops call a reduction."""
    if isinstance(op, str):
        return op.lower()
    for name, known in _OPS.items():
        if op == known:
            return name
    raise ValueError(f"{op} has no name, so that a graph cannot hold it. Use one of {', '.join(_OPS)}.")


def group_called(name: str) -> Any:
    """A process group by its name."""
    for result in _world.groups:
        if result.group_name == name:
            return result
    raise ValueError(f"there is no process group called {name!r}")


# --- what is under way ------------------------------------------------------------------------------------------------

_lock = threading.Lock()
_under_way: dict[int, tuple[Any, Any]] = {}      # where a result lies: its work, and what must stay until it is done


def _note(result: Any, work: Any, sources: Any) -> None:
    """Remember that a result is being filled."""
    if work is None:
        return
    with _lock:
        if len(_under_way) >= MOST_FORGOTTEN:
            for place in [p for p, (w, _) in _under_way.items() if w.is_completed()]:
                del _under_way[place]
        _under_way[result.data_ptr()] = work, sources


def wait(tensor: Any) -> Any:
    """The tensor, when what fills it is done."""
    with _lock:
        found = _under_way.pop(tensor.data_ptr(), None)
    if found is not None:
        found[0].wait()
    return tensor


# --- the ops ----------------------------------------------------------------------------------------------------------


class Begins(CustomOp):
    """A collective that fills its result while the program goes on."""

    begins = True

    def __init__(self, schema: str, shape: Callable[..., tuple], begin: Callable[..., Any]) -> None:
        parsed = parse(schema)
        super().__init__(parsed, f"_c10d_functional::{parsed.name}")
        self.shape, self._begin = shape, begin
        self.fake = self.allocate

    def allocate(self, *args: Any) -> Any:
        """Memory for the result."""
        return args[0].new_empty(self.shape(*args))

    def begin(self, target: Any, *args: Any) -> None:
        """Fill a tensor, beginning now."""
        source = args[0].detach().contiguous()
        _note(target, self._begin(target, source, *args[1:]), source)

    def run(self, *args: Any) -> Any:
        if args[0].is_meta:
            return self.allocate(*args)
        target = self.allocate(*args)
        self.begin(target, *args)
        return target


class Ends(CustomOp):
    """`wait_tensor`: gives its argument. `_wrap_tensor_autograd` is the same: nothing waits later here."""

    ends = True

    def __init__(self, name: str = "wait_tensor") -> None:
        super().__init__(parse(f"{name}(Tensor tensor) -> Tensor"), f"_c10d_functional::{name}")
        self.fake = lambda tensor: tensor.new_empty_strided(tensor.shape, tensor.stride())

    def run(self, *args: Any) -> Any:
        return self.fake(args[0]) if args[0].is_meta else wait(args[0])


class InPlace(CustomOp):
    """A collective on its argument itself."""

    def __init__(self, schema: str, begin: Callable[..., Any]) -> None:
        parsed = parse(schema)
        super().__init__(parsed, f"_c10d_functional::{parsed.name}")
        self._begin = begin
        self.fake = lambda tensor, *rest: tensor

    def run(self, *args: Any) -> Any:
        target = args[0]
        if not target.is_meta:
            _note(target, self._begin(target, target, *args[1:]), target)
        return target


def _same(source: Any, *rest: Any) -> tuple:
    return tuple(source.shape)


def _longer(source: Any, group_size: int, group_name: str) -> tuple:
    return (group_size * source.shape[0], *source.shape[1:]) if source.ndim else (group_size,)


def _shorter(source: Any, reduce_op: str, group_size: int, group_name: str) -> tuple:
    if source.shape[0] % group_size:
        raise ValueError(
            f"reduce_scatter_tensor: the first dimension of {tuple(source.shape)} cannot be cut into {group_size} "
            "equal parts"
        )
    return (source.shape[0] // group_size, *source.shape[1:])


def _exchanged(source: Any, output_split_sizes: list, input_split_sizes: list, group_name: str) -> tuple:
    rows = sum(output_split_sizes) if output_split_sizes else source.shape[0]
    return (rows, *source.shape[1:])


def _reduce(target: Any, source: Any, reduce_op: str, group_name: str) -> Any:
    if target is not source:
        target.copy_(source)
    return c.all_reduce(target, reduction(reduce_op), group_called(group_name), async_op=True)


def _spread(target: Any, source: Any, src: int, group_name: str) -> Any:
    if target is not source:
        target.copy_(source)
    return c.broadcast(target, src, group_called(group_name), async_op=True)


def _gather(target: Any, source: Any, group_size: int, group_name: str) -> Any:
    source = source if source.ndim else source.view(1)
    return c.all_gather_into_tensor(target, source, group_called(group_name), async_op=True)


def _scatter(target: Any, source: Any, reduce_op: str, group_size: int, group_name: str) -> Any:
    return c.reduce_scatter_tensor(target, source, reduction(reduce_op), group_called(group_name), async_op=True)


def _exchange(target: Any, source: Any, output_split_sizes: list, input_split_sizes: list, group_name: str) -> Any:
    out, into = output_split_sizes or None, input_split_sizes or None
    return c.all_to_all_single(target, source, out, into, group_called(group_name), async_op=True)


for collective in (
    Begins("all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor", _same, _reduce),
    Begins("broadcast(Tensor input, int src, str group_name) -> Tensor", _same, _spread),
    Begins("all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor", _longer, _gather),
    Begins(
        "reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor", _shorter,
        _scatter,
    ),
    Begins(
        "all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes, str group_name) "
        "-> Tensor", _exchanged, _exchange,
    ),
    InPlace("all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)", _reduce),
    InPlace("broadcast_(Tensor(a!) input, int src, str group_name) -> Tensor(a!)", _spread),
    Ends(),
    Ends("_wrap_tensor_autograd"),
):
    file_op(collective)


class Legacy(CustomOp):
    """An op of `ops.c10d_functional`, as PyTorch had it first: groups are named by their ranks."""

    def __init__(self, schema: str) -> None:
        parsed = parse(schema)
        super().__init__(parsed, f"c10d_functional::{parsed.name}")
        self.fake = self.run

    def run(self, *args: Any) -> Any:
        name = self.spec.name
        if name == "wait_tensor":
            return ops.wait_tensor(*args)
        *own, _, ranks, size = args
        group = next((g for g, row in _world.groups.items() if row[2] == list(ranks)), None)
        if group is None:
            raise ValueError(f"c10d_functional.{name}: there is no process group of ranks {list(ranks)}")
        own = [[] if a is None else a for a in own]      # no sizes: equal parts
        sized = [size] if name in ("all_gather_into_tensor", "reduce_scatter_tensor") else []
        return getattr(ops, name)(*own, *sized, group.group_name)


LEGACY = ("all_reduce", "broadcast", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single",
          "wait_tensor")
for schema in (
    "all_reduce(Tensor self, str reduceOp, str tag, int[] ranks, int group_size) -> Tensor",
    "broadcast(Tensor self, int src, str tag, int[] ranks, int group_size) -> Tensor",
    "all_gather_into_tensor(Tensor shard, str tag, int[] ranks, int group_size) -> Tensor",
    "reduce_scatter_tensor(Tensor input, str reduceOp, str tag, int[] ranks, int group_size) -> Tensor",
    "all_to_all_single(Tensor input, int[]? output_split_sizes, int[]? input_split_sizes, str tag, int[] ranks,"
    " int group_size) -> Tensor",
    "wait_tensor(Tensor self) -> Tensor",
):
    file_op(Legacy(schema))


# --- gradients --------------------------------------------------------------------------------------------------------


def sums_only(name: str, op: Any) -> None:
    """Refuse the gradient of another reduction."""
    if reduction(op) not in (ReduceOp.SUM, RedOpType.SUM):
        raise RuntimeError(f"{name}: only sums have a gradient, and the reduction was {op!r}")


def _keep(ctx: Any, inputs: tuple, output: Any) -> None:
    ctx.rest = inputs[1:]
    ctx.set_materialize_grads(False)


def _rule(name: str, backward: Callable[..., Any]) -> None:
    def rule(ctx: Any, gradient: Any) -> Any:
        return None if gradient is None else backward(gradient.contiguous(), *ctx.rest)

    register_autograd(f"_c10d_functional::{name}", rule, setup_context=_keep)


def _reduce_back(g: Any, op: str, group: str) -> Any:
    sums_only("all_reduce", op)
    return ops.wait_tensor(ops.all_reduce(g, op, group))


def _scatter_back(g: Any, op: str, size: int, group: str) -> Any:
    sums_only("reduce_scatter_tensor", op)
    return ops.wait_tensor(ops.all_gather_into_tensor(g, size, group))


def _gather_back(g: Any, size: int, group: str) -> Any:
    return ops.wait_tensor(ops.reduce_scatter_tensor(g, "sum", size, group))


def _exchange_back(g: Any, out: list, into: list, group: str) -> Any:
    return ops.wait_tensor(ops.all_to_all_single(g, into, out, group))


def _spread_back(g: Any, src: int, group: str) -> Any:
    """Everyone's gradient goes to the rank whose tensor everyone got."""
    total = ops.wait_tensor(ops.all_reduce(g, "sum", group))
    return total if get_rank() == src else total * 0


_rule("all_reduce", _reduce_back)
_rule("broadcast", _spread_back)
_rule("all_gather_into_tensor", _gather_back)
_rule("reduce_scatter_tensor", _scatter_back)
_rule("all_to_all_single", _exchange_back)
register_autograd("_c10d_functional::wait_tensor", lambda ctx, g: g)
register_autograd("_c10d_functional::_wrap_tensor_autograd", lambda ctx, g: g)
