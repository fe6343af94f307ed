"""Pictures to boxes.

Enters: pictures. Leaves: for each the boxes that score above a threshold, with their labels. Refuses: what
VisionHandler does.
"""

from __future__ import annotations

from typing import Any

from torchvision import transforms

from ..utils.util import map_class_to_label
from .vision_handler import VisionHandler


class ObjectDetector(VisionHandler):
    """Models that give a dict with `boxes`, `labels` and `scores` for each picture, as torchvision's do."""

    image_processing = transforms.Compose([transforms.ToTensor()])
    threshold = 0.5

    def postprocess(self, data: Any) -> list[Any]:
        found = []
        for one in data:
            kept = one["scores"] >= self.threshold
            boxes, labels = one["boxes"][kept].tolist(), one["labels"][kept].tolist()
            shown = map_class_to_label([[box] for box in boxes], self.mapping, [[label] for label in labels])
            if self.mapping is None:
                shown = [{str(label): box} for label, box in zip(labels, boxes)]
            found.append([{**entry, "score": score} for entry, score in zip(shown, one["scores"][kept].tolist())])
        return found
