"""Derivatives as functions: grad, vjp, jvp, jacrev, jacfwd, hessian, linearize.

Enters: a function of tensors (in nested containers). Leaves: functions of the same arguments that return derivatives.
Each opens a level of its own, so they nest and mix with vmap in any order, and a value of an outer level is a constant
of an inner one. Refuses: results that are no tensors, gradients of results with more than one element,
integer arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import _C
from ..autograd.backward import grad as autograd_grad
from ..op import find_op
from ..rules import levels
from ..rules.levels import GradLevel, JvpLevel
from ..utils._pytree import TreeSpec, tree_flatten, tree_map, tree_map_only, tree_unflatten
from .vectorize import vmap

Argnums = int | tuple[int, ...]


# --- shared -----------------------------------------------------------------------------------------------------------


def lift(level: levels.Level, tree: Any) -> Any:
    """Every tensor of a tree as one of the level."""
    make = levels.track if level.kind == "grad" else levels.dual
    return tree_map_only(_C.Tensor, lambda t: make(level, t), tree)


def lower(level: levels.Level, tree: Any) -> Any:
    """Every tensor of a tree one level down."""
    return tree_map_only(_C.Tensor, lambda t: levels.lowered(t, level), tree)


def fresh_input(name: str, level: GradLevel, t: Any) -> Any:
    """An argument to differentiate by."""
    if not isinstance(t, _C.Tensor):
        raise ValueError(
            f"{name}: expected the arguments to differentiate by to hold only tensors, got {type(t).__name__}"
        )
    if not (t.is_floating_point() or t.is_complex()):
        raise RuntimeError(
            f"{name}: only tensors of floating point or complex dtype can be differentiated by, got {t.dtype}"
        )
    return levels.track(level, t).requires_grad_()


def pick(name: str, args: tuple, argnums: Argnums) -> Any:
    """The arguments named by `argnums`: one of them, or a tuple."""
    if isinstance(argnums, int) and not isinstance(argnums, bool):
        if not -len(args) <= argnums < len(args):
            raise RuntimeError(f"{name}: got argnum={argnums}, but only {len(args)} positional inputs")
        return args[argnums]
    if not isinstance(argnums, tuple):
        raise RuntimeError(f"{name}: argnums must be an int or a tuple of ints, got {type(argnums).__name__}")
    if not argnums:
        raise RuntimeError(f"{name}: argnums must be non-empty")
    numbers = [n + len(args) if isinstance(n, int) and n < 0 else n for n in argnums]
    if len(set(numbers)) != len(numbers):
        raise RuntimeError(f"{name}: elements of argnums must be unique, got {argnums}")
    return tuple([pick(name, args, n) for n in argnums])


def put(args: tuple, argnums: Argnums, values: Any) -> tuple:
    """The arguments with those of `argnums` replaced."""
    listed = list(args)
    for n, v in zip(
        (argnums,) if isinstance(argnums, int) else argnums,
        (values,) if isinstance(argnums, int) else values,
        strict=True,
    ):
        listed[n] = v
    return tuple(listed)


def split_aux(name: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    """(output, aux)."""
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(
            f"{name}: with has_aux=True the function must return a tuple (output, aux), got {type(result).__name__}"
        )
    return result


def check_outputs(name: str, flat: list[Any]) -> None:
    """Outputs must be tensors, at least one."""
    if not flat:
        raise RuntimeError(f"{name}: expected the function to return at least one tensor, got an empty container")
    for t in flat:
        if not isinstance(t, _C.Tensor):
            raise RuntimeError(f"{name}: expected the function to return only tensors, got {type(t).__name__}")


def gradients(outputs: list[Any], inputs: list[Any], weights: list[Any] | None) -> list[Any]:
    """Gradients with zeros where nothing is connected; differentiable again."""
    pairs = [
        (o, None if weights is None else w) for o, w in zip(outputs, weights or outputs, strict=True) if o.requires_grad
    ]
    result: tuple = (None,) * len(inputs)
    if pairs:
        given = [find_op("ones_like")(o) if w is None else w for o, w in pairs]
        result = autograd_grad(
            [o for o, _ in pairs], inputs, given, retain_graph=True, create_graph=True, allow_unused=True
        )
    return [find_op("zeros_like")(x) if g is None else g for g, x in zip(result, inputs, strict=True)]


class enabled:  # noqa: N801 - reads as a context
    """Recording on inside, whatever it is outside."""

    def __enter__(self) -> None:
        self.before = _C.is_grad_enabled()
        _C._set_grad_enabled(True)

    def __exit__(self, *exc: object) -> None:
        _C._set_grad_enabled(self.before)


# --- reverse mode -----------------------------------------------------------------------------------------------------


def grad_and_value(func: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """A function returning (gradient, value), or (gradient, (value, aux)), of a `func` that returns one element."""

    @functools.wraps(func, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        level = GradLevel()
        with levels.opened(level), enabled():
            chosen = pick("grad", args, argnums)
            flat, spec = tree_flatten(chosen)
            inputs = [fresh_input("grad", level, t) for t in flat]
            inner = put(lift(level, args), argnums, tree_unflatten(inputs, spec))
            output, aux = split_aux("grad_and_value", func(*inner, **lift(level, kwargs)), has_aux)
            if not isinstance(output, _C.Tensor):
                raise RuntimeError(f"grad: expected the function given to return a Tensor, got {type(output).__name__}")
            if output.ndim != 0:
                raise RuntimeError(
                    f"grad: expected the function given to return a scalar tensor, got {output.ndim} dims. Maybe you"
                    " wanted the vjp or jacrev API instead?"
                )
            if output.is_complex():
                raise RuntimeError("grad: expected a real output, got a complex one. vjp takes those.")
            answer = gradients([output], inputs, None)
        result = tree_unflatten([levels.lowered(g, level) for g in answer], spec)
        value = levels.lowered(output, level)
        return (result, (value, lower(level, aux))) if has_aux else (result, value)

    wrapped._transform = grad_and_value
    return wrapped


def grad(func: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """A function returning the gradient, or (gradient, aux), of a `func` that returns one element."""

    @functools.wraps(func, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        result, value = grad_and_value(func, argnums, has_aux)(*args, **kwargs)
        return (result, value[1]) if has_aux else result

    wrapped._transform = grad
    return wrapped


def vjp(func: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """(func(*primals), vjp_fn) or (output, vjp_fn, aux); vjp_fn takes cotangents shaped like the output.

    It returns a tuple with one gradient (or tree of them) per primal, also where there is one primal only.
    """
    output, pull, *aux = vjp_by(func, primals, tuple(range(len(primals))), has_aux)
    return output, (lambda *cotangents, **options: (pull(*cotangents, **options),)) if len(primals) == 1 else pull, *aux


def vjp_by(func: Callable, primals: tuple, argnums: Argnums, has_aux: bool) -> tuple:
    """vjp by some of the arguments."""
    level = GradLevel()
    with levels.opened(level), enabled():
        chosen = pick("vjp", primals, argnums) if primals else ()
        flat, spec = tree_flatten(chosen)
        inputs = [fresh_input("vjp", level, t) for t in flat]
        inner = put(lift(level, primals), argnums, tree_unflatten(inputs, spec))
        output, aux = split_aux("vjp", func(*inner), has_aux)
        outputs, out_spec = tree_flatten(output)
        check_outputs("vjp", outputs)
        outputs = [o if levels.behind(o, level) is not None else levels.track(level, o) for o in outputs]
    many = isinstance(argnums, tuple)

    def pull(*cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        weights, weight_spec = tree_flatten(given)
        if weight_spec != out_spec:
            raise RuntimeError(
                f"vjp: expected the cotangents to have the structure of the output ({len(outputs)} tensors), got"
                f" {len(weights)}"
            )
        result = pull_back(level, outputs, inputs, weights)
        tree = tree_unflatten(result, spec)
        return tree[0] if many and len(tree) == 1 else tree

    value = tree_unflatten([levels.lowered(o, level) for o in outputs], out_spec)
    return (value, pull, lower(level, aux)) if has_aux else (value, pull)


def pull_back(level: GradLevel, outputs: list[Any], inputs: list[Any], weights: list[Any]) -> list[Any]:
    """Gradients of a recorded computation; its level is opened again, on top of those open now."""
    again = levels.Reopened(level)
    with again, enabled():
        result = gradients(outputs, inputs, [levels.track(level, w) for w in weights])
    return [levels.lowered(g, level) for g in result]


def jacrev(
    func: Callable,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable:
    """A function returning the Jacobian of `func`, by reverse mode: one row per element of the output,
    batched by vmap."""
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: expected chunk_size above 0.")

    @functools.wraps(func, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        call = functools.partial(func, **kwargs)
        answer = vjp_by(call, args, argnums, has_aux)
        output, pull = answer[:2]
        flat, out_spec = tree_flatten(output)
        check_outputs("jacrev", flat)
        rows = [rows_of(pull, flat, k, chunk_size) for k in range(len(flat))]
        chosen, in_spec = tree_flatten(pick("jacrev", args, argnums))
        blocks = []
        for o, row in zip(flat, rows, strict=True):
            inner, _ = tree_flatten(row if not (isinstance(argnums, tuple) and len(argnums) == 1) else (row,))
            shaped = [g.reshape((*o.shape, *x.shape)) for g, x in zip(inner, chosen, strict=True)]
            blocks.append(tree_unflatten(shaped, in_spec))
        result = tree_unflatten(blocks, out_spec)
        return (result, answer[2]) if has_aux else result

    def rows_of(pull: Callable, flat: list[Any], k: int, chunk: int | None) -> Any:
        """All rows of output `k`."""
        o = flat[k]
        spec = out_structure(pull)
        basis = one_hots(o)

        def row(v: Any) -> Any:
            weights = [v if j == k else find_op("zeros_like")(x) for j, x in enumerate(flat)]
            return pull(tree_unflatten(weights, spec))

        return vmap(row, chunk_size=chunk)(basis)

    def out_structure(pull: Callable) -> TreeSpec:
        return pull.__closure__[pull.__code__.co_freevars.index("out_spec")].cell_contents

    wrapped._transform = jacrev
    return wrapped


def one_hots(t: Any) -> Any:
    """Unit vectors of t's space, one per row."""
    n = t.numel()
    return find_op("eye")(n, dtype=t.dtype, device=t.device).reshape((n, *t.shape))


# --- forward mode -----------------------------------------------------------------------------------------------------


def jvp(func: Callable, primals: tuple, tangents: tuple, *, strict: bool = False, has_aux: bool = False) -> tuple:
    """(func(*primals), its derivative along `tangents`), and aux."""
    if not isinstance(primals, tuple):
        raise RuntimeError(f"jvp: expected primals to be a tuple, got {type(primals).__name__}")
    flat, spec = tree_flatten(primals)
    directions, tangent_spec = tree_flatten(tangents)
    if spec != tangent_spec:
        raise RuntimeError("jvp: expected primals and tangents to have the same structure, with one tangent per primal")
    if not flat:
        raise RuntimeError("jvp: expected at least one tensor in primals")
    level = JvpLevel()
    with levels.opened(level):
        inner = [dual_input(level, p, t) for p, t in zip(flat, directions, strict=True)]
        output, aux = split_aux("jvp", func(*tree_unflatten(inner, spec)), has_aux)
        outputs, out_spec = tree_flatten(output)
        check_outputs("jvp", outputs)
    values = [levels.lowered(o, level) for o in outputs]
    pushed = [tangent_of(level, o, v, strict) for o, v in zip(outputs, values, strict=True)]
    result = (tree_unflatten(values, out_spec), tree_unflatten(pushed, out_spec))
    return (*result, lower(level, aux)) if has_aux else result


def dual_input(level: JvpLevel, p: Any, t: Any) -> Any:
    """A primal with its tangent."""
    for what, x in (("primal", p), ("tangent", t)):
        if not isinstance(x, _C.Tensor):
            raise RuntimeError(f"jvp: expected every {what} to be a Tensor, got {type(x).__name__}")
    if p.shape != t.shape:
        raise RuntimeError(
            f"jvp: expected the tangent to have the shape of the primal, {tuple(p.shape)}, got {tuple(t.shape)}"
        )
    if not (p.is_floating_point() or p.is_complex()):
        raise ValueError(f"jvp: expected primals to be floating point or complex, got {p.dtype}")
    return levels.dual(level, p, t if t.dtype is p.dtype else t.to(p.dtype))


def tangent_of(level: JvpLevel, output: Any, value: Any, strict: bool) -> Any:
    """An output's tangent; zeros where it does not depend on the primals."""
    found = levels.tangent_of(output, level)
    if found is not None:
        return found if found.shape == value.shape else found.expand(value.shape)
    if strict:
        raise RuntimeError("jvp: the output of f does not depend on primals, which strict=True forbids.")
    return find_op("zeros_like")(value)


def jacfwd(
    func: Callable,
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
    randomness: str = "error",
) -> Callable:
    """A function returning the Jacobian of `func`, by forward mode: one column per element of the input,
    batched by vmap."""

    @functools.wraps(func, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        chosen = pick("jacfwd", args, argnums)
        flat, spec = tree_flatten(chosen)
        sizes = [x.numel() for x in flat]
        aux: list[Any] = []

        def along(*basis: Any) -> Any:
            def part(*inner: Any) -> Any:
                given = tree_unflatten(list(inner), spec)
                return func(*put(args, argnums, given), **kwargs)

            answer = jvp(part, tuple(flat), tuple(basis), has_aux=has_aux)
            if has_aux:
                aux.append(answer[2])
                return answer[1], answer[2]
            return answer[1]

        answer = vmap(along, randomness=randomness, chunk_size=chunk_size)(*standard_basis(flat, sizes))
        tangents, extra = answer if has_aux else (answer, None)
        columns, out_spec = tree_flatten(tangents)
        blocks = []
        for c in columns:
            parts = c.split(sizes) if len(sizes) > 1 else [c]
            blocks.append(
                tree_unflatten(
                    [p.movedim(0, -1).reshape((*c.shape[1:], *x.shape)) for p, x in zip(parts, flat, strict=True)], spec
                )
            )
        result = tree_unflatten(blocks, out_spec)
        return (result, tree_map(lambda t: t[0] if isinstance(t, _C.Tensor) else t, extra)) if has_aux else result

    wrapped._transform = jacfwd
    return wrapped


def standard_basis(flat: list[Any], sizes: list[int]) -> list[Any]:
    """For every input, the part that is its own of the unit vectors of the joint space: [total, *shape]."""
    total = sum(sizes)
    result, start = [], 0
    for x, n in zip(flat, sizes, strict=True):
        if not isinstance(x, _C.Tensor):
            raise ValueError(
                f"jacfwd: expected the arguments to differentiate by to hold only tensors, got {type(x).__name__}"
            )
        block = find_op("zeros")((total, n), dtype=x.dtype, device=x.device)
        block.diagonal(-start).fill_(1)
        result.append(block.reshape((total, *x.shape)))
        start += n
    return result


def hessian(func: Callable, argnums: Argnums = 0) -> Callable:
    """A function returning the Hessian of `func`: forward over reverse."""
    return jacfwd(jacrev(func, argnums), argnums)


def linearize(func: Callable, *primals: Any) -> tuple[Any, Callable]:
    """(func(*primals), jvp_fn): jvp_fn(*tangents) is the derivative at `primals`."""
    if not primals:
        raise RuntimeError("linearize: expected at least one primal")
    flat, spec = tree_flatten(primals)
    for t in flat:
        if not isinstance(t, _C.Tensor):
            raise ValueError(f"linearize: expected primals to hold only tensors, got {type(t).__name__}")
    output, pull = vjp(func, *primals)
    outputs, out_spec = tree_flatten(output)
    # The vjp is linear in its cotangents, and its own vjp, its transpose, is the jvp wherever it is taken.
    zeros = [find_op("zeros_like")(o) for o in outputs]

    def pulled(*weights: Any) -> Any:
        result = pull(tree_unflatten(list(weights), out_spec))
        return tuple(tree_flatten(result)[0])

    _, push = vjp(pulled, *zeros)

    def jvp_fn(*tangents: Any) -> Any:
        directions, tangent_spec = tree_flatten(tangents)
        if tangent_spec != spec:
            raise RuntimeError("linearize: expected tangents to have the structure of the primals")
        for p, t in zip(flat, directions, strict=True):
            if p.shape != t.shape or p.dtype is not t.dtype:
                raise RuntimeError(
                    f"linearize: expected a tangent of shape {tuple(p.shape)} and dtype {p.dtype}, got {tuple(t.shape)}"
                    f" and {t.dtype}"
                )
        result = push(tuple(directions))
        return tree_unflatten(list(result) if isinstance(result, tuple) else [result], out_spec)

    return output, jvp_fn
