"""Resizing images, and sampling them at computed points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import _C
from ..building import Builder
from ..model import Value
from .table import result_of, rule


def _resized(mode: str, exact: bool = False) -> Callable[..., Value]:
    def convert(g: Builder, output_size: Any = None, align_corners: bool = False, scale_factors: Any = None,
                input: Value | None = None, self: Value | None = None, **scales: Any) -> Value:
        x = input if input is not None else self
        dims = x.ndim - 2
        factors = scale_factors if scale_factors is not None else [scales[k] for k in scales if scales[k] is not None]
        how: dict[str, Any] = {"mode": mode}
        if mode == "nearest":
            how |= {"coordinate_transformation_mode": "half_pixel" if exact else "asymmetric", "nearest_mode":
                    "round_prefer_ceil" if exact else "floor"}
        else:
            how["coordinate_transformation_mode"] = "align_corners" if align_corners else "half_pixel"
            if mode == "cubic":
                how["cubic_coeff_a"] = -0.75
        if factors and len(factors) == dims:
            scale = g.constant([1.0, 1.0, *[float(f) for f in factors]], _C.float32)
            return g.node("Resize", x, None, scale, None, **how)
        sizes = output_size if output_size is not None else result_of(g).shape[2:]
        whole = g.sizes([g.size(x, 0), g.size(x, 1), *sizes])
        return g.node("Resize", x, None, None, whole, **how)

    return convert


for _d in (1, 2, 3):
    rule(f"upsample_nearest{_d}d")(_resized("nearest"))
    rule(f"_upsample_nearest_exact{_d}d")(_resized("nearest", True))
rule("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")(_resized("linear"))
rule("upsample_bicubic2d")(_resized("cubic"))




@rule("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(g: Builder, input: Value, grid: Value, interpolation_mode: int, padding_mode: int,
                 align_corners: bool) -> Value:
    names = ("linear", "nearest", "cubic") if g.opset >= 20 else ("bilinear", "nearest", "bicubic")
    return g.node("GridSample", input, grid, mode=names[interpolation_mode], align_corners=int(align_corners),
                  padding_mode=("zeros", "border", "reflection")[padding_mode])
