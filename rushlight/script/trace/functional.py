"""Functions of `nn.functional` that PyTorch composes in Python, as the ATen ops they call.

Enters: what the program gives them. Leaves: their results, every op written down. Names of parameters are those of the
functions: values of the trace are called after them. `BODIES` has them by the identity of our function.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from ...base import late
from ..functional import _by_identity as scripts_by_identity
from .aten import call, call_with, ignored, size

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
_BODIES: dict[str, Callable] = {}
_TORCH_BODIES: dict[str, Callable] = {}


def _body(function: Callable) -> Callable:
    _BODIES[function.__name__.rstrip("_")] = function
    return function


def _torch_body(function: Callable) -> Callable:
    _TORCH_BODIES[function.__name__] = function
    return function


def _reduction(reduction: str, size_average: Any = None, reduce: Any = None) -> int:
    if size_average is not None or reduce is not None:
        mean = size_average is None or size_average
        return 0 if reduce is not None and not reduce else 1 if mean else 2
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _REDUCTIONS[reduction]


def _shape(tensor: Any) -> tuple[int, ...]:
    return ignored(lambda: tuple(tensor.shape))


def _dims(tensor: Any) -> int:
    return ignored(lambda: tensor.dim())


# --- activations ------------------------------------------------------------------------------------------------------


def _switched(name: str, *defaults: tuple[str, Any]) -> Callable:
    """An activation `f(input, *settings, inplace)` whose op in place is `f_`."""
    order = [key for key, _ in defaults]

    def activation(input: Any, *args: Any, inplace: bool = False, **kwargs: Any) -> Any:
        given = dict(defaults) | dict(zip((*order, "inplace"), args, strict=False)) | kwargs
        changes = given.pop("inplace", inplace)
        return call(f"{name}_" if changes else name, input, *[given[key] for key in order])

    return activation


for _name, _defaults in {
    "relu": (), "silu": (), "mish": (), "selu": (), "hardswish": (), "hardsigmoid": (), "relu6": (),
    "leaky_relu": (("negative_slope", 0.01),), "elu": (("alpha", 1.0),), "celu": (("alpha", 1.0),),
    "hardtanh": (("min_val", -1.0), ("max_val", 1.0)),
}.items():
    _BODIES[_name] = _switched(_name, *_defaults)


@_body
def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    return call("threshold_" if inplace else "threshold", input, threshold, value)


@_body
def rrelu(input: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
          inplace: bool = False) -> Any:
    return call("rrelu_" if inplace else "rrelu", input, lower, upper, training)


@_body
def sigmoid(input: Any) -> Any:
    return call("sigmoid", input)


@_body
def tanh(input: Any) -> Any:
    return call("tanh", input)


@_body
def softsign(input: Any) -> Any:
    return call("div", input, call("add", call("abs", input), 1))


@_body
def tanhshrink(input: Any) -> Any:
    return call("sub", input, call("tanh", input))


@_body
def glu(input: Any, dim: int = -1) -> Any:
    return call("glu", input, dim)


@_body
def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    return call("softmax", call("neg", input), _softmax_dim(input, dim), dtype)


def _softmax_dim(input: Any, dim: int | None) -> int:
    return dim if dim is not None else 0 if _dims(input) in (0, 1, 3) else 1


@_body
def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    return call("softmax", input, _softmax_dim(input, dim), dtype)


@_body
def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    return call("log_softmax", input, _softmax_dim(input, dim), dtype)


@_body
def gumbel_softmax(logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Any:
    drawn = call("exponential_", call("empty_like", logits))
    gumbels = call("neg", call("log", drawn))
    gumbels = call("div", call("add", logits, gumbels), tau)
    y_soft = call("softmax", gumbels, dim)
    if not hard:
        return y_soft
    index = call("max", y_soft, dim, True)[1]
    y_hard = call("scatter_", call("zeros_like", logits), dim, index, 1.0)
    return call("add", call("sub", y_hard, call_with("detach", lambda tensor: tensor.detach(), (y_soft,), {})), y_soft)


# --- dropout ----------------------------------------------------------------------------------------------------------


def _dropping(name: str, default: bool) -> Callable:
    def drop(input: Any, p: float = 0.5, training: bool = default, inplace: bool = False) -> Any:
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        return call(f"{name}_" if inplace else name, input, p, training)

    return drop


for _name, _op, _default in (("dropout", "dropout", True), ("alpha_dropout", "alpha_dropout", False),
                             ("feature_alpha_dropout", "feature_alpha_dropout", False)):
    _BODIES[_name] = _dropping(_op, _default)


def _dropping_features(batched: tuple[int, ...], single: int) -> Callable:
    def drop(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        kind = "feature_dropout_" if inplace else "feature_dropout"
        if single and _dims(input) == single:
            input = call("unsqueeze_" if inplace else "unsqueeze", input, 0)
            result = call(kind, input, p, training)
            return call("squeeze_" if inplace else "squeeze", result, 0)
        return call(kind, input, p, training)

    return drop


_BODIES["dropout1d"] = _dropping_features((3,), 2)
_BODIES["dropout2d"] = _dropping_features((3, 4), 0)
_BODIES["dropout3d"] = _dropping_features((5,), 4)


# --- normalization ----------------------------------------------------------------------------------------------------


def _cudnn() -> bool:
    return bool(late.provided("package").backends.cudnn.enabled)


@_body
def batch_norm(input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
               training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Any:
    return call("batch_norm", input, weight, bias, running_mean, running_var, training, momentum, eps, True)


@_body
def instance_norm(input: Any, running_mean: Any = None, running_var: Any = None, weight: Any = None, bias: Any = None,
                  use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5) -> Any:
    return call("instance_norm", input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)


@_body
def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return call("layer_norm", input, list(normalized_shape), weight, bias, eps, True)


@_body
def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    return call("rms_norm", input, list(normalized_shape), weight, eps)


@_body
def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return call("group_norm", input, num_groups, weight, bias, eps, True)


@_body
def local_response_norm(input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Any:
    dims = _dims(input)
    div = call("mul", input, input)
    if dims == 3:
        div = call("unsqueeze", div, 1)
        div = pad(div, (0, 0, size // 2, (size - 1) // 2))
        div = call("squeeze", call("avg_pool2d", div, (size, 1), 1), 1)
    else:
        sizes = [_package().Tensor.size(input, d) for d in range(dims)]
        div = call("view", div, [sizes[0], 1, sizes[1], sizes[2], -1])
        div = pad(div, (0, 0, 0, 0, size // 2, (size - 1) // 2))
        div = call("squeeze", call("avg_pool3d", div, (size, 1, 1), 1), 1)
        div = call("view", div, sizes)
    div = call("pow", call("add", call("mul", div, alpha), k), beta)
    return call("div", input, div)


def _package() -> Any:
    return late.provided("package")


@_body
def normalize(input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Any = None) -> Any:
    dims = dim if isinstance(dim, (list, tuple)) else [dim]
    denom = call("expand_as", call("clamp_min", call("linalg_vector_norm", input, float(p), dims, True), eps), input)
    return call("div", input, denom) if out is None else call("div", input, denom, out=out)


# --- losses -----------------------------------------------------------------------------------------------------------


@_body
def cross_entropy(input: Any, target: Any, weight: Any = None, size_average: Any = None, ignore_index: int = -100,
                  reduce: Any = None, reduction: str = "mean", label_smoothing: float = 0.0) -> Any:
    return call("cross_entropy_loss", input, target, weight, _reduction(reduction, size_average, reduce), ignore_index,
                label_smoothing)


@_body
def nll_loss(input: Any, target: Any, weight: Any = None, size_average: Any = None, ignore_index: int = -100,
             reduce: Any = None, reduction: str = "mean") -> Any:
    return call("nll_loss_nd", input, target, weight, _reduction(reduction, size_average, reduce), ignore_index)


def _broadcast(input: Any, target: Any) -> tuple[Any, Any]:
    torch = _package()
    found = call_with("broadcast_tensors", lambda rows: [
        before if before.shape == after.shape else after
        for before, after in zip(rows, torch.broadcast_tensors(*rows), strict=True)], ([input, target],), {})
    return tuple(found)  # type: ignore[return-value]


def _pairwise(name: str, *settings: tuple[str, Any]) -> Callable:
    def loss(input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
             *args: Any, **kwargs: Any) -> Any:
        given = dict(settings) | dict(zip((key for key, _ in settings), args, strict=False)) | kwargs
        weight = given.pop("weight", None)
        input, target = _broadcast(input, target)
        if weight is not None:
            return _weighted(call(name, input, target, 0, *given.values()), weight, reduction)
        return call(name, input, target, _reduction(reduction, size_average, reduce), *given.values())

    return loss


def _weighted(loss: Any, weight: Any, reduction: str) -> Any:
    product = call("mul", loss, weight)
    if reduction == "none":
        return product
    total = call("sum", product)
    return total if reduction == "sum" else call("div", total, call("sum", weight))


_BODIES["mse_loss"] = _pairwise("mse_loss", ("weight", None))
_BODIES["l1_loss"] = _pairwise("l1_loss", ("weight", None))
_BODIES["smooth_l1_loss"] = _pairwise("smooth_l1_loss", ("beta", 1.0))


@_body
def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None) -> Any:
    input, target = _broadcast(input, target)
    if weight is not None:
        return _weighted(call("huber_loss", input, target, 0, delta), weight, reduction)
    return call("huber_loss", input, target, _reduction(reduction), delta)


@_body
def binary_cross_entropy(input: Any, target: Any, weight: Any = None, size_average: Any = None, reduce: Any = None,
                         reduction: str = "mean") -> Any:
    return call("binary_cross_entropy", input, target, weight, _reduction(reduction, size_average, reduce))


@_body
def binary_cross_entropy_with_logits(input: Any, target: Any, weight: Any = None, size_average: Any = None,
                                     reduce: Any = None, reduction: str = "mean", pos_weight: Any = None) -> Any:
    return call("binary_cross_entropy_with_logits", input, target, weight, pos_weight,
                _reduction(reduction, size_average, reduce))


@_body
def kl_div(input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
           log_target: bool = False) -> Any:
    kind = 2 if reduction == "batchmean" else _reduction(reduction, size_average, reduce)
    reduced = call("kl_div", input, target, kind, log_target=log_target)
    if reduction == "batchmean" and _dims(input):
        reduced = call("div", reduced, size(input, 0))
    return reduced


# --- convolutions and pools -------------------------------------------------------------------------------------------


def _wide(value: Any, count: int) -> list[Any]:
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    return items * count if len(items) == 1 else items


def _convolving(dims: int, transposed: bool) -> Callable:
    def convolve(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, *rest: Any,
                 **kwargs: Any) -> Any:
        order = ("output_padding", "groups", "dilation") if transposed else ("dilation", "groups")
        given = {"output_padding": 0, "groups": 1, "dilation": 1} | dict(zip(order, rest, strict=False)) | kwargs
        single = _dims(input) == dims + 1
        x = call("unsqueeze", input, 0) if single else input
        if isinstance(padding, str):
            made = call(f"conv{dims}d", x, weight, bias, _wide(stride, dims), padding,
                        _wide(given["dilation"], dims), given["groups"])
        else:
            made = call("_convolution", x, weight, bias, _wide(stride, dims), _wide(padding, dims),
                        _wide(given["dilation"], dims), transposed, _wide(given["output_padding"], dims),
                        given["groups"], False, False, True, True)
        return call("squeeze", made, 0) if single else made

    return convolve


def _max_pooling(dims: int) -> Callable:
    def pool(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
             ceil_mode: bool = False, return_indices: bool = False) -> Any:
        stride = [] if stride is None else stride
        name = f"max_pool{dims}d_with_indices" if return_indices else f"max_pool{dims}d"
        return call(name, input, kernel_size, stride, padding, dilation, ceil_mode)

    return pool


def _full_size(input: Any, output_size: Any, dims: int) -> Any:
    """Sizes with those that are None taken from the input."""
    if not isinstance(output_size, (list, tuple)) or (len(output_size) == 1 and output_size[0] is not None):
        return output_size
    return [size(input, _dims(input) - dims + i) if wanted is None else wanted for i, wanted in enumerate(output_size)]


def _adaptive(dims: int, kind: str) -> Callable:
    def pool(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        sizes = _full_size(input, output_size, dims)
        made = call(f"adaptive_{kind}_pool{dims}d", input, sizes)
        return made if kind == "avg" or return_indices else made[0]

    return pool


for _d in (1, 2, 3):
    _TORCH_BODIES[f"conv{_d}d"] = _convolving(_d, False)
    _TORCH_BODIES[f"conv_transpose{_d}d"] = _convolving(_d, True)
    _BODIES[f"max_pool{_d}d"] = _max_pooling(_d)
    _BODIES[f"adaptive_max_pool{_d}d"] = _adaptive(_d, "max")
_BODIES["adaptive_avg_pool2d"], _BODIES["adaptive_avg_pool3d"] = _adaptive(2, "avg"), _adaptive(3, "avg")


@_body
def lp_pool2d(input: Any, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 2)


@_body
def lp_pool1d(input: Any, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 1)


def _lp_pool(input: Any, norm_type: Any, kernel_size: Any, stride: Any, ceil_mode: bool, dims: int) -> Any:
    out = call(f"avg_pool{dims}d", call("pow", input, norm_type), kernel_size, [] if stride is None else stride, 0,
               ceil_mode)
    count = 1
    for k in _wide(kernel_size, dims):
        count *= k
    signed = call("mul", call("sign", out), call("relu", call("abs", out)))
    return call("pow", call("mul", signed, count), 1.0 / norm_type)


# --- sizes ------------------------------------------------------------------------------------------------------------


@_body
def pad(input: Any, pad: Any, mode: str = "constant", value: float | None = None) -> Any:
    return call("pad", input, list(pad), mode, value)


_UPSAMPLING = {"nearest": "upsample_nearest{d}d", "nearest-exact": "_upsample_nearest_exact{d}d",
               "linear": "upsample_linear1d", "bilinear": "upsample_bilinear2d", "bicubic": "upsample_bicubic2d",
               "trilinear": "upsample_trilinear3d"}


@_body
def interpolate(input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
                align_corners: Any = None, recompute_scale_factor: Any = None, antialias: bool = False) -> Any:
    """Only forms with a size or factors go to one op each; the rest is refused."""
    dims = _dims(input) - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    sizes = None if size is None else _wide(size, dims)
    factors = None if scale_factor is None else [float(f) for f in _wide(scale_factor, dims)]
    if mode == "area":
        return call(f"adaptive_avg_pool{dims}d", input, sizes or _scaled(input, factors))
    if recompute_scale_factor and factors is not None:
        sizes, factors = _scaled(input, factors), None
    name = _UPSAMPLING.get(mode)
    if name is None:
        raise NotImplementedError(f"interpolate: input has {dims + 2} dimensions, and mode is '{mode}'")
    if antialias:
        name = {"bilinear": "_upsample_bilinear2d_aa", "bicubic": "_upsample_bicubic2d_aa"}[mode]
    corners = () if "nearest" in mode else (bool(align_corners),)
    return call(name.format(d=dims), input, sizes, *corners, factors)


def _scaled(input: Any, factors: Any) -> list[int]:
    shape = _shape(input)
    return [int(n * f) for n, f in zip(shape[2:], factors, strict=True)]


@_body
def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    pair = [_wide(value, 2) for value in (kernel_size, dilation, padding, stride)]
    return call("im2col", input, *pair)


@_body
def fold(input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    pair = [_wide(value, 2) for value in (output_size, kernel_size, dilation, padding, stride)]
    return call("col2im", input, *pair)


@_body
def grid_sample(input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros",
                align_corners: Any = None) -> Any:
    modes, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    return call("grid_sampler", input, grid, modes.index(mode), paddings.index(padding_mode), bool(align_corners))


@_body
def affine_grid(theta: Any, size: Any, align_corners: Any = None) -> Any:
    return call("affine_grid_generator", theta, list(size), bool(align_corners))


# --- embeddings -------------------------------------------------------------------------------------------------------


@_body
def embedding(input: Any, weight: Any, padding_idx: int | None = None, max_norm: float | None = None,
              norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> Any:
    at = -1 if padding_idx is None else padding_idx + (_shape(weight)[0] if padding_idx < 0 else 0)
    if max_norm is not None:
        input = call("contiguous", input)
        call("embedding_renorm_", ignored(lambda: weight.detach()), input, max_norm, norm_type)
    return call("embedding", weight, input, at, scale_grad_by_freq, sparse)


# --- functions of the package that PyTorch writes in Python -----------------------------------------------------------


@_torch_body
def split(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> Any:
    if isinstance(split_size_or_sections, (list, tuple)):
        return call("split_with_sizes", tensor, split_size_or_sections, dim)
    return call("split", tensor, split_size_or_sections, dim)


@_torch_body
def meshgrid(*tensors: Any, indexing: str | None = None) -> Any:
    rows = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    extra = {} if indexing is None else {"indexing": indexing}
    torch = _package()
    return tuple(call_with("meshgrid", lambda *_, **__: list(torch.meshgrid(*rows, **extra)), (rows,), extra))


@_torch_body
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Any:
    modes = {"use_mm_for_euclid_dist_if_necessary": None, "use_mm_for_euclid_dist": 1,
             "donot_use_mm_for_euclid_dist": 2}
    return call_with("cdist", lambda a, b, *_: _package().cdist(a, b, p, compute_mode), (x1, x2, p,
                                                                                      modes[compute_mode]), {})


@_torch_body
def tensordot(a: Any, b: Any, dims: Any = 2, out: Any = None) -> Any:
    if isinstance(dims, int):
        dims_a, dims_b = list(range(-dims, 0)), list(range(dims))
    else:
        dims_a, dims_b = ([d] if isinstance(d, int) else list(d) for d in dims)
    return call("tensordot", a, b, dims_a, dims_b)


# --- bodies that are scripts ------------------------------------------------------------------------------------------


class _Torch:
    """`torch` of the bodies in `script.functional` while a program is traced."""

    def __getattr__(self, name: str) -> Any:
        if name in ("is_floating_point", "is_complex"):
            return lambda tensor: ignored(lambda: getattr(tensor, name)())
        return lambda *args, **kwargs: call(name, *args, **kwargs)


def _canonical_mask(mask: Any, mask_name: str, target: Any, check_other: bool = True) -> Any:
    if mask is None or ignored(lambda: mask.is_floating_point()):
        return mask
    made = call("zeros_like", mask, dtype=ignored(lambda: target.dtype))
    return call("masked_fill_", made, mask, float("-inf"))


def _scripted() -> dict[int, Callable]:
    """Functions that are written as scripts, as Python runs them: their `torch` writes ops down."""
    found, spaces = {}, {}
    for key, body in scripts_by_identity().items():
        name = body.__module__
        if name not in spaces:
            spaces[name] = space = dict(body.__globals__)
            space.update(__name__="traced_functional", torch=_Torch(), _canonical_mask=_canonical_mask)
        found[key] = FunctionType(body.__code__, spaces[name], body.__name__, body.__defaults__, body.__closure__)
        found[key].__kwdefaults__ = body.__kwdefaults__
    for space in spaces.values():
        for name, held in list(space.items()):
            if isinstance(held, FunctionType) and held.__module__ in spaces and held.__globals__ is not space:
                space[name] = FunctionType(held.__code__, spaces[held.__module__], name, held.__defaults__,
                                           held.__closure__)
    return found


class _Bodies(dict[int, Callable]):
    """Bodies by the identity of the function; filled when first asked, with the package whole."""

    def get(self, key: int, default: Any = None) -> Any:
        if not self:
            torch = _package()
            self.update(_scripted())
            for space, named in ((torch.nn.functional, _BODIES), (torch, _TORCH_BODIES)):
                for name, body in named.items():
                    self[id(getattr(space, name))] = body
        return super().get(key, default)


BODIES = _Bodies()
