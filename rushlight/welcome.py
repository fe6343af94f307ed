"""What somebody sees first: `rushlight` alone, `rushlight info` and `rushlight demo`.

Enters: nothing, or how long the demo may take. Leaves: text on standard output: what to do first; what this
installation is, has and could have; a model that learns to tell two spirals apart. Nothing is written to disk but
kernels, and nothing is fetched. Refuses a demo of no steps.
"""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

WELCOME = """Rushlight: PyTorch's API, with kernels that are made as your program runs.

First things to try:
  rushlight demo                 watch a model learn, in a few seconds
  rushlight run train.py         run a program written for PyTorch as it is
  rushlight check train.py       which names of torch it mentions that are not here
  rushlight learn                exercises that check themselves
  rushlight info                 what this installation has, and what can be added

In Python:
  import rushlight as rl
  x = rl.tensor([1.0, 2.0], requires_grad=True)
  (x ** 2).sum().backward(); print(x.grad)
  help(rl.add)                   every function explains itself, with an example

All commands: rushlight --help"""

# What can be installed beside: a module that tells, and what it is for. pyproject.toml says the packages.
EXTRAS = {
    "cuda": ("nvidia.cublas", "products and convolutions on NVIDIA GPUs"),
    "datasets": ("sklearn", "rushlight.datasets.Digits"),
    "onnx": ("onnxruntime", "running the ONNX files it writes"),
    "serve": ("aiohttp", "rushlight serve"),
    "tensorboard": ("tensorboard", "reading what SummaryWriter writes"),
    "xla": ("jaxlib", 'the device "xla"'),
    "mlir": ("torch_mlir", "checking what rushlight.mlir writes"),
    "ray": ("ray", "processes as Ray actors"),
    "mpi": ("mpi4py", 'init_process_group("mpi")'),
}


def welcome() -> None:
    """What to do first."""
    print(WELCOME)


def info(version: str) -> None:
    """Versions, processor, devices, the cache, and what can be installed beside."""
    import rushlight

    from .base import disk_cache
    from .compat.coverage import devices

    files, size = cache_size(disk_cache.folder())
    print(version)
    print(f"python    {platform.python_version()} on {platform.system()} {platform.machine()}")
    print(f"threads   {rushlight.get_num_threads()}")
    known = [f"{name}{'' if row['available'] else ' (not here)'}" for name, row in devices().items()]
    print(f"devices   {', '.join(known)}")
    limit = _mib(disk_cache.limit())
    print(f"cache     {disk_cache.folder()}: {files} files, {size / (1 << 20):.1f} MiB of at most {limit}")
    print("extras")
    for name, (module, purpose) in EXTRAS.items():
        state = "installed" if is_installed(module) else f"pip install 'rushlight[{name}]'"
        print(f"  {name:12} {purpose:44} {state}")


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MiB" if size else "any size"


def cache_size(folder: str) -> tuple[int, int]:
    """How many files a folder holds, and their bytes; none where it does not exist."""
    files = size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                size += os.stat(os.path.join(place, name)).st_size
                files += 1
            except OSError:   # another process removed it
                continue
    return files, size


def is_installed(module: str) -> bool:
    """Whether a module could be imported; it is not."""
    from importlib.util import find_spec

    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def demo(steps: int) -> int:
    """A model learns to tell two spirals apart; 0 if it did."""
    if steps < 1:
        print(f"rushlight demo: --steps must be positive, got {steps}", file=sys.stderr)
        return 2
    import rushlight as rl
    from rushlight import nn
    from rushlight.utils.progress import progress

    rl.manual_seed(0)
    points, classes = spirals(rl)
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = rl.optim.Adam(model.parameters(), lr=0.02)
    print("Two spirals of points; the model is told which points belong to which, and learns the shape.\n")
    losses: list[float] = []
    for _ in progress(range(steps), "learning", tell=lambda: f"loss {losses[-1]:.3f}", file=sys.stdout):
        loss = nn.functional.cross_entropy(model(points), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    right = (model(points).argmax(1) == classes).float().mean().item()
    print("\n" + picture(rl, model))
    print(f"\nloss {losses[0]:.3f} at first, {losses[-1]:.3f} at the end; {right:.0%} of the points are told apart.")
    print("The program is rushlight/welcome.py, function demo. Next: docs/first_model.md")
    return 0


def spirals(rl: Any) -> tuple[Any, Any]:
    """200 points on two spirals, and which each is on."""
    turn = rl.linspace(0.3, 4.0, 100)
    one = rl.stack([turn * rl.cos(turn * 1.6), turn * rl.sin(turn * 1.6)], 1) / 4
    return rl.cat([one, -one]), rl.arange(200) // 100


def picture(rl: Any, model: Any, width: int = 56, height: int = 24) -> str:
    """What the model says of each place of the square from -1 to 1."""
    y, x = rl.meshgrid(rl.linspace(1, -1, height), rl.linspace(-1, 1, width), indexing="ij")
    with rl.no_grad():
        told = model(rl.stack([x.flatten(), y.flatten()], 1)).argmax(1).reshape(height, width).tolist()
    return "\n".join("".join(".#"[one] for one in row) for row in told)
