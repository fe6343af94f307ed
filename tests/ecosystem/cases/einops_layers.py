"""einops: rearrangements as functions and as layers."""

import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce

from tests.ecosystem.compiling import prepared

NEEDS = "einops"


def case_functions() -> dict:
    images = torch.randn(2, 3, 8, 8, requires_grad=True)

    @prepared
    def arranged(images: torch.Tensor) -> dict:
        patches = rearrange(images, "b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4)
        packed, shapes = pack([patches, patches[:, :1]], "b * d")
        return {
            "patches": patches,
            "pooled": reduce(images, "b c (h 2) (w 2) -> b c h w", "max"),
            "tiled": repeat(images.mean(1), "b h w -> b (r h) w", r=2),
            "likeness": einsum(patches, patches, "b i d, b j d -> b i j"),
            "parts": unpack(packed, shapes, "b * d"),
        }

    result = arranged(images)
    (result["patches"].square().sum() + result["pooled"].sum() + result["tiled"].sum()).backward()
    return {**result, "grad": images.grad}


def case_layers() -> dict:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 6, 3),
        Rearrange("b c h w -> b (h w) c"),
        EinMix("b t c -> b t d", weight_shape="c d", bias_shape="d", c=6, d=5),
        Reduce("b t d -> b d", "mean"),
    )
    out = prepared(model)(torch.randn(2, 3, 8, 8))
    out.sum().backward()
    return {
        "out": out,
        "grads": [p.grad for p in model.parameters()],
        "keys": list(model.state_dict()),
        "text": str(model),
    }
