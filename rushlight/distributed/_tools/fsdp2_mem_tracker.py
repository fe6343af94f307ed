"""FSDPMemTracker: refused. MemTracker follows the tensors of sharded modules too, without naming their states."""

from __future__ import annotations

from ...base.refusals import stand_in

FSDPMemTracker = stand_in("torch.distributed._tools", "FSDPMemTracker")
