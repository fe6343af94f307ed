"""What C++ knows of the Python layers, functions and optimizers: their options, from the signatures.

Enters: the classes of rushlight.nn and rushlight.optim, the functions of rushlight.nn.functional. Leaves: records of
their options with C++ types and defaults, which text.py writes down. Refuses nothing: what has no counterpart in
C++ (lazy layers, containers, parallel ones) is left out; containers are written in C++.
"""

from __future__ import annotations

import inspect
import re
import warnings
from typing import Any, NamedTuple

from ..random import fork_rng

# Layers made of other layers come last: their fields have the types of those.
COMPOSED = (
    "MultiheadAttention",
    "TransformerEncoderLayer",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerDecoder",
    "Transformer",
    "AdaptiveLogSoftmaxWithLoss",
)
LEFT_OUT = re.compile(
    r"^(Module|Container|Sequential|ModuleList|ModuleDict|ParameterList|ParameterDict|Lazy.*|DataParallel|RNNBase|"
    r"RNNCellBase|SyncBatchNorm|NLLLoss2d|LinearCrossEntropyLoss)$"
)
DROPPED = frozenset(
    "size_average reduce device dtype _stacklevel out return_indices cudnn_enabled cudnn_enable _freeze process_group "
    "min_value max_value enable_nested_tensor mask_check foreach fused capturable differentiable "
    "decoupled_weight_decay".split()
)
SHARED = {  # options of several layers under one name: the name, and the layers
    "Dropout": ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"),
    "BatchNorm": ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d"),
    "InstanceNorm": ("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"),
}
# What C++ calls it where Python's name is another.
RENAMED = {"lambd": "lambda", "unflattened_size": "sizes"}
WORDS = {  # values of a str option by its owner's name, or by its own
    "reduction": ("None", "Mean", "Sum"),
    "KLDivLoss.reduction": ("None", "BatchMean", "Sum", "Mean"),
    "KLDiv.reduction": ("None", "BatchMean", "Sum", "Mean"),
    "padding_mode": ("Zeros", "Reflect", "Replicate", "Circular"),
    "GridSample.padding_mode": ("Zeros", "Border", "Reflection"),
    "GridSample.mode": ("Bilinear", "Nearest", "Bicubic"),
    "Upsample.mode": ("Nearest", "Linear", "Bilinear", "Bicubic", "Trilinear"),
    "Interpolate.mode": ("Nearest", "Linear", "Bilinear", "Bicubic", "Trilinear", "Area", "NearestExact"),
    "EmbeddingBag.mode": ("Sum", "Mean", "Max"),
    "Pad.mode": ("Constant", "Reflect", "Replicate", "Circular"),
    "nonlinearity": ("Tanh", "ReLU"),
}
TEXTS = {  # what Python calls them: rushlight/nn/arguments.h
    "None": "none", "Mean": "mean", "Sum": "sum", "BatchMean": "batchmean", "Zeros": "zeros", "Reflect": "reflect",
    "Nearest": "nearest", "Bilinear": "bilinear", "Constant": "constant", "Tanh": "tanh", "ReLU": "relu",
}  # fmt: skip
CAMEL = {
    "relu": "ReLU", "relu6": "ReLU6", "elu": "ELU", "selu": "SELU", "celu": "CELU", "gelu": "GELU", "glu": "GLU",
    "rrelu": "RReLU", "leaky_relu": "LeakyReLU", "silu": "SiLU", "kl_div": "KLDiv", "mse_loss": "MSELoss",
    "ctc_loss": "CTCLoss", "nll_loss": "NLLLoss", "poisson_nll_loss": "PoissonNLLLoss", "lp_pool1d": "LPPool1d",
    "gaussian_nll_loss": "GaussianNLLLoss", "lp_pool2d": "LPPool2d", "lp_pool3d": "LPPool3d", "rms_norm": "RMSNorm",
    "multi_head_attention_forward": "MultiheadAttentionForward",
}  # fmt: skip
FUNCTIONS = """
relu relu6 elu selu celu gelu glu rrelu leaky_relu silu mish hardtanh hardshrink hardsigmoid hardswish softplus
softshrink softsign tanhshrink logsigmoid threshold prelu softmax softmin log_softmax gumbel_softmax normalize dropout
dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout linear bilinear embedding embedding_bag one_hot
conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d fold unfold batch_norm instance_norm
layer_norm group_norm rms_norm local_response_norm avg_pool1d avg_pool2d avg_pool3d
max_pool1d max_pool2d max_pool3d max_pool1d_with_indices
max_pool2d_with_indices max_pool3d_with_indices adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d adaptive_max_pool1d_with_indices
adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices fractional_max_pool2d fractional_max_pool3d
fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices lp_pool1d lp_pool2d lp_pool3d max_unpool1d
max_unpool2d max_unpool3d pad pixel_shuffle pixel_unshuffle interpolate grid_sample affine_grid cosine_similarity
pairwise_distance pdist l1_loss mse_loss smooth_l1_loss huber_loss kl_div nll_loss cross_entropy binary_cross_entropy
binary_cross_entropy_with_logits hinge_embedding_loss multi_margin_loss cosine_embedding_loss multilabel_margin_loss
soft_margin_loss multilabel_soft_margin_loss triplet_margin_loss triplet_margin_with_distance_loss ctc_loss
poisson_nll_loss gaussian_nll_loss margin_ranking_loss multi_head_attention_forward
""".split()
# Given behind the tensors rather than as options.
PLACED = {
    "linear": ("bias",),
    "bilinear": ("bias",),
    "one_hot": ("num_classes",),
    "affine_grid": ("size", "align_corners"),
    "pdist": ("p",),
    "batch_norm": ("running_mean", "running_var"),
}
OPTIMIZERS = ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "LBFGS")
# Options with which an optimizer keeps all it can keep.
FULL_STATE = {"lr": 0.5, "momentum": 0.9, "amsgrad": True, "centered": True}
# Functions that take whatever their op's default is, which C++ must say.
SAID = {
    "batch_norm.training": ("bool", "false"), "batch_norm.momentum": ("double", "0.1"),
    "batch_norm.eps": ("double", "1e-5"), "instance_norm.use_input_stats": ("bool", "true"),
    "instance_norm.momentum": ("double", "0.1"), "instance_norm.eps": ("double", "1e-5"),
    "normalize.dim": ("int64_t", "1"), "affine_grid.size": ("IntArrayRef", ""),
    "affine_grid.align_corners": ("bool", "false"),
}  # fmt: skip
DISTANCE = "std::optional<std::function<Tensor(const Tensor&, const Tensor&)>>"
ACTIVATION = "std::variant<enumtype::kReLU, enumtype::kGELU, std::function<Tensor(const Tensor&)>>"
PLAIN = {
    "int": "int64_t",
    "float": "double",
    "Number": "double",
    "bool": "bool",
    "Tensor": "Tensor",
    "Tensor | Number": "Tensor",
    "int | None": "std::optional<int64_t>",
    "float | None": "std::optional<double>",
    "bool | None": "std::optional<bool>",
    "str | None": "std::optional<std::string>",
    "Tensor | None": "Tensor",
    "dtype | None": "std::optional<Dtype>",
    "Sequence[int]": "std::vector<int64_t>",
    "float | Tensor": "double",
    "tuple[float | Tensor, float | Tensor]": "std::tuple<double, double>",
}


class Option(NamedTuple):
    """One option: C++ type and default, and the name it is passed by to Python."""

    name: str
    python: str
    type: str
    default: str | None  # C++ text; None: it must be given


class Options(NamedTuple):
    """A struct of options."""

    name: str
    options: tuple[Option, ...]

    def required(self) -> tuple[Option, ...]:
        """Those without a default, which the constructor takes."""
        return tuple(o for o in self.options if o.default is None)


class Argument(NamedTuple):
    """A parameter of `forward` or of a function: C++ type, name, default text or "", and Python's name."""

    type: str
    name: str
    default: str
    python: str


class Layer(NamedTuple):
    """A layer: its options or None, the tensors and parts that are its fields, its `forward`."""

    name: str
    options: Options | None
    tensors: tuple[str, ...]
    parts: tuple[tuple[str, str], ...]  # (field, C++ class)
    arguments: tuple[Argument, ...]
    result: str
    pretrained: Options | None = None  # of `from_pretrained`


class FunctionFace(NamedTuple):
    """A function of torch::nn::functional."""

    name: str
    options: Options | None
    arguments: tuple[Argument, ...]
    result: str


# --- one option -------------------------------------------------------------------------------------------------------


def dims_of(owner: str) -> int:
    """How many dimensions a layer slides over, by its name."""
    found = re.search(r"([123])d(WithIndices)?$", owner)
    return int(found.group(1)) if found else 2


def array_type(owner: str, name: str, param: inspect.Parameter) -> str | None:
    """The type of an option that is a number or one for each dimension."""
    dims = dims_of(owner)
    if name == "padding" and "Pad" in owner:
        return f"ExpandingArray<{2 * dims}>"
    if name == "padding" and re.fullmatch(r"Conv[123]d", owner):
        return f"conv_padding_t<{dims}>"
    if name == "output_size":
        if owner.startswith("Adaptive"):
            return "ExpandingArray<1>" if dims == 1 else f"ExpandingArrayWithOptionalElem<{dims}>"
        if owner.startswith("Fractional"):
            return f"std::optional<ExpandingArray<{dims}>>"
        return f"ExpandingArray<{dims}>" if owner == "Fold" else "std::optional<std::vector<int64_t>>"
    if name == "output_ratio":
        return f"std::optional<ExpandingArray<{dims}, double>>"
    if name in ("kernel_size", "stride", "padding", "dilation", "output_padding"):
        return f"ExpandingArray<{dims}>"
    return {
        "normalized_shape": "std::vector<int64_t>",
        "unflattened_size": "std::vector<int64_t>",
        "pad": "std::vector<int64_t>",
        "size": "std::optional<std::vector<int64_t>>",
        "scale_factor": "std::optional<std::vector<double>>",
        "dim": "int64_t",
        "activation": ACTIVATION,
        "distance_function": DISTANCE,
        "custom_encoder": "AnyModule",
        "custom_decoder": "AnyModule",
        "norm": "AnyModule",
        "encoder_layer": "TransformerEncoderLayer",
        "decoder_layer": "TransformerDecoderLayer",
    }.get(name)


def option_of(owner: str, name: str, param: inspect.Parameter) -> Option:
    """The option that a parameter becomes."""
    said = SAID.get(f"{owner}.{name}")
    owner = owner if owner[0].isupper() else camel(owner)
    known = said[0] if said else option_type(owner, name, param)
    default = said[1] if said else default_text(owner, name, known, param.default)
    return Option(RENAMED.get(name, name), name, known, default)


def option_type(owner: str, name: str, param: inspect.Parameter) -> str:
    """The C++ type of an option."""
    if name == "dim" and "max" in owner.lower() and "Gumbel" not in owner:
        return "int64_t"
    if name in ("kdim", "vdim"):
        return "int64_t"
    words = WORDS.get(f"{owner}.{name}") or (WORDS.get(name) if param.annotation == "str" else None)
    if words:
        return f"std::variant<{', '.join('enumtype::k' + w for w in words)}>"
    if param.annotation == "str":
        return "std::string"
    scalar = PLAIN.get(str(param.annotation).removeprefix("'").removesuffix("'"))
    found = scalar if scalar and name != "output_size" else array_type(owner, name, param)
    if found is None:
        raise TypeError(f"{owner}.{name}: no C++ type is known for {param.annotation}. Give it one in this file")
    return found


def default_text(owner: str, name: str, kind: str, value: Any) -> str | None:
    """The C++ text of a default; None: there is none."""
    if name == "dim" and "max" in owner.lower() and "Gumbel" not in owner:
        return None
    if value is inspect.Parameter.empty:
        return None
    if name == "stride" and value is None:
        return "kernel_size_"
    if name in ("kdim", "vdim"):
        return "embed_dim_"
    if kind in ("Tensor", "AnyModule"):
        return "{}"
    if kind == ACTIVATION:
        return "torch::kReLU"
    if value is None:
        return "std::nullopt"
    if kind.startswith("std::variant"):
        return "torch::k" + next(word for word, text in TEXTS.items() if text == value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple) and kind.startswith("std::tuple"):
        return "{" + ", ".join(map(repr, value)) + "}"
    return repr(value[0] if isinstance(value, tuple) else value)


def parameters(function: Any) -> dict[str, inspect.Parameter]:
    """The parameters behind `self`, without those that C++ does not have."""
    found = inspect.signature(function).parameters
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {n: p for n, p in found.items() if n != "self" and p.kind not in kinds}


# --- layers -----------------------------------------------------------------------------------------------------------


def layers() -> list[Layer]:
    """Every layer, those that others hold first."""
    from .. import nn  # noqa: PLC0415 - every layer

    names = [n for n in dir(nn) if isinstance(getattr(nn, n), type) and issubclass(getattr(nn, n), nn.Module)]
    plain = [n for n in names if not LEFT_OUT.match(n) and n not in COMPOSED]
    with warnings.catch_warnings(), fork_rng():  # examples are made, of no interest to the program
        warnings.simplefilter("ignore")
        return [layer_of(nn, name) for name in (*plain, *COMPOSED)]


def layer_of(nn: Any, name: str) -> Layer:
    """The record of one layer."""
    made = parameters(getattr(nn, name).__init__)
    if name in ("RNN", "LSTM", "GRU"):
        made = {n: p for n, p in parameters(nn.RNNBase.__init__).items() if n != "mode"}
        if name == "RNN":
            made["nonlinearity"] = inspect.Parameter(
                "nonlinearity", inspect.Parameter.KEYWORD_ONLY, default="tanh", annotation="str"
            )
        if name != "LSTM":
            made.pop("proj_size")
    options = tuple(option_of(name, n, p) for n, p in made.items() if n not in DROPPED)
    stem = next((s for s, users in SHARED.items() if name in users), name)
    tensors, parts = fields_of(nn, name, options)
    face = Options(stem + "Options", options) if options else None
    return Layer(name, face, tensors, parts, *forward_of(nn, name), pretrained_of(nn, name))


def pretrained_of(nn: Any, name: str) -> Options | None:
    """The options of a layer's `from_pretrained`; None where it has none."""
    make = getattr(getattr(nn, name), "from_pretrained", None)
    if make is None:
        return None
    given = tuple(option_of(name, n, p) for n, p in parameters(make).items() if n != "embeddings")
    return Options(f"{name}FromPretrainedOptions", given)


def fields_of(nn: Any, name: str, options: tuple[Option, ...]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """The tensors and the parts that one such layer holds, asked of an example."""
    if name in ("RNN", "LSTM", "GRU"):  # as many as there are layers
        return (), ()
    shown = ("affine", "output_size")  # layers have these fields only where they are asked for
    given = {o.python: example_of(nn, o) for o in options if o.default is None or o.name in shown}
    module = getattr(nn, name)(**given)
    tensors = tuple(n for n in (*module._parameters, *module._buffers) if n.isidentifier())
    parts = []
    for field, part in module._modules.items():
        kinds = [c.__name__ for c in type(part).__mro__]
        kind = next((k for k in kinds if k in ("ModuleList", "Sequential") or (hasattr(nn, k) and k != "Module")), "")
        if kind and field.isidentifier():
            parts.append((field, "ModuleList" if kind == "Sequential" else kind))
    return tensors, tuple(parts)


def example_of(nn: Any, option: Option) -> Any:
    """A value for a required option."""
    if option.name.endswith("coder_layer"):
        kind = "TransformerEncoderLayer" if option.name.startswith("en") else "TransformerDecoderLayer"
        return getattr(nn, kind)(4, 2)
    if option.name == "cutoffs":
        return [2]
    if option.name in ("n_classes", "embed_dim", "d_model"):
        return 4
    array = re.search(r"ExpandingArray\w*<(\d)", option.type)
    if array:
        return (1,) * int(array.group(1))
    return [1] if "vector" in option.type else True if option.type == "bool" else 1


RESULTS = {
    "LSTM": "std::tuple<Tensor, std::tuple<Tensor, Tensor>>",
    "LSTMCell": "std::tuple<Tensor, Tensor>",
    "GRU": "std::tuple<Tensor, Tensor>",
    "RNN": "std::tuple<Tensor, Tensor>",
    "MultiheadAttention": "std::tuple<Tensor, Tensor>",
    "AdaptiveLogSoftmaxWithLoss": "ASMoutput",
}


def forward_of(nn: Any, name: str) -> tuple[tuple[Argument, ...], str]:
    """The arguments and the result of a layer's `forward`."""
    arguments = []
    for n, param in parameters(getattr(nn, name).forward).items():
        said = str(param.annotation)
        if said.startswith("tuple"):
            kind, default = "const std::optional<std::tuple<Tensor, Tensor>>&", "{}"
        elif n == "output_size":
            kind, default = "const std::optional<std::vector<int64_t>>&", "std::nullopt"
        elif said.startswith("bool"):
            kind = PLAIN[said]
            default = "std::nullopt" if param.default is None else str(param.default).lower()
        else:
            kind, default = "const Tensor&", "" if param.default is inspect.Parameter.empty else "{}"
        arguments.append(Argument(kind, n.rstrip("_"), default, n))
    return tuple(arguments), RESULTS.get(name, "Tensor")


# --- functions and optimizers -----------------------------------------------------------------------------------------


def camel(name: str) -> str:
    """The name of a function's options, without the ending."""
    name = name.removesuffix("_with_indices")
    return CAMEL.get(name) or "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def functions() -> list[FunctionFace]:
    """Every function of torch::nn::functional."""
    from ..nn import functional  # noqa: PLC0415

    return [function_of(functional, name) for name in FUNCTIONS]


def function_of(functional: Any, name: str) -> FunctionFace:
    """The record of one function: leading tensors are arguments, the rest are options."""
    arguments, options = [], []
    placed = PLACED.get(name, ())
    leading = True
    for n, param in parameters(getattr(functional, name)).items():
        leading = leading and param.annotation in ("Tensor", "Tensor | Number") and param.default is param.empty
        if leading:
            arguments.append(Argument("const Tensor&", n, "", n))
        elif n in placed or (n not in DROPPED or (n == "dtype" and name.endswith(("softmax", "softmin")))):
            options.append(option_of(name, n, param))
    for n in placed:
        option = next(o for o in options if o.python == n)
        options.remove(option)
        kind = f"const {option.type}&" if option.type == "Tensor" else option.type
        must = name == "batch_norm" or not option.default
        arguments.append(Argument(kind, n, "" if must else option.default or "", n))
    options.sort(key=lambda o: o.default is not None)
    pair = name.endswith("_with_indices") or name == "multi_head_attention_forward"
    face = Options(camel(name) + "FuncOptions", tuple(options)) if options else None
    return FunctionFace(name, face, tuple(arguments), "std::tuple<Tensor, Tensor>" if pair else "Tensor")


def optimizers() -> list[tuple[str, Options]]:
    """The optimizers and their options."""
    from .. import optim  # noqa: PLC0415

    found = []
    for name in OPTIMIZERS:
        made = {n: p for n, p in parameters(getattr(optim, name).__init__).items() if n != "params"}
        options = [option_of(name, n, p) for n, p in made.items() if n not in DROPPED]
        found.append((name, Options(name + "Options", tuple(options))))
    return found


def optimizer_states() -> list[tuple[str, Options]]:
    """What each optimizer keeps of a parameter, by the optimizer's name: asked of one that made two steps."""
    from .. import optim  # noqa: PLC0415
    from ..op import find_op  # noqa: PLC0415

    found = []
    for name in OPTIMIZERS:
        kind = getattr(optim, name)
        parameter = find_op("ones")(2).requires_grad_()
        known = parameters(kind.__init__)
        optimizer = kind([parameter], **{n: value for n, value in FULL_STATE.items() if n in known})

        def loss(optimizer: Any = optimizer, parameter: Any = parameter) -> Any:
            optimizer.zero_grad()
            made = (parameter**4).sum()
            made.backward()
            return made

        for _ in range(2):
            optimizer.step(loss)
        kept = [Option(n, n, *state_type(n, value)) for n, value in optimizer.state[parameter].items()]
        found.append((name, Options(name + "ParamState", tuple(kept))))
    return found


def state_type(name: str, value: Any) -> tuple[str, str]:
    """The C++ type and default of what an optimizer keeps under a name. Python counts steps in a tensor, C++ in a
    number."""
    if name == "step" or isinstance(value, int):
        return "int64_t", "0"
    if isinstance(value, float):
        return "double", "0"
    if isinstance(value, list):  # with gaps it is made as a whole, otherwise it grows
        return ("std::optional<std::vector<Tensor>>" if None in value else "std::deque<Tensor>"), "{}"
    return "Tensor", "{}"
