"""rushlight.special: the ops whose definitions say `namespace = "special"`, and its spellings of top-level ones."""

from .base import homes
from .op import published, spelled

_top = published("")
_here = {
    name: spelled(op, name) if _top.get(name, _top.get(op.__name__)) is op else op
    for name, op in published("special").items()
}
globals().update(_here)
homes.settle_ops(_here, "special")
