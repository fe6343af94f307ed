"""rushlight.fft: the ops whose definitions say `namespace = "fft"`."""

from ._C import Tensor  # noqa: F401
from .base import homes
from .op import published

globals().update(published("fft"))
homes.settle_ops(published("fft"), "fft")
