"""`torch.cuda.jiterator`: elementwise kernels given as templates in CUDA C.

Enters: a template over one type of a function of elements, and numbers with their defaults. Leaves: a function of
tensors, which are broadcast and promoted as for any op; elements of half types are computed in float. Refuses: more
than eight tensors or results, complex numbers, and numbers that the template does not name.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable
from typing import Any

from .. import _C
from ..tensors.plain_functions import broadcast_shapes
from .no_device import _no_device, found

MOST = 8
DEFAULT_DEVICE = "--device-as-default-execution-space"     # functions of the text are the card's
THREADS, MOST_BLOCKS = 256, 1 << 16
HEAD = re.compile(r"template\s*<\s*(?:typename|class)\s+\w+\s*>\s*[\w:]+\s+(?P<name>\w+)\s*\(")
# C's type of elements, the header it comes from, the type that is computed in
TYPES = {
    "float32": ("float", "", "float"), "float64": ("double", "", "double"), "int64": ("long long", "", "long long"),
    "int32": ("int", "", "int"), "int16": ("short", "", "short"), "int8": ("signed char", "", "signed char"),
    "uint8": ("unsigned char", "", "unsigned char"), "bool": ("bool", "", "bool"),
    "float16": ("__half", "#include <cuda_fp16.h>", "float"),
    "bfloat16": ("__nv_bfloat16", "#include <cuda_bf16.h>", "float"),
}


def kernel_text(code: str, name: str, dtype: str, inputs: int, outputs: int, numbers: int, by_reference: bool) -> str:
    """The kernel around a template: a thread takes elements one after another."""
    kind, header, wide = TYPES[dtype]
    number = "double" if wide in ("float", "double") else "long long"
    operands = [*(f"const Element* x{k}" for k in range(inputs)), *(f"Element* y{k}" for k in range(outputs)),
                *(f"{number} a{k}" for k in range(numbers))]
    given = [*(f"(Wide)x{k}[i]" for k in range(inputs)), *(f"(Wide)a{k}" for k in range(numbers))]
    if by_reference:
        results = "".join(f"Wide r{k}; " for k in range(outputs))
        call = f"{name}<Wide>({', '.join([*given, *(f'r{k}' for k in range(outputs))])});"
        body = results + call + "".join(f" y{k}[i] = (Element)r{k};" for k in range(outputs))
    else:
        body = f"y0[i] = (Element){name}<Wide>({', '.join(given)});"
    return f"""{header}
{code}
typedef {kind} Element;
typedef {wide} Wide;
extern "C" __global__ void jiterator_kernel({", ".join(operands)}, long long n) {{
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x) {{
    {body}
  }}
}}
"""


class JittedFunction:
    """A template as a function of tensors on a CUDA device."""

    def __init__(self, code_string: str, by_reference: bool, num_outputs: int, numbers: dict[str, Any]) -> None:
        names = [m["name"] for m in HEAD.finditer(code_string)]
        if not names:
            raise ValueError(f"jiterator: expected template <typename T> T name(T x, ...) {{...}}, got {code_string!r}")
        if not 1 <= num_outputs <= MOST:
            raise ValueError(f"jiterator: a kernel has 1 to {MOST} results, got num_outputs={num_outputs}")
        self.code, self.name, self.by_reference = code_string, names[-1], by_reference
        self.num_outputs, self.numbers = num_outputs, numbers
        self.kernels: dict[tuple[str, int], Any] = {}

    def __call__(self, *tensors: Any, **numbers: Any) -> Any:
        if found() is None:
            _no_device("jiterator")
        if not 1 <= len(tensors) <= MOST:
            raise ValueError(f"jiterator: expected 1 to {MOST} tensors, got {len(tensors)}")
        unknown = [name for name in numbers if name not in self.numbers]
        if unknown:
            raise KeyError(f"jiterator: {self.name} has no number called {unknown[0]!r}")
        for t in tensors:
            if t.device.type != "cuda":
                raise RuntimeError(f"jiterator: expected tensors on a CUDA device, got one on '{t.device}'")
        return self.run(tensors, [{**self.numbers, **numbers}[name] for name in self.numbers])

    def run(self, tensors: tuple, numbers: list[Any]) -> Any:
        """One launch over all elements."""
        dtype = functools.reduce(_C.promote_types, [t.dtype for t in tensors])
        if dtype.name not in TYPES:
            raise NotImplementedError(f"jiterator: kernels of {dtype.name} are not supported")
        shape = broadcast_shapes(*[t.shape for t in tensors])
        laid = [t.to(dtype).expand(shape).contiguous() for t in tensors]
        outs = [laid[0].new_empty(shape) for _ in range(self.num_outputs)]
        count = laid[0].numel()
        if count:
            number = ctypes.c_double if dtype.is_floating_point else ctypes.c_longlong
            given = [number(a) for a in numbers]
            blocks = min(-(-count // THREADS), MOST_BLOCKS)
            kernel = self.kernel(dtype.name, len(laid))
            kernel((blocks, 1, 1), (THREADS, 1, 1), [*laid, *outs, *given, ctypes.c_longlong(count)])
        return outs[0] if self.num_outputs == 1 else tuple(outs)

    def kernel(self, dtype: str, inputs: int) -> Any:
        """The kernel for a type of elements and so many tensors."""
        from .text_kernels import TextKernel  # needs a device

        if (dtype, inputs) not in self.kernels:
            text = kernel_text(
                self.code, self.name, dtype, inputs, self.num_outputs, len(self.numbers), self.by_reference
            )
            self.kernels[dtype, inputs] = TextKernel("jiterator_kernel", text, (DEFAULT_DEVICE,))
        return self.kernels[dtype, inputs]


def create_jit_fn(code_string: str, **kwargs: Any) -> Callable:
    """A function of tensors from a template that returns its result; `kwargs`: numbers behind the elements."""
    return JittedFunction(code_string, False, 1, kwargs)


def create_multi_output_jit_fn(code_string: str, num_outputs: int, **kwargs: Any) -> Callable:
    """The same of a template that writes its results to references, which come last."""
    return JittedFunction(code_string, True, num_outputs, kwargs)


_create_jit_fn, _create_multi_output_jit_fn = create_jit_fn, create_multi_output_jit_fn
__all__ = ["create_jit_fn", "create_multi_output_jit_fn"]
