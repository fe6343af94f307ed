"""Programs over quantized tensors and what they leave, in words that two libraries can be compared by.

Enters: a library (rushlight or torch) and the text of a program that sets `r`. Leaves: one line: integers, geometry
and quantizer of a quantized result, elements of a plain one, the class of an error.
"""

from __future__ import annotations

import copy
import io
import math
import pickle
import warnings
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).with_name("tensor_programs.txt")

START = compile("""
x = torch.tensor([[-1.0, 0.25, 0.75, 2.0], [3.5, -0.5, 10.0, 0.0], [1.25, 1.0, -2.0, 100.0]])
w = torch.arange(24.).reshape(1, 4, 2, 3) - 9
q = torch.quantize_per_tensor(x, 0.5, 10, torch.quint8)
s = torch.quantize_per_tensor(x, 0.25, -3, torch.qint8)
i = torch.quantize_per_tensor(x, 0.125, 7, torch.qint32)
scales, points = torch.tensor([0.5, 0.25, 1.0], dtype=torch.float64), torch.tensor([1, 0, -2])
c = torch.quantize_per_channel(x, scales, points, 0, torch.qint8)
d = torch.quantize_per_channel(x, torch.tensor([0.5, 0.25, 1.0, 2.0]), torch.tensor([1, 0, 5, 100]), 1, torch.quint8)
f = torch.quantize_per_channel(x, scales.float(), torch.tensor([0.5, 1.25, -2.0]), 0, torch.quint8)
w4 = torch.quantize_per_tensor(w, 1.0, 9, torch.quint8).contiguous(memory_format=torch.channels_last)
""", "start", "exec")


class Program(NamedTuple):
    """A program, its answer, and whether that is PyTorch's: where that one is wrong or a crash, ours is another."""

    text: str
    answer: str
    is_torchs: bool

    def accepts(self, given: str) -> bool:
        """NotImplementedError is a RuntimeError."""
        return given == self.answer or (given, self.answer) == ("raises NotImplementedError", "raises RuntimeError")


def programs() -> list[Program]:
    """What tensor_programs.txt holds: answers of PyTorch behind `#=`, ours alone behind `#~`."""
    found = []
    for block in FILE.read_text().strip("\n").split("\n\n"):
        text, _, answer = block.rpartition("\n")
        found.append(Program(text, answer[3:], answer[1] == "="))
    return found


def number(value: Any) -> str:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else f"{value:.9g}"
    return str(value)


def flat(values: Any) -> list:
    return [v for part in values for v in flat(part)] if isinstance(values, list) else [values]


def described(torch: Any, r: Any) -> str:
    """One line that says all a user can see of `r`."""
    if isinstance(r, torch.Tensor):
        head = f"{type(r).__name__} {r.dtype}{list(r.shape)}/{list(r.stride())}+{r.storage_offset()}"
        head = head.replace("rushlight.", "").replace("torch.", "")
        if not r.is_quantized:
            return f"{head} " + " ".join(map(number, flat(r.tolist())))
        scheme = str(r.qscheme()).rpartition(".")[2]
        if scheme == "per_tensor_affine":
            qparams = f"{r.q_scale():.17g} {r.q_zero_point()}"
        else:
            parts = [described(torch, p) for p in (r.q_per_channel_scales(), r.q_per_channel_zero_points())]
            qparams = f"{'; '.join(parts)}; axis {r.q_per_channel_axis()}"
        return f"{head} {' '.join(map(number, flat(r.int_repr().tolist())))} {scheme}({qparams})"
    if isinstance(r, (list, tuple)):
        return f"{type(r).__name__}({'; '.join(described(torch, part) for part in r)})"
    if isinstance(r, (str, int, float)):
        return number(r).replace("\n", "\\n")
    return str(r).replace("rushlight.", "torch.").replace("\n", "\\n")


def answer(torch: Any, text: str) -> str:
    """What a program leaves in `r`, or the class of its error."""
    names: dict[str, Any] = {"torch": torch, "copy": copy, "io": io, "pickle": pickle}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shown = getattr(torch._C, "set_display_module", lambda name: None)      # tensors print dtypes of `torch`
        shown("torch")
        try:
            exec(START, names)      # noqa: S102 - the programs are this test's own
            exec(text, names)       # noqa: S102
            return described(torch, names["r"])
        except Exception as error:      # noqa: BLE001 - its class is the answer
            return f"raises {type(error).__name__}"
        finally:
            shown("rushlight")
