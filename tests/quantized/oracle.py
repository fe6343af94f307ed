"""What PyTorch's products of bytes can be asked for on this processor.

Without VNNI its kernels add two products of bytes in 16 bits and cut what does not fit, so that its results depend on
the processor. Rushlight's sums are exact on each.
"""

from __future__ import annotations


def sums_are_exact(torch) -> bool:
    """Whether the installed PyTorch adds 255 x 127 to itself without cutting the sum."""
    weight = torch.quantize_per_tensor(torch.full((1, 8), 127.0), 1.0, 0, torch.qint8)
    packed = torch.ops.quantized.linear_prepack(weight, None)
    rows = torch.quantize_per_tensor(torch.full((1, 8), 255.0), 1.0, 0, torch.quint8)
    return torch.ops.quantized.linear(rows, packed, 255.0 * 127, 0).dequantize().item() == 8 * 255 * 127


def widest_weight(torch) -> int:
    """The largest integer of a weight whose products with bytes PyTorch adds exactly."""
    return 127 if sums_are_exact(torch) else 63
