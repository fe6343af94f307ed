"""Matrix products, where a library does the work and the framework must not get in its way."""

from __future__ import annotations

from benchmarks.cases import Case, Group, Section
from benchmarks.harness import Session

SQUARE = """
torch.manual_seed(0)
a = torch.randn(SIZE, SIZE).to(torch.DTYPE)
b = torch.randn(SIZE, SIZE).to(torch.DTYPE)
"""

BATCHED = """
torch.manual_seed(0)
a = torch.randn(BATCH, SIZE, SIZE)
b = torch.randn(BATCH, SIZE, SIZE)
"""


def square(size: int, dtype: str) -> Case:
    return Case(f"{size}x{size}", "a @ b", SQUARE.replace("SIZE", str(size)).replace("DTYPE", dtype))


def batched(batch: int, size: int) -> Case:
    return Case(f"{batch} of {size}x{size}", "a @ b", BATCHED.replace("BATCH", str(batch)).replace("SIZE", str(size)))


FLOAT32 = Group("float32", "float32 matmul", (
    *(square(size, "float32") for size in (256, 512, 1024, 2048)), batched(64, 64), batched(16, 256)), worst_bar=0.95)
BFLOAT16 = Group("bfloat16", "bfloat16 matmul", tuple(square(size, "bfloat16") for size in (512, 1024, 2048)),
                 worst_bar=1.0)
INT8 = Group("int8", "int8 matmul, summed in int32", tuple(
    Case(f"{size}x{size}", "torch._int_mm(a, b)",
         f"a, b = (torch.randint(-128, 128, ({size}, {size}), dtype=torch.int8) for _ in range(2))")
    for size in (512, 1024)), worst_bar=1.0)
FEW = Group("few", "linear of few rows, forward and forward+backward", tuple(
    Case(f"{rows}x{ins}->{outs}{' forward+backward' if back else ''}",
         "l(x).backward(g)" if back else "l(x)",
         f"torch.set_grad_enabled({back}); l = torch.nn.Linear({ins}, {outs}); g = torch.randn({rows}, {outs})\n"
         f"x = torch.randn({rows}, {ins}, requires_grad={back})")
    for rows, ins, outs in ((2, 768, 3072), (4, 768, 3072), (8, 768, 3072), (8, 256, 1024), (16, 1024, 1024))
    for back in (False, True)), worst_bar=1.0)


def run(session: Session) -> list[Section]:
    return [session.compare(FLOAT32), session.compare(BFLOAT16), session.compare(INT8), session.compare(FEW)]
