"""Layers that train with rounded weights, one file per family."""

from .....base import late

LAYERS = late.by_name({
    "linear": "Linear",
    "conv": "Conv1d Conv2d Conv3d",
    "embedding_ops": "Embedding EmbeddingBag",
})

__all__ = list(LAYERS)
__getattr__, __dir__ = late.names(globals(), LAYERS, ("conv", "embedding_ops", "linear"))
