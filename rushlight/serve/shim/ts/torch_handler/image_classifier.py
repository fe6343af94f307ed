"""Pictures to labels.

Enters: pictures. Leaves: for each the most probable labels with their probabilities. Refuses: what VisionHandler does.
"""

from __future__ import annotations

from typing import Any

import torch
from torchvision import transforms

from ..utils.util import map_class_to_label
from .vision_handler import VisionHandler


class ImageClassifier(VisionHandler):
    """The five best labels, or `set_max_result_classes` of them."""

    topk = 5
    image_processing = transforms.Compose([
        transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor(),
        transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])])

    def set_max_result_classes(self, topk: int) -> None:
        self.topk = topk

    def get_max_result_classes(self) -> int:
        return self.topk

    def postprocess(self, data: Any) -> list[Any]:
        chances = torch.nn.functional.softmax(data, dim=1)
        best, classes = torch.topk(chances, min(self.topk, chances.shape[1]), dim=1)
        return map_class_to_label(best.tolist(), self.mapping, classes.tolist())
