"""Compiled models: steady state against torch.compile and against our own eager mode,
and how long the first call takes.

Enters: the session's settings. Leaves: three sections. Both libraries run the same source through `torch.compile(model,
fullgraph=True)`; PyTorch needs a C++ compiler for that. A training step is zero_grad, forward, loss and backward. Cold
first calls run in fresh processes with empty caches, warm ones with the caches that the cold ones left.
"""

from __future__ import annotations

import math
import tempfile

from benchmarks.cases import LIBRARIES, Case, Check, Group, Section
from benchmarks.harness import Session
from benchmarks.models import CLASSIFY, TOKENS
from benchmarks.startup import run_python

SETUP = """
from benchmarks import networks
F = torch.nn.functional
torch.manual_seed(0)
network = networks.{network}(torch)
{data}
model = torch.compile(network, fullgraph=True) if {is_compiled} else network
"""
TRAIN = """
def step():
    network.zero_grad()
    output = model(x)
    loss = {loss}
    loss.backward()
step()
"""
INFER = """
network.eval()
def step():
    with torch.no_grad():
        model(x)
step()
"""
IMAGES = "x, y = torch.randn({count}, 3, {side}, {side}), torch.randint(0, 10, ({count},))"
NETWORKS = {
    "MLP": ("mlp", "x, y = torch.randn(8, 16), torch.randn(8, 1)", "F.mse_loss(output, y)"),
    "ResNet-18": ("resnet18", IMAGES.format(count=8, side=32), "F.cross_entropy(output, y)"),
    "GPT": ("gpt", TOKENS.format(vocabulary=65, shape=(4, 256)), CLASSIFY),
    "BERT-mini": (
        "bert",
        TOKENS.format(vocabulary=1000, shape=(4, 64)),
        "output[0].square().mean() + output[1].mean()",
    ),
    "ViT-tiny": ("vit", IMAGES.format(count=2, side=224), "F.cross_entropy(output, y)"),
    "LSTM": ("lstm_language_model", TOKENS.format(vocabulary=1000, shape=(35, 20)), CLASSIFY),
    "U-Net": (
        "unet",
        "x, y = torch.randn(2, 3, 64, 64), torch.randint(0, 2, (2, 64, 64))",
        "F.cross_entropy(output, y)",
    ),
}
COLD_PATIENCE = 900.0    # seconds that a first call may take: torch.compile's run a C++ compiler
FIRST = """
import importlib, time
torch = importlib.import_module({library!r})
torch.set_num_threads({threads})
start = time.perf_counter()
{setup}
print(time.perf_counter() - start)
"""


def setup(name: str, what: str, is_compiled: bool = True) -> str:
    """The code that makes `step()` of a case."""
    network, data, loss = NETWORKS[name]
    text = SETUP.format(network=network, data=data, is_compiled=is_compiled)
    return text + (TRAIN.format(loss=loss) if what == "step" else INFER)


def chosen(session: Session) -> list[tuple[str, str]]:
    return [
        (name, what)
        for name in NETWORKS
        for what in ("step", "inference")
        if not session.only or session.only in f"{name} {what}"
    ]


def steady(session: Session) -> Section:
    """Compiled against compiled."""
    cases = tuple([Case(f"{name} {what}", "step()", setup(name, what)) for name, what in chosen(session)])
    session.patience = max(session.patience, COLD_PATIENCE)
    return session.compare(
        Group("compiled", "Compiled models against torch.compile", cases, mean_bar=2.0, worst_bar=1.2)
    )


def against_eager(session: Session) -> Section:
    """What compiling gains over our own eager mode: the medians of one run of each, in one process."""
    checks, gains = [], {"step": [], "inference": []}
    for name, what in chosen(session):
        code = f"import rushlight as torch\ntorch.set_num_threads({session.threads})\nimport time\nsteps = []\n"
        for is_compiled in (False, True):
            code += (
                f"scope = {{'torch': torch}}\nexec({setup(name, what, is_compiled)!r},"
                " scope)\nsteps.append(scope['step'])\n"
            )
        code += INTERLEAVED.replace("CLOCK", CLOCKS[session.clock])
        ratio = float(run_python(code, OMP_NUM_THREADS=str(session.threads)))
        gains[what].append(ratio)
        checks.append(Check(f"{name} {what} over eager", f"{ratio:.2f}x", "", None))
    for what, bar in (("step", 1.2), ("inference", 1.4)):
        if gains[what]:
            mean = math.exp(sum(map(math.log, gains[what])) / len(gains[what]))
            checks.append(Check(f"geometric mean, {what}", f"{mean:.2f}x", f"at least {bar:g}x", mean >= bar))
    return Section("Compiled against our own eager mode", checks=checks)


CLOCKS = {"wall": "perf_counter", "cpu": "process_time"}
INTERLEAVED = """
from time import CLOCK as clock
times = [[], []]
begun = time.perf_counter()
while len(times[0]) < 5 or (time.perf_counter() - begun < 3 and len(times[0]) < 300):
    for k, run in enumerate(steps):
        start = clock(); run(); times[k].append(clock() - start)
print(sorted(times[0])[len(times[0]) // 2] / sorted(times[1])[len(times[1]) // 2])
"""


def first_calls(session: Session) -> Section:
    """Seconds until the first training step is done, cold and warm."""
    checks = []
    for name, what in chosen(session):
        if what != "step":
            continue
        taken: dict[tuple[str, str], float] = {}
        for library in LIBRARIES:
            with tempfile.TemporaryDirectory() as folder:
                code = FIRST.format(library=library, threads=session.threads, setup=setup(name, what))
                for state in ("cold", "warm"):
                    taken[library, state] = float(
                        run_python(
                            code,
                            RUSHLIGHT_CACHE=folder,
                            TORCHINDUCTOR_CACHE_DIR=folder,
                            OMP_NUM_THREADS=str(session.threads),
                        )
                    )
        for state, most in (("cold", 3.0), ("warm", 0.3)):
            ours, theirs = taken["rushlight", state], taken["torch", state]
            met = ours <= most and (state == "warm" or theirs >= 15 * ours)
            bar = f"under {most:g} s" + (", 15x sooner" if state == "cold" else "")
            checks.append(
                Check(
                    f"{name}, first step, {state}",
                    f"{ours:.2f} s, torch {theirs:.2f} s ({theirs / ours:.0f}x)",
                    bar,
                    met,
                )
            )
    return Section("First compiled step", checks=checks)


def run(session: Session) -> list[Section]:
    return [steady(session), against_eager(session), first_calls(session)]
