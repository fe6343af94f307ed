"""timm: a model of each of many families, small pictures, one training step's gradients and inference."""

from __future__ import annotations

import timm
import torch

from tests.ecosystem.compiling import prepared

NEEDS = "timm torchvision"
TOLERANCE = 2e-3   # batch norm over two pictures magnifies rounding


def trained(name: str, size: int = 64, **options: object) -> dict:
    model = prepared(timm.create_model(name, pretrained=False, num_classes=5, **options))
    pictures = torch.randn(2, 3, size, size)
    model.train(False)
    with torch.no_grad():
        scores = model(pictures)
        features = model.forward_features(pictures)
    model.train()
    torch.manual_seed(1)
    loss = torch.nn.functional.cross_entropy(model(pictures), torch.tensor([1, 3]))
    loss.backward()
    norms = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None])
    return {"scores": scores, "features": features, "loss": loss, "norms": norms, "keys": list(model.state_dict())}


def case_resnet() -> dict:
    return trained("resnet10t")


def case_resnext() -> dict:
    return trained("resnet26", cardinality=4, base_width=8)


def case_efficientnet() -> dict:
    return trained("efficientnet_lite0")


def case_mobilenetv3() -> dict:
    return trained("mobilenetv3_small_050")


def case_vit() -> dict:
    return trained("vit_tiny_patch16_224", img_size=64, depth=2)


def case_deit() -> dict:
    return trained("deit_tiny_distilled_patch16_224", img_size=64, depth=2)


def case_swin() -> dict:
    return trained(
        "swin_tiny_patch4_window7_224",
        img_size=64,
        embed_dim=16,
        depths=(1, 1, 1, 1),
        num_heads=(1, 2, 2, 4),
        window_size=4,
    )


def case_convnext() -> dict:
    return trained("convnext_atto", depths=(1, 1, 1, 1))


def case_densenet() -> dict:
    return trained("densenet121", block_config=(1, 1, 1, 1))


def case_repvgg() -> dict:
    return trained("repvgg_a0", size=32)


def case_regnet() -> dict:
    return trained("regnetx_002")


def case_mixer() -> dict:
    return trained("mixer_s32_224", img_size=64)


def case_ghostnet() -> dict:
    return trained("ghostnet_050")


def case_beit() -> dict:
    return trained("beit_base_patch16_224", img_size=64, embed_dim=48, depth=2, num_heads=3)


def case_features() -> dict:
    model = prepared(timm.create_model("resnet10t", pretrained=False, features_only=True).eval())
    with torch.no_grad():
        return {"maps": model(torch.randn(1, 3, 64, 64)), "channels": model.feature_info.channels()}


def case_optimizer_and_schedule() -> dict:
    from timm.optim import create_optimizer_v2
    from timm.scheduler import CosineLRScheduler

    model = prepared(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)))
    result = {}
    for name in ("adamw", "lamb", "sgd", "lion", "adabelief"):
        optimizer = create_optimizer_v2(model, opt=name, lr=1e-2, weight_decay=0.05)
        schedule = CosineLRScheduler(optimizer, t_initial=10, warmup_t=2)
        for step in range(4):
            optimizer.zero_grad()
            loss = model(torch.randn(4, 8)).square().mean()
            loss.backward()
            optimizer.step()
            schedule.step(step + 1)
        result[name] = [loss, optimizer.param_groups[0]["lr"]]
    return result


def case_augmentation() -> dict:
    from timm.data import Mixup
    from timm.loss import LabelSmoothingCrossEntropy, SoftTargetCrossEntropy

    mix = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=5, label_smoothing=0.1)
    pictures, targets = mix(torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 2, 3]))
    scores = torch.randn(4, 5)
    return {"pictures": pictures, "targets": targets, "soft": prepared(SoftTargetCrossEntropy())(scores, targets),
            "smooth": prepared(LabelSmoothingCrossEntropy())(scores, torch.tensor([0, 1, 2, 3]))}
