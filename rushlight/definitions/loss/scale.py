"""What gradient scalers are made of: undo a loss's scale in a list of gradients, and choose the next scale.

Enters: gradients, and scalars kept as tensors (scale, growth tracker, whether something overflowed). Leaves: all of
them changed in place. Refuses: integer gradients.
"""

from __future__ import annotations

from rushlight.op import OpDefinition, find_op


class Unscale(OpDefinition):
    """Every tensor times `inv_scale`; `found_inf` becomes 1 if any held an infinity or a NaN."""

    schema = "_amp_foreach_non_finite_check_and_unscale_(Tensor[] self, Tensor found_inf, Tensor inv_scale) -> ()"
    body = True
    method = False
    out = False

    def run(self, tensors, found_inf, inv_scale):
        if inv_scale.numel() != 1 or found_inf.numel() != 1:
            raise RuntimeError(
                "_amp_foreach_non_finite_check_and_unscale_: inv_scale and found_inf must be 1-element tensors"
            )
        norm, factor = find_op("linalg_vector_norm"), inv_scale.item()
        for t in tensors:
            if not t.is_floating_point():
                raise RuntimeError(
                    f"_amp_foreach_non_finite_check_and_unscale_: gradients must be floating point, got {t.dtype.name}"
                )
            # one pass: the largest magnitude is finite if all are
            if t.numel() and not norm(t, float("inf")).isfinite().item():
                found_inf.fill_(1.0)
            if factor != 1.0:
                t.mul_(factor)


class UpdateScale(OpDefinition):
    """The next loss scale: less after an overflow, more after `growth_interval` steps without one."""

    schema = (
        "_amp_update_scale_(Tensor self, Tensor growth_tracker, Tensor found_inf, float scale_growth_factor, float"
        " scale_backoff_factor, int growth_interval) -> Tensor"
    )
    body = True
    method = False
    out = False

    def run(self, scale, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor, growth_interval):
        if found_inf.item():
            scale.mul_(scale_backoff_factor)
            growth_tracker.zero_()
            return scale
        good_steps = growth_tracker.item() + 1
        if good_steps == growth_interval:
            grown = scale.mul(scale_growth_factor)
            if grown.isfinite().item():
                scale.copy_(grown)
            good_steps = 0
        growth_tracker.fill_(good_steps)
        return scale
