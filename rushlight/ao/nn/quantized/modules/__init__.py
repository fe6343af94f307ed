"""Layers of integers, one file per family, imported when one of its layers is first used."""

from .....base import late

LAYERS = late.by_name({
    "activation": "ELU Hardswish LeakyReLU MultiheadAttention PReLU ReLU6 Sigmoid Softmax",
    "batchnorm": "BatchNorm2d BatchNorm3d",
    "conv": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
    "borders": "DeQuantize Quantize",
    "dropout": "Dropout",
    "embedding_ops": "Embedding EmbeddingBag",
    "functional_modules": "FloatFunctional FXFloatFunctional QFunctional",
    "linear": "Linear",
    "normalization": "GroupNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm",
    "rnn": "LSTM",
})
_FILES = (*dict.fromkeys(LAYERS.values()), "utils")

__all__ = list(LAYERS)
__getattr__, __dir__ = late.names(globals(), LAYERS, _FILES)
