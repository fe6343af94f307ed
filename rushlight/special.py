"""rushlight.special: the ops whose definitions say `namespace = "special"`."""

from .op import published

globals().update(published("special"))
