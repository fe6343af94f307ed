"""rushlight.special: the ops whose definitions say `namespace = "special"`, and its spellings of top-level ones."""

from .op import published, spelled

_top = published("")
globals().update({name: spelled(op, name) if _top.get(name, _top.get(op.__name__)) is op else op for name, op in published("special").items()})
