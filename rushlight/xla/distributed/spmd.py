"""torch_xla.distributed.spmd: tensors that are cut over units. There is one unit, and cutting is refused.

Enters: nothing. Leaves: NotImplementedError.
"""

from __future__ import annotations

from typing import Any

_REMEDY = "is not here: there is one unit; rushlight.distributed has DTensor and FSDP over processes"


def mark_sharding(t: Any, mesh: Any, partition_spec: Any) -> Any:
    """Refused."""
    raise NotImplementedError(f"mark_sharding: sharding over units (SPMD) {_REMEDY}")


class Mesh:
    """Refused."""

    def __init__(self, device_ids: Any, mesh_shape: Any, axis_names: Any = None) -> None:
        raise NotImplementedError(f"spmd.Mesh: sharding over units (SPMD) {_REMEDY}")
