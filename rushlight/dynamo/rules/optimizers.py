"""Steps of optimizers inside of captured functions.

Enters: `optimizer.step()` of this framework's optimizers, whose update is one native call. Leaves: that call behind the
graph, with the gradients that it is to see: new learning rates and the state that a first step makes are its own
business, and no step is another graph. If the program goes on to use parameters, gradients or state behind the step, it
is captured once more, with the update as ops of the graph: counts of steps stay tensors there. Refuses (breaks the
graph): steps that autograd records; and, as ops, gradients that a scaler holds and parameters that stand twice in a
group. Optimizers written in Python are interpreted like any other code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import _C
from ..._C import Tensor
from ...optim.optimizer import Optimizer
from ...optim.rule import RuledOptimizer, check_capturable
from ..record.breaks import GraphBreak, StepsInside
from ..record.machine import Machine
from ..values.guards import Kind
from ..values.outside import Twin
from ..values.sources import DictOf, Item
from .natives import special

_OWN = ("_begin", "_first_hyper", "_check_group", "_take_sparse", "_is_begun", "_step_group")


@dataclass(frozen=True)
class Step:
    """A step to make behind the graph: the optimizer, its parameters, and their gradients when it was called."""

    optimizer: Any
    params: tuple
    gradients: tuple


class Steps:
    """The steps of one capture."""

    def __init__(self) -> None:
        self.taken: list[Step] = []
        self.memory: set[int] = set()      # of tensors that are not what they seem behind a step
        self.kept: set[int] = set()        # state of optimizers, by id

    def add(self, m: Machine, step: Step, state: Any) -> None:
        """A step to make behind the graph."""
        self.taken.append(step)
        self.kept.add(id(state))
        for t in (*step.params, *step.gradients):
            self.memory.update(_memory(m, t))

    def check(self, m: Machine, args: Any) -> None:
        """Begin again where an op works on what a step behind the graph has changed, or reads."""
        for a in args:
            if isinstance(a, Tensor):
                if not self.memory.isdisjoint(_memory(m, a)):
                    raise StepsInside
            elif isinstance(a, (list, tuple)):
                self.check(m, a)


def _memory(m: Machine, t: Any) -> list[int]:
    """Where a tensor's elements are: those of the fake, and of what it stands for."""
    known = m.twin_of(t)
    reals = [] if known is None or not isinstance(known.real, Tensor) else [known.real]
    return [Tensor.untyped_storage(one)._cdata for one in (t, *reals) if isinstance(one, Tensor)]


@special(RuledOptimizer.step)
def _step(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """optimizer.step(closure=None)"""
    optimizer, *rest = args
    closure = rest[0] if rest else kwargs.get("closure")
    known = m.twin_of(optimizer)
    kind = type(optimizer)
    if known is None or not all(getattr(kind, name).__module__.startswith("rushlight.") for name in _OWN):
        raise GraphBreak("not modelled", f"a step of {kind.__name__}, which is made here or has parts of its own")
    loss = None
    if closure is not None:
        before = _C.is_grad_enabled()
        m.call(_C._set_grad_enabled, (True,), {})
        loss = m.call(closure, (), {})
        m.call(_C._set_grad_enabled, (before,), {})
    if not m.steps_inside and _is_as_it_was(m, known.real):
        params = tuple(_params(m, known, "differentiable"))
        step = Step(optimizer, params, tuple(m.gradients.read(m, p) for p in params))
        m.optimizer_steps.add(m, step, known.real.state)
        return loss
    if known.real._has_repeats or "found_inf" in vars(known.real):
        raise GraphBreak("not modelled", "a step with scaled gradients, or with a parameter that stands twice")
    groups = m.listed(m.load_attr(optimizer, "param_groups"))
    if any(group["differentiable"] for group in groups):
        raise GraphBreak("not modelled", "a step that autograd records")
    for group in groups:
        _step_group(m, known.real, m.load_attr(optimizer, "state"), group)
    return loss


def _is_as_it_was(m: Machine, real: Any) -> bool:
    """Whether the program has changed nothing of an optimizer, so that the step may be made on it later."""
    if id(real.state) in m.outside.by_real:
        return False
    for owner in (real.param_groups, *real.param_groups, *(group["params"] for group in real.param_groups)):
        known = m.outside.by_real.get(id(owner))
        now = () if known is None else list(known.twin.values()) if isinstance(owner, dict) else list(known.twin)
        before = () if known is None else list(known.before.values()) if isinstance(owner, dict) else known.before
        if len(now) != len(before) or any(a is not b for a, b in zip(now, before, strict=True)):
            return False
    return True


def _params(m: Machine, known: Twin, refused: str | None = None) -> list[Tensor]:
    """All parameters of an optimizer. Its options are not looked at: learning rates may be others at each call."""
    place = Item(DictOf(known.source), "param_groups")
    m.outside.guard(Kind.LENGTH, place, len(known.real.param_groups))
    found: list[Tensor] = []
    for i, group in enumerate(known.real.param_groups):
        if refused is not None and m.outside.admit(group[refused], Item(Item(place, i), refused)):
            raise GraphBreak("not modelled", f"a step of an optimizer that is {refused}")
        found += m.listed(m.outside.admit(group["params"], Item(Item(place, i), "params")))
    return found


@special(Optimizer.zero_grad)
def _zero_grad(m: Machine, f: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    known = m.twin_of(args[0])
    if known is None or not {**dict(zip(("set_to_none",), args[1:], strict=False)), **kwargs}.get("set_to_none", True) \
            or not _is_as_it_was(m, known.real):
        return m.call_function(f, args, kwargs)
    for p in _params(m, known):
        if m.gradients.read(m, p) is not None:
            m.gradients.write(m, p, None)
    return None


# --- as ops of the graph ----------------------------------------------------------------------------------------------


def _step_group(m: Machine, real: Any, state: dict[Tensor, dict], group: dict[str, Any]) -> None:
    rule = real._rule
    params = [(p, g) for p in group["params"] if (g := m.gradients.read(m, p)) is not None]
    if any(g.is_sparse for _, g in params):
        raise GraphBreak("not modelled", "a step with sparse gradients")
    m.native(check_capturable, ([p for p, _ in params], group))
    choices = m.native(rule.choices, (group,), is_watched=False)
    wanted = (*rule.scalars, *rule.state(choices))
    recorded = _C.is_grad_enabled()
    m.call(_C._set_grad_enabled, (False,), {})
    for p, g in params:
        own = state.get(p)
        if own is None:
            own = state[p] = {}
        hyper = group
        if wanted and not any(own.get(key) is not None for key in wanted):
            m.native(type(real)._begin, (real, group, p, own), is_watched=False)
            hyper = real._first_hyper(group)
        elif any(own.get(key) is None for key in wanted):
            raise GraphBreak("not modelled", "a step with some of its state missing")
        m.native(rule.update_with_ops, (p, g, own, hyper, choices, _wide), is_watched=False)
    m.call(_C._set_grad_enabled, (recorded,), {})


def _wide(cell: Tensor) -> Tensor:
    """State of one element, as a number of the precision that Python computes in."""
    return cell.to(_C.float64)
