"""Nodes of the tape as PyTorch's: an ATen call with the derivative PyTorch has for it.

Enters: a call of an ATen overload and its derivative, a table from parameters to functions. Leaves: its result, on the
tape; backward computes the functions in alphabetical order of parameters, as PyTorch's nodes do. A function names what
it reads: `g` (the gradient), `grads` (of several results), `result`, parameters of the call, `<parameter>_sizes`,
`wanted` (which of the parameters it is for).
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

from .. import _C
from .._C import Tensor
from .._decomp.aten_forms import SLOPES, _slope
from ..aten.overloads import AtenOverload, aten_name
from ..autograd.backward import grad as grad_of
from ..autograd.function import Function
from ..autograd.grad_mode import enable_grad, no_grad
from ..dispatch.dispatcher import tensors_of, torch_dispatch
from ..dispatch.keys import SUBCLASS
from ..op import find_op
from ..op.definition import SAVE_DATA, SAVE_META
from .derivatives import DERIVATIVES, LIMITS
from .derivatives.views import VIEWS

Derivative = dict[str, Callable]
_SEVERAL_RESULTS = ("native_group_norm",)     # whose further results are differentiable too
# Overloads whose nodes keep the result, of those that have the derivative of our definition.
SAVING = frozenset((
    "_cdist_forward.default", "_ctc_loss.Tensor", "_ctc_loss.default", "_pdist_forward.default",
    "_safe_softmax.default", "cholesky.default", "cholesky_inverse.default", "cholesky_solve.default",
    "copysign.Scalar", "copysign.Tensor", "cumprod.default", "dist.default", "index_reduce.default", "ldexp.Tensor",
    "linalg_cholesky_ex.default", "linalg_eig.default", "linalg_householder_product.default",
    "linalg_inv_ex.default", "linalg_lu.default", "linalg_lu_factor_ex.default", "linalg_lu_solve.default",
    "linalg_pinv.atol_rtol_tensor", "linalg_qr.default", "linalg_solve_triangular.default",
    "linalg_vector_norm.default", "logcumsumexp.default", "median.default", "nanmedian.default",
    "norm.ScalarOpt_dim", "ormqr.default", "polar.default", "prod.default", "prod.dim_int", "scatter_reduce.two",
    "segment_reduce.default", "sgn.default", "sqrt_.default", "special_erfcx.default", "special_i0e.default",
    "special_i1.default", "special_i1e.default", "special_log_ndtr.default", "special_ndtri.default",
    "std_mean.correction", "triangular_solve.default", "_linalg_det.default", "_linalg_eigh.default",
    "_linalg_slogdet.default", "_linalg_solve_ex.default", "_linalg_svd.default",
))


class Unit:
    """One call that is one node: the overload handlers see, and ours that serves it."""

    def __init__(self, func: Any, given: tuple, named: dict[str, Any], overload: Any, args: tuple) -> None:
        self.func, self.given, self.named, self.overload, self.args = func, given, named, overload, args

    def by_name(self) -> dict[str, Any]:
        """Arguments by ATen's names, defaults included."""
        if isinstance(self.func, AtenOverload):
            params = self.func._schema.arguments
            found = {p.name: p.default for p in params if p.has_default}
            return {**found, **{p.name: a for p, a in zip(params, self.given, strict=False)}, **self.named}
        schema, found = self.func._schema, {}
        names = [p.name for p in schema.arguments]
        for i, (p, a) in enumerate(zip(self.overload.definition.spec.params, self.args, strict=True)):
            name = aten_name(p.name, schema)
            found[name if name in names or i >= len(names) else names[i]] = a
        return found

    def run(self) -> Any:
        return torch_dispatch(self.overload, self.args, (self.func, self.given, self.named))


@cache
def twin(overload: Any) -> Any:
    """Our overload of a view with PyTorch's derivative, for the tape; itself where that is its own."""
    rule = VIEWS.get(overload.name)
    if rule is None:
        return overload
    definition = copy.copy(overload.definition)
    reads = read_by(rule)[1:]
    own = [p.name for p in definition.spec.params]
    names = {r: own[0] if r == "sizes" else r for r in reads if r == "sizes" or r in own}
    definition.saved_names = lambda: {names[r]: SAVE_META if r == "sizes" else SAVE_DATA for r in names}
    order = sorted(names, key=lambda r: own.index(names[r]))

    def vjp(g: Any, *saved: Any) -> tuple:
        given = dict(zip(order, saved, strict=True))
        if "sizes" in given:
            given["sizes"] = list(given["sizes"].shape)
        return (rule(g, *[given.get(r) for r in reads]),)

    definition.positional_vjp = lambda saved: vjp
    return definition.overload()


def derivative_of(func: Any) -> Derivative | None:
    """The derivative of an overload, by its full name or its op's."""
    return DERIVATIVES.get(f"{func._opname}.{func._overloadname}") or DERIVATIVES.get(func._opname)


@cache
def read_by(rule: Callable) -> tuple[str, ...]:
    """What a function of a derivative reads."""
    return tuple(inspect.signature(rule).parameters)


def record(unit: Unit, derivative: Derivative) -> Any:
    """Run a call, and leave a node for it on the tape."""
    values = unit.by_name()
    limit = LIMITS.get(unit.func._opname)
    if limit is not None and not limit(values):
        return NotImplemented
    wanted = [(name, values[name]) for name in values if _tensors(values[name])]
    tensors = [t for _, v in wanted for t in _tensors(v)]
    known = {n for names in derivative for n in names.split(", ")}
    if not any(t.requires_grad for n, v in wanted if n in known for t in _tensors(v)):
        with no_grad():
            return unit.run()
    call = _Call(unit, derivative, values)
    return call.typed(_class(unit.func._opname).apply(call, *tensors))


def _tensors(value: Any) -> list[Tensor]:
    return tensors_of((value,))


class _Result:
    """Several results are a tuple for the tape, and of their own class for users."""

    kind: type = tuple

    def noted(self, result: Any) -> Any:
        self.kind = type(result)
        return tuple(result) if isinstance(result, (tuple, list)) else result

    def typed(self, result: Any) -> Any:
        return self.kind(result) if isinstance(result, tuple) and self.kind is not tuple else result


class _Call(_Result):
    """What a node keeps of a call: no tensors but those that are saved."""

    def __init__(self, unit: Unit, derivative: Derivative, values: dict[str, Any]) -> None:
        self.unit: Unit | None = unit
        self.op = unit.func._opname
        self.derivative = derivative
        self.counts = {n: len(_tensors(v)) if isinstance(v, (list, tuple)) else None for n, v in values.items()
                       if _tensors(v)}
        self.plain = {n: v for n, v in values.items() if not _tensors(v)}
        self.sizes = {f"{n}_sizes": tuple(v.shape) for n, v in values.items() if isinstance(v, Tensor)}
        self.types = {f"{n}_{what}": getattr(v, what) for n, v in values.items() if isinstance(v, Tensor)
                      for what in ("dtype", "device")}
        self.strides = {f"{n}_strides": tuple(v.stride()) for n, v in values.items() if isinstance(v, Tensor)}

    def run(self, tensors: tuple, needs: tuple[bool, ...]) -> tuple[Any, list[Tensor]]:
        """The result, and what is to be saved."""
        unit, self.unit = self.unit, None
        assert unit is not None, "a node's call runs once"
        result = self.noted(unit.run())
        reads = {r for names, rule in self.derivative.items() if self.is_wanted(names, needs) for r in read_by(rule)}
        at, self.saved, kept = 0, [], []
        for name, count in self.counts.items():
            taken = tensors[at : at + (1 if count is None else count)]
            at += len(taken)
            if name in reads:
                self.saved.append((name, count))
                kept += taken
        results = result if isinstance(result, tuple) else (result,)
        self.results: list[int] = []
        for i, r in enumerate(results):
            if f"result{i}" in reads or (i == 0 and "result" in reads):
                self.results.append(i)
                kept.append(r)
                if isinstance(r, Tensor) and not r._keys & SUBCLASS:     # which the tape itself asks for what it keeps
                    self.leave(i, r)
        return result, kept

    def leave(self, i: int, value: Any) -> Any:
        """A result as it is kept."""
        return leave(value) if i == 0 or self.op in _SEVERAL_RESULTS else value

    def is_wanted(self, names: str, needs: tuple[bool, ...]) -> bool:
        return any(any(self.of(n, needs)) for n in names.split(", ") if n in self.counts)

    def of(self, name: str, values: Any) -> Any:
        """The part of what there is for every tensor that belongs to one parameter."""
        at = 0
        for n, count in self.counts.items():
            width = 1 if count is None else count
            if n == name:
                return values[at : at + width]
            at += width
        return ()

    def gradients(self, grads: tuple, saved: tuple, needs: tuple[bool, ...]) -> list[Any]:
        """One gradient for every tensor of the call."""
        values = {**self.plain, **self.sizes, **self.types, **self.strides, "g": grads[0], "grads": grads}
        left = list(saved)
        for name, count in self.saved:
            if count is None:
                values[name] = left.pop(0)
            else:
                values[name], left = left[:count], left[count:]
        for i in self.results:
            value = self.leave(i, left.pop(0))
            values[f"result{i}"] = value
            if i == 0:
                values["result"] = value
        found: dict[str, Any] = {}
        for names in sorted(self.derivative):
            if not self.is_wanted(names, needs):
                continue
            listed = [n for n in names.split(", ") if n in self.counts]
            values["wanted"] = [n in self.counts and any(self.of(n, needs)) for n in names.split(", ")]
            rule = self.derivative[names]
            answer = rule(*[values[r] if r in values else None for r in read_by(rule)])
            if "," in names:
                found.update({n: a for n, a in zip(names.split(", "), answer, strict=True) if n in listed})
            else:
                assert answer is not None, f"{self.op}: its table has no derivative for {names}"
                found[names] = answer
        result: list[Any] = []
        for name, count in self.counts.items():
            answer = found.get(name)
            result += [answer] if count is None else list(answer) if answer is not None else [None] * count
        return [r if n else None for r, n in zip(result, needs, strict=True)]


def leave(value: Any) -> Any:
    """A result that is kept leaves the graph, which handlers see; where gradients are differentiated it comes back."""
    if isinstance(value, (tuple, list)):
        return [leave(v) for v in value]
    if not isinstance(value, Tensor):
        return value
    with no_grad():
        apart = find_op("detach")(value)
    return value if _C.is_grad_enabled() else apart


class AtenNode(Function):
    """A node whose derivative is a table."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: Any) -> Any:
        result, kept = call.run(tensors, ctx.needs_input_grad[1:])
        ctx.call = call
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*kept)
        if isinstance(result, tuple) and call.op not in _SEVERAL_RESULTS:
            ctx.mark_non_differentiable(*tensors_of(result[1:]))
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if all(g is None for g in grads):
            return (None,) * len(ctx.needs_input_grad)
        return (None, *ctx.call.gradients(grads, ctx.saved_tensors, ctx.needs_input_grad[1:]))


class BodyNode(Function):
    """A node of an op whose derivative is that of its body: which runs again, recorded, when gradients come."""

    @staticmethod
    def forward(ctx: Any, call: _Body, *tensors: Any) -> Any:
        ctx.call = call
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)
        return call.run()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        wanted = [i for i, n in enumerate(ctx.needs_input_grad[1:]) if n]
        tensors, is_differentiated = list(ctx.saved_tensors), _C.is_grad_enabled()
        with enable_grad():
            if not is_differentiated:
                tensors = [t.detach().requires_grad_() if i in wanted else t for i, t in enumerate(tensors)]
            result = ctx.call.again(tensors)
        outs = list(result) if isinstance(result, (tuple, list)) else [result]
        pairs = [(o, g) for o, g in zip(outs, grads, strict=True) if g is not None and o.requires_grad]
        found: tuple = (None,) * len(wanted)
        if pairs:
            found = grad_of([o for o, _ in pairs], [tensors[i] for i in wanted], [g for _, g in pairs],
                            allow_unused=True, create_graph=is_differentiated)
        answer: list[Any] = [None] * (len(tensors) + 1)
        for i, f in zip(wanted, found, strict=True):
            answer[i + 1] = f
        return tuple(answer)


class _Body(_Result):
    """A call without its tensors, that can be made with others."""

    def __init__(self, unit: Unit) -> None:
        self.unit: Unit | None = unit
        self.overload = unit.overload
        self.places = [[isinstance(x, Tensor) for x in a] if isinstance(a, (list, tuple)) else isinstance(a, Tensor)
                       for a in unit.args]
        self.plain = [[None if isinstance(x, Tensor) else x for x in a] if isinstance(a, (list, tuple))
                      else None if isinstance(a, Tensor) else a for a in unit.args]

    def run(self) -> Any:
        unit, self.unit = self.unit, None
        assert unit is not None, "a node's call runs once"
        key = f"{unit.func._opname}.{unit.func._overloadname}"
        result = self.noted(unit.run())
        if key in SAVING:
            leave(result)
        return result

    def again(self, tensors: list[Tensor]) -> Any:
        left = iter(tensors)
        args = [[next(left) if p else x for p, x in zip(place, value, strict=True)] if isinstance(place, list)
                else next(left) if place else value for place, value in zip(self.places, self.plain, strict=True)]
        return self.overload.redispatch(*args)


def record_body(unit: Unit) -> Any:
    """Run a call that is a composite here, as one node. NotImplemented where it draws numbers: it runs once only."""
    if unit.overload.definition.batch == "random" or unit.overload.inplace:
        return NotImplemented
    call = _Body(unit)
    return call.typed(_class(unit.func._opname, BodyNode).apply(call, *tensors_of(unit.args)))


@cache
def _class(op: str, base: type = AtenNode) -> type[Function]:
    """The class of an op's nodes: its name is what `grad_fn` says."""
    words = "".join(w[:1].upper() + w[1:] for w in op.split("_"))
    made = type(words, (base,), {})
    made._backward_cls.__name__ = f"{words}Backward0"
    return made


# --- gradients of pointwise ops that our tape recorded ----------------------------------------------------------------


def slope(definition: Any, args: tuple) -> Any:
    """Our gradient of a pointwise op, as PyTorch computes it where everything it reads is there."""
    forward = definition.forward
    table = DERIVATIVES.get(forward.name)
    count = definition.num_grads
    given = {_aten(p.name): a for p, a in zip(definition.spec.params[count:], args[count:], strict=True)}
    params = [_aten(forward.spec.params[i].name) for i in definition.wanted]
    if table is None or count != 1 or forward.name in SLOPES or not all(p in table for p in params):
        return _slope(definition, *args)
    values = {**given, "g": args[0]}
    reads = {p: read_by(table[p]) for p in params}
    if not all(r in values for names in reads.values() for r in names):
        return _slope(definition, *args)
    if "result" in {r for names in reads.values() for r in names}:
        values["result"] = leave(values["result"])
    found = {p: table[p](*[values[r] for r in reads[p]]) for p in sorted(params)}
    if any(v is None for v in found.values()):
        return _slope(definition, *args)
    results = tuple(found[p] for p in params)
    return results[0] if len(results) == 1 else results


def _aten(name: str) -> str:
    return "self" if name == "input" else name
