"""rushlight.linalg: the ops whose definitions say `namespace = "linalg"`, and the error they raise."""

from . import _C
from .base import homes
from .base.linalg_error import LinAlgError
from .op import published

globals().update(published("linalg"))
homes.settle_ops(published("linalg"), "linalg")
setattr(_C, LinAlgError.__name__, LinAlgError)      # where pickles look for it

__all__ = ["LinAlgError", *published("linalg")]
