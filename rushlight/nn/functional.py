"""rushlight.nn.functional: ops whose definitions live in that namespace, and the top-level ones PyTorch repeats there."""

from ..op import published

_TOP_LEVEL = (
    "celu", "celu_", "layer_norm", "log_softmax", "relu", "relu_", "rms_norm", "rrelu", "rrelu_", "selu", "selu_", "sigmoid",
    "softmax", "tanh", "threshold", "threshold_",
)  # fmt: skip

_here = published("nn.functional")
_top = published("")
globals().update({name: _top[name] for name in _TOP_LEVEL if name in _top})
globals().update(_here)
