"""One call of ours as calls of ATen: composites in parts, above autograd; the others recorded as PyTorch records them.

Enters: overloads with bound arguments, from the dispatcher; ATen's overloads, from rules and handlers. Leaves: results.
NotImplemented where our own op is what is shown: ops of `library`, and parts of ours that ATen has no name for.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from .. import _C
from .._decomp.aten_forms import FORMS
from ..aten.adapters import ADAPTERS
from ..aten.calls import aten_call, named_target
from ..aten.overloads import AtenOverload
from ..base.tables import rows
from ..devices import private_use
from ..dispatch.dispatcher import is_composite, tensors_of, torch_dispatch
from ..op.pointwise import PointwiseVjp
from .composites import COMPOSED
from .factories import is_factory, with_options
from .networks import OWN
from .nodes import SAVING, Unit, derivative_of, leave, record, record_body, slope, twin
from .private_use.entry import before_autograd, has_kernel


@cache
def implicit_names() -> frozenset[str]:
    """Overloads that PyTorch takes apart above autograd, whatever the device."""
    return frozenset(rows(__file__, "implicit"))


def call(overload: Any, args: tuple) -> Any:
    """A call of ours, shown to handlers as ATen's."""
    definition = overload.definition
    if definition.custom or "::" in overload.name:
        return NotImplemented
    if isinstance(definition, PointwiseVjp):
        return overload.autograd(lambda *inner: _C.own_call(slope, definition, inner), *args)
    last = definition.spec.params[-1].name if definition.spec.params else ""
    if last == "requires_grad" and args[-1]:
        given = {p.name: a for p, a in zip(definition.spec.params, (*args[:-1], False), strict=True)}
        return overload(**given).requires_grad_()
    rule = OWN.get(overload.name)
    answer = _C.own_call(rule, *args) if rule is not None else NotImplemented
    if answer is not NotImplemented:
        return answer
    found = aten_call(overload, args)
    if found is None:
        return _by_form(overload, args)
    return shown(*with_options(*found), overload, args)


def _by_form(overload: Any, args: tuple) -> Any:
    """A part of ours that ATen has not: by ATen's ops below autograd, where there is a rule."""
    form = FORMS.get(overload.name)
    if form is None:
        return NotImplemented
    answer: list[Any] = []

    def run(*inner: Any) -> Any:
        answer.append(_C.own_call(form, *inner))
        return answer[0] if answer[0] is not NotImplemented else torch_dispatch(overload, inner)

    return overload.autograd(run, *args) if overload.records else run(*args)


def shown(func: Any, given: tuple, named: dict[str, Any], overload: Any, args: tuple) -> Any:
    """A call by ATen's overload: in parts where PyTorch has it in parts, else as one."""
    key = f"{func._opname}.{func._overloadname}"
    if private_use.state.is_used:
        answer = before_autograd(func, key, given, named)
        if answer is not NotImplemented:
            return answer
    if _C.is_inference_mode_enabled() and key in implicit_names():     # without autograd nothing is above it
        return Unit(func, given, named, overload, args).run()
    is_whole = private_use.state.is_used and has_kernel(key, given)     # a back end takes what PyTorch has in parts
    rule = None if is_whole else COMPOSED.get(key) or COMPOSED.get(func._opname)
    answer = _C.own_call(lambda: rule(*given, **named)) if rule is not None else NotImplemented
    if answer is not NotImplemented:
        return answer
    is_body = is_composite(overload)
    if is_body and key in implicit_names() and not is_whole:
        return NotImplemented
    records = _C.is_grad_enabled() and any(t.requires_grad for t in tensors_of(args))
    derivative = derivative_of(func) if records and not overload.inplace and not overload.is_view else None
    if derivative is not None:
        answer = record(Unit(func, given, named, overload, args), derivative)
        if answer is not NotImplemented:
            return answer
    if is_body:
        unit = Unit(func, given, named, overload, args)
        is_recorded = records and overload.definition.differentiable and not is_factory(func._opname)
        return record_body(unit) if is_recorded else unit.run()
    if not overload.records:
        return _handed(func, overload, args, (given, named))
    return twin(overload).autograd(lambda *inner: _kept(key, _handed(func, overload, inner), records), *args)


def _kept(key: str, result: Any, records: bool) -> Any:
    """A result that PyTorch's node keeps leaves the graph, which handlers see."""
    if records and key in SAVING:
        leave(result)
    return result


def _handed(func: Any, overload: Any, args: tuple, call: tuple[tuple, dict[str, Any]] | None = None) -> Any:
    if call is None:
        found = aten_call(overload, args)
        assert found is not None, f"{func}: the call has ATen's form above autograd, and below it has not"
        call = with_options(*found)[1:]
    return torch_dispatch(overload, args, (func, *call))


def exact(func: AtenOverload, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A call of this very overload, where several of ATen's are one of ours; NotImplemented where none of ours is."""
    if func._opname in ADAPTERS:
        return _adapted(func, args, kwargs)
    found = func.ours(args, kwargs, lambda own: own)
    if found is None:
        return NotImplemented
    overload, own = found
    bound, _ = overload.bind((), own)
    return shown(named_target(func._opname, func._overloadname), args, kwargs, overload, tuple(bound))


def _adapted(func: AtenOverload, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A call of an overload whose arguments our op does not have: as one, where our op takes the first of them."""
    overload = func.counterpart
    params = [p.name for p in overload.definition.spec.params]
    found = overload.bind(args[: len(params)], {"return_indices": True} if "return_indices" in params else {})
    if found is None:
        return NotImplemented
    unit = Unit(func, args, kwargs, overload, tuple(found[0]))
    if not (_C.is_grad_enabled() and any(t.requires_grad for t in tensors_of(args))):
        return unit.run()
    derivative = derivative_of(func)
    return record_body(unit) if derivative is None else record(unit, derivative)
