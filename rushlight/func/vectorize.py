"""vmap: a function of one example as a function of a batch.

Enters: a function, where the batch is in its arguments (`in_dims`) and shall be in its results (`out_dims`). Leaves:
the function run once, at a level at which the batch cannot be seen; rules/batching.py has the rules. Refuses: batches
of different sizes, dims that do not exist, results that are no tensors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import _C
from ..dispatch.modes import state as mode_state
from ..op import find_op
from ..rules import levels
from ..rules.levels import VmapLevel, behind
from ..utils._pytree import TreeSpec, tree_flatten, tree_unflatten

RANDOMNESS = ("error", "different", "same")


def vmap(
    func: Callable, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Callable:
    """`func`, applied to every example along `in_dims` of its arguments.

    in_dims: an int or None for all arguments, or a structure of them like the arguments'. out_dims likewise for
    results. randomness: "error", "different" (a draw for every example) or "same". chunk_size: examples run at a time;
    None for all.

    Arguments:
        func: a function of one example
        in_dims: the dim of examples, for all arguments or one for each; None for an argument that all share
        out_dims: where that dim stands in results
        randomness: "error", "different" or "same"
        chunk_size: how many examples run at a time; None for all

    Example:
        >>> rl.vmap(rl.dot)(rl.tensor([[1.0, 2.0], [3.0, 4.0]]), rl.ones(2, 2))
        tensor([3., 7.])
    """
    if randomness not in RANDOMNESS:
        raise RuntimeError(
            f"vmap: expected randomness to be one of {', '.join(map(repr, RANDOMNESS))}, got {randomness!r}"
        )
    if chunk_size is not None and not (isinstance(chunk_size, int) and chunk_size > 0):
        raise ValueError(f"vmap: expected chunk_size to be None or above 0, got {chunk_size}")

    @functools.wraps(func, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        size, flat_dims, flat_args, spec = read_batch(in_dims, args, func)
        if chunk_size is not None and size > chunk_size:
            return in_chunks(func, flat_dims, chunk_size, spec, out_dims, randomness, size, flat_args, kwargs)
        return run_batch(func, size, flat_dims, flat_args, spec, out_dims, randomness, kwargs)

    wrapped._transform = vmap      # capture knows it by this: what it was given is in the closure
    return wrapped


def name_of(func: Callable) -> str:
    """A readable name for messages."""
    return getattr(func, "__name__", repr(func))


# --- arguments --------------------------------------------------------------------------------------------------------


def read_batch(in_dims: Any, args: tuple, func: Callable) -> tuple[int, list[int | None], list[Any], TreeSpec]:
    """Batch size, the batch dim of every leaf, the leaves and their structure."""
    name = name_of(func)
    if not isinstance(in_dims, (int, tuple)) or isinstance(in_dims, bool):
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be an int or a (potentially nested)"
            f" tuple matching the inputs, got {type(in_dims).__name__}"
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Did you forget to add inputs, or do you pass them by keyword? Only"
            " positional ones are batched."
        )
    flat_args, spec = tree_flatten(args)
    flat_dims = broadcast_dims(in_dims, spec)
    if flat_dims is None:
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the structure of the"
            " inputs: it must be an int, None, or a structure that matches them as far as it goes"
        )
    checked: list[int | None] = []
    for a, d in zip(flat_args, flat_dims, strict=True):
        checked.append(checked_dim(name, in_dims, a, d))
    sizes: list[int] = []
    for a, d in zip(flat_args, checked, strict=True):
        # no set: symbolic sizes are compared, not hashed
        if d is not None and not any(a.shape[d] is n or a.shape[d] == n for n in sizes):
            sizes.append(a.shape[d])
    if not sizes:
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): at least one input must be batched: every in_dim is None"
        )
    if len(sizes) > 1:
        shown = [(tuple(a.shape), d) for a, d in zip(flat_args, checked, strict=True) if d is not None]
        raise ValueError(
            f"vmap: the mapped dimensions must be of one size, got sizes {sorted(sizes)}. Inputs (shape, dim): {shown}"
        )
    return sizes.pop(), checked, flat_args, spec


def checked_dim(name: str, in_dims: Any, a: Any, d: Any) -> int | None:
    """The batch dim of one leaf, counted from the front."""
    if d is None:
        return None
    if not isinstance(d, int):
        raise ValueError(f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): in_dim is an int or None, got in_dim={d!r}.")
    if not isinstance(a, _C.Tensor):
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): got in_dim={d} for an input of type {type(a).__name__}."
            " Only Tensors are mapped over: give None as its in_dim"
        )
    if not -a.ndim <= d < a.ndim:
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): got in_dim={d} for a Tensor with {a.ndim} dimensions."
            f" Expected -{a.ndim} <= in_dim < {a.ndim}."
        )
    return d + a.ndim if d < 0 else d


def broadcast_dims(dims: Any, spec: TreeSpec) -> list[Any] | None:
    """One dim per leaf of `spec`, from an int, None, or a structure of them; None where it does not fit."""
    if dims is None or isinstance(dims, int) or spec.is_leaf():
        fits = dims is None or isinstance(dims, int) or not isinstance(dims, (tuple, list, dict))
        return [dims] * spec.num_leaves if fits else None
    if isinstance(dims, dict):
        if not isinstance(spec.context, list) or set(dims) != set(spec.context):
            return None
        parts = [dims[key] for key in spec.context]
    elif isinstance(dims, (tuple, list)):
        if spec.type is dict or len(dims) != len(spec.children_specs):
            return None
        parts = list(dims)
    else:
        return None
    found: list[Any] = []
    for part, child in zip(parts, spec.children_specs, strict=True):
        inner = broadcast_dims(part, child)
        if inner is None:
            return None
        found += inner
    return found


# --- running ----------------------------------------------------------------------------------------------------------


def run_batch(
    func: Callable, size: int, dims: list, flat_args: list, spec: TreeSpec, out_dims: Any, randomness: str, kwargs: dict
) -> Any:
    """One call for the whole batch."""
    level = VmapLevel(size, randomness)
    with levels.opened(level):
        inner = [a if d is None else levels.batch(level, a, d) for a, d in zip(flat_args, dims, strict=True)]
        result = func(*tree_unflatten(inner, spec), **kwargs)
    return unwrap_results(level, func, result, out_dims)


def unwrap_results(level: VmapLevel, func: Callable, result: Any, out_dims: Any) -> Any:
    """Results with the batch where `out_dims` wants it."""
    flat, spec = tree_flatten(result)
    name = name_of(func)
    dims = broadcast_dims(out_dims, spec)
    if dims is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims}): out_dims is not compatible with the structure of the outputs:"
            f" {len(flat)} outputs"
        )
    return tree_unflatten([placed(level, name, t, d) for t, d in zip(flat, dims, strict=True)], spec)


def placed(level: VmapLevel, name: str, t: Any, dim: Any) -> Any:
    """One result with its batch at `dim`."""
    if not isinstance(t, _C.Tensor):
        if dim is None:
            return t
        raise ValueError(
            f"vmap({name}, ...): expected `{name}` to return Tensors, got type {type(t).__name__}. An output that is"
            " not mapped has out_dims=None."
        )
    w = behind(t, level)
    if dim is None:
        if w is not None:
            raise ValueError(
                f"vmap({name}, ..., out_dims=None): a result depends on the batch, so it needs an out_dim; None is for"
                " results that are the same for all examples"
            )
        return t
    if not isinstance(dim, int):
        raise ValueError(f"vmap({name}, ...): out_dims must hold ints and None, got {dim!r}")
    ndim = t.ndim + 1
    if not -ndim <= dim < ndim:
        raise IndexError(f"vmap({name}, ...): Dimension out of range: expected one in [{-ndim}, {ndim - 1}], got {dim}")
    if w is None:
        return t.unsqueeze(0).expand((level.batch_size, *t.shape)).movedim(0, dim)
    return w.value if w.dim == dim % ndim else w.value.movedim(w.dim, dim)


def in_chunks(
    func: Callable,
    dims: list,
    chunk: int,
    spec: TreeSpec,
    out_dims: Any,
    randomness: str,
    size: int,
    flat_args: list,
    kwargs: dict,
) -> Any:
    """The batch in pieces, joined at the end."""
    if randomness == "same" and any(mode.records for mode in mode_state.dispatch_modes):
        raise NotImplementedError(
            "vmap: with randomness='same' each chunk sets the generator back, which no graph can hold. Leave chunk_size"
            " out where the call is recorded."
        )
    state = None
    pieces = []
    out_spec = None
    for start in range(0, size, chunk):
        length = min(chunk, size - start)
        part = [a if d is None else a.narrow(d, start, length) for a, d in zip(flat_args, dims, strict=True)]
        if randomness == "same":   # every piece draws the same numbers
            state = _C.default_generator.get_state() if state is None else state
            _C.default_generator.set_state(state)
        result = run_batch(func, length, dims, part, spec, out_dims, randomness, kwargs)
        flat, out_spec = tree_flatten(result)
        pieces.append(flat)
    assert out_spec is not None
    where = broadcast_dims(out_dims, out_spec)
    joined = [
        column[0] if d is None else find_op("cat")(list(column), d)
        for column, d in zip(zip(*pieces, strict=True), where, strict=True)
    ]
    return tree_unflatten(joined, out_spec)
