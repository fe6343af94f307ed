"""Run one library's cases under whatever `torch` is served here, and write down what they computed.

    python runner.py <module of cases> <results.pickle>                            on PyTorch
    python -m rushlight run runner.py <module of cases> <results.pickle>           on Rushlight
    python -m rushlight run runner.py <module> <results.pickle> --compiled         as it is, and then compiled

A module of cases (see cases/) holds functions whose names begin with `case_`; each gets a seeded generator and returns
a dict from names to tensors, arrays, numbers or strings. Leaves: for each case, its values as NumPy arrays and plain
objects, or the traceback it ended with, and the seconds it took. The file holds nothing but builtins and arrays,
so it reads without `torch`.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import random
import sys
import time
import traceback
import warnings
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
warnings.simplefilter("ignore")

import numpy
import torch

from tests.ecosystem.compiling import compiled


def declare_missing_ops() -> None:
    """On PyTorch: declare the ops that torchvision's Python part describes,
    in case its native part is built for other libraries."""
    if "rushlight" not in torch.__version__:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        torch.torchvision_declarations = library   # kept alive


def plain(value: object) -> object:
    """A value that compares and pickles without `torch`."""
    if isinstance(value, torch.Tensor):
        value = value.detach()
        if value.dtype in (torch.bfloat16, torch.float16):
            value = value.float()
        return value.cpu().numpy().copy()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (bool, int, float, complex, str, type(None), numpy.ndarray, numpy.generic)):
        return value
    return str(value)


def load_cases(path: str) -> dict[str, object]:
    """The `case_` functions of a file, by their names without the prefix."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name[len("case_"):]: function for name, function in vars(module).items() if name.startswith("case_")}


def run_case(function: object) -> dict[str, object]:
    torch.manual_seed(0)
    random.seed(0)
    numpy.random.seed(0)
    started, cpu_started = time.perf_counter(), time.process_time()
    try:
        values, error = {name: plain(value) for name, value in function().items()}, None
    except BaseException:   # a case that ends the process's patience must not end the others
        values, error = {}, traceback.format_exc()
    return {"values": values, "error": error, "seconds": time.perf_counter() - started,
            "cpu_seconds": time.process_time() - cpu_started}


def run_compiled(function: object) -> dict[str, object]:
    """A case as it is and compiled; with the "programs" that it compiled, each with its graphs and breaks."""
    eager = run_case(function)
    with compiled() as programs:
        done = run_case(function)
    return {**done, "eager": eager, "programs": programs}


def main(path: str, results: str, only: list[str]) -> None:
    torch.set_num_threads(2)
    declare_missing_ops()
    cases = load_cases(path)
    run = run_compiled if "--compiled" in only else run_case
    only = [name for name in only if name != "--compiled"]
    done = {name: run(function) for name, function in cases.items() if not only or name in only}
    with open(results, "wb") as file:
        pickle.dump(done, file)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
