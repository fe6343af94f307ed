"""torchvision: models, transforms of both generations, made-up data, and the ops written in Python."""

from __future__ import annotations

import torch
import torchvision
from PIL import Image
from torchvision import models, ops, transforms, tv_tensors
from torchvision.models._utils import IntermediateLayerGetter
from torchvision.models.feature_extraction import create_feature_extractor
from torchvision.transforms import v2

from tests.ecosystem.compiling import prepared

NEEDS = "torchvision"
TOLERANCE = 2e-3   # batch norm over two pictures magnifies rounding


def trained(model: torch.nn.Module, size: int = 64) -> dict:
    model, pictures = prepared(model), torch.randn(2, 3, size, size)
    model.eval()
    with torch.no_grad():
        scores = model(pictures)
    model.train()
    torch.manual_seed(1)
    loss = torch.nn.functional.cross_entropy(model(pictures), torch.tensor([1, 3]))
    loss.backward()
    norms = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None])
    return {"scores": scores, "loss": loss, "norms": norms, "keys": list(model.state_dict())}


def case_resnet() -> dict:
    return trained(models.resnet18(num_classes=5))


def case_mobilenet() -> dict:
    return trained(models.mobilenet_v3_small(num_classes=5))


def case_vision_transformer() -> dict:
    return trained(
        models.VisionTransformer(
            image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64, num_classes=5
        ),
        32,
    )


def case_swin() -> dict:
    return trained(
        models.SwinTransformer(
            patch_size=[4, 4], embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=[4, 4], num_classes=5
        ),
        32,
    )


def case_densenet() -> dict:
    return trained(models.DenseNet(growth_rate=4, block_config=(1, 2), num_init_features=8, num_classes=5))


def case_shufflenet() -> dict:
    return trained(models.ShuffleNetV2([1, 1, 1], [8, 16, 24, 32, 64], num_classes=5))


def case_features() -> dict:
    model = models.resnet18(num_classes=5).eval()
    extractor = create_feature_extractor(model, {"layer1": "low", "layer4.1.relu_1": "high"})
    getter = IntermediateLayerGetter(model, {"layer2": "middle"})
    x = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        return {"extracted": dict(extractor(x)), "got": dict(getter(x))}


def case_segmentation() -> dict:
    model = models.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=3).eval()
    with torch.no_grad():
        return {"out": model(torch.randn(1, 3, 32, 32))["out"]}


def case_fake_data_and_loader() -> dict:
    data = torchvision.datasets.FakeData(size=6, image_size=(3, 16, 16), num_classes=3, transform=transforms.ToTensor())
    return {"batches": [list(batch) for batch in torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)],
            "grid": torchvision.utils.make_grid(torch.stack([data[i][0] for i in range(6)]), nrow=3, normalize=True)}


def picture() -> Image.Image:
    return transforms.functional.to_pil_image((torch.rand(3, 24, 20) * 255).to(torch.uint8))


def case_transforms() -> dict:
    chain = transforms.Compose(
        [
            transforms.RandomResizedCrop(16),
            transforms.RandomHorizontalFlip(),
            transforms.ColorJitter(0.2, 0.2, 0.2, 0.1),
            transforms.RandomRotation(20),
            transforms.ToTensor(),
            transforms.Normalize([0.5] * 3, [0.25] * 3),
            transforms.RandomErasing(p=1.0),
        ]
    )
    x = torch.rand(3, 24, 20)
    on_tensors = transforms.Compose(
        [
            transforms.Resize(18, antialias=True),
            transforms.CenterCrop(16),
            transforms.RandomAffine(15, (0.1, 0.1), (0.8, 1.2), 5),
            transforms.Grayscale(3),
            transforms.GaussianBlur(3),
            transforms.RandomPerspective(p=1.0),
        ]
    )
    return {
        "pil": [chain(picture()) for _ in range(3)],
        "tensor": [on_tensors(x) for _ in range(3)],
        "five": list(transforms.FiveCrop(8)(x)),
        "augmented": transforms.TrivialAugmentWide()(x.mul(255).to(torch.uint8)),
        "text": repr(chain),
        "back": torch.tensor(list(transforms.ToPILImage()(x).getdata())),
    }


def case_transforms_v2() -> dict:
    image = tv_tensors.Image((torch.rand(3, 24, 20) * 255).to(torch.uint8))
    boxes = tv_tensors.BoundingBoxes(
        torch.tensor([[2, 3, 10, 12], [5, 5, 19, 20]]), format="XYXY", canvas_size=(24, 20)
    )
    mask = tv_tensors.Mask(torch.randint(2, (1, 24, 20), dtype=torch.uint8))
    chain = v2.Compose(
        [
            v2.RandomResizedCrop((16, 16), antialias=True),
            v2.RandomHorizontalFlip(p=1.0),
            v2.RandomPhotometricDistort(p=1.0),
            v2.RandomRotation(10),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5] * 3, [0.25] * 3),
        ]
    )
    out, there, covered = chain(image, boxes, mask)
    mixed, labels = v2.MixUp(num_classes=4)(torch.rand(4, 3, 8, 8), torch.tensor([0, 1, 2, 3]))
    cut, cut_labels = v2.CutMix(num_classes=4)(torch.rand(4, 3, 8, 8), torch.tensor([0, 1, 2, 3]))
    return {
        "image": out.as_subclass(torch.Tensor),
        "boxes": there.as_subclass(torch.Tensor),
        "mask": covered.as_subclass(torch.Tensor),
        "kinds": [type(out).__name__, type(there).__name__, type(covered).__name__],
        "canvas": list(there.canvas_size),
        "text": repr(there),
        "mixed": [mixed, labels, cut, cut_labels],
        "kept": type(image + 1).__name__,
        "wrapped": type(tv_tensors.wrap(image + 1, like=image)).__name__,
        "resized": v2.functional.resize(image, [12, 10], antialias=True).as_subclass(torch.Tensor),
        "elastic": v2.functional.elastic(torch.rand(3, 16, 16), torch.rand(1, 16, 16, 2) * 0.1),
        "equalized": v2.functional.equalize(image).as_subclass(torch.Tensor),
    }


def case_ops() -> dict:
    a = torch.tensor([[0.0, 0.0, 10.0, 10.0], [5.0, 5.0, 15.0, 16.0], [20.0, 1.0, 25.0, 9.0]], requires_grad=True)
    b = a.detach() + torch.rand(3, 4)
    x = torch.randn(2, 4, 8, 8)
    losses = [
        ops.generalized_box_iou_loss(a, b, reduction="mean"),
        ops.distance_box_iou_loss(a, b, reduction="mean"),
        ops.complete_box_iou_loss(a, b, reduction="mean"),
    ]
    sum(losses).backward()
    pyramid = ops.FeaturePyramidNetwork([4, 8], 6)({"a": x, "b": torch.randn(2, 8, 4, 4)})
    return {
        "iou": ops.box_iou(a, b),
        "giou": ops.generalized_box_iou(a, b),
        "area": ops.box_area(b),
        "converted": ops.box_convert(b, "xyxy", "cxcywh"),
        "losses": losses,
        "grad": a.grad,
        "focal": ops.sigmoid_focal_loss(x, (x > 0).float(), reduction="mean"),
        "pyramid": dict(pyramid),
        "excited": ops.SqueezeExcitation(4, 2)(x),
        "depth": ops.stochastic_depth(x, 0.5, "row"),
        "block": ops.drop_block2d(x, 0.2, 3),
        "boxes": ops.masks_to_boxes(x[0] > 1),
        "mlp": ops.MLP(8, [6, 4])(x),
        "normed": ops.FrozenBatchNorm2d(4)(x),
        "clipped": ops.clip_boxes_to_image(b, (8, 12)),
    }
