"""nn.functional.grid_sample and affine_grid, and the ops PyTorch's graph has for them.

Enters: images, grids, affine matrices [batch, rows, columns]. Leaves: samples, and grids of sampling coordinates.
Refuses: modes that do not exist, matrices whose shape does not fit the size asked for.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from rushlight.op import Composite, find_op
from rushlight.op.memory import check_memory

from ...base.tracebacks import users_level
from .grid import check_grid

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")


class GridSample(Composite):
    """Samples of an image at coordinates from -1 to 1."""

    schema = (
        "grid_sample(Tensor input, Tensor grid, str mode='bilinear', str padding_mode='zeros', bool?"
        " align_corners=None) -> Tensor"
    )
    replays = True
    namespace = "nn.functional"
    method = out = False

    def is_planned(self, args):
        return args[4] is not None      # without it every call warns

    def compute(self, input, grid, mode, padding_mode, align_corners):
        mode, padding_mode = mode.strip("'"), padding_mode.strip("'")
        if mode not in MODES:
            raise ValueError(f"grid_sample: expected mode 'bilinear', 'nearest' or 'bicubic', got '{mode}'")
        if padding_mode not in PADDINGS:
            raise ValueError(
                f"grid_sample: expected padding_mode 'zeros', 'border' or 'reflection', got '{padding_mode}'"
            )
        if align_corners is None:
            warnings.warn(
                "align_corners is not given: grid_sample and affine_grid take False (before PyTorch 1.3: True). Pass it"
                " to be sure.",
                stacklevel=users_level(),
            )
        return find_op("grid_sampler")(
            input, grid, MODES.index(mode), PADDINGS.index(padding_mode), bool(align_corners)
        )


class GridSamplerAny(Composite):
    """grid_sampler_2d or grid_sampler_3d, by the number of dims."""

    schema = (
        "grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) ->"
        " Tensor"
    )
    replays = True
    method = out = False

    def compute(self, input, grid, interpolation_mode, padding_mode, align_corners):
        check_grid("grid_sampler", input, grid, interpolation_mode, padding_mode, align_corners)
        name = "grid_sampler_2d" if input.ndim == 4 else "grid_sampler_3d"
        return find_op(name)(input, grid, interpolation_mode, padding_mode, align_corners)


def coordinates(theta: Any, size: int, corners: bool) -> Any:
    """`size` coordinates from -1 to 1: the first and last at the ends, or half a step inside."""
    if size <= 1:
        return theta.new_zeros((size,))
    line = find_op("linspace")(-1, 1, size, dtype=theta.dtype, device=theta.device)
    return line if corners else line * ((size - 1) / size)


class AffineGrid(Composite):
    """The grid of sampling coordinates of an affine map: [N, H, W, 2] or [N, D, H, W, 3]."""

    schema = "affine_grid(Tensor theta, int[] size, bool? align_corners=None) -> Tensor"
    replays = True
    plan_per_shape = True
    namespace = "nn.functional"
    method = out = False

    def is_planned(self, args):
        return args[2] is not None      # without it every call warns

    def compute(self, theta, size, align_corners):
        if align_corners is None:
            warnings.warn(
                "align_corners is not given: grid_sample and affine_grid take False (before PyTorch 1.3: True). Pass it"
                " to be sure.",
                stacklevel=users_level(),
            )
        check_theta(theta, size)
        return affine_grid(theta, size, bool(align_corners))


def check_theta(theta: Any, size: Sequence[int]) -> None:
    """Raise for matrices that do not map the dims of `size`."""
    if not theta.dtype.is_floating_point:
        raise ValueError(f"affine_grid: expected theta of a floating point dtype, got {theta.dtype.name}")
    count = len(size) - 2
    if count not in (2, 3):
        raise NotImplementedError(
            f"affine_grid: expected a size of 4 numbers (2D transforms) or 5 (3D), got {list(size)}."
        )
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (count, count + 1):
        raise ValueError(
            f"Expected a batch of {count}D affine matrices of shape Nx{count}x{count + 1} for size {list(size)}. Got"
            f" {list(theta.shape)}."
        )
    if min(size) <= 0:
        raise ValueError(f"affine_grid: expected sizes above 0, got {list(size)}")
    if theta.shape[0] != size[0]:
        raise RuntimeError(f"affine_grid: expected one matrix for each of {size[0]} images, got {theta.shape[0]}")


def affine_grid(theta: Any, size: Sequence[int], corners: bool) -> Any:
    """Coordinates of every output position, times the matrices: a line's share of each axis, added where they cross.
    Each result coordinate is computed by itself, in long rows."""
    n, _, *space = size
    count, addcmul = len(space), find_op("addcmul")
    check_memory((n, *space, count), theta.dtype, theta.device)
    lines = [coordinates(theta, s, corners).reshape([-1 if d == k else 1 for d in range(count)])
             for k, s in enumerate(space)]
    planes = []
    for row in theta.reshape((n, count, count + 1, *(1,) * count)).unbind(1):
        *factors, plane = row.unbind(1)
        for line, factor in zip(lines, reversed(factors), strict=True):      # coordinates go from the last axis on
            plane = addcmul(plane, line, factor)
        planes.append(plane)
    return find_op("stack")(planes, -1)


class AffineGridGenerator(Composite):
    """affine_grid as PyTorch's graph names it."""

    schema = "affine_grid_generator(Tensor theta, int[] size, bool align_corners) -> Tensor"
    method = out = False

    def compute(self, theta, size, align_corners):
        check_theta(theta, size)
        return affine_grid(theta, size, align_corners)
