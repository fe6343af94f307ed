"""`torch.distributed.checkpoint.stateful`: objects that say what is to be saved of them."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

__all__ = ["Stateful", "StatefulT"]


@runtime_checkable
class Stateful(Protocol):
    """Has `state_dict()` and `load_state_dict(state)`, as modules and optimizers do."""

    def state_dict(self) -> dict[str, Any]:
        """What is to be saved. It is called when loading too, for the tensors that are filled in place."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what was saved."""
        ...


StatefulT = TypeVar("StatefulT", bound=Stateful)
