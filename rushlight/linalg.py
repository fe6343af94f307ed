"""rushlight.linalg: the ops whose definitions say `namespace = "linalg"`."""

from .op import published

globals().update(published("linalg"))
