"""The default generator, and functions that seed it, save it and set it aside.

Enters: seeds, and states as uint8 tensors of 5056 elements (PyTorch's layout, so states travel both ways).
Leaves: a process-wide stream of random numbers equal to PyTorch's for the same seed. Refuses: devices that have no
generator of their own. The generator itself is thread-safe; draws of concurrent threads interleave in any order.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from ._C import Generator, Tensor, default_generator, device, device_generator, seed_device_generators
from .base.tracebacks import users_level
from .devices import private_use
from .devices.base import find, handlers

__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state", "thread_safe_generator"]


def manual_seed(seed: int) -> Generator:
    """Restart the default generator from `seed`, an int in [-2**63, 2**64 - 1], and return it.

    Arguments:
        seed: any integer; the same seed gives the same numbers

    Example:
        >>> _ = rl.manual_seed(0)
        >>> a = rl.rand(2)
        >>> _ = rl.manual_seed(0)
        >>> bool((rl.rand(2) == a).all())
        True
    """
    result = default_generator.manual_seed(int(seed))
    seed_device_generators(int(seed))
    _seed_custom_device(int(seed))
    return result


def seed() -> int:
    """Restart the default generator from a seed the system chose, and return that seed.

    Example:
        >>> rl.seed() == rl.initial_seed()
        True
    """
    chosen = default_generator.seed()
    _seed_custom_device(chosen)
    return chosen


def _seed_custom_device(seed: int) -> None:
    """Tell the module of PyTorch's device of others, where a back end registered one."""
    module = private_use.modules.get(private_use.state.name)
    if module is None:
        return
    if hasattr(module, "_is_in_bad_fork") and hasattr(module, "manual_seed_all"):
        if not module._is_in_bad_fork():
            module.manual_seed_all(int(seed))
        return
    warnings.warn(
        f"manual_seed: the seed does not take effect on '{private_use.state.name}': its module has no `_is_in_bad_fork`"
        " and `manual_seed_all`.", UserWarning, stacklevel=users_level())


def initial_seed() -> int:
    """The seed the default generator was last started from.

    Example:
        >>> _ = rl.manual_seed(5)
        >>> rl.initial_seed()
        5
    """
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The default generator's state, a uint8 tensor.

    Example:
        >>> state = rl.get_rng_state()
        >>> a = rl.rand(2)
        >>> rl.set_rng_state(state)
        >>> rl.equal(a, rl.rand(2))
        True
    """
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Continue the default generator from `new_state`, as `get_rng_state` returned it.

    Arguments:
        new_state: what `get_rng_state` gave

    Example:
        >>> state = rl.get_rng_state()
        >>> rl.set_rng_state(state)
    """
    default_generator.set_state(new_state)


def thread_safe_generator() -> Generator | None:
    """The generator of the data-loading thread this runs on; None, meaning the default one, everywhere else."""
    return None


def _fork_module(kind: str, devices: Iterable[Any] | None) -> Iterator[None]:
    """`fork_rng` for PyTorch's device of others: its module keeps the states of its units."""
    module = private_use.modules.get(kind)
    if module is None:
        raise RuntimeError(f"torch has no module of `{kind}`: register one with torch._register_device_module")
    units = range(module.device_count()) if devices is None else list(devices)
    own = default_generator.get_state()
    states = [module.get_rng_state(unit) for unit in units]
    try:
        yield
    finally:
        default_generator.set_state(own)
        for unit, state in zip(units, states, strict=True):
            module.set_rng_state(state, unit)


@contextlib.contextmanager
def fork_rng(devices: Iterable[Any] | None = None, enabled: bool = True, _caller: str = "fork_rng",
             _devices_kw: str = "devices", device_type: str | None = None) -> Iterator[None]:
    """Inside, draw freely; on leaving, the default generator, and those of `devices`, continue as if nothing had been
    drawn. Without `devices`, those of all units there are."""
    if not enabled:
        yield
        return
    if device_type is None and private_use.state.hook is not None:
        device_type = private_use.state.name
    kind = device(device_type or "cuda").type
    if private_use.is_private(kind):
        yield from _fork_module(kind, devices)
        return
    if devices is None:
        units = handlers[kind].device_count() if kind in handlers or find(kind) else 0
        if units > 1:
            warnings.warn(
                f"{_caller}: the generators of all {units} units of '{kind}' are kept, which takes time. Name those"
                f" that draw: {_devices_kw}=[...]; none of them: {_devices_kw}=[].",
                UserWarning,
                stacklevel=users_level(),
            )
        devices = range(units)
    elif (devices := list(devices)) and kind != "cpu":
        handlers[kind]   # raises why there is none
    named = [d if not isinstance(d, int) else f"{kind}:{d}" for d in devices]
    kept = [default_generator, *[device_generator(d) for d in named]]
    states = [generator.get_state() for generator in kept]
    try:
        yield
    finally:
        for generator, state in zip(kept, states, strict=True):
            generator.set_state(state)
