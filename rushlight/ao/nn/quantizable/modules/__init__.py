"""Recurrence and attention made of layers that can be observed."""

from .....base import late

LAYERS = late.by_name({"activation": "MultiheadAttention", "rnn": "LSTM LSTMCell"})

__all__ = list(LAYERS)
__getattr__, __dir__ = late.names(globals(), LAYERS, ("activation", "rnn"))
