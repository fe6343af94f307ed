"""Whole models: training steps and inference, peak memory, and how soon a process has trained one step.

Enters: the session's settings. Leaves: three sections; each case has a bar of its own. The networks are in networks.py
and both libraries run the same source. A training step is zero_grad, forward, loss, backward and the optimizer's step;
the LSTM cell's step is its forward and backward. Memory is the peak resident size of a fresh process that makes the
model and takes three steps, less its size after the import.
"""

from __future__ import annotations

from benchmarks.cases import LIBRARIES, Case, Check, Group, Section
from benchmarks.harness import Session
from benchmarks.startup import measure_first_step, run_python

TRAIN = """
from benchmarks import networks
F = torch.nn.functional
torch.manual_seed(0)
model = networks.{network}(torch{options})
optimizer = torch.optim.{optimizer}
{data}
def step():
    optimizer.zero_grad()
    output = model(x)
    loss = {loss}
    loss.backward()
    optimizer.step()
"""
INFER = """
from benchmarks import networks
torch.manual_seed(0)
model = networks.{network}(torch{options}).eval()
{data}
def step():
    with torch.no_grad():
        model(x)
"""
CELL = """
torch.manual_seed(0)
cell = torch.nn.LSTMCell(16, 32)
x, h, c = torch.randn(8, 16), torch.randn(8, 32), torch.randn(8, 32)
def step():
    new_h, new_c = cell(x, (h, c))
    (new_h.sum() + new_c.sum()).backward()
"""
TOKENS = "x = torch.randint(0, {vocabulary}, {shape}); y = torch.randint(0, {vocabulary}, {shape})"
CLASSIFY = "F.cross_entropy(output.flatten(0, 1), y.flatten())"


def train(network: str, optimizer: str, data: str, loss: str, options: str = "") -> str:
    return TRAIN.format(network=network, optimizer=optimizer, data=data, loss=loss, options=options)


def infer(network: str, data: str, options: str = "") -> str:
    return INFER.format(network=network, data=data, options=options)


LARGE = ", classes=1000, large=True"     # ResNet-18 for images of 224x224
MLP_DATA = "x, y = torch.randn(8, 16), torch.randn(8, 1)"
MLP = train("mlp", "SGD(model.parameters(), lr=0.1)", MLP_DATA, "F.mse_loss(output, y)")
RESNET = train("resnet18", "SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)",
               "x, y = torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))", "F.cross_entropy(output, y)")
GPT = train("gpt", "AdamW(model.parameters(), lr=3e-4)", TOKENS.format(vocabulary=65, shape=(4, 256)), CLASSIFY)

# name: (at least, setup)
CASES: dict[str, tuple[float | None, str]] = {
    "MLP step, SGD": (4, MLP),
    "MLP step, AdamW": (4, train("mlp", "AdamW(model.parameters(), lr=1e-3)", MLP_DATA, "F.mse_loss(output, y)")),
    "LSTM cell step": (3, CELL),
    "LSTM language model step": (
        1.2,
        train(
            "lstm_language_model",
            "SGD(model.parameters(), lr=0.1)",
            TOKENS.format(vocabulary=1000, shape=(35, 20)),
            CLASSIFY,
        ),
    ),
    "ResNet-18 step": (1, RESNET),
    "U-Net step": (
        1,
        train(
            "unet",
            "AdamW(model.parameters(), lr=1e-3)",
            "x, y = torch.randn(4, 3, 64, 64), torch.randint(0, 2, (4, 64, 64))",
            "F.cross_entropy(output, y)",
        ),
    ),
    "GPT step": (1.1, GPT),
    "GPT step, dropout 0.2": (
        None,
        train(
            "gpt",
            "AdamW(model.parameters(), lr=3e-4)",
            TOKENS.format(vocabulary=65, shape=(4, 256)),
            CLASSIFY,
            ", dropout=0.2",
        ),
    ),
    "ResNet-18 224x224 step": (
        1.2,
        train(
            "resnet18",
            "SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)",
            "x, y = torch.randn(2, 3, 224, 224), torch.randint(0, 1000, (2,))",
            "F.cross_entropy(output, y)",
            LARGE,
        ),
    ),
    "BERT-mini step": (
        1.1,
        train(
            "bert",
            "AdamW(model.parameters(), lr=3e-4)",
            "x = torch.randint(0, 30522, (4, 128))",
            "output[0].square().mean() + output[1].square().mean()",
        ),
    ),
    "ViT-tiny step": (
        1.1,
        train(
            "vit",
            "AdamW(model.parameters(), lr=3e-4)",
            "x, y = torch.randn(2, 3, 224, 224), torch.randint(0, 1000, (2,))",
            "F.cross_entropy(output, y)",
        ),
    ),
    "MLP inference": (4, infer("mlp", "x = torch.randn(8, 16)")),
    "LSTM language model inference": (
        1.3, infer("lstm_language_model", "x = torch.randint(0, 1000, (35, 20))")
    ),
    "ResNet-18 inference": (1.2, infer("resnet18", "x = torch.randn(32, 3, 32, 32)")),
    "ResNet-18 224x224 inference": (1.2, infer("resnet18", "x = torch.randn(2, 3, 224, 224)", LARGE)),
    "U-Net inference": (1, infer("unet", "x = torch.randn(4, 3, 64, 64)")),
    "GPT inference": (1.1, infer("gpt", "x = torch.randint(0, 65, (4, 256))")),
    "BERT-mini inference": (1.1, infer("bert", "x = torch.randint(0, 30522, (1, 128))")),
    "ViT-tiny inference": (1.1, infer("vit", "x = torch.randn(1, 3, 224, 224)")),
}

PEAK = """
import importlib
def kilobytes(field):
    with open("/proc/self/status") as handle:
        return next(int(line.split()[1]) for line in handle if line.startswith(field))
torch = importlib.import_module({library!r})
for name in ("nn", "optim"):
    importlib.import_module({library!r} + "." + name)
torch.set_num_threads({threads})
before = kilobytes("VmRSS")
{setup}
for _ in range(3):
    step()
print(kilobytes("VmHWM") - before)
"""


def run_cases(session: Session) -> Section:
    """Every case on both sides, each against its own bar."""
    group = Group("models", "Whole models", tuple(Case(name, "step()", setup) for name, (_, setup) in CASES.items()))
    section = session.compare(group)
    section.checks = [Check(row.case, *judged(row.ratio(), CASES[row.case][0])) for row in section.rows]
    return section


def judged(ratio: float | None, bar: float | None) -> tuple[str, str, bool | None]:
    shown = "not measured" if ratio is None else f"{ratio:.2f}x"
    return (
        shown,
        "" if bar is None else f"at least {bar:g}x",
        None if bar is None else ratio is not None and ratio >= bar,
    )


def measure_memory(session: Session) -> Section:
    """Peak resident memory of three steps in fresh processes; the first turn, which may compile kernels,
    is left out."""
    checks = []
    for name, setup in (("ResNet-18", RESNET), ("GPT", GPT)):
        if session.only and session.only not in f"{name} memory":
            continue
        peaks: dict[str, float] = {}
        for library in LIBRARIES:
            code = PEAK.format(library=library, threads=session.threads, setup=setup)
            try:
                peaks[library] = (
                    min([float(run_python(code, OMP_NUM_THREADS=str(session.threads))) for _ in range(3)][1:]) / 1024
                )
            except RuntimeError as error:
                checks.append(Check(f"{name} memory", f"failed on {library}: {error}", "", False))
        if len(peaks) == len(LIBRARIES):
            checks.append(Check(f"{name} memory", f"{peaks['rushlight']:.0f} MiB, torch {peaks['torch']:.0f} MiB",
                                "no more than torch's", peaks["rushlight"] <= peaks["torch"]))
    return Section("Peak memory of training steps", checks=checks)


def run(session: Session) -> list[Section]:
    sections = []
    if not session.only or any(session.only in name for name in CASES):
        sections.append(run_cases(session))
    memory = measure_memory(session)
    if memory.checks:
        sections.append(memory)
    if not session.only or session.only in "first step":
        sections.append(measure_first_step(session))
    return sections
