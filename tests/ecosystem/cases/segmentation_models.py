"""segmentation-models-pytorch: each decoder on a small encoder, losses and metrics."""

from __future__ import annotations

import segmentation_models_pytorch as smp
import torch

from tests.ecosystem.compiling import prepared

NEEDS = "segmentation_models_pytorch"
TOLERANCE = 3e-3   # batch norm over two small pictures magnifies rounding


def trained(kind: type, **options: object) -> dict:
    model = prepared(kind(encoder_name="mobilenet_v2", encoder_weights=None, classes=3, **options))
    pictures, masks = torch.randn(2, 3, 64, 64), torch.randint(3, (2, 64, 64))
    model.eval()
    with torch.inference_mode():
        scores = model(pictures)
    model.train()
    torch.manual_seed(1)
    loss = smp.losses.DiceLoss("multiclass")(model(pictures), masks)
    loss.backward()
    return {
        "scores": scores,
        "loss": loss,
        "head": model.segmentation_head[0].weight.grad,
        "keys": list(model.state_dict()),
    }


def case_unet() -> dict:
    return trained(smp.Unet, decoder_channels=(64, 32, 16, 16, 16), decoder_attention_type="scse")


def case_unet_plus_plus() -> dict:
    return trained(smp.UnetPlusPlus, decoder_channels=(16, 16, 8, 8, 8))


def case_fpn() -> dict:
    return trained(smp.FPN, decoder_pyramid_channels=32, decoder_segmentation_channels=32)


def case_deeplab() -> dict:
    return trained(smp.DeepLabV3Plus, decoder_channels=16)


def case_linknet() -> dict:
    return trained(smp.Linknet)


def case_segformer() -> dict:
    return trained(smp.Segformer, decoder_segmentation_channels=16)


def case_losses_and_metrics() -> dict:
    scores, masks = torch.randn(2, 3, 8, 8, requires_grad=True), torch.randint(3, (2, 8, 8))
    losses = {
        kind.__name__: kind("multiclass")(scores, masks)
        for kind in (
            smp.losses.DiceLoss,
            smp.losses.JaccardLoss,
            smp.losses.FocalLoss,
            smp.losses.LovaszLoss,
            smp.losses.TverskyLoss,
        )
    }
    losses["SoftCrossEntropy"] = smp.losses.SoftCrossEntropyLoss(smooth_factor=0.1)(scores, masks)
    losses["MCC"] = smp.losses.MCCLoss()(scores[:, :1].sigmoid(), (masks > 1).float().unsqueeze(1))
    sum(losses.values()).backward()
    counts = smp.metrics.get_stats(scores.argmax(1), masks, mode="multiclass", num_classes=3)
    return {
        **losses,
        "grad": scores.grad,
        "counts": list(counts),
        "iou": smp.metrics.iou_score(*counts, reduction="macro"),
        "f1": smp.metrics.f1_score(*counts, reduction="micro"),
    }
