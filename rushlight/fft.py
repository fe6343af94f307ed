"""rushlight.fft: the ops whose definitions say `namespace = "fft"`."""

from .op import published

globals().update(published("fft"))
