"""Element types of register tiles, and what a target makes of them.

Enters: an element type and a `Target`. Leaves: a `TileShape`, from which the texts of tiles/functions.py are written.
Refuses nothing.
"""

from __future__ import annotations

from ...loops.record import Record
from ..text.targets import Target

ELEMENTS = {"f32": ("float", 4), "f64": ("double", 8)}
MASKED = 512        # bits of vectors whose instructions take a mask of lanes


class TileShape(Record):
    """An element type on a target."""

    code: str
    target: Target

    @property
    def element(self) -> str:
        return ELEMENTS[self.code][0]

    @property
    def size(self) -> int:
        return ELEMENTS[self.code][1]

    @property
    def lanes(self) -> int:
        return max(128, self.target.vector_bits) // 8 // self.size

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x {self.element}>"

    @property
    def by_lane(self) -> bool:
        """Whether multiply-add takes one lane of a vector as an operand. Of vectors cut for another processor none
        does: its plans hand rows over that are no whole tile."""
        return self.target.triple.startswith("aarch64") and self.target.vector_bits <= 128

    @property
    def is_masked(self) -> bool:
        """Whether some lanes of a vector can be stored at no more cost than all."""
        return self.target.vector_bits == MASKED

    def pitch(self, width: int) -> int:
        """Elements between values of k of lines packed side by side."""
        unit = packed_unit(self.target.vector_bits, self.lanes)
        return -(-width // unit) * unit


def packed_unit(bits: int, lanes: int) -> int:
    """Elements in multiples of which packed lines lie: vectors, or less where some lanes can be stored as easily."""
    return 1 if bits == MASKED else lanes
