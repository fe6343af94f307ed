"""Whose memory it is: the addresses of parameters, gradients and optimizer state when a recording ends.

Enters: the modules and optimizers that the program holds. Leaves: address -> what is there. Only recordings that may
be asked for memory by category look for them: it means going through all objects of the program.
"""

from __future__ import annotations

import gc
from typing import Any

from ..nn import Module
from ..optim import Optimizer


class Owners:
    """What lies at which address."""

    def __init__(self) -> None:
        self._at: dict[int, tuple[str, int]] = {}
        self._elsewhere: set[int] = set()          # addresses of devices' memory

    def category(self, address: int, num_bytes: int) -> str | None:
        """`PARAMETER`, `GRADIENT` or `OPTIMIZER_STATE`, if that is what a block of so many bytes holds."""
        name, size = self._at.get(address, (None, 0))
        return name if name is not None and size <= num_bytes else None

    def parameters(self) -> list[tuple[int, int]]:
        """(address, bytes) of the parameters that lie in the host's memory."""
        return [(address, size) for address, (name, size) in self._at.items()
                if name == "PARAMETER" and address not in self._elsewhere]

    def add(self, tensor: Any, name: str) -> None:
        """Note a tensor; what is noted first stays."""
        try:
            storage = tensor.untyped_storage()
            address, size = storage.data_ptr(), storage.nbytes()
        except (RuntimeError, NotImplementedError, AttributeError):
            return          # no memory of its own: sparse, meta, a number in the state
        if address:
            self._at.setdefault(address, (name, size))
            if tensor.device.type != "cpu":
                self._elsewhere.add(address)

    @classmethod
    def found(cls) -> Owners:
        """Of all modules and optimizers there are."""
        owners = cls()
        for held in gc.get_objects():
            kind = type(held)        # isinstance would ask objects that answer for others what they are
            if issubclass(kind, Module):
                parameters, states = list(held.parameters(recurse=False)), []
            elif issubclass(kind, Optimizer):
                parameters = [parameter for group in held.param_groups for parameter in group["params"]]
                states = [value for state in held.state.values() if isinstance(state, dict) for value in state.values()]
            else:
                continue
            for parameter in parameters:
                owners.add(parameter, "PARAMETER")
                if parameter.grad is not None:
                    owners.add(parameter.grad, "GRADIENT")
            for value in states:
                owners.add(value, "OPTIMIZER_STATE")
        return owners
