"""Rules: an optimizer's update, written once as the new value of one element.

Enters: a rule (`numbers`, per step; `expr`, per element), lists of parameters and gradients, and state by parameter.
Leaves: parameters and state updated. Everything an optimizer offers comes from the two functions: the scalar vocabulary
turns `expr` into one kernel that runs over all parameters at once (op/multi_tensor.py), and where that does not reach
(`differentiable`, tensor subclasses, modes, other devices, layouts that differ) the same `expr` runs on whole tensors.
Refuses: what a rule's optimizer refuses.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from .. import _C
from .._C import Tensor
from ..autograd.grad_mode import enable_grad, no_grad
from ..base.descriptions import describe
from ..op import find_op
from ..op.multi_tensor import DeviceUpdate, multi_tensor_update
from .optimizer import Optimizer, _device_dtype_check_for_fused, _get_capturable_supported_devices, _get_scalar_dtype


class TensorMath:
    """The scalar vocabulary, on whole tensors."""

    @staticmethod
    def sqrt(x: Tensor) -> Tensor:
        return x.sqrt()

    @staticmethod
    def fma(a: Any, b: Any, c: Any) -> Any:
        return a * b + c

    @staticmethod
    def near_div(a: Any, b: Any) -> Any:
        return a / b

    @staticmethod
    def abs(x: Tensor) -> Tensor:
        return x.abs()

    @staticmethod
    def sign(x: Tensor) -> Tensor:
        return x.sign()

    @staticmethod
    def maximum(a: Tensor, b: Tensor) -> Tensor:
        return find_op("maximum")(a, b)

    @staticmethod
    def clamp(x: Tensor, low: Any, high: Any) -> Tensor:
        return x.clamp(low, high)

    @staticmethod
    def gt(a: Any, b: Any) -> Any:
        return a > b

    @staticmethod
    def lt(a: Any, b: Any) -> Any:
        return a < b

    @staticmethod
    def where(condition: Any, a: Any, b: Any) -> Any:
        if not isinstance(condition, Tensor):
            return a if condition else b
        return find_op("where")(condition, a, b)


class KnownNumbers:
    """Numbers in tensors of one element, such as a step of a fused update, without asking the device that has them:
    what was written is known until the tensor changes, which its version tells."""

    def __init__(self) -> None:
        self.found: dict[int, tuple[weakref.ref, int, float]] = {}
        self.adding = DeviceUpdate("add_number", 1, lambda s, tensors, numbers: {0: tensors[0] + numbers[0]})

    def read(self, cell: Tensor) -> float:
        known = self.found.get(id(cell))
        return known[2] if known and known[0]() is cell and known[1] == cell._version else cell.item()

    def write(self, cells: list[Tensor], old: float, new: float) -> None:
        """Tensors that all have `old` get `new`: on a device by one launch."""
        if cells[0].device.type == "cpu" or not self.adding.many([(cell,) for cell in cells], (new - old,)):
            for cell in cells:
                cell.fill_(new)
        for cell in cells if cells[0].device.type != "cpu" else ():
            number = id(cell)
            gone = weakref.ref(cell, lambda _, number=number: self.found.pop(number, None))
            self.found[number] = gone, cell._version, new


known = KnownNumbers()
copies = DeviceUpdate("copy_number", 0, lambda s, tensors, numbers: {0: tensors[1]})


def copy_numbers(targets: list[Tensor], sources: list[Tensor]) -> None:
    """Tensors of one element into others, of one type each: on a device by one launch, and nothing is waited for."""
    if not copies.many(list(zip(targets, sources, strict=True)), ()):
        for target, source in zip(targets, sources, strict=True):
            target.copy_(source)


def as_number(cell: Tensor) -> Any:
    """State of one element as a step computes with it: what lies on a device stays there."""
    return cell.item() if cell.device.type == "cpu" else cell.to(_C.float64)


class Numbers:
    """What `expr` reads beside tensors, by name."""

    def __init__(self, names: tuple[str, ...], values: Any) -> None:
        self.__dict__.update(zip(names, values, strict=True))


class Rule:
    """An update. Options are read from `hyper`, a parameter group or a dict like one.

    `scalars` names the state of one element, `names` the numbers `expr` reads; `numbers(hyper, *scalars)` gives the new
    scalars and then those numbers; tensors among the options may make them tensors. `choices(hyper)` are the options
    that change the expression itself; `state(choices)` names the state tensors shaped like the parameter.
    """

    name = ""
    scalars: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.updates: dict[tuple, Any] = {}

    def choices(self, hyper: dict[str, Any]) -> tuple:
        raise NotImplementedError

    def state(self, choices: tuple) -> tuple[str, ...]:
        raise NotImplementedError

    def numbers(self, hyper: dict[str, Any], *scalars: Any) -> tuple:
        raise NotImplementedError

    def expr(self, s: Any, choices: tuple, n: Numbers, param: Any, grad: Any, *state: Any) -> tuple:
        """(new parameter, *new state)"""
        raise NotImplementedError

    def kernel(self, choices: tuple, is_scaled: bool = False) -> Any:
        """The multi-tensor update for these choices."""
        key = (*choices, "scaled") if is_scaled else choices
        result = self.updates.get(key)
        if result is None:
            result = self.updates[key] = self.build(choices, is_scaled)
        return result

    def build(self, choices: tuple, is_scaled: bool, on_device: bool = False, has_table: bool = False) -> Any:
        names = (*self.names, "grad_scale") if is_scaled else self.names

        def body(s: Any, tensors: list, values: list) -> dict[int, Any]:
            param, grad, *state = tensors
            n = Numbers(names, values)
            if is_scaled:
                grad = grad / n.grad_scale
            new = self.expr(s, choices, n, param, grad, *state)
            result = {0: new[0], **{k + 1: value for k, value in enumerate(new) if k}}
            return {**result, 1: grad} if is_scaled else result

        if on_device:
            return DeviceUpdate(f"{self.name}_update", len(names), body, has_table, TensorMath)

        def scaled_numbers(hyper: dict[str, Any], *scalars: Any) -> tuple:
            return (*self.numbers(hyper, *scalars), hyper["grad_scale"])

        return multi_tensor_update(f"{self.name}_update", self.state(choices), self.scalars, len(names),
                                   scaled_numbers if is_scaled else self.numbers, body)

    # Updating

    def update(
        self, params: list[Tensor], grads: list[Tensor], state: dict[Tensor, dict], hyper: dict[str, Any]
    ) -> None:
        """Update `params`; kernels where they reach, ops elsewhere. `state` has an entry for every parameter."""
        check_capturable(params, hyper)
        choices = self.choices(hyper)
        if is_recorded(hyper):
            left: list[int] | None = list(range(len(params)))
        else:
            kernel = self.kernel(choices, "grad_scale" in hyper)
            left = kernel(params, grads, state, hyper)
            if left and "grad_scale" not in hyper:   # a scaled gradient is written back: a copy would not do
                left = retry_with_copies(kernel, params, grads, state, hyper, left)
            if left and hyper.get("capturable"):
                left = self.update_captured(params, grads, state, hyper, choices, left)
        read = as_number if hyper.get("capturable") else Tensor.item
        for i in self.update_many(params, grads, state, hyper, choices, left) if left else ():
            if not self.update_on_device(params[i], grads[i], state.get(params[i]), hyper, choices):
                self.update_with_ops(params[i], grads[i], state.get(params[i]), hyper, choices, read)

    def update_captured(
        self, params: list[Tensor], grads: list[Tensor], state: dict[Tensor, dict], hyper: dict[str, Any],
        choices: tuple, left: list[int],
    ) -> list[int]:
        """Parameters whose state of one element is on their device and is not to be asked for, so that a graph can
        capture the step and go on counting when it is replayed; the places of others."""
        groups: dict[tuple, list[int]] = {}
        others, names = [], self.state(choices)
        for i in left:
            own, device = state.get(params[i]), params[i].device
            cells = [own[key] for key in self.scalars] if own is not None else []
            if not cells or "grad_scale" in hyper or device.type in ("cpu", "meta") or \
                    any(cell.device != device for cell in cells):
                others.append(i)
                continue
            tensors = (params[i], grads[i], *(own[key] for key in names), *cells)
            groups.setdefault((device, *(t.dtype for t in tensors)), []).append(i)
        for places in groups.values():
            rows = [(params[i], grads[i], *(state[params[i]][key] for key in names)) for i in places]
            if not self.update_from_cells(rows, [state[params[i]] for i in places], hyper, choices):
                others += places
        return sorted(others)

    def update_from_cells(self, rows: list[tuple], owns: list[dict], hyper: dict[str, Any], choices: tuple) -> bool:
        """Numbers of all parameters side by side, computed where they are; then one launch, which reads each one's.
        False, and nothing done, where that does not reach."""
        count, like = len(rows), {"dtype": _C.float64, "device": rows[0][0].device}
        old = [find_op("empty")((count,), **like) for _ in self.scalars]
        for key, column in zip(self.scalars, old, strict=True):
            copy_numbers(list(column.unbind()), [own[key] for own in owns])
        result = self.numbers(hyper, *old)
        new, numbers = result[: len(old)], result[len(old) :]
        # A row's address allows vectors where it is a multiple of 16 bytes.
        table = find_op("empty")((count, len(numbers) + len(numbers) % 2), **like)
        for k, value in enumerate(numbers):
            is_here = isinstance(value, Tensor) and value.device.type != "cpu"
            table[:, k].copy_(value) if is_here else table[:, k].fill_(float(value))
        rows = [(*row, own) for row, own in zip(rows, table.unbind(), strict=True)]
        if not self.device_kernel(choices, has_table=True).many(rows, ()):
            return False
        for key, column in zip(self.scalars, new, strict=True):
            cells = [own[key] for own in owns]
            copy_numbers(cells, list(column.to(cells[0].dtype).unbind()))
        return True

    def update_many(
        self, params: list[Tensor], grads: list[Tensor], state: dict[Tensor, dict], hyper: dict[str, Any],
        choices: tuple, left: list[int],
    ) -> list[int]:
        """Parameters on a plugged-in device whose numbers are the same, by one launch; the places of others."""
        kernel = None if is_recorded(hyper) or "grad_scale" in hyper else self.device_kernel(choices)
        groups: dict[tuple, list[int]] = {}
        others, names = [], self.state(choices)
        for i in left:
            own = state.get(params[i], None if names or self.scalars else {})
            cells = [own[key] for key in self.scalars] if own is not None else []
            if kernel is None or own is None or params[i].device.type in ("cpu", "meta"):
                others.append(i)
            elif hyper.get("capturable") and any(cell.device.type != "cpu" for cell in cells):
                others.append(i)
            else:
                codes = tuple([t.dtype for t in (params[i], grads[i], *(own[key] for key in names))])
                key = (params[i].device, codes, *map(known.read, cells))
                groups.setdefault(key, []).append(i)
        for (_, _, *values), places in groups.items():
            result = self.numbers(hyper, *values)
            count = len(values)
            tuples = [(params[i], grads[i], *(state[params[i]][key] for key in names)) for i in places]
            if not kernel.many(tuples, result[count:]):
                others += places
                continue
            for key, old, new in zip(self.scalars, values, result, strict=False):
                known.write([state[params[i]][key] for i in places], old, new)
        return sorted(others)

    def update_at_once(
        self, params: list[Tensor], state: dict[Tensor, dict], hyper: dict[str, Any], choices: tuple
    ) -> bool:
        """Parameters of a plugged-in device that are alike in types and numbers, by one launch: what the steps of a
        training loop come to, with little around it. False, and nothing done, where they are not."""
        found = _C.update_rows(params, state, self.state(choices), self.scalars)
        if found is None:
            return False
        rows, cells, values = found
        result = self.numbers(hyper, *values)
        if not self.device_kernel(choices).many(rows, result[len(values) :]):
            return False
        if cells:
            _C.write_cells(cells, result[: len(values)])
        return True

    def device_kernel(self, choices: tuple, has_table: bool = False) -> Any:
        """The update as plugged-in devices have it, made once; `has_table`: with numbers that are there too."""
        key = (*choices, "table" if has_table else "device")
        kernel = self.updates.get(key)
        if kernel is None:
            kernel = self.updates[key] = self.build(choices, False, on_device=True, has_table=has_table)
        return kernel

    def update_on_device(
        self, param: Tensor, grad: Tensor, state: dict[str, Any] | None, hyper: dict[str, Any], choices: tuple
    ) -> bool:
        """One kernel of a plugged-in device; False, and nothing done, where that does not reach."""
        if param.device.type in ("cpu", "meta") or is_recorded(hyper) or "grad_scale" in hyper:
            return False
        kernel = self.device_kernel(choices)
        cells = [state[key] for key in self.scalars]
        if any(cell.device.type != "cpu" for cell in cells):
            return False
        result = self.numbers(hyper, *(cell.item() for cell in cells))
        done = kernel((param, grad, *(state[key] for key in self.state(choices))), result[len(cells) :])
        if done:
            for cell, value in zip(cells, result, strict=False):
                cell.fill_(value)
        return done

    def update_with_ops(
        self, param: Tensor, grad: Tensor, state: dict[str, Any] | None, hyper: dict[str, Any], choices: tuple,
        read: Callable[[Tensor], Any] = Tensor.item,
    ) -> None:
        """The same update through ordinary ops. In a graph the state of one element cannot be read; numbers are then
        tensors."""
        records = is_recorded(hyper)
        cells = [state[key] for key in self.scalars]
        result = self.numbers(hyper, *map(read, cells))
        for cell, value in zip(cells, result, strict=False):
            if isinstance(value, Tensor):
                cell.copy_(value.detach() if value.requires_grad else value)
            else:
                cell.fill_(value)
        if "grad_scale" in hyper:
            grad.div_(hyper["grad_scale"])
        tensors = [param, *(state[key] for key in self.state(choices))]
        if param.is_complex():
            tensors = [find_op("view_as_real")(t) for t in tensors]
            grad = find_op("view_as_real")(grad.resolve_conj())      # backward leaves conjugates as views
        # A recorded op may keep what it reads, which must not be overwritten below.
        reads = [t.clone() for t in tensors] if records else tensors
        numbers = Numbers(self.names, result[len(cells) :])
        new = self.expr(TensorMath, choices, numbers, reads[0], grad, *reads[1:])
        for target, value in zip(tensors, new, strict=True):
            target.copy_(value)


def retry_with_copies(
    kernel: Any, params: list[Tensor], grads: list[Tensor], state: dict, hyper: dict[str, Any], left: list[int]
) -> list[int]:
    """Run the kernel on what was left only because gradients are laid out otherwise than their parameters."""
    odd = [i for i in left if grads[i].shape == params[i].shape and grads[i].stride() != params[i].stride()]
    if not odd:
        return left
    copies = [find_op("empty_like")(params[i], dtype=grads[i].dtype).copy_(grads[i]) for i in odd]
    again = kernel([params[i] for i in odd], copies, state, hyper) or ()
    done = set(odd) - {odd[k] for k in again}
    return [i for i in left if i not in done]


def is_recorded(hyper: dict[str, Any]) -> bool:
    """Whether autograd records the step, so that numbers which are tensors stay so."""
    return bool(hyper.get("differentiable"))


def check_capturable(params: list[Tensor], hyper: dict[str, Any]) -> None:
    """Refuse `capturable` where no graph can capture, as PyTorch does; fused updates do not mind."""
    if hyper.get("capturable") and not hyper.get("fused"):
        devices = _get_capturable_supported_devices(supports_xla=True)
        if any(p.device.type not in devices for p in params):
            raise AssertionError(
                f"capturable=True works on {devices} only: move the parameters and state_steps there, or leave it out."
            )


def functional_update(
    rule: Rule, params: list[Tensor], grads: list[Tensor], lists: dict[str, list], hyper: dict[str, Any]
) -> None:
    """The update of PyTorch's functional forms: state as lists by name."""
    steps = lists.get("step")
    if steps is not None and not all(isinstance(t, Tensor) for t in steps):
        raise RuntimeError("state_steps: expected a list of tensors of one element each, one for each parameter")
    if skips(hyper):
        return
    kept = {key: values for key, values in lists.items() if values}
    state = {p: {key: values[i] for key, values in kept.items()} for i, p in enumerate(params)}
    with enable_grad() if is_recorded(hyper) else no_grad():
        rule.update(list(params), list(grads), state, hyper)


def skips(hyper: dict[str, Any]) -> bool:
    """Whether a gradient scaler found infinities; leaves the scale in `hyper` as a float, or not at all."""
    found, scale = hyper.pop("found_inf", None), hyper.pop("grad_scale", None)
    if scale is not None:
        hyper["grad_scale"] = float(scale)
    return found is not None and bool(found)


def check_at_least_zero(**values: Any) -> None:
    """Refuse negative options and tensors of several elements; `learning_rate` reads "learning rate" in the message."""
    for name, value in values.items():
        if name == "learning_rate" and isinstance(value, Tensor) and value.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not 0.0 <= value:
            label = {"learning_rate": "learning rate", "eps": "epsilon value"}.get(name, f"{name} value")
            raise ValueError(f"Invalid {label}: {value}")


def check_betas(betas: tuple[Any, Any]) -> None:
    """Refuse betas outside [0, 1)."""
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def check_fused(optimizer: Optimizer, fused: bool | None, foreach: bool | None, differentiable: bool) -> None:
    """Refuse options that exclude `fused`; a fused optimizer takes the scale of a gradient scaler."""
    if fused:
        if differentiable:
            raise RuntimeError("`fused` does not support `differentiable`")
        optimizer._step_supports_amp_scaling = True
        if foreach:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def new_scalar(group: dict[str, Any], p: Tensor, value: float = 0.0) -> Tensor:
    """State of one element: with the parameter if the group is fused or capturable, else on the host."""
    near = group.get("capturable") or group.get("fused")
    return find_op("full")(
        (), value, dtype=_get_scalar_dtype(is_fused=group.get("fused")), device=p.device if near else _C.device("cpu")
    )


class RuledOptimizer(Optimizer):
    """An optimizer whose step is a rule. Subclasses give `_rule`, and `_later`: options that saved state may lack.

    Example:
        >>> w = rl.nn.Parameter(rl.tensor([[1.0, 2.0]]))
        >>> optimizer = rl.optim.{name}([w], lr=0.1)
        >>> for step in range(3):
        ...     loss = (w * w).sum()
        ...     optimizer.zero_grad()
        ...     loss.backward()
        ...     _ = optimizer.step()
        >>> bool((w * w).sum() < 5)
        True
    """

    _rule: Rule
    _later: dict[str, Any] = {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for key, value in self._later.items():
                group.setdefault(key, value)
            for p in group["params"]:
                kept = self.state.get(p) or {}
                for key in self._rule.scalars:   # numbers, in state saved by PyTorch before 1.12
                    if key in kept and not isinstance(kept[key], Tensor):
                        kept[key] = new_scalar(group, p, float(kept[key]))

    def _begin(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> None:
        """Fill the state of a parameter that gets its first gradient: zeros, unless a subclass knows better."""
        for key in self._rule.scalars:
            state[key] = new_scalar(group, p)
        for key in self._rule.state(self._rule.choices(group)):
            state[key] = find_op("zeros_like")(p)

    def _first_hyper(self, group: dict[str, Any]) -> dict[str, Any]:
        """Options of a parameter's first update, where they differ."""
        return group

    def _is_begun(self, group: dict[str, Any], p: Tensor) -> bool:
        return bool(self.state.get(p))

    def _check_group(self, group: dict[str, Any]) -> None:
        """Raise for options a group may not have; called when parameters begin."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update of every parameter that has a gradient;
        `closure` evaluates the model again and returns the loss."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        rule = self._rule
        for group in self.param_groups:
            params = group["params"]
            is_on_device = bool(params) and params[0].device.type not in ("cpu", "meta")
            if is_on_device and "capturable" in group:
                self._accelerator_graph_capture_health_check()
            if group["differentiable"] or group.get("capturable") or self._has_repeats or "found_inf" in self.__dict__:
                for part in [[p] for p in params] if self._has_repeats else [params]:
                    self._step_group(group, part)
                continue
            choices = rule.choices(group)
            if is_on_device and rule.update_at_once(params, self.state, group, choices):
                continue
            left = (rule.updates.get(choices) or rule.kernel(choices))(params, None, self.state, group)
            if left is not None:
                self._step_group(group, [params[i] for i in left])
        return loss

    def _step_group(self, group: dict[str, Any], params: list[Tensor]) -> None:
        """The update of `params` where the quick way does not reach: first steps, scaled gradients, and ops."""
        params = [p for p in params if p.grad is not None]
        scaling = {key: getattr(self, key, None) for key in ("grad_scale", "found_inf")} if group.get("fused") else {}
        if skips(scaling):
            return
        with enable_grad() if group["differentiable"] else no_grad():
            params = self._take_sparse(group, params)
            self._check_group(group)
            fresh = [p for p in params if not self._is_begun(group, p)]
            for p in fresh:
                if group.get("fused"):
                    _device_dtype_check_for_fused(p)
                self._begin(group, p, self.state[p])
            first = set(map(id, fresh))
            for hyper, part in ((group, [p for p in params if id(p) not in first]), (self._first_hyper(group), fresh)):
                if part:
                    self._rule.update(part, [p.grad for p in part], self.state, {**hyper, **scaling})

    def _take_sparse(self, group: dict[str, Any], params: list[Tensor]) -> list[Tensor]:
        """Deal with sparse gradients; returns the other parameters."""
        if any(p.grad.is_sparse for p in params):
            raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")
        return params


describe(globals(), Optimizer, __file__)
