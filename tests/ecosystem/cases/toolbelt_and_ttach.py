"""pytorch-toolbelt and ttach: augmentation with inverses, tiles in 2D and 3D, ensembles, checkpoints, losses."""

from __future__ import annotations

import os
import tempfile

import numpy as np
import torch
import ttach
from pytorch_toolbelt import losses
from pytorch_toolbelt.inference import tta
from pytorch_toolbelt.inference.ensembling import ApplySigmoidTo, ApplySoftmaxTo, Ensembler, average_checkpoints
from pytorch_toolbelt.inference.tiles import ImageSlicer, TileMerger
from pytorch_toolbelt.inference.tiles_3d import VolumeMerger, VolumeSlicer

NEEDS = "pytorch-toolbelt ttach"


def network(outputs: int = 2) -> torch.nn.Module:
    layers = (torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(4, outputs, 1))
    return torch.nn.Sequential(*layers).eval()


class Pooled(torch.nn.Module):
    """Scores of a whole picture."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x).mean(dim=(2, 3))


def case_flips_and_turns_of_the_toolbelt() -> dict:
    net, pictures = network(), torch.randn(2, 3, 8, 8)
    found = {}
    for name in ("fliplr", "flips", "d2", "d4"):
        augment, undo = getattr(tta, f"{name}_image_augment"), getattr(tta, f"{name}_image_deaugment")
        found[name] = augment(pictures)
        found[f"{name} back"] = undo(net(found[name]))
        for reduction in ("sum", "gmean", "hmean", "harmonic1p", "logodd", "log1p"):
            values = net(found[name]).sigmoid()
            found[f"{name} {reduction}"] = undo(values, reduction=reduction)
    return found


def case_scales_and_crops_of_the_toolbelt() -> dict:
    net, pictures = network(), torch.randn(2, 3, 8, 8)
    several = tta.ms_image_augment(pictures, size_offsets=[-4, 0, 4])
    back = tta.ms_image_deaugment([net(p) for p in several], size_offsets=[-4, 0, 4])
    pooled = Pooled(net)
    return {"scales": several[0], "back": back, "five": tta.fivecrop_image2label(pooled, pictures, (6, 6)),
            "ten": tta.tencrop_image2label(pooled, pictures, (6, 6)), "d4": tta.d4_image2label(pooled, pictures),
            "mask": tta.d4_image2mask(net, pictures)}


def tiled(weight: str) -> dict:
    net, rng = network(), np.random.default_rng(0)
    picture = rng.standard_normal((37, 45, 3)).astype(np.float32)
    slicer = ImageSlicer(picture.shape, tile_size=(16, 16), tile_step=(8, 8), weight=weight)
    tiles = torch.from_numpy(np.stack(slicer.split(picture))).permute(0, 3, 1, 2)
    merger = TileMerger(slicer.target_shape, 2, slicer.weight)
    with torch.no_grad():
        for at in range(0, len(tiles), 5):
            merger.integrate_batch(net(tiles[at : at + 5]), slicer.crops[at : at + 5])
    merged = merger.merge().permute(1, 2, 0).numpy()
    return {"merged": slicer.crop_to_orignal_size(merged), "weight": np.asarray(slicer.weight), "tiles": tiles}


def case_tiles() -> dict:
    return tiled("mean")


def case_tiles_with_weights() -> dict:
    return tiled("pyramid")


def case_tiles_of_a_volume() -> dict:
    volume = np.random.default_rng(0).standard_normal((11, 14, 17)).astype(np.float32)
    slicer = VolumeSlicer(volume.shape, voxel_size=(8, 8, 8), voxel_step=(4, 4, 4),
                          weight=np.ones((8, 8, 8), np.float32))
    pieces = torch.from_numpy(np.stack(slicer.split(volume)))[:, None]
    merger = VolumeMerger(slicer.target_shape, 1, slicer.weight)
    merger.integrate_batch(pieces * 2 + 1, slicer.crops)
    return {"merged": merger.merge(), "pieces": pieces}


def case_ensembles() -> dict:
    pictures, nets = torch.randn(2, 3, 8, 8), [Pooled(network()) for _ in range(3)]

    class Named(torch.nn.Module):
        def __init__(self, inner: torch.nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: torch.Tensor) -> dict:
            return {"logits": self.inner(x)}

    found = {f"plain {how}": Ensembler(nets, reduction=how)(pictures) for how in ("mean", "sum")}
    found["soft"] = Ensembler([ApplySoftmaxTo(Named(n), "logits", temperature=2) for n in nets])(pictures)["logits"]
    found["sigmoid"] = Ensembler([ApplySigmoidTo(Named(n), "logits") for n in nets])(pictures)["logits"]
    return found


def case_averaged_checkpoints() -> dict:
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number in range(3):
            paths.append(os.path.join(folder, f"{number}.pt"))
            torch.save({"model_state_dict": network().state_dict()}, paths[-1])
        return dict(average_checkpoints(paths)["model_state_dict"])


def of_loss(loss: torch.nn.Module, scores: torch.Tensor, target: torch.Tensor) -> dict:
    scores = scores.clone().requires_grad_()
    value = loss(scores, target)
    value.backward()
    return {"value": value, "gradient": scores.grad}


def case_losses_of_two_classes() -> dict:
    scores, target = torch.randn(2, 1, 6, 6), torch.randint(2, (2, 1, 6, 6)).float()
    found = {}
    for loss in (losses.DiceLoss("binary"), losses.DiceLoss("binary", log_loss=True, smooth=1.0),
                 losses.JaccardLoss("binary"), losses.BinaryFocalLoss(), losses.BinaryFocalLoss(alpha=0.3, gamma=1.5),
                 losses.BinaryFocalLoss(reduced_threshold=0.5, normalized=True), losses.BinaryLovaszLoss(),
                 losses.BinaryLovaszLoss(per_image=True), losses.SoftBCEWithLogitsLoss(smooth_factor=0.1),
                 losses.BinaryBiTemperedLogisticLoss(t1=0.8, t2=1.2), losses.BalancedBCEWithLogitsLoss(),
                 losses.LogCoshLoss(), losses.WingLoss()):
        at = f"{len(found)} {type(loss).__name__}"
        found |= {f"{at} {key}": value for key, value in of_loss(loss, scores, target).items()}
    return found


def case_losses_of_many_classes() -> dict:
    scores, target = torch.randn(2, 4, 6, 6), torch.randint(4, (2, 6, 6))
    found = {}
    for loss in (losses.DiceLoss("multiclass"), losses.DiceLoss("multiclass", classes=torch.tensor([1, 2])),
                 losses.JaccardLoss("multiclass"), losses.CrossEntropyFocalLoss(gamma=2.0),
                 losses.SoftCrossEntropyLoss(smooth_factor=0.1)):
        at = f"{len(found)} {type(loss).__name__}"
        found |= {f"{at} {key}": value for key, value in of_loss(loss, scores, target).items()}
    chances = of_loss(losses.LovaszLoss(), scores.softmax(1), target)
    tempered = of_loss(losses.BiTemperedLogisticLoss(t1=0.8, t2=1.4, smoothing=0.05), torch.randn(5, 4),
                       torch.randint(4, (5,)))
    return found | {f"lovasz {k}": v for k, v in chances.items()} | {f"tempered {k}": v for k, v in tempered.items()}


def summed(net: torch.nn.Module, *inputs: object) -> dict:
    """Features, and gradients of their sum: of the first weights, which all of the network takes part in."""
    found = net(*inputs)
    features = list(found) if isinstance(found, (list, tuple)) else [found]
    sum(f.square().mean() for f in features).backward()
    first = next(p for p in net.parameters() if p.grad is not None)
    return {**{f"feature {n}": f for n, f in enumerate(features)}, "gradient": first.grad}


def case_encoders_of_the_toolbelt() -> dict:
    from pytorch_toolbelt.modules import encoders as E

    made = {"unet": E.UnetEncoder(out_channels=8, num_layers=3), "resnet": E.Resnet18Encoder(pretrained=False),
            "squeezed": E.SqueezenetEncoder(pretrained=False)}
    pictures, found = torch.randn(1, 3, 64, 64), {}
    for name, net in made.items():
        found |= {f"{name} {key}": value for key, value in summed(net.eval(), pictures).items()}
    return found


def case_decoders_of_the_toolbelt() -> dict:
    from pytorch_toolbelt.modules import decoders as D
    from pytorch_toolbelt.modules.interfaces import FeatureMapsSpecification

    specified = FeatureMapsSpecification(channels=(8, 16, 24), strides=(4, 8, 16))
    features = [torch.randn(1, c, 64 // s, 64 // s) for c, s in zip(specified.channels, specified.strides)]
    made = {
        "fpn": D.FPNDecoder(specified, out_channels=8),
        "bifpn": D.BiFPNDecoder(specified, out_channels=8, num_layers=1),
        "unet": D.UNetDecoder(specified, out_channels=[8, 16]), "can": D.CANDecoder(specified, out_channels=8),
        "deeplab": D.DeeplabV3PlusDecoder(specified, out_channels=8, aspp_channels=8),
    }
    return {f"{name} {key}": value for name, net in made.items() for key, value in summed(net.eval(), features).items()}


def case_ttach_segmentation() -> dict:
    net, pictures = network(), torch.randn(2, 3, 8, 8)
    turns = ttach.Compose([ttach.HorizontalFlip(), ttach.VerticalFlip(), ttach.Rotate90([0, 90, 180, 270]),
                           ttach.Scale([1, 2]), ttach.Multiply([0.9, 1.1])])
    found = {how: ttach.SegmentationTTAWrapper(net, turns, merge_mode=how)(pictures) for how in ("mean", "max")}
    return found | {"d4": ttach.SegmentationTTAWrapper(net, ttach.aliases.d4_transform())(pictures)}


def case_ttach_classification_and_points() -> dict:
    net, pictures = Pooled(network(4)), torch.randn(2, 3, 8, 8)
    crops = ttach.ClassificationTTAWrapper(net, ttach.aliases.five_crop_transform(6, 6))(pictures)
    flips = ttach.Compose([ttach.HorizontalFlip(), ttach.Rotate90([0, 90])])
    points = ttach.KeypointsTTAWrapper(torch.nn.Sequential(net, torch.nn.Sigmoid()), flips, scaled=True)(pictures)
    means = {how: ttach.ClassificationTTAWrapper(torch.nn.Sequential(net, torch.nn.Sigmoid()), flips, merge_mode=how)(
        pictures) for how in ("gmean", "sum", "min", "tsharpen")}
    return {"crops": crops, "points": points, **means}
