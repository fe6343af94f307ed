"""Graphs that a backend fails on, as small scripts: `torch._dynamo.config.repro_after`.

Enters: a graph of Dynamo's, inputs, a backend that raises on them (or, with `repro_level` 4, whose results are not
those of the graph run op by op). Leaves: a script that shows the same with a smaller graph, in the folder
`debug_dir_root`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .._C import Tensor
from ..dynamo import settings

if TYPE_CHECKING:
    from ..fx.graph_module import GraphModule

_SMALL = 32      # tensors of so many elements are written out

Backend = Callable[[Any, list[Any]], Callable]      # of a GraphModule and example inputs


def reporting(backend: Backend, name: str) -> Backend:
    """A backend that leaves a script where it fails, if that is asked for."""

    def checked(gm: GraphModule, inputs: list[Any]) -> Callable:
        if settings.repro_after is None:
            return backend(gm, inputs)
        if settings.repro_after not in ("dynamo", "aot"):
            raise ValueError(f"config.repro_after: expected None, 'dynamo' or 'aot', got {settings.repro_after!r}")
        from ..fx.minifier import minified  # noqa: PLC0415 - for those who ask for scripts

        try:
            result = backend(gm, inputs)
            wrong = settings.repro_level >= 4 and differs(gm, inputs, result)
        except Exception as error:
            kind = type(error)
            path = write(*minified(gm, inputs, lambda g, x: raises(backend, g, x, kind)), name, str(error))
            raise type(error)(f"{error}\n\nA script that shows it with fewer ops: {path}") from error
        if wrong:
            path = write(*minified(gm, inputs, lambda g, x: differs(g, x, backend(g, x))), name,
                         "results are not those of the graph run op by op")
            raise RuntimeError(f"{name}: results are not those of the graph run op by op. A script shows it: {path}")
        return result

    checked.__name__ = getattr(backend, "__name__", name)
    checked.frames = getattr(backend, "frames", None)  # type: ignore[attr-defined]
    return checked


def raises(backend: Backend, gm: GraphModule, inputs: list[Any], kind: type[BaseException]) -> bool:
    """Whether a backend raises such an error."""
    try:
        backend(gm, inputs)
    except kind:
        return True
    return False


def _copies(inputs: Sequence[Any]) -> list[Any]:
    return [x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs]


def differs(gm: GraphModule, inputs: list[Any], compiled: Callable) -> bool:
    """Whether what was made gives other results than the graph."""
    expected = gm(*_copies(inputs))
    given = _copies(inputs)
    found = compiled(given) if getattr(compiled, "_boxed_call", False) else compiled(*given)
    return any(not _close(a, b) for a, b in zip(found, expected, strict=True) if isinstance(b, Tensor))


def _close(a: Any, b: Tensor) -> bool:
    if not isinstance(a, Tensor) or a.shape != b.shape or a.dtype != b.dtype:
        return False
    precise = a.detach().double() if not a.dtype.is_complex else a.detach()
    other = b.detach().double() if not b.dtype.is_complex else b.detach()
    return bool(precise.allclose(other, rtol=1e-3, atol=1e-4, equal_nan=True))


# --- the script -------------------------------------------------------------------------------------------------------


def write(gm: GraphModule, inputs: list[Any], backend: str, why: str) -> str:
    """Write a script; where it is."""
    folder = settings.debug_dir_root
    os.makedirs(folder, exist_ok=True)
    number = 0
    while os.path.exists(path := os.path.join(folder, f"repro_{number}.py")):
        number += 1
    with open(path, "w", encoding="utf-8") as file:
        file.write(script(gm, inputs, backend, why))
    return path


def script(gm: GraphModule, inputs: list[Any], backend: str, why: str) -> str:
    """A program that runs a graph as it is and compiled."""
    said = "\n".join(f"# {line}" for line in why.splitlines()[:8])
    values = "".join(f"    {_value(x)},\n" for x in inputs)
    return (
        f"import rushlight as torch\nfrom rushlight import device\n\n{said}\n\n\n{_module(gm, 'Repro')}\n\n"
        f"torch.manual_seed(0)\ninputs = [\n{values}]\nmodule = Repro()\nexpected = module(*inputs)\n"
        f"found = torch.compile(module, backend={backend!r}, fullgraph=True)(*inputs)\n"
        "torch.testing.assert_close(found, expected)\n"
    )


def _module(gm: Any, name: str) -> str:
    """The source of a module that runs a graph, and of those it holds."""
    from ..fx.graph_module import GraphModule  # noqa: PLC0415 - as in `reporting`

    inner, lines = [], ["super().__init__()"]
    for node in gm.graph.find_nodes(op="get_attr"):
        held = gm
        for part in str(node.target).split("."):
            held = getattr(held, part)
        if isinstance(held, GraphModule):
            inner.append(_module(held, f"{name}_{node.target}"))
            lines.append(f"self.{node.target} = {name}_{node.target}()")
        else:
            lines.append(f"self.{node.target} = {_value(held)}")
    code = re.sub(r"\n+", "\n", gm.code.strip())
    body = "\n".join(f"    {line}" for line in code.splitlines())
    result = "\n".join(f"        {line}" for line in lines)
    own = f"class {name}(torch.nn.Module):\n    def __init__(self):\n{result}\n\n{body}\n"
    return "\n\n".join([*inner, own])


def _value(x: Any) -> str:
    """An input as source."""
    if not isinstance(x, Tensor):
        return repr(x)
    dtype = f"torch.{x.dtype.name}"
    grad = ".requires_grad_()" if x.requires_grad else ""
    if x.numel() <= _SMALL and x.is_contiguous() and not x.dtype.is_complex:
        return f"torch.tensor({x.detach().tolist()}, dtype={dtype}).reshape({tuple(x.shape)}){grad}"
    sizes, strides = tuple(x.shape), tuple(x.stride())
    if x.dtype.is_floating_point or x.dtype.is_complex:
        result = f"torch.randn({sizes}, dtype={dtype})"
    else:
        low, high = (0, 1) if x.dtype.name == "bool" else (int(x.min()), int(x.max()))
        result = f"torch.randint({low}, {high + 1}, {sizes}).to({dtype})"
    if x.is_contiguous():
        return f"{result}{grad}"
    return f"torch.empty_strided({sizes}, {strides}, dtype={dtype}).copy_({result}){grad}"
