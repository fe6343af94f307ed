"""rushlight.fft: the ops whose definitions say `namespace = "fft"`."""

from ._C import Tensor  # noqa: F401
from .base import homes
from .op import published, spelled as _spelled

_here = {name: _spelled(op, f"fft_{name}") for name, op in published("fft").items()}
globals().update(_here)
homes.settle_ops(_here, "fft")
