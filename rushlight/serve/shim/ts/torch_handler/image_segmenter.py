"""Pictures to the class of each point.

Enters: pictures. Leaves: for each, rows of points with the likeliest class and its probability. Refuses: what
VisionHandler does.
"""

from __future__ import annotations

from typing import Any

import torch
from torchvision import transforms

from .vision_handler import VisionHandler


class ImageSegmenter(VisionHandler):
    """Models that give a dict with `out`, as torchvision's do, or a tensor of scores."""

    image_processing = transforms.Compose([
        transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor(),
        transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])])

    def postprocess(self, data: Any) -> list[Any]:
        scores = data["out"] if isinstance(data, dict) else data
        best, classes = torch.max(torch.nn.functional.softmax(scores, dim=1), dim=1)
        return torch.stack([classes.type(best.dtype), best], dim=3).tolist()
