"""rushlight.nn.functional: ops whose definitions live in that namespace, and the top-level ones PyTorch repeats there.

Where PyTorch has two functions (`relu` here is not `torch.relu`, though it calls it), the op has two spellings: objects
of their own that share overloads and compare equal, so that a traced graph can say which of them was called.
"""

from .._C import Tensor
from ..base import homes
from ..op import published, spelled
from .scaling import ScalingType as ScalingType, SwizzleType as SwizzleType

_TOP_LEVEL = (
    "celu", "celu_", "layer_norm", "log_softmax", "relu", "relu_", "rms_norm", "rrelu", "rrelu_", "selu", "selu_",
    "sigmoid", "softmax", "tanh", "threshold", "threshold_",
)

# PyTorch's built-in functions in this namespace: these are one with the top-level function of the name ...
_SHARED_NAMES = frozenset((
    "adaptive_avg_pool1d", "avg_pool1d", "bilinear", "celu_", "channel_shuffle", "conv1d", "conv2d", "conv3d",
    "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cosine_similarity", "hardshrink",
    "native_channel_shuffle", "pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle", "prelu", "relu_",
    "rrelu_", "selu_", "threshold_",
))
# ... and these live in the core's namespace for networks.
_CORE_NAMES = frozenset((
    "avg_pool2d", "avg_pool3d", "elu_", "gelu", "hardtanh_", "leaky_relu_", "linear", "logsigmoid", "one_hot",
    "scaled_dot_product_attention", "softplus", "softshrink",
))

_top = published("")
_here = {**{name: _top[name] for name in _TOP_LEVEL if name in _top}, **published("nn.functional")}
_at_top_level = set(map(id, _top.values()))
_here = {
    name: spelled(op, name) if id(op) in _at_top_level and name not in _SHARED_NAMES else op
    for name, op in _here.items()
}
globals().update(_here)
homes.settle_ops({name: op for name, op in _here.items() if name not in _SHARED_NAMES}, "nn.functional")
for _name in ("sigmoid", "tanh"):     # these two only call the method, which is what handlers see
    _here[_name].__dict__["method"] = getattr(Tensor, _name)
