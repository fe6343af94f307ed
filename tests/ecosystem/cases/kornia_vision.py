"""kornia: differentiable image processing, geometry and augmentation."""

from __future__ import annotations

import kornia
import torch

from tests.ecosystem.compiling import prepared

NEEDS = "kornia"


def pictures(requires_grad: bool = False) -> torch.Tensor:
    return torch.rand(2, 3, 24, 24, requires_grad=requires_grad)


def case_filters() -> dict:
    @prepared
    def filtered(x: torch.Tensor) -> dict:
        return {
            "blurred": kornia.filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5)),
            "sobel": kornia.filters.sobel(x),
            "median": kornia.filters.median_blur(x, (3, 3)),
            "laplacian": kornia.filters.laplacian(x, 3),
            "bilateral": kornia.filters.bilateral_blur(x, (3, 3), 0.1, (1.5, 1.5)),
        }

    x = pictures(True)
    result = filtered(x)
    result["blurred"].square().sum().backward()
    return {**result, "grad": x.grad}


def case_edges() -> dict:
    return {"canny": list(prepared(kornia.filters.canny)(pictures()))}


def case_colour() -> dict:
    @prepared
    def coloured(x: torch.Tensor) -> dict:
        return {
            "hsv": kornia.color.rgb_to_hsv(x),
            "lab": kornia.color.rgb_to_lab(x),
            "grey": kornia.color.rgb_to_grayscale(x),
            "ycbcr": kornia.color.rgb_to_ycbcr(x),
            "back": kornia.color.hsv_to_rgb(kornia.color.rgb_to_hsv(x)),
        }

    return coloured(pictures())


def case_geometry() -> dict:
    x = pictures()
    angle = torch.tensor([30.0, -10.0])
    matrix = kornia.geometry.transform.get_rotation_matrix2d(torch.tensor([[12.0, 12.0]] * 2), angle, torch.ones(2, 2))
    corners = torch.tensor([[[0.0, 0.0], [23.0, 0.0], [23.0, 23.0], [0.0, 23.0]]]).repeat(2, 1, 1)
    warp = kornia.geometry.transform.get_perspective_transform(corners, corners + torch.rand(2, 4, 2))
    axes = torch.randn(3, 3)

    @prepared
    def moved(x: torch.Tensor) -> dict:
        return {
            "rotated": kornia.geometry.transform.rotate(x, angle),
            "affine": kornia.geometry.transform.warp_affine(x, matrix, (24, 24)),
            "perspective": kornia.geometry.transform.warp_perspective(x, warp, (24, 24)),
            "resized": kornia.geometry.transform.resize(x, (12, 10)),
            "quaternion": kornia.geometry.conversions.axis_angle_to_rotation_matrix(axes),
        }

    return moved(x)


def case_losses_and_metrics() -> dict:
    a, b = pictures(True), pictures()
    scores, classes = torch.randn(2, 4, 8, 8), torch.randint(4, (2, 8, 8))

    @prepared
    def judged(a: torch.Tensor, b: torch.Tensor) -> dict:
        return {
            "loss": kornia.losses.ssim_loss(a, b, 5) + kornia.losses.total_variation(a).mean(),
            "focal": kornia.losses.focal_loss(scores, classes, alpha=0.5, reduction="mean"),
            "dice": kornia.losses.dice_loss(scores, classes),
            "psnr": kornia.metrics.psnr(a, b, 1.0),
        }

    result = judged(a, b)
    result["loss"].backward()
    return {**result, "grad": a.grad}


def case_morphology_and_features() -> dict:
    kernel = torch.ones(3, 3)

    @prepared
    def found(x: torch.Tensor) -> dict:
        return {"dilated": kornia.morphology.dilation(x, kernel), "opened": kornia.morphology.opening(x, kernel),
                "harris": kornia.feature.harris_response(x), "hessian": kornia.feature.hessian_response(x)}

    return found(pictures())


def case_enhance() -> dict:
    @prepared
    def enhanced(x: torch.Tensor) -> dict:
        return {
            "bright": kornia.enhance.adjust_brightness(x, 0.2),
            "contrast": kornia.enhance.adjust_contrast(x, 0.7),
            "gamma": kornia.enhance.adjust_gamma(x, 1.4),
            "normalized": kornia.enhance.normalize(x, torch.tensor([0.5] * 3), torch.tensor([0.2] * 3)),
            "histogram": kornia.enhance.histogram(x[:, 0].flatten(1), torch.linspace(0, 1, 8), torch.tensor(0.1)),
        }

    return enhanced(pictures())


def case_equalized() -> dict:
    return {"equalized": prepared(kornia.enhance.equalize)(pictures())}


def case_augmentation() -> dict:
    augment = kornia.augmentation.AugmentationSequential(
        kornia.augmentation.RandomHorizontalFlip(p=0.5),
        kornia.augmentation.RandomAffine(20.0, p=1.0),
        kornia.augmentation.ColorJitter(0.1, 0.1, 0.1, 0.1, p=1.0),
        kornia.augmentation.RandomErasing(p=1.0),
        data_keys=["input"],
    )
    return {"out": prepared(augment)(pictures())}


def case_single_augmentations() -> dict:
    kinds = {
        "flip": kornia.augmentation.RandomHorizontalFlip(p=0.5),
        "affine": kornia.augmentation.RandomAffine(20.0, p=1.0),
        "colour": kornia.augmentation.ColorJiggle(0.1, 0.1, 0.1, 0.1, p=1.0),
        "erasing": kornia.augmentation.RandomErasing(p=1.0),
        "noise": kornia.augmentation.RandomGaussianNoise(p=1.0),
    }
    return {name: prepared(kind)(pictures()) for name, kind in kinds.items()}
