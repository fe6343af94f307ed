"""gradcheck: derivatives from the tape (or forward mode) against finite differences.

Enters: a function and inputs, best in double precision. Leaves: True, or a `GradcheckError` that shows both Jacobians.
Complex numbers count as pairs of reals throughout, so one comparison serves every combination of real and complex.
Jacobians are plain nested lists: inputs of a check are small, and the check should not rest on the ops it checks.
"""

from __future__ import annotations

import random
import sys
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import _C
from ..rules import levels
from . import forward_ad
from .backward import grad

Matrix = list[list[float]]   # one row per real input component, one column per real output component


class GradcheckError(RuntimeError):
    """The two derivatives differ, or backward misbehaves in a way gradcheck looks for."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The numbers of one check."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    fast: bool


# --- tensors as lists of reals ---------------------------------------------------------------------------------------


def reals(t: Any) -> list[float]:
    """All elements, complex ones as two numbers."""
    flat = t.detach().reshape(-1).tolist()
    if t.is_complex():
        return [part for z in flat for part in (z.real, z.imag)]
    return flat


def width(t: Any) -> int:
    """How many reals a tensor holds."""
    return t.numel() * (2 if t.is_complex() else 1)


def from_reals(values: list[float], like: Any) -> Any:
    """The tensor shaped like `like` that holds these reals."""
    data = [complex(a, b) for a, b in zip(values[::2], values[1::2], strict=True)] if like.is_complex() else values
    return _C.from_data(data, like.dtype, like.device).reshape(tuple(like.shape))


def one_hot(index: int, like: Any) -> Any:
    values = [0.0] * width(like)
    values[index] = 1.0
    return from_reals(values, like)


def as_outputs(result: Any) -> tuple:
    """The tensors a function returned that can have gradients."""
    items = (result,) if isinstance(result, _C.Tensor) else tuple(result)
    return tuple(o for o in items if isinstance(o, _C.Tensor) and (o.is_floating_point() or o.is_complex()))


def differentiable(inputs: tuple) -> tuple:
    return tuple(x for x in inputs if isinstance(x, _C.Tensor) and x.requires_grad)


# --- finite differences ----------------------------------------------------------------------------------------------


def moved(func: Callable, inputs: tuple, x: Any, step: list[float], eps: float) -> list[list[float]]:
    """(f(x + eps step) - f(x - eps step)) / 2 eps, for every output."""
    target, start = _C.shallow_copy(x, False), reals(x)   # writes the tape does not count
    results = []
    for sign in (1, -1):
        target.copy_(from_reals([v + sign * eps * s for v, s in zip(start, step, strict=True)], x))
        results.append([reals(o.detach().clone()) for o in as_outputs(func(*inputs))])
    target.copy_(from_reals(start, x))
    return [
        [(a - b) / (2 * eps) for a, b in zip(plus, minus, strict=True)] for plus, minus in zip(*results, strict=True)
    ]


def numerical(func: Callable, inputs: tuple, x: Any, eps: float) -> list[Matrix]:
    """Finite-difference Jacobians of every output with respect to `x`."""
    rows = []
    for j in range(width(x)):
        step = [0.0] * width(x)
        step[j] = 1.0
        rows.append(moved(func, inputs, x, step, eps))
    count = len(rows[0]) if rows else 0
    return [[row[o] for row in rows] for o in range(count)]


# --- analytical ------------------------------------------------------------------------------------------------------


def reals_or_zeros(g: Any, like: Any) -> list[float]:
    return [0.0] * width(like) if g is None else reals(g)


def pulled_back(output: Any, wanted: tuple, weight: Any) -> list[list[float]]:
    """vjp of one output: a gradient per wanted input, as reals."""
    result = grad(output, wanted, weight, retain_graph=True, allow_unused=True)
    for g, x in zip(result, wanted, strict=True):
        if g is not None and tuple(g.shape) != tuple(x.shape):
            raise GradcheckError("grad is incorrect size")
    return [reals_or_zeros(g, x) for g, x in zip(result, wanted, strict=True)]


def analytical(output: Any, wanted: tuple) -> list[Matrix]:
    """Backward-mode Jacobians of `output` with respect to every wanted input."""
    columns = [pulled_back(output, wanted, one_hot(k, output)) for k in range(width(output))]
    return [[[column[i][j] for column in columns] for j in range(width(x))] for i, x in enumerate(wanted)]


def pushed_forward(func: Callable, inputs: tuple, x: Any, tangent: Any) -> list[list[float]]:
    """jvp of every output in one direction of one input."""
    with forward_ad.dual_level():
        duals = tuple(
            forward_ad.make_dual(a.detach(), tangent) if a is x else (a.detach() if isinstance(a, _C.Tensor) else a)
            for a in inputs
        )
        outputs = as_outputs(func(*duals))
        return [reals_or_zeros(forward_ad.unpack_dual(o).tangent, o) for o in outputs]


# --- comparisons -----------------------------------------------------------------------------------------------------


def close(a: float, b: float, s: Settings) -> bool:
    return abs(a - b) <= s.atol + s.rtol * abs(b) or (a != a and b != b) or a == b


def all_close(a: Matrix, b: Matrix, s: Settings) -> bool:
    return all(close(x, y, s) for row, other in zip(a, b, strict=True) for x, y in zip(row, other, strict=True))


def show(m: Matrix) -> str:
    return "\n".join(
        "  [" + ", ".join(f"{v: .6g}" for v in row[:12]) + (", ...]" if len(row) > 12 else "]") for row in m[:24]
    )


def mismatch(o: int, i: int, wanted: Matrix, got: Matrix, mode: str) -> GradcheckError:
    return GradcheckError(
        f"Jacobian mismatch for output {o} with respect to input {i} ({mode}"
        f" mode),\nnumerical:\n{show(wanted)}\nanalytical:\n{show(got)}"
    )


def check_backward(func: Callable, inputs: tuple, s: Settings) -> None:
    wanted, outputs = differentiable(inputs), as_outputs(func(*inputs))
    by_input = [numerical(func, inputs, x, s.eps) for x in wanted]
    for o, output in enumerate(outputs):
        if not output.requires_grad:
            check_constant(o, by_input, s)
            continue
        result = analytical(output, wanted)
        for i, matrix in enumerate(result):
            if not all_close(matrix, by_input[i][o], s):
                raise mismatch(o, i, by_input[i][o], matrix, "backward")
        check_reentrant(output, wanted, result, s)


def check_constant(o: int, by_input: list[list[Matrix]], s: Settings) -> None:
    for i, matrices in enumerate(by_input):
        if any(abs(v) > s.atol for row in matrices[o] for v in row):
            raise GradcheckError(
                f"Numerical gradient for output {o} with respect to input {i} expected to be zero: that output does not"
                " require grad"
            )


def check_reentrant(output: Any, wanted: tuple, result: list[Matrix], s: Settings) -> None:
    again = analytical(output, wanted)
    for a, b in zip(result, again, strict=True):
        if any(
            abs(x - y) > s.nondet_tol for row, other in zip(a, b, strict=True) for x, y in zip(row, other, strict=True)
        ):
            raise GradcheckError(
                "Backward is not reentrant: with the same input and grad_output it gives different values each time,"
                f" by more than nondet_tol={s.nondet_tol}. The gradients themselves are right."
            )


def check_forward(func: Callable, inputs: tuple, s: Settings) -> None:
    for i, x in enumerate(differentiable(inputs)):
        expected = numerical(func, inputs, x, s.eps)
        rows = [pushed_forward(func, inputs, x, one_hot(j, x)) for j in range(width(x))]
        for o, matrix in enumerate(expected):
            result = [row[o] for row in rows]
            if not all_close(result, matrix, s):
                raise mismatch(o, i, matrix, result, "forward")


def unit(rng: random.Random, n: int) -> list[float]:
    values = [rng.gauss(0, 1) for _ in range(n)]
    norm = sum(v * v for v in values) ** 0.5 or 1.0
    return [v / norm for v in values]


def dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def check_fast(func: Callable, inputs: tuple, s: Settings, forward: bool) -> None:
    """One random direction in, one out: v' J u instead of all of J."""
    rng = random.Random(0)
    wanted, outputs = differentiable(inputs), as_outputs(func(*inputs))
    directions = [unit(rng, width(x)) for x in wanted]
    for i, (x, u) in enumerate(zip(wanted, directions, strict=True)):
        expected = moved(func, inputs, x, u, s.eps)
        pushed = pushed_forward(func, inputs, x, from_reals(u, x)) if forward else None
        for o, output in enumerate(outputs):
            v = unit(rng, width(output))
            numeric = dot(v, expected[o])
            if pushed is not None:
                result = dot(v, pushed[o])
            elif output.requires_grad:
                result = dot(pulled_back(output, wanted, from_reals(v, output))[i], u)
            else:
                result = 0.0
            if not close(result, numeric, s):
                raise mismatch(o, i, [[numeric]], [[result]], "fast forward" if forward else "fast backward")


def check_undefined(func: Callable, inputs: tuple) -> None:
    """Backward with no gradient at all must give none, or zeros."""
    wanted = differentiable(inputs)
    outputs = tuple(o for o in as_outputs(func(*inputs)) if o.requires_grad)
    if not outputs:
        return
    for left_out in [tuple(range(len(outputs))), *([(i,) for i in range(len(outputs))] if len(outputs) > 1 else [])]:
        weights = tuple(None if i in left_out else one_hot(0, o) if o.numel() else None for i, o in enumerate(outputs))
        try:
            result = _C._run_backward(outputs, weights, True, False, wanted, False)
        except RuntimeError as error:
            raise GradcheckError(
                "gradcheck: backward fails where output gradients are undefined (None). See ctx.set_materialize_grads."
            ) from error
        if len(left_out) == len(outputs) and any(
            v != 0 for g, x in zip(result, wanted, strict=True) for v in reals_or_zeros(g, x)
        ):
            raise GradcheckError(
                "gradcheck: undefined or zero output gradients must give undefined or zero input gradients, and one is"
                " neither."
            )


def check_batched(func: Callable, inputs: tuple, s: Settings) -> None:
    """Several gradients at once against one at a time."""
    wanted = differentiable(inputs)
    for output in as_outputs(func(*inputs)):
        if not output.requires_grad or not output.numel():
            continue
        weights = [from_reals(unit(random.Random(k), width(output)), output) for k in range(2)]
        stacked = _C.from_data([w.tolist() for w in weights], output.dtype, output.device)
        batched = grad(output, wanted, stacked, retain_graph=True, allow_unused=True, is_grads_batched=True)
        for k, w in enumerate(weights):
            single = grad(output, wanted, w, retain_graph=True, allow_unused=True)
            for b, g in zip(batched, single, strict=True):
                if (b is None) != (g is None) or (b is not None and not all_close([reals(b[k])], [reals(g)], s)):
                    raise GradcheckError(
                        "gradcheck failed while testing batched gradient computation: it differs from one gradient at a"
                        " time"
                    )


def check_batched_forward(func: Callable, inputs: tuple, s: Settings) -> None:
    """Several tangents at once, under vmap, against one at a time."""
    for x in differentiable(inputs):
        tangents = [from_reals(unit(random.Random(k), width(x)), x) for k in range(2)]
        level = levels.VmapLevel(2)
        with levels.opened(level), forward_ad.dual_level():
            stacked = levels.batch(level, _C.from_data([t.tolist() for t in tangents], x.dtype, x.device), 0)
            duals = tuple(
                forward_ad.make_dual(a.detach(), stacked) if a is x else (a.detach() if isinstance(a, _C.Tensor) else a)
                for a in inputs
            )
            result = [forward_ad.unpack_dual(o).tangent for o in as_outputs(func(*duals))]
        parts = [None if t is None else levels.behind(t, level) for t in result]
        for k, t in enumerate(tangents):
            for w, single in zip(parts, pushed_forward(func, inputs, x, t), strict=True):
                if w is not None and not all_close([reals(w.value.select(w.dim, k))], [single], s):
                    raise GradcheckError(
                        "gradcheck failed while testing batched forward mode: it differs from one tangent at a time"
                    )


# --- entry points ----------------------------------------------------------------------------------------------------


def check_inputs(inputs: tuple) -> None:
    wanted = differentiable(inputs)
    if not wanted:
        raise ValueError("gradcheck: no input tensor has requires_grad=True. Set it on those to be checked.")
    for i, x in enumerate(wanted):
        if x.dtype not in (_C.float64, _C.complex128):
            warnings.warn(
                f"gradcheck: input {i} requires a gradient and is not of double precision: numerical derivatives are"
                " too coarse otherwise. Use float64 or complex128.",
                stacklevel=3,
            )
        if x._overlaps_itself():
            raise RuntimeError(
                f"gradcheck: input {i} has a dimension with stride 0, so its elements cannot be varied one by one. Call"
                " .contiguous() on it."
            )


def run_checks(func: Callable, inputs: tuple, s: Settings, options: dict[str, bool]) -> None:
    check_inputs(inputs)
    if options["backward"]:
        if s.fast:
            check_fast(func, inputs, s, forward=False)
        else:
            check_backward(func, inputs, s)
    if options["forward"]:
        if s.fast:
            check_fast(func, inputs, s, forward=True)
        else:
            check_forward(func, inputs, s)
    if options["undefined"] and options["backward"]:
        check_undefined(func, inputs)
    if options["batched"]:
        check_batched(func, inputs, s)
    if options["batched_forward"]:
        check_batched_forward(func, inputs, s)


def gradcheck(
    func: Callable,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare derivatives of `func` at `inputs` with finite differences. Only inputs that require grad are varied."""
    if not check_forward_ad and not check_backward_ad:
        raise ValueError(
            "gradcheck: check_forward_ad and check_backward_ad are both False, so there is nothing to check"
        )
    if check_batched_grad and not check_backward_ad:
        raise ValueError("gradcheck: check_batched_grad=True needs check_backward_ad=True")
    if check_batched_forward_grad and not check_forward_ad:
        raise ValueError("gradcheck: check_batched_forward_grad=True needs check_forward_ad=True")
    if masked:
        raise NotImplementedError("gradcheck: masked=True is about sparse tensors, which are not available")
    args = (inputs,) if isinstance(inputs, _C.Tensor) else tuple(inputs)
    s = Settings(eps, atol, rtol, nondet_tol, fast_mode)
    options = dict(
        backward=check_backward_ad,
        forward=check_forward_ad,
        undefined=check_undefined_grad,
        batched=check_batched_grad,
        batched_forward=check_batched_forward_grad,
    )
    try:
        run_checks(func, args, s, options)
        if check_grad_dtypes and check_backward_ad:
            check_dtypes(func, args)
    except (RuntimeError, ValueError):
        if raise_exception:
            raise
        return False
    return True


def check_dtypes(func: Callable, inputs: tuple) -> None:
    wanted = differentiable(inputs)
    for o in as_outputs(func(*inputs)):
        if not o.requires_grad:
            continue
        for g, x in zip(
            grad(o, wanted, o.detach().clone().fill_(1), retain_graph=True, allow_unused=True), wanted, strict=True
        ):
            if g is not None and g.dtype != x.dtype:
                raise GradcheckError("grad does not match input dtype")


def gradgradcheck(
    func: Callable,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """gradcheck of the gradient of `func`, with respect to inputs and output gradients."""
    args = (inputs,) if isinstance(inputs, _C.Tensor) else tuple(inputs)
    if grad_outputs is None:
        outputs = [o for o in as_outputs(func(*args)) if o.requires_grad]
        rng = random.Random(1)
        weights = tuple(random_like(o, rng, gen_non_contig_grad_outputs) for o in outputs)
    else:
        weights = (grad_outputs,) if isinstance(grad_outputs, _C.Tensor) else tuple(grad_outputs)
    count = len(weights)

    def first_gradient(*both: Any) -> tuple:
        xs, gs = both[: len(both) - count], both[len(both) - count :]
        xs = tuple(x.requires_grad_() if is_varied(x, a) else x for x, a in zip(xs, args, strict=True))
        outputs = tuple(o for o in as_outputs(func(*xs)) if o.requires_grad)
        result = grad(outputs, differentiable(xs), gs, create_graph=True, allow_unused=True)
        return tuple(g for g in result if g is not None)

    return gradcheck(
        first_gradient, args + weights, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad, check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev, fast_mode=fast_mode, masked=masked or None,
    )


def is_varied(x: Any, original: Any) -> bool:
    """The finite differences run under no_grad and forward mode on detached copies: inputs still need their flag."""
    return (
        isinstance(x, _C.Tensor) and isinstance(original, _C.Tensor) and original.requires_grad and not x.requires_grad
    )


def random_like(o: Any, rng: random.Random, non_contiguous: bool) -> Any:
    result = from_reals([rng.gauss(0, 1) for _ in range(width(o))], o)
    if non_contiguous and result.ndim > 1:
        result = result.transpose(0, -1).contiguous().transpose(0, -1)
    return result.requires_grad_()


def get_numerical_jacobian(
    fn: Callable, inputs: Any, target: Any = None, eps: float = 1e-3, grad_out: float = 1.0
) -> list[Any]:
    """The Jacobian of the only output of `fn(inputs)` by differences,
    one matrix (inputs by outputs) for each input in `target`."""
    if grad_out != 1.0:
        raise ValueError(f"get_numerical_jacobian: expected grad_out to be 1.0, got {grad_out}")
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    wanted = differentiable(inputs) if target is None else as_outputs(target)
    return [_matrix(numerical(lambda *given: fn(given), inputs, x, eps)[0], x) for x in wanted]


def get_numerical_jacobian_wrt_specific_input(fn: Callable, input_idx: int, inputs: Any, outputs: Any, eps: float,
                                              input: Any = None, is_forward_ad: bool = False) -> tuple[Any,
                                              ...]:
    """The Jacobians of every output for one input, by differences."""
    x = inputs[input_idx] if input is None else input
    return tuple(_matrix(m, x) for m in numerical(fn, inputs, x, eps))


def get_analytical_jacobian(
    inputs: Any, output: Any, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> tuple[Any, bool, bool, bool]:
    """(the Jacobians of `output` by backward, whether backward repeats itself, whether sizes and dtypes of gradients
    fit)."""
    if grad_out != 1.0:
        raise ValueError(f"get_analytical_jacobian: expected grad_out to be 1.0, got {grad_out}")
    wanted = differentiable(as_outputs(inputs))
    first, second = analytical(output, wanted), analytical(output, wanted)
    reentrant = all(
        abs(a - b) <= nondet_tol
        for m, n in zip(first, second, strict=True)
        for r, q in zip(m, n, strict=True)
        for a, b in zip(r, q, strict=True)
    )
    return tuple(_matrix(m, x) for m, x in zip(first, wanted, strict=True)), reentrant, True, True


def _matrix(rows: Matrix, like: Any) -> Any:
    return _C.from_data([list(row) for row in rows], like.dtype, like.device)


class _CallableModule(types.ModuleType):
    """PyTorch's `autograd.gradcheck` is both a module and the function in it."""

    def __call__(self, *args: Any, **kwargs: Any) -> bool:
        return gradcheck(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
