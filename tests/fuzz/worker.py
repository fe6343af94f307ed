"""One process of the fuzzer: makes calls number `start` to `stop` of a seed, and says in a journal which one it is at.

    python -m tests.fuzz.worker --seed 0 --start 0 --stop 1000 --journal FILE [--guard]

The journal's first page always holds the call now running, so that whoever watches knows what killed or stopped it.
Errors that PyTorch's users are used to are the expected answer to a wrong call; `DEFECTS` are never one, and are
printed. `--guard` puts every tensor's memory between pages that nobody may touch: a kernel that leaves it dies at once.
"""

from __future__ import annotations

import argparse
import faulthandler
import mmap
import os
import random
import resource
import signal
import sys
import time
import warnings
from functools import cache, lru_cache
from typing import Any

import torch

import rushlight as rl
from tests.fuzz.mutate import mutate
from tests.parity.convert import Missing, function, thing
from tests.parity.records import RECORDS

PAGE = 4096
NAMES = sorted(RECORDS)
DTYPES = (torch.float32, torch.float32, torch.float64, torch.int64, torch.complex64, torch.bfloat16)
# Errors that are never an answer: the interpreter's own complaints, and those of code that trusted its input.
DEFECTS = (SystemError, RecursionError, NameError, AssertionError)
MEMORY_ALLOWED = 3 << 30   # on top of what the process has after its imports: more must be refused with an exception


@lru_cache(maxsize=256)
def samples(name: str, dtype: torch.dtype) -> list[Any]:
    torch.manual_seed(7)
    record = RECORDS[name]
    try:
        result = list(record.sample_inputs("cpu", dtype, requires_grad=dtype.is_floating_point or dtype.is_complex))
    except Exception:   # noqa: BLE001  PyTorch's own sample code refuses some dtypes
        return []
    return result[:24]


@cache
def forms(name: str) -> list[Any]:
    """Rushlight's function, method and in-place method of a record."""
    record = RECORDS[name]
    found = []
    for form in (record.op, record.method_variant, record.inplace_variant):
        try:
            found += [function(form)] if form is not None else []
        except Missing:
            pass
    return found


def call(seed: int, number: int) -> tuple[str, Any, list[Any], dict[str, Any]] | None:
    """The call with this number, or None where its record has no sample of the dtype drawn."""
    rng = random.Random(f"{seed}:{number}")
    rl.manual_seed(number)
    name = rng.choice(NAMES)
    options, dtype = forms(name), rng.choice(DTYPES)
    chosen = samples(name, dtype) or samples(name, torch.float32) or samples(name, torch.int64)
    if not options or not chosen:
        return None
    sample = rng.choice(chosen)
    form = rng.choice(options)
    memo: dict[Any, Any] = {}
    try:
        args = [thing(sample.input, memo), *thing(list(sample.args), memo)]
        kwargs = thing(dict(sample.kwargs), memo)
        args, kwargs, text = mutate(args, kwargs, rng)
    except Exception:   # noqa: BLE001  no counterpart, or a change that does not apply to this argument
        return None
    return f"{name} #{NAMES.index(name)} [{getattr(form, '__name__', form)}]({text})", form, args, kwargs


def leaves(result: Any) -> list[Any]:
    if isinstance(result, rl.Tensor):
        return [result]
    return [t for item in result for t in leaves(item)] if isinstance(result, (list, tuple)) else []


def use(result: Any) -> None:
    """Read what a call returned, and send a gradient back through it."""
    tensors = [t for t in leaves(result) if t.layout is rl.strided and t.device.type == "cpu" and t.numel() < 1 << 20]
    for t in tensors:
        t.detach().clone()
    differentiable = [t for t in tensors if t.requires_grad]
    if differentiable:
        rl.autograd.backward(differentiable, [rl.ones_like(t) for t in differentiable])


def run(number: int, result: tuple[str, Any, list[Any], dict[str, Any]]) -> None:
    text, form, args, kwargs = result
    if os.environ.get("RUSHLIGHT_FUZZ_DIE_AT") == str(number):   # for the test of the watcher
        os.kill(os.getpid(), signal.SIGSEGV)
    try:
        use(form(*args, **kwargs))
    except DEFECTS as error:
        if isinstance(error, AssertionError) and str(error).startswith(text.split(" ")[0].rsplit(".", 1)[-1]):
            return   # a refusal of the op's own that names it: PyTorch asserts what arguments of attention are
        if isinstance(error, AssertionError) and str(error).startswith("Torch not compiled with CUDA"):
            return   # a number is a GPU, and PyTorch without any answers so
        print(f"DEFECT {number} {type(error).__name__}: {str(error)[:200]!r} from {text}", flush=True)
    except Exception:   # noqa: BLE001  a refusal is what a wrong call should get
        pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--start", type=int, required=True)
    parser.add_argument("--stop", type=int, required=True)
    parser.add_argument("--journal", required=True)
    parser.add_argument("--guard", action="store_true")
    parser.add_argument(
        "--unlimited", action="store_true", help="no limit of memory (AddressSanitizer reserves terabytes)"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rl.set_num_threads(2)
    faulthandler.enable()
    rl.ones(4).exp().sum().item()
    if not options.unlimited:
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_ALLOWED, used + MEMORY_ALLOWED))
    if options.guard:
        rl._C.guard_memory(True)
    with open(options.journal, "r+b") as file:
        journal = mmap.mmap(file.fileno(), PAGE)
        for number in range(options.start, options.stop):
            journal[:PAGE] = f"{number} {time.time()} (being made)".encode().ljust(PAGE)
            result = call(options.seed, number)
            if result is None:
                continue
            journal[:PAGE] = f"{number} {time.time()} {result[0]}".encode()[:PAGE].ljust(PAGE)
            run(number, result)
            del result
        journal[:PAGE] = f"{options.stop} {time.time()} done".encode().ljust(PAGE)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
