"""Ops and layers of everyday code at random sizes, layouts and float types against PyTorch, one thread, both in one
process by turns.

    python -m benchmarks sweep                          every case at three draws: 3,243 of them, an hour
    python -m benchmarks sweep --family fourier         one family (several may be named)
    python -m benchmarks sweep sort rows.sum            cases whose text contains one of these
    python -m benchmarks sweep --seed 7 --draws 10      other draws, more of them
    python -m benchmarks sweep --draws 0                float32, contiguous, a middle size: nothing drawn
    python -m benchmarks sweep --json times.json        also write the times
    python -m benchmarks sweep --list                   print the cases

A case is its own name: what was drawn, and an expression over the operands of `sweep_cases`. Sizes are log-uniform,
half of them rounded to multiples of eight. Times are of the processor, the least of alternating turns; a case that
seems slower than PyTorch has more of them. Ratios are PyTorch's time over ours, the worst first, and with each below
1.0 the share of the floor: the time that its bytes or its flops need at least, over ours.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import math
import random
import re
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.layers import Floor, measure_floor
from benchmarks.sweep_cases import LIMITS, OPERANDS, SIZES, STATEMENTS, TABLES

SAMPLE = 0.001                          # seconds of a sample, at least
SLOWEST = 0.3                           # seconds of a call after which a draw is too large to be measured
TYPES = ("float32", "float32", "float32", "float64", "float16", "bfloat16")
LAYOUTS, PICTURED = ("plain", "plain", "turned", "strided"), ("plain", "channels last")
TRIES = 40                              # draws until one is found that PyTorch takes

# What cases call besides the library itself, made once for each library.
HELPERS = """
def laid(tensor):
    if LAYOUT == "turned":
        return tensor.t().contiguous().t()
    if LAYOUT == "strided":
        return torch.stack((tensor, tensor), 2).flatten(1)[:, ::2]
    return tensor
def pictured(tensor):
    return tensor.contiguous(memory_format=torch.channels_last) if PICTURED == "channels last" else tensor
def infer(layer, *given):
    with torch.no_grad():
        return layer(*given)
def train(layer, *given):
    given = [each.detach().requires_grad_() if each.is_floating_point() else each for each in given]
    result = layer(*given)
    result = result[0] if isinstance(result, tuple) else result
    by = [*layer.parameters(), *(each for each in given if each.requires_grad)]
    return torch.autograd.grad(result.sum(), by, allow_unused=True)
"""


@dataclasses.dataclass(frozen=True)
class Draw:
    """Sizes by letter, a float type and layouts; nothing but a name for the case, and what its operands are made by."""

    sizes: dict[str, int]
    type: str = "float32"
    layout: str = "plain"
    pictured: str = "plain"

    def names(self, library: object) -> dict:
        names = {"torch": library, "F": library.nn.functional, "T": getattr(library, self.type), **self.sizes,
                 "LAYOUT": self.layout, "PICTURED": self.pictured}
        exec(HELPERS, names)
        return names


@dataclasses.dataclass(frozen=True)
class Case:
    family: str
    code: str
    number: int = 0                     # of its draw; zero stands for middle sizes

    def needs(self) -> str:
        """Text that names everything the case is made of: its own and that of its operands."""
        return " ".join((self.code, *(OPERANDS[name] for name in operands_in(self.code))))

    def draws(self, seed: int) -> Iterator[Draw]:
        """What to try, in turn, until PyTorch takes one."""
        middle = {name: size for name, (size, _, _) in SIZES.items()}
        if not self.number:
            yield Draw(middle)
            return
        source = random.Random(f"{seed} {self.number} {self.code}")
        for _ in range(TRIES):
            sizes = {name: log_uniform(source, low, high) for name, (_, low, high) in SIZES.items()}
            if all(math.prod(sizes[letter] for letter in letters) <= limit for letters, limit in LIMITS.items()
                   if set(letters) <= set(re.findall(r"\b[A-Z]\b", self.needs()))):
                yield Draw(sizes, source.choice(TYPES), source.choice(LAYOUTS), source.choice(PICTURED))

    def title(self, draw: Draw) -> str:
        """The case with what was drawn for it, and nothing else of the draw."""
        text = self.needs()
        said = [f"{name}={draw.sizes[name]}" for name in SIZES if re.search(rf"\b{name}\b", text)]
        said += [draw.type] if re.search(r"\bT\b", text) else []
        said += [draw.layout] if "laid(" in text else []
        said += [draw.pictured] if "pictured(" in text else []
        return f"{self.code}  [{' '.join(said)}]"


def log_uniform(source: random.Random, low: int, high: int) -> int:
    size = round(math.exp(source.uniform(math.log(low), math.log(high))))
    return max(low, size // 8 * 8) if size >= 16 and source.random() < 0.5 else size


def operands_in(code: str) -> list[str]:
    return [name for name in dict.fromkeys(re.findall(r"\b[a-z]\w*\b", code)) if name in OPERANDS]


def members(table: str) -> Iterator[tuple[str, str, str]]:
    """First operand, the others, the method's name."""
    for line in table.strip().splitlines():
        operands, methods = line.split(": ")
        for first, _, others in (given.partition(" ") for given in operands.split(", ")):
            yield from ((first, others, method) for method in methods.split())


def table_statements(family: str, table: str) -> Iterator[str]:
    for first, others, method in members(table):
        named = "dim=" if method in ("norm", "aminmax") else ""
        if family == "folds":
            yield from (f"{first}.{method}({at})" for at in ("", f"{named}1", f"{named}0")[method == "logsumexp":])
        elif family == "rows":
            yield f"{first}.{method}({named}1)"
        else:
            yield f"{first}.{method}({', '.join(others.split())})"


def expressions() -> dict[str, str]:
    """Every expression once, with its family."""
    found = {code: family for family, table in TABLES.items() for code in table_statements(family, table)}
    for family, text in STATEMENTS.items():
        for line in text.strip().splitlines():
            found.update((code.strip(), family) for code in line.split(";"))
    return found


def cases(draws: int = 3) -> list[Case]:
    numbers = range(1, draws + 1) if draws else [0]
    return [Case(family, code, number) for code, family in expressions().items() for number in numbers]


# --- measuring --------------------------------------------------------------------------------------------------------

def operands_of(case: Case, names: dict) -> dict:
    """The operands of a case, of the library in `names`. Same seeds, same numbers in both."""
    for name in operands_in(case.code):
        names["torch"].manual_seed(len(name) + sum(map(ord, name)))
        names[name] = eval(OPERANDS[name], names)
    return names


def timed(code: object, names: dict) -> Callable[[], float]:
    """Seconds of a call by the clock of the processor, over as many as a sample takes."""
    for _ in range(2):                  # the first call may compile, the second plan for any shape
        exec(code, {**names, "count": 1})
    start = time.thread_time()
    exec(code, {**names, "count": 1})
    names = {**names, "count": max(1, round(SAMPLE / max(time.thread_time() - start, 1e-7)))}

    def sample() -> float:
        start = time.thread_time()
        exec(code, names)
        return (time.thread_time() - start) / names["count"]

    return sample


class Refused(Exception):
    """PyTorch takes none of a case's draws."""


def accepted(case: Case, seed: int, library: object) -> tuple[Draw, dict]:
    """The first draw PyTorch takes, with its operands made."""
    error: object = "no draw within the limits"
    for draw in case.draws(seed):
        try:
            names = operands_of(case, draw.names(library))
            start = time.thread_time()
            eval(case.code, names)
            if time.thread_time() - start < SLOWEST:
                return draw, names
            error = "too slow at every draw"
        except Exception as refusal:
            error = refusal
    raise Refused(str(error).splitlines()[0] if str(error) else repr(error))


def measure(case: Case, draw: Draw, theirs: dict, library: object, rounds: int) -> tuple[float, float]:
    """Seconds of a call, the least: PyTorch's, ours."""
    code = compile(f"for _ in range(count): {case.code}", "<case>", "exec")
    samples = [timed(code, theirs), timed(code, operands_of(case, draw.names(library)))]
    least = [math.inf, math.inf]
    for turn in range(3 * rounds):
        for k in (0, 1) if turn % 2 else (1, 0):
            least[k] = min(least[k], samples[k]())
        if turn >= rounds - 1 and least[0] > 1.1 * least[1]:
            break                       # faster beyond doubt; what is not has three times the turns
    return least[0], least[1]


def work_of(case: Case, names: dict) -> tuple[float, float]:
    """Flops that PyTorch counts in a call, and bytes of operands and results."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        try:
            result = eval(case.code, names)
        except RuntimeError:            # the counter's hooks do not stand all that `train` differentiates by
            result = None
    tensors = [names[name] for name in operands_in(case.code)]
    tensors += result if isinstance(result, (tuple, list)) else [result]
    layers = [given for given in tensors if hasattr(given, "parameters")]
    tensors += [weight for layer in layers for weight in layer.parameters()]
    found = [tensor for tensor in tensors if hasattr(tensor, "element_size")]
    return counter.get_total_flops(), sum(tensor.numel() * tensor.element_size() for tensor in found)


@dataclasses.dataclass
class Row:
    """What was measured of one case."""

    family: str
    case: str
    torch: float
    rushlight: float
    floor: float = 0.0                  # seconds it takes at least; zero where not asked

    @property
    def ratio(self) -> float:
        return self.torch / self.rushlight

    def text(self) -> str:
        share = f"{self.floor / self.rushlight:5.0%}" if self.floor else "     "
        return f"{self.ratio:6.2f} {self.torch * 1e6:10.1f}u {self.rushlight * 1e6:10.1f}u {share}  {self.case}"


def one(case: Case, options: argparse.Namespace, libraries: tuple, floor: Floor | None) -> Row:
    draw, names = accepted(case, options.seed, libraries[0])
    row = Row(case.family, case.title(draw), *measure(case, draw, names, libraries[1], options.rounds))
    if floor is not None and row.ratio < 1:
        row.floor = floor.seconds(*work_of(case, names))
    return row


# --- reporting --------------------------------------------------------------------------------------------------------

def summary(rows: list[Row]) -> str:
    """A line per family, the worst mean first, and one for all."""
    families: dict[str, list[float]] = {}
    for row in rows:
        families.setdefault(row.family, []).append(row.ratio)
    lines = []
    for family, ratios in sorted(families.items(), key=lambda item: statistics.geometric_mean(item[1])):
        below, far = sum(ratio < 1 for ratio in ratios), sum(ratio < 0.8 for ratio in ratios)
        lines.append(f"{family:14s} {len(ratios):5d} cases, mean {statistics.geometric_mean(ratios):5.2f}, least"
                     f" {min(ratios):5.2f}, {below} below 1.0 ({below / len(ratios):.1%}), {far} below 0.8")
    ratios = [row.ratio for row in rows]
    if ratios:
        lines.append(f"{len(ratios)} cases, geometric mean {statistics.geometric_mean(ratios):.2f},"
                     f" {sum(ratio < 1 for ratio in ratios)} below 1, {sum(ratio < 0.8 for ratio in ratios)} below 0.8")
    return "\n".join(lines)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks sweep", description="Ops and layers at random sizes.")
    parser.add_argument("pattern", nargs="*", default=[""], help="parts of the text of cases")
    parser.add_argument("--family", nargs="*", choices=[*TABLES, *STATEMENTS], help="of these families only")
    parser.add_argument("--draws", type=int, default=3, help="of each case (default 3; 0: middle sizes)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--below", type=float, default=1.0, help="print the ratios below this (default 1.0)")
    parser.add_argument("--json", help="a file for the times")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-floor", action="store_true", help="measure no floor")
    parser.add_argument("--list", action="store_true", help="print the cases")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    chosen = [case for case in cases(options.draws) if any(part in case.code for part in options.pattern)
              and (not options.family or case.family in options.family)]
    if options.list:
        print("\n".join(f"{case.family:14s} {case.code}" for case in chosen))
        return
    import torch

    import rushlight

    floor = None if options.no_floor else measure_floor(1, clock="cpu")
    for library in (torch, rushlight):
        library.set_num_threads(1)
    rows, failed = [], []
    for case in chosen:
        try:
            rows.append(one(case, options, (torch, rushlight), floor))
        except Exception as error:      # one side lacks it: the rest is still worth knowing
            reason = str(error).splitlines()[0] if str(error) else ""
            failed.append(f"failed {case.code} ({case.number}): {type(error).__name__}: {reason}")
        gc.collect()
    slow = [row.text() for row in sorted(rows, key=lambda row: row.ratio) if row.ratio < options.below]
    print("\n".join((*slow, *failed)))
    print(summary(rows))
    if options.json:
        found = [{**dataclasses.asdict(row), "ratio": row.ratio} for row in rows]
        Path(options.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
