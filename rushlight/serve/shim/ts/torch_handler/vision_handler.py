"""Handlers of pictures.

Enters: rows with a picture's bytes, their base64, or a nested list of numbers. Leaves: a batch of tensors, as
`image_processing` makes them. Refuses: bytes that are no picture.
"""

from __future__ import annotations

import base64
import io
from typing import Any

import torch

from .base_handler import BaseHandler


class VisionHandler(BaseHandler):
    """A base: derived classes have `image_processing`."""

    image_processing: Any

    def preprocess(self, data: Any) -> Any:
        from PIL import Image

        images = []
        for row in data:
            image = row.get("data") or row.get("body")
            if isinstance(image, str):
                image = base64.b64decode(image)
            if isinstance(image, (bytes, bytearray)):
                image = self.image_processing(Image.open(io.BytesIO(image)).convert("RGB"))
            else:
                image = torch.tensor(image, dtype=torch.float32)
            images.append(image)
        return torch.stack(images).to(self.device)
