"""Interpolation of images: nn.functional.interpolate, upsample, and the ops PyTorch names per mode.

Enters: images [batch, channels, spatial dims] and a size or scale factors. Leaves: resampled images; each mode is a
windowed sum with the weights of `tables`, so gradients of any order follow. Bytes are mixed in integers, one dim after
another. Refuses: modes that do not fit the number of dims, and antialiasing where PyTorch has none.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from rushlight import _C
from rushlight.base.shape import INTS
from rushlight.definitions.window.axes import RESAMPLE, Axis, once_per_shape, pack
from rushlight.op import Composite, find_op

from ...base.tracebacks import users_level
from .tables import CUBIC, LANCZOS, LINEAR, NEAREST, NEAREST_EXACT, to_bits

MODES = {
    "nearest": NEAREST,
    "nearest-exact": NEAREST_EXACT,
    "linear": LINEAR,
    "bilinear": LINEAR,
    "trilinear": LINEAR,
    "bicubic": CUBIC,
    "lanczos": LANCZOS,
}
DIMS = {"linear": 3, "bilinear": 4, "bicubic": 4, "lanczos": 4, "trilinear": 5}


@once_per_shape
def resample_axes(
    shape: tuple[int, ...],
    name: str,
    dtype: Any,
    sizes: tuple[int, ...],
    mode: int,
    corners: bool,
    factors: tuple[float | None, ...],
    antialias: bool,
) -> tuple[tuple[int, ...], ...]:
    """The packed axes, one by one for bytes that are mixed, all together otherwise; raises for what is refused."""
    count, space = len(sizes), shape[2:]
    if 0 in shape[1:] or len(shape) != count + 2:
        raise RuntimeError(
            f"{name}: expected an input with {count + 2} dimensions and elements, got sizes {list(shape)}"
        )
    if any(n <= 0 for n in sizes):
        raise RuntimeError(f"{name}: expected sizes above 0, got input {list(space)} and output {list(sizes)}")
    if not dtype.is_floating_point and (dtype is not _C.uint8 or (mode == LINEAR and count != 2)):
        raise NotImplementedError(f'"{name}" not implemented for {dtype.name}')
    picks = mode in (NEAREST, NEAREST_EXACT)
    bits = 64 if dtype is _C.float64 or (dtype is _C.uint8 and not picks) else 32
    axes = []
    for n, out, factor in zip(space, sizes, factors, strict=True):
        axes.append(Axis(RESAMPLE, n, out, mode, int(corners), to_bits(factor), bits, int(antialias)))
    return tuple(pack([axis]) for axis in axes) if dtype is _C.uint8 and not picks else (pack(axes),)


def resample(
    name: str,
    input: Any,
    sizes: Sequence[int],
    mode: int,
    corners: bool,
    factors: Sequence[float | None],
    antialias: bool = False,
) -> Any:
    """The image at `sizes`; factors given by the caller, where there are any, decide the distance of samples."""
    axes = resample_axes(tuple(input.shape), name, input.dtype, tuple(sizes), mode, corners, tuple(factors), antialias)
    if input.dtype is not _C.uint8 or mode in (NEAREST, NEAREST_EXACT):
        return find_op("_window_sum")(input, axes[0])
    for d in range(len(sizes) - 1, -1, -1):
        input = find_op("_window_bytes")(input, d - len(sizes), axes[d])
    return input


def output_sizes(
    name: str, input: Any, size: Any, factors: Sequence[float] | None
) -> tuple[list[int], list[float | None]]:
    """Sizes and scale factors of an op that takes exactly one of them."""
    count = input.ndim - 2
    if size is not None:
        if factors is not None:
            raise RuntimeError(f"{name}: expected output_size or scale_factors, and not both")
        return list(size), [None] * count
    if factors is None:
        raise RuntimeError(f"{name}: expected output_size or scale_factors, and not both")
    return [scaled(n, f) for n, f in zip(input.shape[2:], factors, strict=True)], list(factors)


def scaled(size: int, factor: float) -> int:
    """A size times a factor, rounded down; whole factors keep symbolic sizes symbolic."""
    return size * int(factor) if factor == int(factor) else int(size * factor)


class Interpolate(Composite):
    """Images at another size."""

    schema = (
        "interpolate(Tensor input, any size=None, any scale_factor=None, str mode='nearest', bool? align_corners=None,"
        " bool? recompute_scale_factor=None, bool antialias=False) -> Tensor"
    )
    replays = True
    plan_per_shape = True
    namespace = "nn.functional"
    method = out = False

    def compute(self, input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias):
        mode = mode.strip("'")
        if mode in ("nearest", "area", "nearest-exact"):
            if align_corners is not None:
                raise ValueError(
                    "interpolate: align_corners applies to the modes linear, bilinear, bicubic and trilinear only"
                )
        if input.ndim < 2:
            check_mode(input, mode, antialias, align_corners)
        sizes, factors = asked(
            input, size, scale_factor, mode == "area" or bool(recompute_scale_factor), bool(recompute_scale_factor)
        )
        if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and input.ndim == 4):
            raise ValueError(
                "interpolate: antialias needs the mode bilinear, bicubic or lanczos and an input with 4 dimensions"
            )
        check_mode(input, mode, antialias, align_corners)
        if mode == "area":
            return find_op(f"adaptive_avg_pool{input.ndim - 2}d")(input, sizes)
        return resample("interpolate", input, sizes, MODES[mode], bool(align_corners), factors, antialias)


def check_mode(input: Any, mode: str, antialias: bool, corners: bool | None) -> None:
    """Raise for modes that do not exist for this number of dims."""
    if (
        (mode not in MODES and mode != "area")
        or input.ndim not in (3, 4, 5)
        or (mode in ("bicubic", "lanczos") and input.ndim != 4)
    ):
        raise NotImplementedError(
            f"interpolate: no mode {mode!r} for an input with {input.ndim} dimensions. Inputs have 3 to 5: linear takes"
            " 3, bilinear, bicubic and lanczos 4, trilinear 5"
        )
    if DIMS.get(mode, input.ndim) != input.ndim:
        raise NotImplementedError(
            f"interpolate: mode {mode!r} needs an input with {DIMS[mode]} dimensions, got {input.ndim}"
        )
    if mode == "lanczos" and corners:
        raise ValueError("interpolate: mode lanczos needs align_corners=False")
    if mode == "lanczos" and not antialias:
        raise ValueError("interpolate: mode lanczos needs antialias=True")


def asked(
    input: Any, size: Any, scale_factor: Any, rounded: bool, recompute: bool
) -> tuple[list[int], list[float | None]]:
    """Output sizes and the factors that decide the distance of samples (None: the ratio of sizes)."""
    count, space = input.ndim - 2, list(input.shape[2:])
    if size is not None and scale_factor is not None:
        raise ValueError("interpolate: expected size or scale_factor, got both")
    if size is not None:
        if recompute:
            raise ValueError("interpolate: recompute_scale_factor goes with scale_factor, and size was given.")
        sizes = list(size) if isinstance(size, (list, tuple)) else [size] * count
        if len(sizes) != count:
            raise ValueError(
                f"interpolate: expected as many numbers in size as input has spatial dimensions, got size {size} for"
                f" {space}. The input is (batch, channels, *spatial)."
            )
        if not all(isinstance(n, INTS) for n in sizes):
            raise TypeError(
                f"interpolate: expected size to be an int or a tuple of ints, got {[type(n) for n in sizes]}"
            )
        return sizes, [None] * count
    if scale_factor is None:
        raise ValueError("interpolate: expected size or scale_factor, got neither")
    factors = (
        [float(f) for f in scale_factor] if isinstance(scale_factor, (list, tuple)) else [float(scale_factor)] * count
    )
    if len(factors) != count:
        raise ValueError(
            f"interpolate: expected as many numbers in scale_factor as input has spatial dimensions, got {scale_factor}"
            f" for {space}. The input is (batch, channels, *spatial)."
        )
    sizes = [scaled(n, f) for n, f in zip(space, factors, strict=True)]
    return sizes, [None] * count if rounded else list(factors)


class Upsample(Composite):
    """interpolate under its older name."""

    schema = (
        "upsample(Tensor input, any size=None, any scale_factor=None, str mode='nearest', bool? align_corners=None) ->"
        " Tensor"
    )
    namespace = "nn.functional"
    method = out = False

    def compute(self, input, size, scale_factor, mode, align_corners):
        warnings.warn("upsample is deprecated: use interpolate.", stacklevel=users_level())
        return find_op("interpolate")(input, size, scale_factor, mode, align_corners)


class UpsampleNearest(Composite):
    """interpolate(mode="nearest") under its older name."""

    schema = "upsample_nearest(Tensor input, any size=None, any scale_factor=None) -> Tensor"
    namespace = "nn.functional"
    method = out = False

    def compute(self, input, size, scale_factor):
        warnings.warn("upsample_nearest is deprecated: use interpolate.", stacklevel=users_level())
        return find_op("interpolate")(input, size, scale_factor, "nearest")


class UpsampleBilinear(Composite):
    """interpolate(mode="bilinear", align_corners=True) under its older name."""

    schema = "upsample_bilinear(Tensor input, any size=None, any scale_factor=None) -> Tensor"
    namespace = "nn.functional"
    method = out = False

    def compute(self, input, size, scale_factor):
        warnings.warn(
            "upsample_bilinear is deprecated: use interpolate with align_corners=True.", stacklevel=users_level()
        )
        return find_op("interpolate")(input, size, scale_factor, "bilinear", True)


# --- one op per mode, as PyTorch's graph of operators has them --------------------------------------------------------


class PerMode(Composite):
    """A mode under its own name: with sizes and a factor per dim, or with a list of either."""

    function = method = out = False
    mode: int
    antialias = False
    takes_corners = True

    def compute(self, input, output_size, *rest):
        corners = bool(rest[0]) if self.takes_corners else False
        scales = rest[1:] if self.takes_corners else rest
        if "scale_factors" in [p.name for p in self.spec.params]:
            sizes, factors = output_sizes(self.name, input, output_size, scales[0])
        else:
            sizes, factors = list(output_size), list(scales)
        return resample(self.name, input, sizes, self.mode, corners, factors, self.antialias)


SCALES = {
    1: "float? scales=None",
    2: "float? scales_h=None, float? scales_w=None",
    3: "float? scales_d=None, float? scales_h=None, float? scales_w=None",
}


def per_mode(name: str, count: int, mode: int, corners: bool = True, antialias: bool = False) -> type[PerMode]:
    """The definition of a mode's own op."""
    flag = "bool align_corners, " if corners else ""
    schemas = (
        f"{name}(Tensor self, int[] output_size, {flag}{SCALES[count]}) -> Tensor",
        f"{name}.vec(Tensor input, int[]? output_size, {flag}float[]? scale_factors) -> Tensor",
    )
    body = {
        "schema": schemas,
        "mode": mode,
        "takes_corners": corners,
        "antialias": antialias,
        "__doc__": f"interpolate over {count} dims, as PyTorch's graph names it.",
    }
    return type(name.title().replace("_", ""), (PerMode,), {**body, "__module__": __name__})


for _count in (1, 2, 3):
    per_mode(f"upsample_nearest{_count}d", _count, NEAREST, corners=False)
    per_mode(f"_upsample_nearest_exact{_count}d", _count, NEAREST_EXACT, corners=False)
per_mode("upsample_linear1d", 1, LINEAR)
per_mode("upsample_bilinear2d", 2, LINEAR)
per_mode("upsample_trilinear3d", 3, LINEAR)
per_mode("upsample_bicubic2d", 2, CUBIC)
per_mode("_upsample_bilinear2d_aa", 2, LINEAR, antialias=True)
per_mode("_upsample_bicubic2d_aa", 2, CUBIC, antialias=True)
per_mode("_upsample_lanczos2d_aa", 2, LANCZOS, antialias=True)
