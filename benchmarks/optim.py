"""Optimizers: steps over many and large parameters, and whole training steps of a tiny network.

Large steps are bound by memory at best: each case carries the bytes it must move (every tensor read once, parameters
and state written once), and the report gives the rate reached. Both libraries hold the same parameters and gradients.
"""

from __future__ import annotations

from benchmarks.cases import Case, Group, Section
from benchmarks.harness import Session

COUNT, EACH = 200, 125_000
ELEMENTS = COUNT * EACH

LARGE = f"""
torch.manual_seed(0)
params = [torch.nn.Parameter(torch.randn({EACH})) for _ in range({COUNT})]
for p in params:
    p.grad = torch.randn({EACH}) * 0.01
"""

MANY = """
torch.manual_seed(0)
params = [torch.nn.Parameter(torch.randn(8, 8)) for _ in range(200)]
for p in params:
    p.grad = torch.randn(8, 8)
"""

TINY = """
torch.manual_seed(0)
nn = torch.nn
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
x, y, criterion = torch.randn(8, 16), torch.randn(8, 1), nn.MSELoss()
"""

TRAIN = """
loss = criterion(model(x), y)
loss.backward()
optimizer.step()
optimizer.zero_grad()
"""

# Words moved per element of a parameter: all tensors read, all but the gradient written.
WORDS = {"copy": 2, "SGD": 3, "SGD momentum": 5, "AdamW": 7, "Adam amsgrad": 9}
MADE = {
    "SGD": "torch.optim.SGD(params, lr=1e-3{})",
    "SGD momentum": "torch.optim.SGD(params, lr=1e-3, momentum=0.9{})",
    "AdamW": "torch.optim.AdamW(params, lr=1e-3{})",
    "Adam amsgrad": "torch.optim.Adam(params, lr=1e-3, amsgrad=True{})",
}


def against(name: str, setup: str, label: str, theirs: str) -> Case:
    """Rushlight's default against one of PyTorch's forms."""
    options = f"({theirs!r} if torch.__name__ == 'torch' else '')"
    return Case(
        f"{name}, against {label}", "optimizer.step()", f"{setup}\noptimizer = eval({MADE[name]!r}.format({options}))"
    )


ADAMW = Group("optim_adamw",
    f"AdamW over {COUNT} parameters of {EACH:,} floats, against PyTorch's fused, foreach and single-tensor forms",
    tuple(
    against("AdamW", LARGE, label, f", {options}") for label,
    options in (("fused", "fused=True"), ("foreach", "foreach=True"), ("single", "foreach=False"))),
    worst_bar=2.0)
# SGD computes next to nothing: both libraries wait for the same memory.
OTHERS = Group("optim_fused", "Other optimizers over the same parameters, against PyTorch's fused=True", tuple(
    against(name, LARGE, "fused", ", fused=True") for name in MADE if name != "AdamW"), worst_bar=1.0)
SMALL = Group(
    "optim_many",
    "Step over 200 parameters of 8x8",
    tuple(
        against(name, MANY, label, options)
        for name in ("SGD", "AdamW")
        for label, options in (("default", ""), ("fused", ", fused=True"))
    ),
    worst_bar=4.0,
)
STEPS = Group(
    "optim_mlp",
    "Training step of an MLP 16-32-1, batch 8: forward, loss, backward, step, zero_grad",
    tuple(
        Case(name, TRAIN, f"{TINY}\noptimizer = torch.optim.{name}(model.parameters(), lr=1e-3)")
        for name in ("SGD", "AdamW")
    ),
    worst_bar=4.0,
)
ALONE = Group("optim_step", "optimizer.step() alone, the same MLP", tuple(
    Case(name, "optimizer.step()",
         f"{TINY}\noptimizer = torch.optim.{name}(model.parameters(), lr=1e-3)\ncriterion(model(x), y).backward()")
    for name in ("SGD", "AdamW", "RMSprop", "NAdam")), worst_bar=4.0)


COPY = Group("optim_floor", f"The floor: a copy of {ELEMENTS:,} floats", (
    Case("copy", "y.copy_(x)", f"x = torch.zeros({ELEMENTS})\ny = torch.ones({ELEMENTS})"),))


def rates(section: Section) -> Section:
    """Add the memory rate each library reached."""
    for row in section.rows:
        moved = 4 * ELEMENTS * WORDS[row.case.split(",")[0]]
        reached = [
            f"{library} {moved / time / 1e9:.1f}" for library in ("torch", "rushlight") if (time := row.median(library))
        ]
        section.notes.append(f"{row.case}: {moved / 1e6:.0f} MB a step, GB/s: {', '.join(reached)}")
    return section


def run(session: Session) -> list[Section]:
    large = [rates(session.compare(group)) for group in (COPY, ADAMW, OTHERS)]
    return [*large, *(session.compare(group) for group in (SMALL, STEPS, ALONE))]
