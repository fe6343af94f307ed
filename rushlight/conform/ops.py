"""Op samples against the host."""

from __future__ import annotations

import rushlight as rl

from .case import Chip, case
from .expect import same


@case()
def adds_odd_sizes(chip: Chip) -> None:
    """Rows of a prime number of elements."""
    x, y = rl.randn(7, 13), rl.randn(7, 13)
    same(x.to(chip.device) + y.to(chip.device), x + y, exact=True)
