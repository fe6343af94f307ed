"""How compiled programs run: what `jit.set_fusion_strategy`, `fuser` and `optimized_execution` set.

One object, read when a program becomes hot; nothing here is read at each call.
"""

from __future__ import annotations


class Settings:
    """What programs that are to be fused ask for."""

    def __init__(self) -> None:
        self.strategy: list[tuple[str, int]] = [("STATIC", 2), ("DYNAMIC", 10)]   # kinds of shapes, how many of each
        self.fuses = True             # whether runs of pointwise nodes become one kernel
        self.optimizes = True         # whether programs are made faster at all
        self.onednn = False

    def is_dynamic(self) -> bool | None:
        """As `compile` takes it: False where all shapes are fixed, True where none is, None for the usual way."""
        kinds = {kind for kind, count in self.strategy if count > 0}
        return None if len(kinds) != 1 else kinds == {"DYNAMIC"}

    def shapes(self) -> int:
        """How many kinds of shapes are compiled before the plain form stays."""
        return sum(count for _, count in self.strategy)


SETTINGS = Settings()
