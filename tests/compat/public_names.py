"""What PyTorch offers in public, and the parts of it that Rushlight does not have yet."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import warnings
from types import ModuleType
from typing import Any

# Systems of PyTorch that are not built yet. Names below these modules may be missing; where programs import them,
# stand-ins refuse.
SYSTEMS = {
    "torch.distributed": "running over several processes",
    "torch.onnx": "PyTorch's older ONNX exporters",
    "torch.export": "exporting whole programs",
    "torch.ao.ns": "quantization: comparing models",
    "torch.ao.quantization": "quantization",
    "torch.quantization": "quantization, by its older name",
    "torch.autograd.profiler_legacy": "the profiler",
    "torch.jit": "TorchScript's own form of programs",
    "torch.utils.model_dump": "TorchScript: a page about a saved program",
    "torch.utils.jit": "TorchScript: logs of its fusers",
    "torch.compiler": "the compiler's settings and caches",
    "torch.fx.experimental": "the compiler: symbolic shapes, validation, types of graphs",
    "torch.fx.passes": "the compiler: passes over graphs",
    "torch.utils.show_pickle": "a command that prints pickles",
    "torch.utils.hipify": "a tool that rewrites CUDA sources for other devices",
    "torch.utils.data.datapipes": "data pipes over data frames, decoders of files",
}
_NOT_MODULES_OF_PROGRAMS = (
    "torch.contrib",
    "torch.bin",
    "torch.lib",
    "torch.include",
    "torch.share",
    "torch.testing._internal",
)


def is_below(name: str, modules: Any) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in modules)


@functools.cache
def torch_modules() -> dict[str, ModuleType]:
    """PyTorch's public modules, without those of the systems not built."""
    import torch

    root = os.path.dirname(torch.__file__)
    found = {"torch": torch}
    for folder, folders, files in os.walk(root):
        inside = os.path.relpath(folder, root).split(os.sep) if folder != root else []
        folders[:] = sorted(
            f for f in folders if not f.startswith("_") and os.path.exists(os.path.join(folder, f, "__init__.py"))
        )
        stems = [
            file[:-3] for file in files if file.endswith(".py") and (file == "__init__.py" or not file.startswith("_"))
        ]
        for stem in stems:
            name = ".".join(["torch", *inside, *([] if stem == "__init__" else [stem])])
            if not is_below(name, (*SYSTEMS, *_NOT_MODULES_OF_PROGRAMS)):
                with warnings.catch_warnings(), contextlib.suppress(ImportError):
                    warnings.simplefilter("ignore")
                    found[name] = importlib.import_module(name)
    return found


@functools.cache
def torch_names() -> dict[str, list[str]]:
    """PyTorch's public modules -> their public names."""
    return {
        name: sorted(n for n in module.__all__ if not n.startswith("_") and f"{name}.{n}" not in SYSTEMS)
        for name, module in torch_modules().items()
        if hasattr(module, "__all__")
    }


def ours(module: str) -> ModuleType | None:
    """Rushlight's module of the same place."""
    try:
        return importlib.import_module("rushlight" + module[len("torch") :])
    except ImportError:
        return None
