"""A back end of PyTorch's road beside a device of our own, and what is kept where PyTorch loses it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "device_package"))

import rushlight_tally  # noqa: E402, F401 - registers its device
import torch  # noqa: E402
from backend import NpyTensor, kernel, library  # noqa: E402

from rushlight import devices  # noqa: E402

KERNELS = []


@kernel("add.Tensor")
def add(self, other, *, alpha=1):
    KERNELS.append(f"add {self.device.type}")
    other = other.raw if isinstance(other, torch.Tensor) else other
    return NpyTensor(self.raw + other, self.dtype)


library.impl("mul.Tensor", lambda x, y: NpyTensor(x.raw * y.raw, x.dtype), "PrivateUse1")
x = torch.ones(2).to("tally")
y = torch.ones(2).to("npy")
print("tally:", [int(n) for n in (x + 1).tolist()], (x + 1).device.type)
print("npy:", [int(n) for n in (y + 2).raw], y.device.type)
print("kernels:", KERNELS)
for word, call in (("refused", lambda: x - y), ("taken", lambda: devices.register(Named()))):
    class Named(type(rushlight_tally.tally)):
        name = "npy"

    try:
        call()
    except RuntimeError as error:
        print(f"{word}:", "RuntimeError" if type(error) is RuntimeError else type(error).__name__)
moved = (x + 1).to("npy")
print("moved:", [int(n) for n in moved.raw], moved.device.type)
back = moved.as_subclass(torch.Tensor).to("tally")
print("back:", [int(n) for n in back.cpu().tolist()], back.device.type)
w = torch.nn.Parameter(moved)
library.impl("sum", lambda t, dtype=None: NpyTensor(t.raw.sum(keepdims=True).reshape(()), t.dtype), "PrivateUse1")
library.impl("ones_like", lambda t, **options: NpyTensor(t.raw * 0 + 1, t.dtype), "PrivateUse1")
(w * y + w * w.detach()).sum().backward()
print("more than pytorch:", w.grad.raw.tolist())
