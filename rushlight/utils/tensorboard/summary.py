"""Summaries: what TensorBoard's plugins show, as messages for event files.

Enters: tags with numbers, arrays, pictures, text. Leaves: a `Summary` message (three for hyperparameters), field for
field what PyTorch's functions of the same names make. Refuses: values of other shapes than the plugin shows.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

from ... import _C
from .images import (
    arrange_video,
    convert_to_HWC,
    draw_boxes,
    encode_gif,
    encode_png,
    encode_wav,
    make_np,
    resized,
    to_bytes,
)
from .wire import Message

DT_FLOAT, DT_DOUBLE, DT_STRING = 1, 2, 7
# dtype: (TensorFlow's number, field, NumPy's type of the field's elements)
_TENSOR_TYPES = {
    "float16": (19, "half_val", None), "bfloat16": (14, "half_val", None),
    "float32": (DT_FLOAT, "float_val", np.float32), "float64": (DT_DOUBLE, "double_val", np.float64),
    "int8": (6, "int_val", np.int64), "uint8": (4, "uint32_val", np.int64), "int16": (5, "int_val", np.int64),
    "int32": (3, "int_val", np.int64), "int64": (9, "int64_val", np.int64), "bool": (10, "bool_val", np.int64),
    "complex64": (8, "scomplex_val", np.float32), "complex128": (18, "dcomplex_val", np.float64),
}


def _summary(**value: Any) -> Message:
    return Message("Summary", value=[Message("Value", **value)])


# All plugins' data is of version 0, which protocol buffers do not write.


def _plugin(name: str, content: Message | None = None, **more: Any) -> Message:
    data = None if content is None else content.SerializeToString()
    return Message("SummaryMetadata", plugin_data=Message("PluginData", plugin_name=name, content=data), **more)


def _shape(sizes: Any) -> Message:
    return Message("TensorShapeProto", dim=[Message("Dim", size=s) for s in sizes])


# --- numbers ----------------------------------------------------------------------------------------------------------


def scalar(
    name: str, tensor: Any, collections: Any = None, new_style: bool = False, double_precision: bool = False
) -> Message:
    """One number."""
    array = make_np(tensor).squeeze()
    assert array.ndim == 0, f"scalar: expected one element, got {array.size} in {array.ndim} dimensions."
    value = float(array)
    if not new_style:
        return _summary(tag=name, simple_value=value)
    if double_precision:
        result = Message("TensorProto", double_val=[value], dtype=DT_DOUBLE)
    else:
        result = Message("TensorProto", float_val=[value], dtype=DT_FLOAT)
    return _summary(tag=name, tensor=result, metadata=_plugin("scalars"))


def tensor_proto(tag: str, tensor: Any) -> Message:
    """A whole tensor."""
    if tensor.numel() * tensor.itemsize >= 1 << 31:
        raise ValueError("tensor: expected less than 2 GB, all that a protocol buffer holds")
    if tensor.dtype.name not in _TENSOR_TYPES:
        raise ValueError(f"{tag} has unsupported tensor dtype {tensor.dtype}")
    number, field, kind = _TENSOR_TYPES[tensor.dtype.name]
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    if kind is None:   # half types travel as the bits they have
        values = flat.view(_C.int16).numpy().view(np.uint16).tolist()
    else:
        array = flat.numpy()
        values = (array.view(kind) if tensor.dtype.is_complex else array.astype(kind)).tolist()
    result = Message("TensorProto", dtype=number, tensor_shape=_shape(tensor.shape), **{field: values})
    return _summary(tag=tag, metadata=_plugin("tensor"), tensor=result)


def histogram_raw(
    name: str,
    min: float,  # noqa: A002
    max: float,  # noqa: A002
    num: int,
    sum: float,  # noqa: A002
    sum_squares: float,
    bucket_limits: Any,
    bucket_counts: Any,
) -> Message:
    """A histogram whose buckets are counted already."""
    result = Message(
        "HistogramProto",
        min=min,
        max=max,
        num=num,
        sum=sum,
        sum_squares=sum_squares,
        bucket_limit=list(bucket_limits),
        bucket=list(bucket_counts),
    )
    return _summary(tag=name, histo=result)


def histogram(name: str, values: Any, bins: Any, max_bins: int | None = None) -> Message:
    """How values are spread."""
    return _summary(tag=name, histo=make_histogram(make_np(values).astype(float), bins, max_bins))


def make_histogram(values: np.ndarray, bins: Any, max_bins: int | None = None) -> Message:
    """Counts between limits, without the empty buckets at both ends (but one at the left)."""
    if values.size == 0:
        raise ValueError("The input has no element.")
    values = values.reshape(-1)
    counts, limits = np.histogram(values, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        step = len(counts) // max_bins
        counts = np.pad(counts, (0, -len(counts) % step)).reshape(-1, step).sum(axis=-1)
        limits = np.append(limits[:-1:step], limits[-1])
    filled = np.nonzero(counts)[0]
    if not filled.size:
        raise ValueError("The histogram is empty: no value lies within the bins.")
    first, last = int(filled[0]), int(filled[-1]) + 1
    counts = counts[first - 1 : last] if first > 0 else np.concatenate([[0], counts[:last]])
    return Message(
        "HistogramProto", min=values.min(), max=values.max(), num=len(values), sum=values.sum(),
        sum_squares=values.dot(values), bucket_limit=limits[first : last + 1].tolist(), bucket=counts.tolist(),
    )


# --- pictures, sounds, words ------------------------------------------------------------------------------------------


def _picture(height: int, width: int, channels: int, data: bytes) -> Message:
    return Message("Image", height=height, width=width, colorspace=channels, encoded_image_string=data)


def make_image(
    tensor: np.ndarray, rescale: float = 1, rois: np.ndarray | None = None, labels: list[str] | None = None
) -> Message:
    """[H, W, C] bytes as an `Image`, with boxes if there are any."""
    drawn = tensor if rois is None else draw_boxes(tensor, rois, labels)
    return _picture(*tensor.shape, encode_png(resized(drawn, rescale)))


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Message:
    """A picture, or several in a grid."""
    return _summary(tag=tag, image=make_image(to_bytes(convert_to_HWC(make_np(tensor), dataformats)), rescale))


def image_boxes(
    tag: str,
    tensor_image: Any,
    tensor_boxes: Any,
    rescale: float = 1,
    dataformats: str = "CHW",
    labels: list[str] | None = None,
) -> Message:
    """A picture with boxes."""
    pixels = to_bytes(convert_to_HWC(make_np(tensor_image), dataformats))
    return _summary(tag=tag, image=make_image(pixels, rescale, make_np(tensor_boxes), labels))


def video(tag: str, tensor: Any, fps: float = 4) -> Message:
    """Moving pictures [N, T, C, H, W]."""
    frames = to_bytes(arrange_video(make_np(tensor)))
    return _summary(tag=tag, image=_picture(*frames.shape[1:], encode_gif(frames, fps)))


def audio(tag: str, tensor: Any, sample_rate: int = 44100) -> Message:
    """Samples in [-1, 1]."""
    samples = make_np(tensor).squeeze()
    if abs(samples).max() > 1:
        print("add_audio: samples outside [-1, 1] are clipped.")
        samples = samples.clip(-1, 1)
    assert samples.ndim == 1, "input tensor should be 1 dimensional."
    sound = Message(
        "Audio", sample_rate=sample_rate, num_channels=1, length_frames=samples.shape[-1],
        encoded_audio_string=encode_wav(samples, sample_rate), content_type="audio/wav",
    )
    return _summary(tag=tag, audio=sound)


def text(tag: str, text: str) -> Message:
    """Words."""
    result = Message("TensorProto", dtype=DT_STRING, string_val=[text], tensor_shape=_shape([1]))
    return _summary(tag=tag + "/text_summary", metadata=_plugin("text", Message("TextPluginData")), tensor=result)


# --- curves, layouts, meshes ------------------------------------------------------------------------------------------


def _curve(tag: str, data: np.ndarray, num_thresholds: int) -> Message:
    result = Message(
        "TensorProto", dtype=DT_FLOAT, float_val=data.reshape(-1).tolist(), tensor_shape=_shape(data.shape)
    )
    return _summary(
        tag=tag,
        metadata=_plugin("pr_curves", Message("PrCurvePluginData", num_thresholds=num_thresholds)),
        tensor=result,
    )


def pr_curve_raw(
    tag: str,
    tp: Any,
    fp: Any,
    tn: Any,
    fn: Any,
    precision: Any,
    recall: Any,
    num_thresholds: int = 127,
    weights: Any = None,
) -> Message:
    """A curve whose points are known already."""
    return _curve(tag, np.stack([make_np(x) for x in (tp, fp, tn, fn, precision, recall)]), min(num_thresholds, 127))


def pr_curve(tag: str, labels: Any, predictions: Any, num_thresholds: int = 127, weights: Any = None) -> Message:
    """Precision against recall, from labels and predicted probabilities."""
    num_thresholds = min(num_thresholds, 127)   # more would not fit one byte, which readers take for granted
    return _curve(tag, compute_curve(make_np(labels), make_np(predictions), num_thresholds, weights), num_thresholds)


def compute_curve(
    labels: np.ndarray, predictions: np.ndarray, num_thresholds: int | None = None, weights: Any = None
) -> np.ndarray:
    """Rows of true and false positives and negatives, precision and recall, for each threshold."""
    weights, num_thresholds = 1.0 if weights is None else weights, 127 if num_thresholds is None else num_thresholds
    buckets = np.int32(np.floor(predictions * (num_thresholds - 1)))
    truth, span = labels.astype(np.float64), (0, num_thresholds - 1)
    positives, _ = np.histogram(buckets, bins=num_thresholds, range=span, weights=truth * weights)
    negatives, _ = np.histogram(buckets, bins=num_thresholds, range=span, weights=(1.0 - truth) * weights)
    tp, fp = np.cumsum(positives[::-1])[::-1], np.cumsum(negatives[::-1])[::-1]
    tn, fn = fp[0] - fp, tp[0] - tp
    least = 1e-7   # instead of dividing by nothing
    return np.stack((tp, fp, tn, fn, tp / np.maximum(least, tp + fp), tp / np.maximum(least, tp + fn)))


def custom_scalars(layout: dict[str, dict[str, list]]) -> Message:
    """Which scalars share a chart: {category: {title: ["Multiline" or "Margin", tags]}}."""

    def chart(title: str, kind: str, tags: list[str]) -> Message:
        if kind != "Margin":
            return Message("Chart", title=title, multiline=Message("MultilineChartContent", tag=list(tags)))
        assert len(tags) == 3, f"a margin chart has three tags, got {len(tags)}"
        return Message(
            "Chart",
            title=title,
            margin=Message(
                "MarginChartContent", series=[Message("Series", value=tags[0], lower=tags[1], upper=tags[2])]
            ),
        )

    categories = [
        Message("Category", title=name, chart=[chart(t, *c) for t, c in charts.items()])
        for name, charts in layout.items()
    ]
    result = Message(
        "TensorProto",
        dtype=DT_STRING,
        string_val=[Message("Layout", category=categories).SerializeToString()],
        tensor_shape=_shape([]),
    )
    return _summary(tag="custom_scalars__config__", tensor=result, metadata=_plugin("custom_scalars"))


def mesh(
    tag: str,
    vertices: Any,
    colors: Any,
    faces: Any,
    config_dict: dict | None,
    display_name: str | None = None,
    description: str | None = None,
) -> Message:
    """Points, or a surface: vertices, faces and colours, each [batch, count, 3]."""
    config = "{}" if config_dict is None else json.dumps(config_dict, sort_keys=True)
    parts = [
        (name, number, make_np(x))
        for name, number, x in (("VERTEX", 1, vertices), ("FACE", 2, faces), ("COLOR", 3, colors))
        if x is not None
    ]
    components, values = sum(1 << number for _, number, _ in parts), []
    for name, number, x in parts:
        if x.ndim != 3:
            raise ValueError(f"Tensor shape should be of shape BxNx3, but got {x.shape}.")
        content = Message(
            "MeshPluginData",
            name=tag,
            content_type=number,
            json_config=config,
            shape=list(x.shape),
            components=components,
        )
        result = Message("TensorProto", dtype=DT_FLOAT, float_val=x.reshape(-1).tolist(), tensor_shape=_shape(x.shape))
        about = _plugin("mesh", content, display_name=display_name, summary_description=description)
        values.append(Message("Value", tag=f"{tag}_{name}", tensor=result, metadata=about))
    return Message("Summary", value=values)


# --- hyperparameters --------------------------------------------------------------------------------------------------

_STRING, _BOOL, _FLOAT = 1, 2, 3


def _hparam(value: Any) -> tuple[int, Message]:
    """The plugin's type and value."""
    if isinstance(value, (int, float)):   # bools too, as PyTorch files them
        return _FLOAT, Message("StructValue", number_value=float(value))
    if isinstance(value, str):
        return _STRING, Message("StructValue", string_value=value)
    if isinstance(value, _C.Tensor):
        return _FLOAT, Message("StructValue", number_value=float(make_np(value).reshape(-1)[0]))
    raise ValueError("hparam_dict: expected values of type int, float, str, bool or Tensor")


def hparams(
    hparam_dict: Any = None, metric_dict: Any = None, hparam_domain_discrete: Any = None
) -> tuple[Message, Message, Message]:
    """The experiment, the start and the end of a session, for the plugin of hyperparameters."""
    domains = hparam_domain_discrete or {}
    for name, value in (
        ("hparam_dict", hparam_dict),
        ("metric_dict", metric_dict),
        ("hparam_domain_discrete", domains),
    ):
        if not isinstance(value, dict):
            raise TypeError(f"parameter: {name} should be a dictionary, nothing logged.")
    for k, v in domains.items():
        if k not in hparam_dict or not isinstance(v, list) or not all(isinstance(d, type(hparam_dict[k])) for d in v):
            raise TypeError(f"hparam_domain_discrete[{k}]: expected a list of values of the type of hparam_dict[{k}].")
    infos, entries = [], []
    for k, v in hparam_dict.items():
        if v is None:
            continue
        kind, value = _hparam(v)
        domain = Message("ListValue", values=[_hparam(d)[1] for d in domains[k]]) if k in domains else None
        infos.append(Message("HParamInfo", name=k, type=kind, domain_discrete=domain))
        entries.append(Message("HParamEntry", key=k, value=value))
    metrics = [Message("MetricInfo", name=Message("MetricName", tag=k)) for k in metric_dict]

    def wrapped(tag: str, **content: Message) -> Message:
        return _summary(tag=f"_hparams_/{tag}", metadata=_plugin("hparams", Message("HParamsPluginData", **content)))

    success = 1
    return (
        wrapped("experiment", experiment=Message("Experiment", hparam_infos=infos, metric_infos=metrics)),
        wrapped("session_start_info", session_start_info=Message("SessionStartInfo", hparams=entries)),
        wrapped("session_end_info", session_end_info=Message("SessionEndInfo", status=success)),
    )


def int_to_half(i: int) -> float:
    """The float32 number of these bits."""
    return struct.unpack("f", struct.pack("i", i))[0]


def half_to_int(f: float) -> int:
    """The bits of a float32 number."""
    return struct.unpack("i", struct.pack("f", f))[0]


def make_video(tensor: Any, fps: float) -> Message:
    """Frames (time, height, width, channels) of bytes as a moving picture."""
    return _picture(*tensor.shape[1:], encode_gif(tensor, fps))
