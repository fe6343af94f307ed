"""Parameters of public classes and functions: the names, order, kinds and defaults that PyTorch shows."""

from __future__ import annotations

import inspect
import re
import warnings
from typing import Any

import pytest

import rushlight

# Modules of devices that are not here: most of their functions refuse whatever they are given.
DEVICES = (
    "torch.cuda",
    "torch.xpu",
    "torch.mtia",
    "torch.mps",
    "torch.accelerator",
    "torch.nn.parallel",
    "torch.autograd.profiler",
)
# Ours differ, and why.
DIFFER = {
    **dict.fromkeys(("torch.SymInt", "torch.SymFloat", "torch.SymBool"), "made by tracing, from what it knows"),
    **dict.fromkeys(("torch.layout", "torch.memory_format", "torch.Size", "torch.dtype", "torch.UntypedStorage"),
                    "made by C++ there, which shows nothing"),
    **dict.fromkeys(("torch.no_grad", "torch.enable_grad"), "also decorate without parentheses"),
    **dict.fromkeys((f"torch.{kind}Storage" for kind in ("Bool", "Byte", "Char", "Double", "Float", "Int", "Long",
                                                         "Short")), "the dtype is in the name"),
    "torch.autograd.gradcheck": "the module is the function",
    "torch.sym_sum": "takes a list as well as numbers", "torch.library.define": "the schema may follow",
    "torch.library.fallthrough_kernel": "is called with anything",
    "torch.nn.modules.container.Container": "takes modules by name",
    "torch.nn.modules.NLLLoss2d": "shows what NLLLoss takes",
    **dict.fromkeys(("torch.nn.attention.flex_attention.BlockMask",
                     "torch.nn.attention.flex_attention.create_block_mask"), "orders of writing for a GPU"),
    **dict.fromkeys(("torch.nn.utils.spectral_norm.SpectralNormLoadStateDictPreHook",
                     "torch.nn.utils.spectral_norm.SpectralNormStateDictHook"), "only loaded"),
    "torch.fx.graph_module.reduce_graph_module": "from a record of the graph",
    "torch.fx.graph.PythonCode": "the line map may be left out", "torch.masked.MaskedTensor": "made by functions",
    "torch.func.jacfwd": "also takes chunk_size", "torch.utils.tensorboard.RecordWriter": "writes to a path",
    "torch.utils.tensorboard.summary.draw_boxes": "one word shorter",
    "torch.package.package_exporter.PackagingError": "what is broken, without a graph class",
    "torch.package.PackagingError": "the same",
}


def shown(thing: Any) -> list[tuple[str, int, str]] | None:
    """(name, kind, default) of the parameters; None where Python cannot tell."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (ValueError, TypeError):
        return None
    return [(p.name, int(p.kind), "-" if p.default is p.empty else _text(p.default)) for p in parameters]


def _text(default: Any) -> str:
    """Defaults that are no plain values are only known to be there."""
    return (
        re.sub(r"\b(rushlight|torch)\.", "", repr(default))
        if isinstance(default, (int, float, str, bool, tuple, type(None)))
        else "something"
    )


def test_parameters_are_pytorchs() -> None:
    pytest.importorskip("torch")
    from public_names import is_below, ours, torch_modules, torch_names

    wrong, compared, known = [], 0, {name.rpartition(".")[2] for name in DIFFER}     # many are in several modules
    for module, names in torch_names().items():
        here = ours(module)
        if here is None or is_below(module, DEVICES):
            continue
        for name in names:
            theirs, mine = getattr(torch_modules()[module], name, None), getattr(here, name, None)
            if (
                not (inspect.isfunction(theirs) or isinstance(theirs, type))
                or hasattr(mine, "_absent_reason")
                or (mine.__doc__ or "").startswith("Refused")
            ):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected, found = shown(theirs), shown(mine)
            # ops show what their definitions say
            if expected is None or found is None or isinstance(mine, rushlight._C.Op):
                continue
            compared += 1
            if expected != found and name not in known:
                wrong.append(f"{module}.{name}\n    there {expected}\n    here  {found}")
    assert compared > 900, f"only {compared} were compared: the walk is broken"
    assert not wrong, f"{len(wrong)} of {compared}:\n" + "\n".join(wrong)
