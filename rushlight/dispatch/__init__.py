"""Dispatch: what happens to a call that leaves the core's fast path.

Enters: an op, its arguments, and the modes, levels and registered kernels in force. Leaves: the result, from the first
handler that takes the call. Refuses: what no handler answers.

The core tests one mask per call: bits of the tensors, bits of the thread's modes, and whether the op has registered
kernels. Only when some bit is set does it ask `dispatcher.dispatch`, which walks the keys in order. See `keys.py`.
"""

from .dispatcher import dispatch, install
from .keys import DispatchKey, DispatchKeySet
from .modes import TorchDispatchMode, TorchFunctionMode

__all__ = ["DispatchKey", "DispatchKeySet", "TorchDispatchMode", "TorchFunctionMode", "dispatch", "install"]
