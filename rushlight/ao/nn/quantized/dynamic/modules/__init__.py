"""Layers that quantize their input by the moment's range, one file per family."""

from ......base import late

LAYERS = late.by_name({
    "linear": "Linear",
    "rnn": "LSTM GRU LSTMCell RNNCell GRUCell",
    "conv": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
})

__all__ = list(LAYERS)
__getattr__, __dir__ = late.names(globals(), LAYERS, ("conv", "linear", "rnn"))
