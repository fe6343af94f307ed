"""L-BFGS: quasi-Newton steps from a short history of gradients,
with an optional line search (strong Wolfe conditions)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._C import Tensor
from ..autograd.grad_mode import enable_grad, no_grad
from ..base.descriptions import describe
from ..op import find_op
from .optimizer import Optimizer, ParamsT, _to_scalar


def _cubic_interpolate(
    x1: Any, f1: Any, g1: Any, x2: Any, f2: Any, g2: Any, bounds: tuple[Any, Any] | None = None
) -> Any:
    """The minimum, within bounds, of the cubic with values f and slopes g at x1 and x2; the middle if it has none."""
    low, high = bounds if bounds is not None else (x1, x2) if x1 <= x2 else (x2, x1)
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1**2 - g1 * g2
    if not square >= 0:
        return (low + high) / 2.0
    d2 = square**0.5
    if x1 > x2:
        x1, g1, x2, g2 = x2, g2, x1, g1
    return min(max(x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2)), low), high)


class Trial:
    """A point of a line search: step length, loss, gradient, and slope along the direction."""

    def __init__(self, t: Any, loss: float, grad: Tensor, slope: Any) -> None:
        self.t, self.loss, self.grad, self.slope = t, loss, grad, slope


def interpolate(a: Trial, b: Trial, bounds: tuple[Any, Any] | None = None) -> Any:
    return _cubic_interpolate(a.t, a.loss, a.slope, b.t, b.loss, b.slope, bounds)


class LineSearch:
    """Looks along a direction for a step that lowers the loss enough (c1) and flattens the slope enough (c2)."""

    def __init__(
        self,
        evaluate: Callable,
        x: Any,
        d: Tensor,
        start: Trial,
        c1: float,
        c2: float,
        tolerance_change: float,
        max_ls: int,
    ) -> None:
        self.evaluate, self.x, self.d, self.start = evaluate, x, d, start
        self.c1, self.c2, self.tolerance_change, self.max_ls = c1, c2, tolerance_change, max_ls
        self.evaluations = self.iterations = 0

    def try_step(self, t: Any) -> Trial:
        loss, grad = self.evaluate(self.x, t, self.d)
        self.evaluations += 1
        return Trial(t, loss, grad.clone(), grad.dot(self.d))

    def is_too_high(self, trial: Trial) -> bool:
        return bool(trial.loss > self.start.loss + self.c1 * trial.t * self.start.slope)

    def is_flat(self, trial: Trial) -> bool:
        return bool(abs(trial.slope) <= -self.c2 * self.start.slope)

    def bracket(self, t: Any) -> tuple[list[Trial], bool]:
        """Two trials with a good step between them, or one that is good itself."""
        before, now = self.start, self.try_step(t)
        while self.iterations < self.max_ls:
            if self.is_too_high(now) or (self.iterations > 1 and now.loss >= before.loss):
                return [before, now], False
            if self.is_flat(now):
                return [now], True
            if now.slope >= 0:
                return [before, now], False
            t = interpolate(before, now, bounds=(now.t + 0.01 * (now.t - before.t), now.t * 10))
            before, now = now, self.try_step(t)
            self.iterations += 1
        return [self.start, now], False

    def zoom(self, bracket: list[Trial]) -> Trial:
        """Narrow a bracket down to a good step."""
        low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
        longest, is_stuck = self.d.abs().max(), False
        while self.iterations < self.max_ls:
            ends = [trial.t for trial in bracket]
            if abs(ends[1] - ends[0]) * longest < self.tolerance_change:
                break
            t = interpolate(*bracket)
            margin = 0.1 * (max(ends) - min(ends))
            is_near = bool(min(max(ends) - t, t - min(ends)) < margin)
            if is_near and (is_stuck or t >= max(ends) or t <= min(ends)):
                t = max(ends) - margin if abs(t - max(ends)) < abs(t - min(ends)) else min(ends) + margin
                is_near = False
            is_stuck = is_near
            now = self.try_step(t)
            self.iterations += 1
            if self.is_too_high(now) or now.loss >= bracket[low].loss:
                bracket[high] = now
                low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
                continue
            is_done = self.is_flat(now)
            if not is_done and now.slope * (bracket[high].t - bracket[low].t) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = now
            if is_done:
                break
        return bracket[low]


def _strong_wolfe(obj_func: Callable, x: Any, t: Any, d: Tensor, f: float, g: Tensor, gtd: Any, c1: float = 1e-4,
                  c2: float = 0.9, tolerance_change: float = 1e-9, max_ls: int = 25) -> tuple[float, Tensor, Any,
                  int]:
    """(loss, gradient, step length, evaluations) of a step along `d` that satisfies the strong Wolfe conditions,
    if one is found."""
    search = LineSearch(obj_func, x, d, Trial(0, f, g.clone(), gtd), c1, c2, tolerance_change, max_ls)
    trials, is_done = search.bracket(t)
    best = trials[0] if is_done else search.zoom(trials)
    return best.loss, best.grad, best.t, search.evaluations


class LBFGS(Optimizer):
    """Up to `max_iter` quasi-Newton steps per call, which evaluates `closure` again for each;
    one group of parameters only.

    Example:
        >>> w = rl.nn.Parameter(rl.tensor([1.0, 2.0]))
        >>> optimizer = rl.optim.LBFGS([w])
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = (w * w).sum()
        ...     loss.backward()
        ...     return loss
        >>> optimizer.step(closure).item(), bool((w * w).sum() < 1e-6)
        (5.0, True)
    """

    def __init__(self, params: ParamsT, lr: float | Tensor = 1, max_iter: int = 20, max_eval: int | None = None,
                 tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
                 line_search_fn: str | None = None) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not 0.0 <= lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        super().__init__(params,
            {"lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
             "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
             "line_search_fn": line_search_fn})
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS takes one list of parameters, no parameter groups")

    @property
    def _params(self) -> list[Tensor]:
        return self.param_groups[0]["params"]

    def _numel(self) -> int:
        return sum(2 * p.numel() if p.is_complex() else p.numel() for p in self._params)

    def _gather_flat_grad(self) -> Tensor:
        views = []
        for p in self._params:
            grad = find_op("zeros_like")(p) if p.grad is None else p.grad.to_dense() if p.grad.is_sparse else p.grad
            views.append((find_op("view_as_real")(grad.resolve_conj()) if grad.is_complex() else grad).reshape(-1))
        return find_op("cat")(views, 0)

    def _add_grad(self, step_size: Any, update: Tensor) -> None:
        step_size, offset = float(step_size), 0
        for p in self._params:
            p = find_op("view_as_real")(p) if p.is_complex() else p
            p.add_(update[offset : offset + p.numel()].view_as(p), alpha=step_size)
            offset += p.numel()

    def _clone_param(self) -> list[Tensor]:
        return [p.clone() for p in self._params]

    def _set_param(self, params_data: list[Tensor]) -> None:
        for p, data in zip(self._params, params_data, strict=True):
            p.copy_(data)

    def _directional_evaluate(self, closure: Callable, x: list[Tensor], t: Any, d: Tensor) -> tuple[float, Tensor]:
        self._add_grad(t, d)
        loss = float(closure())
        grad = self._gather_flat_grad()
        self._set_param(x)
        return loss, grad

    def _remember(self, state: dict[str, Any], grad: Tensor, history_size: int) -> None:
        """Take the last step and the change of the gradient over it into the history, if they curve upwards."""
        y, s = grad - state["prev_flat_grad"], state["d"] * state["t"]
        ys = y.dot(s)
        if not ys > 1e-10:
            return
        for key, value in (("old_dirs", y), ("old_stps", s), ("ro", 1.0 / ys)):
            if len(state[key]) == history_size:
                state[key].pop(0)
            state[key].append(value)
        state["H_diag"] = ys / y.dot(y)

    def _direction(self, state: dict[str, Any], grad: Tensor, history_size: int) -> Tensor:
        """Minus the gradient times the inverse Hessian the history suggests (two loops over it)."""
        dirs, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        al = state.setdefault("al", [None] * history_size)
        q = -grad
        for i in range(len(dirs) - 1, -1, -1):
            al[i] = steps[i].dot(q) * ro[i]
            q.add_(dirs[i], alpha=-float(al[i]))
        r = q * state["H_diag"]
        for i in range(len(dirs)):
            r.add_(steps[i], alpha=float(al[i] - dirs[i].dot(r) * ro[i]))
        return r

    @no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:
        """Minimise: `closure` clears gradients, computes the loss and its gradients, and returns the loss."""
        if len(self.param_groups) != 1:
            raise AssertionError(f"Expected exactly one param_group, but got {len(self.param_groups)}")
        closure = enable_grad()(closure)
        group, state = self.param_groups[0], self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = closure()
        loss, evaluations = float(first), 1
        state["func_evals"] += 1
        grad = self._gather_flat_grad()
        if grad.abs().max() <= group["tolerance_grad"]:
            return first
        for iteration in range(1, group["max_iter"] + 1):
            slope = self._prepare(state, grad, loss, group)
            if slope > -group["tolerance_change"]:
                break
            is_last = iteration == group["max_iter"]
            loss, grad, used = self._advance(closure, state, loss, grad, slope, group, evaluations, is_last)
            evaluations += used
            state["func_evals"] += used
            if is_last or evaluations >= group["max_eval"] or self._has_converged(state, loss, grad, group):
                break
        return first

    def _prepare(self, state: dict[str, Any], grad: Tensor, loss: float, group: dict[str, Any]) -> Any:
        """Choose direction and step length; returns the slope along the direction."""
        state["n_iter"] += 1
        lr = _to_scalar(group["lr"])
        if state["n_iter"] == 1:
            state.update(d=-grad, old_dirs=[], old_stps=[], ro=[], H_diag=1, prev_flat_grad=grad.clone())
            state["t"] = min(1.0, 1.0 / grad.abs().sum()) * lr
        else:
            self._remember(state, grad, group["history_size"])
            state["d"] = self._direction(state, grad, group["history_size"])
            state["prev_flat_grad"] = grad.clone()
            state["t"] = lr
        state["prev_loss"] = loss
        return grad.dot(state["d"])

    def _advance(self, closure: Callable, state: dict[str, Any], loss: float, grad: Tensor, slope: Any,
                 group: dict[str, Any], evaluations: int, is_last: bool) -> tuple[float, Tensor, int]:
        """Step along the direction; (loss, gradient, evaluations) there."""
        used = 0
        if group["line_search_fn"] is None:
            self._add_grad(state["t"], state["d"])
            if not is_last:
                loss, used = float(closure()), 1
                grad = self._gather_flat_grad()
            return loss, grad, used
        if group["line_search_fn"] != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")

        def evaluate(x: list[Tensor], t: Any, d: Tensor) -> tuple[float, Tensor]:
            return self._directional_evaluate(closure, x, t, d)

        loss, grad, state["t"], used = _strong_wolfe(evaluate, self._clone_param(), state["t"], state["d"], loss, grad,
                                                     slope, max_ls=group["max_eval"] - evaluations)
        self._add_grad(state["t"], state["d"])
        return loss, grad, used

    def _has_converged(self, state: dict[str, Any], loss: float, grad: Tensor, group: dict[str, Any]) -> bool:
        least = group["tolerance_change"]
        return bool(
            grad.abs().max() <= group["tolerance_grad"]
            or (state["d"] * state["t"]).abs().max() <= least
            or abs(loss - state["prev_loss"]) < least
        )


__all__ = ["LBFGS"]


describe(globals(), Optimizer, __file__)
