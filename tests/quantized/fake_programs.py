"""Programs of fake quantization and of quantized_decomposed, for PyTorch and for Rushlight; what they answer is stored.

`python tests/quantized/fake_programs.py` (where PyTorch is installed) writes fake_answers.json.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

INF, NAN = float("inf"), float("nan")
ELEMENTS = [0.3, -0.26, 0.05, 0.15, -0.05, 1.55, -7.4, 12.81, 30.0, -30.0, 0.0, 2.5, NAN, INF, -INF, 1e20]
DTYPES = ("float32", "float64", "float16", "bfloat16")


def plain(value: Any) -> Any:
    """Tensors as lists of texts (of hex floats, which compare bit for bit), dtypes by name."""
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if not hasattr(value, "detach"):
        return str(value)
    found = value.detach().flatten().tolist()
    name = str(value.dtype).rpartition(".")[2]
    return [name, list(value.shape), *[v.hex() if isinstance(v, float) else str(v) for v in found]]


def gradients(torch: Any, function: Any, *inputs: Any) -> list[Any]:
    """The result and the gradients of all inputs, for slopes from -1 to 1."""
    inputs = [x.requires_grad_() for x in inputs]
    result = function(*inputs)
    slopes = torch.linspace(-1, 1, result.numel()).reshape(result.shape).to(result.dtype)
    result.backward(slopes)
    return [result, *[x.grad for x in inputs]]


def refused(function: Any) -> str:
    try:
        return f"gave {plain(function())}"
    except Exception as error:      # noqa: BLE001 - its class is the answer
        return type(error).__name__


def per_tensor(torch: Any) -> list[Any]:
    found = []
    for name in DTYPES:
        x = torch.tensor(ELEMENTS, dtype=getattr(torch, name))
        found += gradients(torch, lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255), x)
        qparams = torch.tensor([0.1]), torch.tensor([-5], dtype=torch.int32)
        found += gradients(torch, lambda x, q=qparams: torch.fake_quantize_per_tensor_affine(x, *q, -128, 127), x)
    return found


def per_channel(torch: Any) -> list[Any]:
    found = []
    scales = torch.tensor([0.1, 0.013])
    for name, points in zip(DTYPES, ("int32", "float32", "int32", "float16"), strict=True):
        x = torch.tensor(ELEMENTS, dtype=getattr(torch, name)).reshape(8, 2)
        zero_points = torch.tensor([3.0, 7.5]).to(getattr(torch, points))
        call = torch.fake_quantize_per_channel_affine
        found += gradients(torch, lambda x, z=zero_points, f=call: f(x, scales, z, 1, 0, 255), x)
    return found


def learnable(torch: Any) -> list[Any]:
    x = [[0.37, -1.21, 2.9], [9.4, -0.6, 0.08]]
    one = torch._fake_quantize_learnable_per_tensor_affine
    many = torch._fake_quantize_learnable_per_channel_affine
    found = []
    for point in (2.5, -1.7):
        found += gradients(
            torch, lambda x, s, z: one(x, s, z, -8, 7, 0.25), torch.tensor(x), torch.tensor([0.13]),
            torch.tensor([point]),
        )
        found += gradients(
            torch, lambda x, s, z: many(x, s, z, 1, -8, 7, 0.25), torch.tensor(x), torch.tensor([0.13, 0.3, 0.07]),
            torch.tensor([point, 1.5, 40.0]),
        )
    return found


def moving(torch: Any) -> list[Any]:
    """The fused op: it observes twice, then only rounds, then does nothing."""
    found: list[Any] = []
    for by_row, symmetric, size in ((False, False, 1.0), (True, True, 1.0), (False, True, 1e-6)):
        least, most = (torch.tensor([] if by_row else end) for end in (INF, -INF))
        buffers = least, most, torch.ones(1), torch.zeros(1, dtype=torch.int32)
        for step, (observes, rounds) in enumerate(((1, 1), (1, 1), (0, 1), (0, 0))):
            x = torch.tensor([[0.31, -1.1, 2.5], [1.7, 0.2, 0.9]]) * (step + 1) * size
            on = torch.tensor([observes]), torch.tensor([rounds])
            call = torch.fused_moving_avg_obs_fake_quant
            settings = 0.3, -128, 127, 0, by_row, symmetric
            found += gradients(torch, lambda x, a=on, b=buffers, f=call, c=settings: f(x, *a, *b, *c), x)
            found += [b.clone() for b in buffers]
    return found


def refusals(torch: Any) -> list[str]:
    x, points = torch.ones(2, 3), torch.tensor([3, 4], dtype=torch.int32)
    whole, channels = torch.fake_quantize_per_tensor_affine, torch.fake_quantize_per_channel_affine
    scales = torch.tensor([0.1, 0.2])
    return [refused(f) for f in (
        lambda: whole(x, 0.1, 3, 5, 2), lambda: whole(x, 0.1, 300, 0, 255), lambda: whole(x.int(), 0.1, 3, 0, 255),
        lambda: whole(x, scales, points, 0, 255), lambda: whole(x, 0.1, 3.5, 0, 255),
        lambda: channels(x, scales, points, 1, 0, 15), lambda: channels(x, scales, points, -2, 0, 15),
        lambda: channels(x, scales, points + 20, 0, 0, 15), lambda: channels(x, scales.double(), points, 0, 0, 15),
        lambda: channels(x, scales, points.long(), 0, 0, 15), lambda: channels(x, scales[None], points, 0, 0, 15),
        lambda: whole(torch.zeros(0, 3), 0.1, 3, 0, 255),
    )]


def decomposed_tensors(torch: Any) -> list[Any]:
    ops, found = torch.ops.quantized_decomposed, []
    x = torch.tensor([0.3, -0.25, 0.05, 0.15, 1.55, -7.4, 12.81, 300.0, -300.0, 0.0])
    for name, low, high in (("uint8", 0, 255), ("int8", -128, 127), ("int16", -100, 100)):
        dtype = getattr(torch, name)
        q = ops.quantize_per_tensor(x, 0.1, 3, low, high, dtype)
        size, point = torch.tensor([0.013], dtype=torch.float64), torch.tensor([2])
        bounds = torch.tensor(low), torch.tensor(high)
        found += [q, ops.dequantize_per_tensor(q, 0.1, 3, low, high, dtype),
                  ops.dequantize_per_tensor(q, 0.1, 3, low, high, dtype, out_dtype=torch.bfloat16)]
        found += [ops.quantize_per_tensor.tensor(x.half(), size, point, low, high, dtype),
                  ops.quantize_per_tensor.tensor2(x, size, point, *bounds, dtype),
                  ops.dequantize_per_tensor.tensor(q, size, point, low, high, dtype),
                  ops.dequantize_per_tensor.tensor2(q, size, point, *bounds, dtype)]
        found += ops.choose_qparams(x, low, high, 1e-5, dtype)
        found += ops.choose_qparams_symmetric(x.bfloat16(), low, high, 1e-5, dtype)
    return found


def decomposed_parts(torch: Any) -> list[Any]:
    """Qparams for each channel, token and group."""
    ops, int8 = torch.ops.quantized_decomposed, torch.int8
    x = torch.tensor([[0.3, -0.25, 2.05, 0.15], [1.55, -7.4, 12.81, 0.02]])
    scales, points = torch.tensor([0.1, 0.2]), torch.tensor([3, -4])
    q = ops.quantize_per_channel(x, scales, points, 0, -128, 127, int8)
    found = [q, ops.dequantize_per_channel(q, scales, points, 0, -128, 127, int8),
             ops.dequantize_per_channel(q, scales, None, 0, -128, 127, int8, out_dtype=torch.float16)]
    found += gradients(torch, lambda x: ops.fake_quant_per_channel(x, scales, points, 0, -8, 7), x.clone())
    found += ops.choose_qparams_per_token(x.half(), int8)
    sizes, middles = ops.choose_qparams_per_token_asymmetric(x, int8)
    q = ops.quantize_per_token(x, sizes, middles, -128, 127, int8)
    found += [sizes, middles, q, ops.dequantize_per_token(q, sizes, middles, -128, 127, int8, torch.float32)]
    sizes, middles = torch.tensor([[0.1, 0.2], [0.3, 0.4]]), torch.tensor([[1, 2], [0, -1]])
    q = ops.quantize_per_channel_group(x, sizes, middles, -8, 7, int8, 2)
    found += [q, ops.dequantize_per_channel_group(q, sizes, middles, -8, 7, int8, 2, torch.float32),
              ops.dequantize_per_channel_group(q, sizes, None, -8, 7, int8, 2, torch.bfloat16)]
    return [*found, ops.convert_element_type.no_fuse(x, torch.float64)]


def decomposed_refusals(torch: Any) -> list[str]:
    ops, x, int8 = torch.ops.quantized_decomposed, torch.ones(2, 4), torch.int8
    return [refused(f) for f in (
        lambda: ops.quantize_per_tensor(x.double(), 0.1, 3, 0, 255, torch.uint8),
        lambda: ops.quantize_per_tensor(x, 0.1, 3, 0, 256, torch.uint8),
        lambda: ops.quantize_per_tensor(x, 0.1, 3, 0, 255, torch.int64),
        lambda: ops.quantize_per_tensor.tensor(x, torch.ones(2), torch.ones(1), 0, 255, torch.uint8),
        lambda: ops.dequantize_per_tensor(x.to(int8), 0.1, 3, 0, 255, torch.uint8),
        lambda: ops.quantize_per_channel(x, torch.ones(2), torch.ones(2), 2, 0, 7, int8),
        lambda: ops.quantize_per_token(x, torch.ones(3, 1), torch.ones(3, 1), 0, 7, int8),
        lambda: ops.quantize_per_channel_group(x, torch.ones(2, 1), torch.ones(2, 1), 0, 7, int8, 3),
        lambda: ops.choose_qparams(x, 3, 9, 1e-5, int8), lambda: ops.choose_qparams_per_token(x, torch.uint8),
    )]


def schemas(torch: Any) -> list[str]:
    ops = torch.ops.quantized_decomposed
    names = ("quantize_per_tensor", "dequantize_per_tensor", "choose_qparams", "quantize_per_channel",
             "dequantize_per_channel", "quantize_per_token", "dequantize_per_channel_group", "convert_element_type")
    return [str(getattr(getattr(ops, n), o)._schema) for n in names for o in sorted(getattr(ops, n).overloads())]


PROGRAMS = {f.__name__: f for f in (
    per_tensor, per_channel, learnable, moving, refusals, decomposed_tensors, decomposed_parts, decomposed_refusals,
    schemas,
)}
STORED = Path(__file__).with_name("fake_answers.json")


def write() -> None:
    import torch
    import torch.ao.quantization.fx._decomposed

    rows = [f"{json.dumps(name)}: {json.dumps(plain(program(torch)))}" for name, program in PROGRAMS.items()]
    STORED.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    write()
