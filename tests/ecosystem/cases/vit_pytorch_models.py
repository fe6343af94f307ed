"""vit-pytorch and ema-pytorch: variants of vision transformers, and averaged weights."""

from __future__ import annotations

import torch
from ema_pytorch import EMA
from vit_pytorch import SimpleViT, ViT
from vit_pytorch.cct import CCT
from vit_pytorch.cvt import CvT
from vit_pytorch.distill import DistillableViT, DistillWrapper
from vit_pytorch.max_vit import MaxViT

from tests.ecosystem.compiling import prepared

NEEDS = "vit-pytorch ema-pytorch"
TOLERANCE = 1e-3


def trained(model: torch.nn.Module, size: int = 32) -> dict:
    model, pictures = prepared(model), torch.randn(2, 3, size, size)
    loss = torch.nn.functional.cross_entropy(model(pictures), torch.tensor([0, 2]))
    loss.backward()
    model.eval()
    with torch.no_grad():
        scores = model(pictures)
    return {
        "loss": loss,
        "scores": scores,
        "norms": torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]),
    }


def vit(kind: type = ViT, **options: object) -> torch.nn.Module:
    return kind(image_size=32, patch_size=8, num_classes=3, dim=16, depth=2, heads=2, mlp_dim=32, **options)


def case_vit() -> dict:
    return trained(vit(dropout=0.1, emb_dropout=0.1))


def case_simple_vit() -> dict:
    return trained(vit(SimpleViT))


def case_compact() -> dict:
    return trained(
        CCT(
            img_size=32,
            embedding_dim=16,
            n_conv_layers=1,
            num_layers=2,
            num_heads=2,
            mlp_ratio=2,
            num_classes=3,
            positional_embedding="learnable",
        )
    )


def case_convolutional() -> dict:
    return trained(
        CvT(
            num_classes=3,
            s1_emb_dim=8,
            s1_depth=1,
            s2_emb_dim=8,
            s2_heads=1,
            s2_depth=1,
            s3_emb_dim=16,
            s3_heads=1,
            s3_depth=1,
        )
    )


def case_max_vit() -> dict:
    return trained(MaxViT(num_classes=3, dim_conv_stem=8, dim=8, dim_head=4, depth=(1,), window_size=4))


def case_distillation() -> dict:
    teacher = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(4, 3)
    )
    wrapper = DistillWrapper(student=vit(DistillableViT), teacher=teacher, temperature=3, alpha=0.5)
    loss = wrapper(torch.randn(2, 3, 32, 32), torch.tensor([0, 1]))
    loss.backward()
    return {"loss": loss, "token": wrapper.distillation_token.grad}


def case_averaged() -> dict:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4, bias=False), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    ema, optimizer = EMA(model, beta=0.9, update_after_step=1, update_every=2), torch.optim.Adam(
        model.parameters(), 1e-2
    )
    for _ in range(8):
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        ema.update()
    ema.eval()
    return {"out": ema(torch.ones(2, 4)), "state": dict(ema.ema_model.state_dict())}
