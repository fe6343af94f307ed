"""rushlight.special: the ops whose definitions say `namespace = "special"`, and its spellings of top-level ones."""

from .base import homes
from .op import published, spelled as _spelled

_here = {
    name: _spelled(op, f"special_{name}") for name, op in published("special").items()
}
globals().update(_here)
homes.settle_ops(_here, "special")
