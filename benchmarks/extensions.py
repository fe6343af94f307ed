"""Extensions in C++: the same sources built with Rushlight's headers and with PyTorch's, and what a call costs.

`python -m benchmarks extensions` builds both (processor time of compiler and linker) and calls an op that does nothing
and a bound function that does nothing, each library in a process of its own, in turns (processor time per call, the
least of several runs). The runtime that extensions are linked with is built before and shown by itself: once for each
version and compiler.
"""

from __future__ import annotations

import importlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCES = {
    "an op": """
#include <torch/library.h>
#include <ATen/ATen.h>
static at::Tensor nothing(const at::Tensor& x) { return x; }
TORCH_LIBRARY(extension_bench, m) { m.def("nothing(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(extension_bench, CompositeExplicitAutograd, m) { m.impl("nothing", &nothing); }
""",
    "an op with a derivative": """
#include <torch/all.h>
#include <torch/library.h>
using torch::autograd::variable_list;
static at::Tensor nothing(const at::Tensor& x) { return x; }
struct Nothing : torch::autograd::Function<Nothing> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    at::AutoDispatchBelowADInplaceOrView guard;
    static auto op = c10::Dispatcher::singleton().findSchemaOrThrow("extension_bench_grad::nothing", "")
                         .typed<at::Tensor(const at::Tensor&)>();
    return op.call(x);
  }
  static variable_list backward(torch::autograd::AutogradContext*, variable_list grads) { return grads; }
};
static at::Tensor derived(const at::Tensor& x) { return Nothing::apply(x); }
TORCH_LIBRARY(extension_bench_grad, m) { m.def("nothing(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(extension_bench_grad, CPU, m) { m.impl("nothing", &nothing); }
TORCH_LIBRARY_IMPL(extension_bench_grad, Autograd, m) { m.impl("nothing", &derived); }
""",
    "a bound function": """
#include <torch/extension.h>
static at::Tensor nothing(const at::Tensor& x) { return x; }
static at::Tensor softclip(const at::Tensor& x, double limit) {
  TORCH_CHECK_VALUE(limit > 0, "softclip: expected a positive limit, got ", limit);
  return (x / limit).tanh() * limit;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("nothing", &nothing);
  m.def("softclip", &softclip);
}
""",
}
SPACES = {"an op": "extension_bench", "an op with a derivative": "extension_bench_grad"}
PACKAGES = ("torch", "rushlight")
CALLS, RUNS, TURNS = 20_000, 5, 3


def children_seconds() -> float:
    """Processor time of programs that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def built(package: str, folder: Path) -> dict[str, object]:
    """Each source built by a package's `load`; what it gave, and the compiler's seconds of those that were compiled."""
    torch = importlib.import_module(package)
    extension = importlib.import_module(f"{package}.utils.cpp_extension")
    seconds: dict[str, float] = {}
    if package == "rushlight":
        before = children_seconds()
        extension.include_paths()
        seconds["the runtime"] = children_seconds() - before
    found: dict[str, object] = {"seconds": seconds, "tensor": torch.ones(2),
                               "variable": torch.ones(2, requires_grad=True)}
    for number, (name, text) in enumerate(SOURCES.items()):
        place = folder / package / str(number)
        place.mkdir(parents=True, exist_ok=True)
        source = place / "source.cpp"
        if not source.exists():      # a new time would compile it again
            source.write_text(text)
        before = children_seconds()
        made = extension.load(f"bench_{number}", [str(source)], extra_cflags=["-O2"], build_directory=str(place),
                              is_python_module=name not in SPACES)
        seconds[name] = children_seconds() - before
        found[name] = getattr(torch.ops, SPACES[name]).nothing if name in SPACES else made.nothing
    return found


def nanoseconds(call: object, argument: object) -> float:
    """Processor time of one call."""
    least = float("inf")
    for _ in range(RUNS):
        start = time.process_time_ns()
        for _ in range(CALLS):
            call(argument)
        least = min(least, (time.process_time_ns() - start) / CALLS)
    return least


def worker(package: str, folder: str) -> None:
    """Print, as JSON, seconds of building and nanoseconds of calls."""
    found = built(package, Path(folder))
    calls = {name: nanoseconds(found[name], found["tensor"]) for name in SOURCES}
    calls |= {f"{name}, a gradient wanted": nanoseconds(found[name], found["variable"]) for name in SOURCES}
    print(json.dumps({"seconds": found["seconds"], "calls": calls}))


def ask(package: str, folder: str) -> dict[str, dict[str, float]]:
    """What a process of one package says."""
    done = subprocess.run([sys.executable, "-m", "benchmarks", "extensions", "worker", package, folder],
                          capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{package}: the worker failed\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def run(arguments: list[str]) -> int:
    """Measure both and print a table."""
    if arguments[:1] == ["worker"]:
        worker(arguments[1], arguments[2])
        return 0
    with tempfile.TemporaryDirectory() as folder:
        said = [{package: ask(package, folder) for package in PACKAGES} for _ in range(TURNS)]
    first = said[0]
    print(f"{'built from source, seconds of a processor':44} {'PyTorch':>9} {'Rushlight':>9}  ratio")
    for name in SOURCES:
        theirs, ours = (first[package]["seconds"][name] for package in PACKAGES)
        print(f"{name:44} {theirs:9.1f} {ours:9.1f} {ours / theirs:6.2f}")
    print(f"{'the runtime, once':44} {'':9} {first['rushlight']['seconds']['the runtime']:9.1f}")
    print(f"\n{'a call that does nothing, nanoseconds':44} {'PyTorch':>9} {'Rushlight':>9}  ratio")
    for name in first["rushlight"]["calls"]:
        theirs, ours = (min(turn[package]["calls"][name] for turn in said) for package in PACKAGES)
        print(f"{name:44} {theirs:9.0f} {ours:9.0f} {ours / theirs:6.2f}")
    return 0
