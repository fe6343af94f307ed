"""Reference layers, one file per family."""

from ......base import late

LAYERS = late.by_name({
    "linear": "Linear",
    "conv": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
    "rnn": "RNNCell LSTMCell GRUCell LSTM GRU",
    "sparse": "Embedding EmbeddingBag",
})

__all__ = list(LAYERS)
__getattr__, __dir__ = late.names(globals(), LAYERS, ("conv", "linear", "rnn", "sparse", "utils"))
