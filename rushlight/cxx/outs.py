"""`_out` functions of C++, for every op that has one in PyTorch.

Enters: an op by name, arguments, tensors to write into. Leaves: those tensors, written. Refuses what `out=` refuses:
dtypes that cannot hold the result, other devices, recording.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..rules.out import write_results


def takes_out(function: Callable) -> bool:
    """Whether a function of the package has `out=` itself."""
    overloads = getattr(function, "overload_list", None)
    if overloads is None:
        return "out" in inspect.signature(function).parameters
    return any(overload.definition.out for overload in overloads)


def out_function(name: str, function: Callable | str) -> Callable:
    """What C++'s `_out` calls, with `out`: the package's function, or else one that computes and then writes. An op
    that is no function of the package comes as the name of an overload of `ops.aten`."""
    if isinstance(function, str):
        from .. import ops as spaces  # noqa: PLC0415 - a module of that name

        function = getattr(getattr(spaces.aten, name), function)
    elif takes_out(function):
        return function
    return functools.partial(_compute_and_write, name, function)


def _compute_and_write(name: str, function: Callable, *args: Any, out: Any, **words: Any) -> None:
    write_results(name, lambda: function(*args, **words), (*args, *words.values()), out)
