"""kornia: differentiable image processing, geometry and augmentation."""

from __future__ import annotations

import kornia
import torch

NEEDS = "kornia"


def pictures(requires_grad: bool = False) -> torch.Tensor:
    return torch.rand(2, 3, 24, 24, requires_grad=requires_grad)


def case_filters() -> dict:
    x = pictures(True)
    blurred = kornia.filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5))
    blurred.square().sum().backward()
    return {
        "blurred": blurred,
        "grad": x.grad,
        "sobel": kornia.filters.sobel(x),
        "median": kornia.filters.median_blur(x, (3, 3)),
        "laplacian": kornia.filters.laplacian(x, 3),
        "canny": list(kornia.filters.canny(x)),
        "bilateral": kornia.filters.bilateral_blur(x, (3, 3), 0.1, (1.5, 1.5)),
    }


def case_colour() -> dict:
    x = pictures()
    return {
        "hsv": kornia.color.rgb_to_hsv(x),
        "lab": kornia.color.rgb_to_lab(x),
        "grey": kornia.color.rgb_to_grayscale(x),
        "ycbcr": kornia.color.rgb_to_ycbcr(x),
        "back": kornia.color.hsv_to_rgb(kornia.color.rgb_to_hsv(x)),
    }


def case_geometry() -> dict:
    x = pictures()
    angle = torch.tensor([30.0, -10.0])
    matrix = kornia.geometry.transform.get_rotation_matrix2d(torch.tensor([[12.0, 12.0]] * 2), angle, torch.ones(2, 2))
    corners = torch.tensor([[[0.0, 0.0], [23.0, 0.0], [23.0, 23.0], [0.0, 23.0]]]).repeat(2, 1, 1)
    warp = kornia.geometry.transform.get_perspective_transform(corners, corners + torch.rand(2, 4, 2))
    return {
        "rotated": kornia.geometry.transform.rotate(x, angle),
        "affine": kornia.geometry.transform.warp_affine(x, matrix, (24, 24)),
        "perspective": kornia.geometry.transform.warp_perspective(x, warp, (24, 24)),
        "resized": kornia.geometry.transform.resize(x, (12, 10)),
        "quaternion": kornia.geometry.conversions.axis_angle_to_rotation_matrix(torch.randn(3, 3)),
    }


def case_losses_and_metrics() -> dict:
    a, b = pictures(True), pictures()
    loss = kornia.losses.ssim_loss(a, b, 5) + kornia.losses.total_variation(a).mean()
    loss.backward()
    scores = torch.randn(2, 4, 8, 8)
    return {
        "loss": loss,
        "grad": a.grad,
        "focal": kornia.losses.focal_loss(scores, torch.randint(4, (2, 8, 8)), alpha=0.5, reduction="mean"),
        "dice": kornia.losses.dice_loss(scores, torch.randint(4, (2, 8, 8))),
        "psnr": kornia.metrics.psnr(a, b, 1.0),
    }


def case_morphology_and_features() -> dict:
    x = pictures()
    kernel = torch.ones(3, 3)
    return {"dilated": kornia.morphology.dilation(x, kernel), "opened": kornia.morphology.opening(x, kernel),
            "harris": kornia.feature.harris_response(x), "hessian": kornia.feature.hessian_response(x)}


def case_enhance() -> dict:
    x = pictures()
    return {
        "bright": kornia.enhance.adjust_brightness(x, 0.2),
        "contrast": kornia.enhance.adjust_contrast(x, 0.7),
        "gamma": kornia.enhance.adjust_gamma(x, 1.4),
        "equalized": kornia.enhance.equalize(x),
        "normalized": kornia.enhance.normalize(x, torch.tensor([0.5] * 3), torch.tensor([0.2] * 3)),
        "histogram": kornia.enhance.histogram(x[:, 0].flatten(1), torch.linspace(0, 1, 8), torch.tensor(0.1)),
    }


def case_augmentation() -> dict:
    augment = kornia.augmentation.AugmentationSequential(
        kornia.augmentation.RandomHorizontalFlip(p=0.5),
        kornia.augmentation.RandomAffine(20.0, p=1.0),
        kornia.augmentation.ColorJitter(0.1, 0.1, 0.1, 0.1, p=1.0),
        kornia.augmentation.RandomErasing(p=1.0),
        data_keys=["input"],
    )
    return {"out": augment(pictures())}
