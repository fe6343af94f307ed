"""`torch.distributed.constants`."""

from __future__ import annotations

from .groups import default_pg_timeout

__all__ = ["default_pg_nccl_timeout", "default_pg_timeout"]
default_pg_nccl_timeout = default_pg_timeout / 3
