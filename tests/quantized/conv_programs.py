"""Programs of quantized convolutions, for any library that calls itself torch: inputs by formula, results as lists.

`answers(torch)` is what test_convs.py compares; `python tests/quantized/conv_programs.py > conv_answers.json` writes
PyTorch's down.
"""

from __future__ import annotations

import io
import json
import warnings
from typing import Any

# dims, transposed, images, channels, outputs, groups, size, kernel, stride, padding, dilation, relu, one scale
CASES = {
    "plain": (2, False, 2, 8, 6, 1, 7, 3, 1, 1, 1, False, False),
    "relu": (2, False, 1, 20, 17, 1, 6, 3, 2, 1, 1, True, False),
    "pointwise": (2, False, 2, 12, 33, 1, 5, 1, 1, 0, 1, True, True),
    "stem": (2, False, 1, 3, 16, 1, 15, 7, 2, 3, 1, False, False),
    "groups": (2, False, 1, 8, 12, 4, 6, 3, 1, 1, 1, False, False),
    "dilated": (2, False, 1, 4, 5, 1, 9, 3, 1, 2, 2, True, True),
    "depthwise": (2, False, 2, 24, 24, 24, 6, 3, 1, 1, 1, False, False),
    "depthwise wide": (2, False, 1, 72, 72, 72, 5, 5, 2, 2, 1, True, False),
    "depthwise narrow": (2, False, 1, 6, 12, 6, 5, 3, 1, 1, 1, False, True),
    "signal": (1, False, 2, 5, 9, 1, 11, 3, 2, 1, 1, True, False),
    "volume": (3, False, 1, 4, 7, 1, 5, 3, 1, 1, 1, False, False),
    "transposed signal": (1, True, 2, 5, 4, 1, 7, 3, 2, 0, 1, False, True),
    "transposed groups": (2, True, 1, 6, 8, 2, 5, 3, 3, 0, 1, False, True),
}
SCALE, ZERO = 0.02, 77
OUT_SCALE, OUT_ZERO = 0.5, 101


def numbers(torch: Any, shape: tuple[int, ...], low: int, high: int, seed: int) -> Any:
    """Integers in [low, high) that look random, by a formula."""
    count = 1
    for n in shape:
        count *= n
    at = torch.arange(count, dtype=torch.int64) * 7919 + seed * 104729
    return ((at * at % 65521 + at) % (high - low) + low).reshape(shape)


def made(torch: Any, case: tuple) -> tuple[Any, Any, Any, tuple]:
    """Activations, weights, bias, and the numbers of a window."""
    dims, transposed, images, channels, outs, groups, size, kernel, stride, padding, dilation, _, single = case
    x = numbers(torch, (images, channels, *(size + k for k in range(dims))), 0, 256, 1).to(torch.uint8)
    ends = (channels, outs // groups) if transposed else (outs, channels // groups)
    w = numbers(torch, (*ends, *(kernel,) * dims), -31, 32, 2).to(torch.int8)
    x = torch._make_per_tensor_quantized_tensor(x, SCALE, ZERO)
    if single:
        w = torch._make_per_tensor_quantized_tensor(w, 0.03, 0)
    else:
        scales = torch.arange(outs, dtype=torch.float64) * 0.001 + 0.02
        w = torch._make_per_channel_quantized_tensor(w, scales, torch.zeros(outs, dtype=torch.int64), 0)
    bias = numbers(torch, (outs,), -50, 51, 3).to(torch.float32) * 0.17
    return x, w, bias, ([stride] * dims, [padding] * dims, [dilation] * dims, groups)


def packed(torch: Any, case: tuple) -> tuple[Any, Any]:
    """Activations and packed weights."""
    x, w, bias, (stride, padding, dilation, groups) = made(torch, case)
    name = f"conv_transpose{case[0]}d_prepack" if case[1] else f"conv{case[0]}d_prepack"
    extra = [[0] * case[0]] if case[1] else []
    return x, getattr(torch.ops.quantized, name)(w, bias, stride, padding, *extra, dilation, groups)


def result(torch: Any, case: tuple) -> dict[str, Any]:
    x, weights = packed(torch, case)
    name = (f"conv_transpose{case[0]}d" if case[1] else f"conv{case[0]}d") + ("_relu" if case[11] else "")
    y = getattr(torch.ops.quantized, name)(x, weights, OUT_SCALE, OUT_ZERO)
    return {
        "shape": list(y.shape), "strides": list(y.stride()), "qparams": [y.q_scale(), y.q_zero_point()],
        "integers": y.int_repr().reshape(-1).tolist(),
    }


def questions(torch: Any) -> dict[str, Any]:
    """What packed weights answer, and what a file keeps of them."""
    q, found = torch.ops.quantized, {}
    for name, dims in (("plain", 2), ("volume", 3), ("signal", 2), ("transposed groups", 2)):
        _, weights = packed(torch, CASES[name])
        asked = ("stride", "padding", "output_padding", "dilation", "groups", "transpose")
        found[name] = [getattr(q, f"conv{dims}d_{what}")(weights) for what in asked]
        (version, (config, weight), (bias,)), kind = weights.__getstate__()
        found[name] += [version, config.tolist(), list(weight.shape), bias.dtype == torch.float32, kind, str(weights)]
    weight, bias = q.conv1d_unpack(packed(torch, CASES["signal"])[1])
    found["unpacked"] = [list(weight.shape), list(weight.stride()), list(bias.shape)]
    return found


def dynamic(torch: Any) -> dict[str, Any]:
    """Floats whose range is found when they come."""
    x, weights = packed(torch, CASES["plain"])
    y = torch.ops.quantized.conv2d_dynamic(x.dequantize(), weights)
    return {"strides": list(y.stride()), "sum": round(y.sum().item(), 2), "ends": [y.min().item(), y.max().item()]}


def refusals(torch: Any) -> dict[str, str]:
    """The classes of exceptions."""
    q = torch.ops.quantized
    x, weights = packed(torch, CASES["plain"])
    _, w, bias, window = made(torch, CASES["plain"])
    volume = packed(torch, CASES["volume"])[1]
    signed = torch._make_per_tensor_quantized_tensor(torch.zeros(2, 8, 7, 8, dtype=torch.int8), 0.1, 0)
    programs = {
        "float": lambda: q.conv2d(x.dequantize(), weights, 1.0, 0),
        "signed": lambda: q.conv2d(signed, weights, 1.0, 0),
        "dims": lambda: q.conv2d(x[0], weights, 1.0, 0),
        "channels": lambda: q.conv2d(x[:, :5], weights, 1.0, 0),
        "class": lambda: q.conv2d(x, volume, 1.0, 0),
        "float weight": lambda: q.conv2d_prepack(w.dequantize(), bias, *window),
        "bias length": lambda: q.conv2d_prepack(w, bias[:3], *window),
        "bias dims": lambda: q.conv2d_prepack(w, bias[None], *window),
        "weight dims": lambda: q.conv2d_prepack(w[0], bias, *window),
        "stride length": lambda: q.conv2d_prepack(w, bias, [1], *window[1:]),
        "stride": lambda: q.conv2d_prepack(w, bias, [0, 1], *window[1:]),
        "quantized": lambda: q.conv2d_dynamic(x, weights),
        "half": lambda: q.conv2d_dynamic(x.dequantize().half(), weights),
    }
    found = {}
    for name, program in programs.items():
        try:
            program()
            found[name] = "none"
        except Exception as error:
            found[name] = type(error).__name__
    return found


def saved(torch: Any) -> bytes:
    """A file that holds packed weights."""
    buffer = io.BytesIO()
    torch.save(packed(torch, CASES["groups"])[1], buffer)
    return buffer.getvalue()


def answers(torch: Any) -> dict[str, Any]:
    """All of it."""
    return {
        **{name: result(torch, case) for name, case in CASES.items()},
        "questions": questions(torch), "dynamic": dynamic(torch), "refusals": refusals(torch),
    }


if __name__ == "__main__":
    import torch

    warnings.simplefilter("ignore")
    found = answers(torch)
    torch.backends.quantized.engine = "fbgemm"      # oneDNN forgets zero points of transposed convolutions
    found |= {name: result(torch, case) for name, case in CASES.items() if case[1]}
    print(json.dumps(found, separators=(",", ":")))
