"""Window functions of the root namespace: hann, hamming, blackman, bartlett and kaiser.

Enters: a length, whether the window is one period of a repeating one, and tensor options. Leaves: tensors made with
other ops in the requested dtype. Refuses: negative lengths and dtypes that are no floats. `rushlight.signal.windows`
has these and more, in their later, symmetric-by-default form.
"""

from __future__ import annotations

import math
from typing import Any

from ... import _C
from ...base.promotion import default_dtype
from ...op import Composite, find_op
from ...op.factory import OPTIONS

_LAST = "-> Tensor"


class _Window(Composite):
    """What windows share: the special lengths, and that a periodic window is a longer one without its last point."""

    method = False
    out = False

    def compute(self, window_length, *args):
        *own, dtype, layout, device, pin_memory, requires_grad = args
        dtype = dtype or default_dtype()
        if window_length < 0:
            raise RuntimeError(f"{self.name}: expected window_length of at least 0, got {window_length}")
        if not dtype.is_floating_point:
            if dtype.is_complex:
                raise NotImplementedError(f"{self.name}: not implemented for {dtype.name}")
            raise RuntimeError(f"{self.name}: expects floating point dtypes, got: {dtype.name}")
        options = {"layout": layout, "device": device, "pin_memory": pin_memory}
        periodic, *numbers = own or (True,)
        if window_length <= 1:
            result = find_op("ones")((window_length,), dtype=dtype, **options)
        else:
            count = window_length + bool(periodic)
            # Half types would count wrongly beyond a few hundred points.
            wide = _C.float32 if dtype.itemsize < 4 else dtype
            steps = find_op("arange")(count, dtype=wide, **options)
            result = self.shape(steps, count - 1, *numbers).narrow(0, 0, window_length).to(dtype)
            result = result.clone() if periodic and wide is dtype else result
        return result.requires_grad_(requires_grad)

    def shape(self, steps: Any, last: int, *numbers: float) -> Any:
        """The symmetric window over steps 0 to `last`."""
        raise NotImplementedError


class HannWindow(_Window):
    """A raised cosine that is 0 at both ends."""

    schema = (
        f"hann_window(int window_length, {OPTIONS}) {_LAST}",
        f"hann_window.periodic(int window_length, bool periodic, {OPTIONS}) {_LAST}",
    )

    def shape(self, steps, last):
        return 0.5 - 0.5 * (steps * (2 * math.pi / last)).cos()


class HammingWindow(_Window):
    """alpha - beta * cos over one period."""

    schema = (
        f"hamming_window(int window_length, {OPTIONS}) {_LAST}",
        f"hamming_window.periodic(int window_length, bool periodic, {OPTIONS}) {_LAST}",
        f"hamming_window.alpha(int window_length, bool periodic, float alpha, {OPTIONS}) {_LAST}",
        f"hamming_window.beta(int window_length, bool periodic, float alpha, float beta, {OPTIONS}) {_LAST}",
    )

    def shape(self, steps, last, alpha=0.54, beta=0.46):
        return alpha - beta * (steps * (2 * math.pi / last)).cos()


class BlackmanWindow(_Window):
    """Three cosine terms."""

    schema = (
        f"blackman_window(int window_length, {OPTIONS}) {_LAST}",
        f"blackman_window.periodic(int window_length, bool periodic, {OPTIONS}) {_LAST}",
    )

    def shape(self, steps, last):
        angle = steps * (math.pi / last)
        return 0.42 - 0.5 * (angle * 2).cos() + 0.08 * (angle * 4).cos()


class BartlettWindow(_Window):
    """A triangle that is 0 at both ends."""

    schema = (
        f"bartlett_window(int window_length, {OPTIONS}) {_LAST}",
        f"bartlett_window.periodic(int window_length, bool periodic, {OPTIONS}) {_LAST}",
    )

    def shape(self, steps, last):
        return 1 - (steps * (2 / last) - 1).abs()


class KaiserWindow(_Window):
    """A Bessel function of a half circle; `beta` trades width for leakage."""

    schema = (
        f"kaiser_window(int window_length, {OPTIONS}) {_LAST}",
        f"kaiser_window.periodic(int window_length, bool periodic, {OPTIONS}) {_LAST}",
        f"kaiser_window.beta(int window_length, bool periodic, float beta, {OPTIONS}) {_LAST}",
    )

    def shape(self, steps, last, beta=12.0):
        half = last / 2
        inside = (1 - ((steps - half) / half).square()).clamp(min=0).sqrt()
        i0 = find_op("i0")
        return i0(beta * inside) / i0(inside.new_full((), beta))
