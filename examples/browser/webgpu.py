"""A network as a list of WebGPU programs: it runs once on a device that computes nothing and writes everything down.

Enters: a module and an example input. Leaves: data for `pages/webgpu.js`: the text of each kernel with the workgroups
to dispatch, the memory they share, what lies in it at first (the weights), and where input and output are. Refuses,
as rushlight/codegen/c_text/wgsl.py does, what WebGPU's language cannot say.
"""

from __future__ import annotations

import base64
import copy
import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import rushlight as torch
from rushlight.codegen.c_text import WgslPrinter
from rushlight.devices import register
from rushlight.devices.base import handlers
from rushlight.devices.null import NullDevice


class Recorder(NullDevice):
    """The null device's memory, with what was copied there and launched."""

    name = "recorder"

    def __init__(self) -> None:
        super().__init__()
        self.nests: list[Any] = []
        self.launches: list[tuple[Any, list[int], list[int], int, int]] = []
        self.copies: dict[int, bytes] = {}

    def copy_from_host(self, target: int, source: int, nbytes: int, index: int) -> None:
        self.copies[target] = ctypes.string_at(source, nbytes)

    def load(self, nest: Any) -> int:
        self.nests.append(nest)
        return len(self.nests)      # 0 stands for no kernel

    def launch(
        self, handle: int, pointers: Sequence[int | bytes], params: Sequence[int], begin: int, end: int, index: int
    ) -> None:
        places = [self.constant(one) if isinstance(one, bytes) else one for one in pointers]
        self.launches.append((self.nests[handle - 1], places, list(params), begin, end))

    def constant(self, data: bytes) -> int:
        """Where a number lies that is handed over by itself."""
        address = self.allocate(len(data), 0)
        self.copies[address] = data
        return address

    def implementation(self, op: str) -> Callable | None:
        return self.convolve if op == "convolution" else None

    def convolve(
        self, out: Any, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
        output_padding: Any, groups: int,
    ) -> Any:
        """The windows of one image as columns, and a product."""
        if transposed or groups != 1 or x.ndim != 4 or x.shape[0] != 1:
            return NotImplemented
        columns = torch.nn.functional.unfold(x, weight.shape[2:], dilation, padding, stride)[0]
        product = weight.reshape(weight.shape[0], -1) @ columns
        out.copy_((product if bias is None else product + bias[:, None]).reshape(out.shape))
        return None


def recorder() -> Recorder:
    """The one device of this kind: nests are handed to it once, for all networks."""
    if Recorder.name not in handlers:
        register(Recorder())
    return handlers[Recorder.name]


def recorded(network: torch.nn.Module, example: torch.Tensor) -> dict[str, Any]:
    """What the page needs to run `network` on inputs like `example`."""
    device = recorder()
    device.launches.clear()
    device.copies.clear()
    model = copy.deepcopy(network).eval().to(device.name)
    given = example.to(device.name).contiguous()
    device.launches.clear()         # copies of weights go through memory alone
    with torch.no_grad():
        result = model(given).contiguous()
    kernels = []
    for nest, pointers, params, begin, end in device.launches:
        printer = WgslPrinter(nest, params, pointers, begin, end)
        kernels.append({"code": printer.text(), "groups": printer.groups})
    return {"kernels": kernels, "bytes": device._next, "input": given.data_ptr(),
            "output": result.data_ptr(), "results": result.numel(),
            "memory": [[at, base64.b64encode(data).decode()] for at, data in device.copies.items()]}
