"""rushlight.linalg: the ops whose definitions say `namespace = "linalg"`, and the error they raise."""

from .base import homes
from .base.linalg_error import LinAlgError
from .op import published

globals().update(published("linalg"))
homes.settle_ops(published("linalg"), "linalg")

__all__ = ["LinAlgError", *published("linalg")]
