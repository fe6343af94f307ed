"""Autocast: the key at which mixed precision chooses the types an op computes in.

Enters: calls while autocasting is on for a thread. Leaves: the same calls with floating-point arguments cast, by the
op's policy: to the lower type (matrix products and convolutions), to float32 (what loses too much otherwise), or all to
the widest among them. Other ops run as they are, and inside an op nothing is cast again, except in the few listed as
`BODIES`, which PyTorch writes with ops of the lists. The lists are PyTorch's for the
CPU and for CUDA, which other accelerators have too; only tensors on the device of an open region are cast.

Casts of parameters are kept until the outermost autocast region ends, so that a weight used twice is cast once and
its gradients meet in one node. Off, all this costs nothing: the key is a bit of the thread's mask. This module is
loaded when autocasting is first switched on or asked about.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from .. import _C
from .._C import Tensor, bfloat16, float16, float32
from ..devices import handlers, private_use
from ..op import ops
from .keys import AUTOCAST

DEVICES = {
    "cpu": bfloat16, "cuda": float16, "mtia": float16, "maia": bfloat16, "xpu": float16, "ipu": float16,
    "hpu": bfloat16, "xla": bfloat16, "mps": float16, "privateuseone": float16,
}

LOWER = frozenset("""
    conv1d conv2d conv3d bmm mm linalg_vecdot baddbmm addmm _addmm_activation addbmm linear _convolution matmul conv_tbc
    mkldnn_rnn_layer conv_transpose1d conv_transpose2d conv_transpose3d prelu scaled_dot_product_attention
    _native_multi_head_attention
""".split())
FLOAT32 = frozenset("""
    _grid_sampler_2d_cpu_fallback _lu_with_info adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy
    binary_cross_entropy_with_logits cdist cholesky cholesky_inverse cholesky_solve cosine_embedding_loss cross_entropy
    cross_entropy_loss ctc_loss fake_quantize_per_tensor_affine fft_fft fft_fft2 fft_fftn fft_hfft fft_ifft fft_ifft2
    fft_ifftn fft_ihfft fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftn fractional_max_pool2d
    fractional_max_pool3d geqrf grid_sampler grid_sampler_2d grid_sampler_3d hinge_embedding_loss huber_loss inverse
    kl_div l1_loss linalg_cholesky linalg_cholesky_ex linalg_cond linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh
    linalg_householder_product linalg_inv linalg_inv_ex linalg_lstsq linalg_matrix_rank linalg_qr linalg_solve
    linalg_svd linalg_svdvals linalg_tensorinv linalg_tensorsolve lu_solve margin_ranking_loss max_pool3d max_unpool2d
    max_unpool3d mse_loss multi_margin_loss multilabel_margin_loss multilabel_margin_loss_forward nanquantile nll_loss
    nll_loss2d orgqr ormqr pinverse poisson_nll_loss polar prod qr quantile reflection_pad1d reflection_pad2d
    replication_pad1d replication_pad2d replication_pad3d smooth_l1_loss soft_margin_loss stft svd trace
    triangular_solve triplet_margin_loss view_as_complex grid_sample linear_cross_entropy lu max_unpool1d
""".split())
WIDEST = frozenset(("cat", "index_copy", "stack"))
BODIES = frozenset("""
    chain_matmul corrcoef cov gru gru_cell linalg_matrix_power linalg_multi_dot lstm lstm_cell matrix_power
    multi_head_attention_forward pca_lowrank rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell svd_lowrank tensordot
""".split())

# What differs on CUDA devices, as PyTorch's lists there do.
LOWER_ON_CUDA = (LOWER - {"_addmm_activation", "_native_multi_head_attention", "mkldnn_rnn_layer"}) | frozenset(
    """addmv addr chain_matmul convolution einsum linalg_multi_dot mv
    gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell""".split()
)
FLOAT32_ON_CUDA = frozenset("""
    acos asin binary_cross_entropy_with_logits cdist cosh cosine_embedding_loss cosine_similarity cross_entropy
    cross_entropy_loss cumprod cumsum dist erfinv exp expm1 frobenius_norm group_norm hinge_embedding_loss huber_loss
    interpolate kl_div l1_loss layer_norm linalg_matrix_norm linalg_vector_norm linear_cross_entropy log log10 log1p
    log2 log_softmax logsumexp margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss native_layer_norm
    nll_loss nll_loss2d nll_loss_nd norm nuclear_norm pdist poisson_nll_loss pow prod reciprocal renorm rms_norm rsqrt
    sinh smooth_l1_loss soft_margin_loss softmax softmin softplus sum tan triplet_margin_loss
    gaussian_nll_loss linalg_norm local_response_norm lp_pool1d lp_pool2d lp_pool3d multilabel_soft_margin_loss
    normalize pairwise_distance
""".split())      # the last two lines: PyTorch writes them with ops of the others
WIDEST_ON_CUDA = frozenset("""
    addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler grid_sampler_2d grid_sampler_3d grid_sample index_put
    scatter_add tensordot
""".split())

IGNORED, BODY, CAST = 1, 2, 3   # enum Autocast in csrc/call.h


class _State(threading.local):
    def __init__(self) -> None:
        self.enabled: dict[str, bool] = {}
        self.dtypes = dict(DEVICES)
        self.nesting = 0
        self.cache_enabled = True
        self.casts: dict[tuple[int, Any, bool], tuple[Tensor, int, Tensor]] = {}


state = _State()


# --- casting ----------------------------------------------------------------------------------------------------------


CASTABLE = frozenset((float32, float16, bfloat16, _C.float8_e4m3fn, _C.float8_e5m2))   # doubles are left alone


def is_eligible(value: Any, device: str = "cpu") -> bool:
    """Whether autocast touches a value: floating-point tensors on the device, doubles left alone."""
    return isinstance(value, Tensor) and value.dtype in CASTABLE and value.device.type == device


def cast(value: Any, dtype: Any, device: str = "cpu") -> Any:
    """A value in another type: tensors, and lists of them; a parameter's cast is kept for its next use."""
    if isinstance(value, Tensor):
        given = value.dtype
        if given is dtype or given not in CASTABLE or value.device.type != device:
            return value
        if given is float32 and value.requires_grad and value.is_leaf and state.cache_enabled and not value._is_view():
            return kept_cast(value, dtype)
        return value.to(dtype)
    if isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value):
        return [cast(v, dtype, device) for v in value]
    return value


def kept_cast(parameter: Tensor, dtype: Any) -> Tensor:
    """The cast of a parameter, made once per region and value. Casts made without recording are kept apart."""
    key = (id(parameter), dtype, _C.is_grad_enabled())
    known = state.casts.get(key)
    if known is not None and known[0] is parameter and known[1] == parameter._version:
        return known[2]
    result = parameter.to(dtype)
    state.casts[key] = (parameter, parameter._version, result)
    return result


def widest(args: tuple, lower: Any, device: str) -> Any:
    """The type of the `WIDEST` policy: float32 if any argument has it, else the lower type."""
    found = lower
    for a in args:
        for value in a if isinstance(a, (list, tuple)) else (a,):
            if not is_eligible(value, device):
                continue
            if value.dtype is float32 or found is float32:
                found = float32
            elif value.dtype is not lower:
                raise RuntimeError(f"autocast: arguments must be float32 or {lower.name} here, got {value.dtype.name}")
    return found


def to_lower(args: tuple, device: str) -> list[Any]:
    """The `LOWER` policy."""
    dtype = state.dtypes.get(device) or lower_type(device)
    return [cast(a, dtype, device) for a in args]


def to_float16(args: tuple, device: str) -> list[Any]:
    """Recurrent networks on CUDA devices compute in float16 whatever the lower type is, as in PyTorch."""
    return [cast(a, float16, device) for a in args]


def to_float32(args: tuple, device: str) -> list[Any]:
    """The `FLOAT32` policy."""
    return [cast(a, float32, device) for a in args]


def to_float32_unless_told(args: tuple, device: str) -> Any:
    """The same on CUDA devices, where an argument may name the type of the result."""
    return args if any(isinstance(a, _C.dtype) for a in args) else to_float32(args, device)


def to_widest(args: tuple, device: str) -> list[Any]:
    """The `WIDEST` policy."""
    dtype = widest(args, state.dtypes.get(device) or lower_type(device), device)
    return [cast(a, dtype, device) for a in args]


def refused(args: tuple, device: str) -> Any:
    """Probabilities of a half type leave no room for their logarithms."""
    raise RuntimeError(
        "binary_cross_entropy: unsafe to autocast. Use binary_cross_entropy_with_logits (or BCEWithLogitsLoss) on the"
        " values before the sigmoid, or leave the autocast region and use float32."
    )


def pad_policy(args: tuple, device: str) -> Any:
    """`pad` in the modes whose kernels are on the float32 list: reflections up to two dims,
    replications up to three."""
    _, pad, mode = args[:3]
    limit = {"reflect": 4, "replicate": 6}.get(mode, 0)
    return to_float32(args, device) if len(pad) <= limit else args


def interpolate_policy(args: tuple, device: str) -> Any:
    """`interpolate` by area in three dims is adaptive_avg_pool3d, which is on the float32 list."""
    return to_float32(args, device) if args[3] == "area" and args[0].ndim == 5 else args


def max_pool3d_policy(args: tuple, device: str) -> Any:
    """`max_pool3d` is on the float32 list, its form with indices is not."""
    return args if args[-1] else to_float32(args, device)


def norm_of_channels_policy(args: tuple, device: str) -> Any:
    """`local_response_norm` of images averages neighbours by avg_pool3d, which is on the float32 list."""
    return to_float32(args, device) if args[0].ndim > 3 else args


def lstm_policy(args: tuple, device: str) -> Any:
    """`lstm` over padded sequences without projections is mkldnn_rnn_layer, which computes in the lower type. None for
    others: the products in their bodies are cast one by one."""
    rows, states, params, has_biases, layers, bidirectional = args[0], args[1], args[2], args[3], args[4], args[-2]
    is_padded = isinstance(states, (list, tuple)) and is_eligible(rows) and rows.numel()
    if not is_padded or len(params) != layers * (1 + bidirectional) * (4 if has_biases else 2):
        return None
    return to_lower(args, device)


Policy = Callable[[tuple, str], Any]
POLICIES: dict[str, Policy] = {
    **dict.fromkeys(LOWER, to_lower), **dict.fromkeys(FLOAT32, to_float32), **dict.fromkeys(WIDEST, to_widest),
    "pad": pad_policy, "interpolate": interpolate_policy, "max_pool3d": max_pool3d_policy, "lstm": lstm_policy,
    "local_response_norm": norm_of_channels_policy, "lp_pool3d": to_float32,
}
ON_CUDA: dict[str, Policy] = {
    **dict.fromkeys(LOWER_ON_CUDA, to_lower), **dict.fromkeys(FLOAT32_ON_CUDA, to_float32_unless_told),
    **dict.fromkeys(WIDEST_ON_CUDA, to_widest), "binary_cross_entropy": refused,
    **dict.fromkeys(("gru", "lstm", "rnn_relu", "rnn_tanh"), to_float16),
}


def register(name: str, dtype: Any) -> None:
    """Give a custom op a policy: its floating-point tensors are cast to `dtype`."""
    POLICIES[name] = ON_CUDA[name] = lambda args, device: [cast(a, dtype, device) for a in args]
    for overload in ops[name].overload_list:
        find_policy(overload)


_chosen: dict[Any, dict[str, Policy]] = {}   # the policies of each overload that has one, by device


def find_policy(overload: Any) -> int:
    """What the core should do with an op from now on; also told to the core."""
    # PyTorch's names have the namespace of Fourier transforms as a prefix.
    plain = overload.name.removeprefix("_functional_")      # nn.functional's own spelling of an op
    name = f"fft_{plain}" if getattr(overload.definition, "namespace", None) == "fft" else plain
    own = {device: table[name] for device, table in (("cpu", POLICIES), ("cuda", ON_CUDA)) if name in table}
    if own:
        _chosen[overload] = own
    overload.autocast = (
        CAST
        if own
        else BODY if name in BODIES or getattr(overload.definition, "custom", False) else IGNORED
    )
    return overload.autocast


def policy_on(overload: Any, device: str) -> Policy | None:
    """The policy of an op where regions of a device are open. Devices of packages have the lists of accelerators."""
    if not state.enabled.get(device):
        return None
    return _chosen[overload].get("cuda" if device in handlers else device)


def call(overload: Any, args: tuple) -> Any:
    """A call at the Autocast key. Below it the key is masked out. NotImplemented: its body chooses, with the key."""
    policy = overload.autocast or find_policy(overload)
    if policy == BODY:
        return NotImplemented
    if policy == CAST:
        device = device_of_call(args)
        chosen = policy_on(overload, device)
        if chosen is None and overload.name in BODIES:      # recurrent layers, off CUDA
            return NotImplemented
        given = args if chosen is None else chosen(args, device)
        if given is None:
            return NotImplemented
        args = given
    return _C.call_below(AUTOCAST, overload, args)


def converted(overload: Any, args: tuple) -> tuple:
    """The arguments of a call as its policy converts them; themselves where there is none."""
    if (overload.autocast or find_policy(overload)) != CAST:
        return args
    device = device_of_call(args)
    chosen = policy_on(overload, device)
    made = None if chosen is None else chosen(args, device)
    return args if made is None else tuple(made)


def device_of_call(args: tuple) -> str:
    """The kind of device that a call's tensors are on: the first that is not the CPU, which lends single numbers."""
    found = ""
    for a in args:
        for value in a if isinstance(a, (list, tuple)) else (a,):
            if isinstance(value, Tensor):
                found = value.device.type
                if found != "cpu":
                    return found
    return found


def is_active() -> bool:
    """Whether a call on this thread should be cast."""
    keys, excluded = _C.get_thread_keys()
    return bool(keys & ~excluded & AUTOCAST) and not _C.in_rule()


_C.set_hooks(autocaster=call)


# --- state ------------------------------------------------------------------------------------------------------------


def lower_type(device_type: str) -> Any:
    """The lower type that regions of a device type start with; None where autocasting knows no such device."""
    if device_type == private_use.state.name:
        return DEVICES[private_use.PLAIN_NAME]
    if device_type in DEVICES or device_type not in handlers:
        return DEVICES.get(device_type)
    return next(iter(lower_types(device_type)), None)


def lower_types(device_type: str) -> tuple[Any, ...]:
    """The types that a registered device may compute in instead of float32, the first by itself: of those it claims."""
    claimed = handlers[device_type].dtypes
    return tuple([dtype for dtype in (float16, bfloat16) if claimed is None or dtype in claimed])


def known_device(device_type: str) -> str:
    """The device type itself, if autocasting has a state for it."""
    if not isinstance(device_type, str):
        raise TypeError(f"autocast: expected a device type as a str, got {type(device_type).__name__}")
    if lower_type(device_type) is None:
        _C.device(device_type)   # a word that names no device gets its usual error
        raise RuntimeError(f"autocast: unsupported device type {device_type!r}; expected one of {', '.join(DEVICES)}")
    return device_type


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast regions of a device type can be opened."""
    if device_type not in DEVICES:
        _C.device(device_type)
    return lower_type(device_type) is not None


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocasting is on for a device type on this thread.

    Arguments:
        device_type: "cpu", "cuda", …

    Example:
        >>> rl.is_autocast_enabled("cpu")
        False
    """
    return state.enabled.get(known_device(device_type), False)


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Switch autocasting on or off for a device type on this thread; a lone bool is for CUDA."""
    if enabled is None:
        device_type, enabled = "cuda", device_type
    state.enabled[known_device(device_type)] = bool(enabled)
    keys, excluded = _C.get_thread_keys()
    # devices whose ops have policies, or kernels that a back end registered for regions of its own
    active = any(on and (name in ("cpu", "cuda", private_use.state.name) or name in handlers)
                 for name, on in state.enabled.items())
    _C.set_thread_keys(keys | AUTOCAST if active else keys & ~AUTOCAST, excluded)


def get_autocast_dtype(device_type: str) -> Any:
    """The lower type of a device type on this thread.

    Arguments:
        device_type: "cpu", "cuda", …

    Example:
        >>> rl.get_autocast_dtype("cpu")
        rushlight.bfloat16
    """
    known = known_device(device_type)
    return state.dtypes.get(known) or lower_type(known)


def set_autocast_dtype(device_type: str, dtype: Any) -> None:
    """Choose the lower type of a device type on this thread."""
    if not isinstance(dtype, _C.dtype):
        raise TypeError(f"set_autocast_dtype: expected a dtype, got {type(dtype).__name__}")
    state.dtypes[known_device(device_type)] = dtype


def is_autocast_cache_enabled() -> bool:
    """Whether casts of parameters are kept."""
    return state.cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Whether to keep casts of parameters."""
    state.cache_enabled = bool(enabled)


def clear_autocast_cache() -> None:
    """Forget every kept cast of this thread."""
    state.casts.clear()


def autocast_increment_nesting() -> int:
    """Count one more open region; the number of them."""
    state.nesting += 1
    return state.nesting


def autocast_decrement_nesting() -> int:
    """Count one open region less; the number of them."""
    state.nesting -= 1
    return state.nesting


@contextlib.contextmanager
def replayed(snapshot: tuple[bool, Any, bool]) -> Iterator[None]:
    """A region in the state `snapshot_now()` once saw on the CPU, for work that is done again later."""
    outside = snapshot_now()
    _restore(snapshot)
    autocast_increment_nesting()
    try:
        yield
    finally:
        if autocast_decrement_nesting() == 0:
            clear_autocast_cache()
        _restore(outside)


def snapshot_now() -> tuple[bool, Any, bool]:
    """What `replayed` needs to come back to the present state."""
    return is_autocast_enabled("cpu"), state.dtypes["cpu"], state.cache_enabled


def _restore(snapshot: tuple[bool, Any, bool]) -> None:
    enabled, state.dtypes["cpu"], state.cache_enabled = snapshot
    set_autocast_enabled("cpu", enabled)


def _former(name: str, replacement: str, function: Callable) -> Callable:
    """A deprecated function of one device type."""

    def former(*args: Any) -> Any:
        warnings.warn(
            f"torch.{name}() is deprecated. Please use {replacement} instead.", DeprecationWarning, stacklevel=2
        )
        return function(*args)

    former.__name__ = former.__qualname__ = name
    former.__doc__ = f"Deprecated: {replacement}."
    return former


def _former_functions() -> dict[str, Callable]:
    result: dict[str, tuple[str, Callable]] = {}
    for word, device in (("cpu", "cpu"), ("xla", "xla"), ("ipu", "ipu"), ("gpu", "cuda")):
        result[f"get_autocast_{word}_dtype"] = (
            f"torch.get_autocast_dtype('{device}')",
            lambda d=device: get_autocast_dtype(d),
        )
        result[f"set_autocast_{word}_dtype"] = (
            f"torch.set_autocast_dtype('{device}', dtype)",
            lambda dtype, d=device: set_autocast_dtype(d, dtype),
        )
        if word != "gpu":
            result[f"is_autocast_{word}_enabled"] = (
                f"torch.is_autocast_enabled('{device}')",
                lambda d=device: is_autocast_enabled(d),
            )
            result[f"set_autocast_{word}_enabled"] = (
                f"torch.set_autocast_enabled('{device}', enabled)",
                lambda on, d=device: set_autocast_enabled(d, on),
            )
    return {name: _former(name, replacement, function) for name, (replacement, function) in result.items()}


FORMER = _former_functions()
globals().update(FORMER)
PUBLIC = (
    "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache", "get_autocast_dtype",
    "is_autocast_cache_enabled", "is_autocast_enabled", "set_autocast_cache_enabled", "set_autocast_dtype",
    "set_autocast_enabled", *FORMER,
)
