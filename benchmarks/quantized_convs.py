"""Quantized convolutions against PyTorch's best engine, both in one process, by turns.

    python -m benchmarks.quantized_convs                   one thread, processor time
    python -m benchmarks.quantized_convs --threads 2       two threads, wall time
    python -m benchmarks.quantized_convs --only depthwise  cases whose name contains this

The layers of ResNets (3x3, 1x1, stems, strides), of ResNeXts (groups) and of MobileNets (depthwise). Lines and means as
of benchmarks/quantized_products.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .quantized_products import in_engine, main

ENGINES = ("x86", "onednn", "fbgemm")
# kind: images, channels, outputs, size, kernel, stride, groups
LAYERS = {
    "3x3": (
        (1, 64, 64, 56, 3, 1, 1), (1, 128, 128, 28, 3, 1, 1), (1, 256, 256, 14, 3, 1, 1), (1, 512, 512, 7, 3, 1, 1),
        (1, 64, 128, 56, 3, 2, 1), (8, 64, 64, 56, 3, 1, 1), (64, 32, 32, 8, 3, 1, 1), (1, 16, 16, 8, 3, 1, 1),
    ),
    "1x1": (
        (1, 64, 256, 56, 1, 1, 1), (1, 256, 64, 56, 1, 1, 1), (1, 1024, 256, 14, 1, 1, 1), (1, 256, 512, 56, 1, 2, 1),
        (1, 32, 16, 112, 1, 1, 1), (1, 96, 24, 56, 1, 1, 1),
    ),
    "stem": ((1, 3, 64, 224, 7, 2, 1), (1, 3, 32, 224, 3, 2, 1)),
    "groups": ((1, 128, 128, 56, 3, 1, 32), (1, 256, 256, 28, 3, 1, 32)),
    "depthwise": (
        (1, 32, 32, 112, 3, 1, 32), (1, 96, 96, 112, 3, 2, 96), (1, 144, 144, 56, 3, 1, 144),
        (1, 384, 384, 14, 3, 1, 384), (1, 960, 960, 7, 3, 1, 960), (1, 240, 240, 14, 5, 1, 240),
    ),
}


def layer(library: Any, weight: Any, bias: Any, x: Any, stride: int, groups: int) -> Callable:
    """What runs a layer of a library on one input."""
    outs, pad = weight.shape[0], weight.shape[2] // 2
    scales, zeros = library.full((outs,), 0.02, dtype=library.float64), library.zeros(outs, dtype=library.int64)
    quantized = library.quantize_per_channel(weight, scales, zeros, 0, library.qint8)
    functions = library.ops.quantized
    packed = functions.conv2d_prepack(quantized, bias, [stride] * 2, [pad] * 2, [1, 1], groups)
    given = library.quantize_per_tensor(x.contiguous(memory_format=library.channels_last), 0.004, 3, library.quint8)
    return lambda: functions.conv2d_relu(given, packed, 0.05, 10)


def cases(ours: Any, theirs: Any) -> Iterator[tuple[str, Callable, list[Callable]]]:
    """Names, our form, PyTorch's forms."""
    for kind, layers in LAYERS.items():
        for images, channels, outs, size, kernel, stride, groups in layers:
            tensors = [
                theirs.randn(outs, channels // groups, kernel, kernel), theirs.randn(outs),
                theirs.rand(images, channels, size, size),
            ]
            mine = layer(ours, *(ours.from_numpy(t.numpy()) for t in tensors), stride, groups)
            rivals = []
            for engine in ENGINES:
                theirs.backends.quantized.engine = engine
                rivals.append(in_engine(theirs, engine, layer(theirs, *tensors, stride, groups)))
            window = f"{kernel}" + (f"/{stride}" if stride > 1 else "")
            yield f"{kind} {images}x{channels}x{size} to {outs}, {window}", mine, rivals


if __name__ == "__main__":
    main(cases, __doc__ or "")
