"""The base of all optimizers: parameter groups, state, hooks, and exchange of state dicts with PyTorch.

Enters: parameters (tensors, named pairs, or groups of them) and defaults. Leaves: `param_groups` and `state`, which
subclasses update in `step`. Refuses: empty lists, non-leaf tensors, parameters in two groups, groups partly named.

The names with an underscore are those optimizers written for PyTorch import from its module of the same name.
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any, TypeAlias

from .. import _C, _extras
from .._C import Tensor
from ..autograd.grad_mode import set_grad_enabled
from ..autograd.hooks import RemovableHandle
from ..autograd.labels import record_function
from ..base.descriptions import describe
from ..nn.parameter import Parameter
from ..op import find_op
from ..tensors.interop import from_dlpack
from ..tensors.plain_functions import typename

Args: TypeAlias = tuple[Any, ...]
Kwargs: TypeAlias = dict[str, Any]
StateDict: TypeAlias = dict[str, Any]
DeviceDict: TypeAlias = dict[Any, Tensor]
DeviceDtypeDict: TypeAlias = dict[Any, Tensor]
ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
params_t = ParamsT
GlobalOptimizerPreHook: TypeAlias = Callable[["Optimizer", Args, Kwargs], "tuple[Args, Kwargs] | None"]
GlobalOptimizerPostHook: TypeAlias = Callable[["Optimizer", Args, Kwargs], None]

_global_optimizer_pre_hooks: dict[int, GlobalOptimizerPreHook] = OrderedDict()
_global_optimizer_post_hooks: dict[int, GlobalOptimizerPostHook] = OrderedDict()
_foreach_supported_types = [Tensor, Parameter]
_FUSED_DEVICES = ["cpu", "cuda", "mps", "xpu"]
_FOREACH_DEVICES = ["cuda", "xpu"]

_params_doc = (
    "params: an iterable of parameters, of (name, parameter) pairs, or of dicts that each describe a parameter group"
)
_foreach_doc = "foreach: accepted as PyTorch has it; every setting runs the same multi-tensor kernel (default: None)"
_fused_doc = "fused: as foreach; True also lets a gradient scaler hand over its scale (default: None)"
_capturable_doc = "capturable: keep step counts on the parameters' device, for graphs of accelerators (default: False)"
_differentiable_doc = "differentiable: record the step for autograd, which makes it slower (default: False)"
_maximize_doc = "maximize: go up the gradient instead of down (default: False)"


class _RequiredParameter:
    """Marks a default that every parameter group must give itself."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


# --- names that optimizers outside this package import ----------------------------------------------------------------


def _use_grad_for_differentiable(func: Callable) -> Callable:
    """Run a step with autograd on only if the optimizer is differentiable."""

    @functools.wraps(func)
    def _use_grad(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        with set_grad_enabled(self.defaults["differentiable"]):
            return func(self, *args, **kwargs)

    return _use_grad


def _get_value(x: Any) -> Any:
    return x.item() if isinstance(x, Tensor) else x


def _stack_if_compiling(x: Any) -> Any:
    return x


def _dispatch_sqrt(x: Any) -> Any:
    return x.sqrt() if isinstance(x, Tensor) else x**0.5


def _disable_dynamo_if_unsupported(single_tensor_fn: Callable | None = None) -> Callable[[Callable], Callable]:
    """Nothing traces step functions here: they are returned as they are."""
    return lambda func: func


def _default_to_fused_or_foreach(
    params: list[Tensor], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """(fused, foreach): what PyTorch chooses when neither is given."""
    if differentiable:
        return False, False

    def on(p: Tensor | None, devices: list[str]) -> bool:
        return p is None or (type(p) in _foreach_supported_types and p.device.type in devices)

    fused = use_fused and all(on(p, _FUSED_DEVICES) and (p is None or p.is_floating_point()) for p in params)
    return fused, not fused and all(on(p, _FOREACH_DEVICES) for p in params)


def _device_dtype_check_for_fused(p: Tensor, cuda_unsupported: bool = False) -> None:
    devices = [d for d in _FUSED_DEVICES if not (cuda_unsupported and d == "cuda")]
    if p.device.type not in devices or not p.is_floating_point():
        raise RuntimeError(
            f"fused=True: every parameter must be a floating point Tensor on one of {devices}, got {p.dtype} on"
            f" {p.device.type}"
        )


def _view_as_real(params: list[Tensor], *state_and_grads: list[Tensor]) -> None:
    """Replace complex parameters of a list, and their state and gradients, by views of pairs."""
    as_real = find_op("view_as_real")
    for i, p in enumerate(params):
        if p.is_complex():
            params[i] = as_real(p)
            for s in state_and_grads:
                s[i] = as_real(s[i])


def _get_scalar_dtype(is_fused: bool | None = None) -> Any:
    return _C.float64 if not is_fused and _C.get_default_dtype() is _C.float64 else _C.float32


@functools.cache
def _captures() -> Any:
    from ..devices.cuda.captures import captures  # programs without such a device never need it

    return captures


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    return ["cuda", "xpu", "hpu", "privateuseone"] + (["xla"] if supports_xla else [])


def _to_scalar(x: Any) -> Any:
    return x.squeeze() if isinstance(x, Tensor) and x.dim() != 0 else x


def _register(table: OrderedDict, hook: Callable, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(table)
    table[handle.id] = hook
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook: GlobalOptimizerPreHook) -> RemovableHandle:
    """Call hook(optimizer, args, kwargs) before every optimizer's step; it may return new (args, kwargs)."""
    return _register(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: GlobalOptimizerPostHook) -> RemovableHandle:
    """Call hook(optimizer, args, kwargs) after every optimizer's step."""
    return _register(_global_optimizer_post_hooks, hook)


# --- the class --------------------------------------------------------------------------------------------------------

_HOOK_TABLES = (
    "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks", "_optimizer_load_state_dict_pre_hooks", "_optimizer_load_state_dict_post_hooks",
)


class Optimizer:
    """What optimizers share. A subclass gives `defaults` to `__init__` and updates parameters in `step`.

    Example:
        >>> w = rl.nn.Parameter(rl.tensor([[1.0, 2.0]]))
        >>> optimizer = rl.optim.SGD([w], lr=0.1)
        >>> for step in range(3):
        ...     loss = (w * w).sum()
        ...     optimizer.zero_grad()
        ...     loss.backward()
        ...     _ = optimizer.step()
        >>> bool((w * w).sum() < 5)
        True
    """

    OptimizerPreHook: TypeAlias = Callable[[Any, Args, Kwargs], "tuple[Args, Kwargs] | None"]
    OptimizerPostHook: TypeAlias = Callable[[Any, Args, Kwargs], None]
    _has_repeats = False   # a parameter stands twice in a group: updates of one list would meet

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.__dict__.update({name: OrderedDict() for name in _HOOK_TABLES})
        self._patch_step_function()
        if isinstance(params, Tensor):
            raise TypeError(f"params: expected an iterable of Tensors or dicts, got {typename(params)}")
        self.state: defaultdict[Tensor, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in _HOOK_TABLES:
            self.__dict__.setdefault(name, OrderedDict())
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append("\n" * (i > 0) + f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])

    # What optimizers written for PyTorch call

    def _accelerator_graph_capture_health_check(self) -> None:
        """Refuse a step that a graph captures unless all groups are `capturable`: replays would not count steps."""
        if _captures().is_capturing() and not all(group.get("capturable") for group in self.param_groups):
            raise RuntimeError(
                f"{type(self).__name__}.step() is being captured into a graph, whose replays would repeat the numbers "
                "of this step: make the optimizer with capturable=True"
            )

    _cuda_graph_capture_health_check = _accelerator_graph_capture_health_check

    @staticmethod
    def _group_tensors_by_device_and_dtype(
        tensorlistlist: list[list], with_indices: bool = False
    ) -> dict[tuple, tuple[list[list], list[int]]]:
        """{(device, dtype): (lists, places)}: lists side by side,
        divided by the device and dtype of the first one's tensors."""
        groups: dict[tuple, tuple[list[list], list[int]]] = {}
        for i, row in enumerate(zip(*tensorlistlist, strict=True)):
            lists, places = groups.setdefault((row[0].device, row[0].dtype), ([[] for _ in tensorlistlist], []))
            for items, item in zip(lists, row, strict=True):
                items.append(item)
            if with_indices:
                places.append(i)
        return groups

    # Steps and their hooks

    def _patch_step_function(self) -> None:
        """Let the class's own `step` call hooks; done once per class."""
        cls = type(self)
        self._zero_grad_profile_name = f"Optimizer.zero_grad#{cls.__name__}.zero_grad"
        if not getattr(cls.step, "hooked", False):
            cls.step = self.profile_hook_step(cls.step)
            cls.step.hooked = True

    @staticmethod
    def profile_hook_step(func: Callable) -> Callable:
        """`func`, a step, with the hooks of its optimizer and the global ones around it."""

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            self = args[0]
            if not _extras.profile_is_on():
                return stepped(self, args, kwargs)
            with record_function(f"Optimizer.step#{type(self).__name__}.step"):
                return stepped(self, args, kwargs)

        def stepped(self: Optimizer, args: tuple, kwargs: dict[str, Any]) -> Any:
            if not (
                self._optimizer_step_pre_hooks
                or self._optimizer_step_post_hooks
                or _global_optimizer_pre_hooks
                or _global_optimizer_post_hooks
            ):
                return func(*args, **kwargs)
            for hook in chain(_global_optimizer_pre_hooks.values(), self._optimizer_step_pre_hooks.values()):
                result = hook(self, args, kwargs)
                if result is None:
                    continue
                if not isinstance(result, tuple) or len(result) != 2:
                    raise RuntimeError(f"{func}: a hook before step returns None or (args, kwargs), got {result}.")
                args, kwargs = result
            answer = func(*args, **kwargs)
            for hook in chain(self._optimizer_step_post_hooks.values(), _global_optimizer_post_hooks.values()):
                hook(self, args, kwargs)
            return answer

        return wrapper

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update of every parameter that has a gradient;
        `closure` evaluates the model again and returns the loss."""
        raise NotImplementedError

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients, or fill them with zeros."""
        if _extras.profile_is_on():
            with record_function(f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"):
                return self._clear_gradients(set_to_none)
        return self._clear_gradients(set_to_none)

    def _clear_gradients(self, set_to_none: bool) -> None:
        if set_to_none:
            for group in self.param_groups:
                _C.clear_grads(group["params"])
            return
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if p.grad.grad_fn is not None:
                    p.grad.detach_()
                else:
                    p.grad.requires_grad_(False)
                p.grad.zero_()

    def register_step_pre_hook(self, hook: OptimizerPreHook) -> RemovableHandle:
        """Call hook(optimizer, args, kwargs) before `step`; it may return new (args, kwargs)."""
        return _register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: OptimizerPostHook) -> RemovableHandle:
        """Call hook(optimizer, args, kwargs) after `step`."""
        return _register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[[Optimizer], None], prepend: bool = False) -> RemovableHandle:
        """Call hook(optimizer) before `state_dict`."""
        return _register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[[Optimizer, StateDict], StateDict | None], prepend: bool = False
    ) -> RemovableHandle:
        """Call hook(optimizer, state_dict) on the result of `state_dict`; it may return another."""
        return _register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[[Optimizer, StateDict], StateDict | None], prepend: bool = False
    ) -> RemovableHandle:
        """Call hook(optimizer, state_dict) before `load_state_dict`; it may return another dict to load."""
        return _register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[[Optimizer], None], prepend: bool = False
    ) -> RemovableHandle:
        """Call hook(optimizer) after `load_state_dict`."""
        return _register(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # State dicts

    def state_dict(self) -> StateDict:
        """{"state": state by number of the parameter, "param_groups": groups with numbers for parameters}."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        groups, start = [], 0
        for group in self.param_groups:
            for i, p in enumerate(group["params"], start):
                numbers.setdefault(id(p), i)
            start += len(group["params"])
            packed = {k: v for k, v in group.items() if k != "params"}
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {numbers[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items()}
        answer: StateDict = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            result = hook(self, answer)
            answer = answer if result is None else result
        return answer

    @staticmethod
    def _process_value_according_to_param_policy(
        param: Tensor, value: Tensor, param_id: int, param_groups: list[dict[Any, Any]], key: Hashable = None
    ) -> Tensor:
        """A loaded state tensor as `param` needs it: its device and type, but step counts keep theirs."""
        own = next((g for g in param_groups if param_id in g["params"]), {})
        if key == "step":
            return (
                value.to(dtype=_C.float32, device=param.device) if own.get("fused") or own.get("capturable") else value
            )
        return (
            value.to(dtype=param.dtype, device=param.device)
            if param.is_floating_point()
            else value.to(device=param.device)
        )

    def _loaded(self, param: Tensor, value: Any, param_id: int, groups: list[dict], key: Hashable = None) -> Any:
        """A value of a loaded state, copied, its tensors made to fit `param`;
        tensors of other libraries become ours."""
        if not isinstance(value, Tensor) and hasattr(value, "__dlpack__"):
            value = from_dlpack(value).clone()
        if isinstance(value, Tensor):
            return Optimizer._process_value_according_to_param_policy(param, value, param_id, groups, key)
        if isinstance(value, dict):
            return {k: self._loaded(param, v, param_id, groups, k) for k, v in value.items()}
        if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
            return type(value)(self._loaded(param, v, param_id, groups) for v in value)
        return value

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Take over state and options saved by `state_dict`, of this library or of PyTorch."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            result = hook(self, state_dict)
            state_dict = state_dict if result is None else result
        groups, saved = self.param_groups, deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved):
            raise ValueError("the loaded state has a different number of parameter groups than this optimizer")
        if any(len(g["params"]) != len(s["params"]) for g, s in zip(groups, saved, strict=True)):
            raise ValueError("a parameter group of the loaded state doesn't match the size of this optimizer's group")
        numbers = chain.from_iterable(g["params"] for g in saved)
        params = dict(zip(numbers, chain.from_iterable(g["params"] for g in groups), strict=True))
        state: defaultdict[Any, Any] = defaultdict(dict)
        for k, v in state_dict["state"].items():
            if k in params:
                state[params[k]] = self._loaded(params[k], v, k, state_dict["param_groups"])
            else:
                state[k] = v
        for group, new in zip(groups, saved, strict=True):
            new["params"] = group["params"]
            if "param_names" in group:
                new.setdefault("param_names", group["param_names"])
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    # Groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Optimize further parameters, with options of their own where `param_group` gives them."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        self._list_params(param_group)
        for p in param_group["params"]:
            if not isinstance(p, Tensor):
                raise TypeError(f"params: can only optimize Tensors, got {typename(p)}")
            if not self.defaults.get("differentiable", None) and not (p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"the parameter group gives no value for {name}, which is required")
            param_group.setdefault(name, default)
        params = set(param_group["params"])
        if len(params) != len(param_group["params"]):
            self._has_repeats = True
            warnings.warn("a parameter group holds duplicate parameters, which will be refused one day; "
                          "see github.com/pytorch/pytorch/issues/40967 for more information", stacklevel=3)
        for group in self.param_groups:
            if ("param_names" in param_group) != ("param_names" in group):
                text = "with names" if "param_names" in param_group else "without names"
                raise ValueError(f"param groups either all have names or none has: cannot add a group {text}")
        if any(not params.isdisjoint(group["params"]) for group in self.param_groups):
            raise ValueError("a parameter may stand in one parameter group only, and some appear in more than one")
        self.param_groups.append(param_group)

    @staticmethod
    def _list_params(param_group: dict[str, Any]) -> None:
        """Make group["params"] a list of parameters, their names apart."""
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError("params: expected an ordered collection, got a set, whose order "
                            "differs from run to run. Make it a list.")
        listed = [params] if isinstance(params, Tensor) else list(params)
        names = [p[0] for p in listed if isinstance(p, tuple)]
        param_group["params"] = [p[1] if isinstance(p, tuple) else p for p in listed]
        if names:
            if len(names) != len(listed):
                raise ValueError("params: some have names and others have none; name all of them or none")
            param_group["param_names"] = names


__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]


describe(globals(), Optimizer, __file__)
