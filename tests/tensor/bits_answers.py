"""Programs over tensors that show conjugates and negatives, and what they give.

Enters: `torch` (PyTorch's or ours) and the text of a program that leaves its result in `r`. Leaves: the result as text:
for a tensor its bits, whether it is a view, its dtype and its elements; for a program that is refused the class of the
exception. `bits_programs.txt` has programs with their answers, which are PyTorch's where the line begins with `#=`, and
ours alone where it begins with `#~`: there PyTorch ignores the bit, or has no rule for it.
"""

from __future__ import annotations

import copy
import io
import warnings
from pathlib import Path
from typing import Any, NamedTuple


class Program(NamedTuple):
    """A program and its answer."""

    text: str
    answer: str
    is_torchs: bool


def programs() -> list[Program]:
    """What bits_programs.txt holds."""
    found = []
    for block in Path(__file__).with_name("bits_programs.txt").read_text().strip().split("\n\n"):
        text, _, answer = block.rpartition("\n")
        found.append(Program(text, answer[3:], answer[1] == "="))
    return found


def shown(torch: Any, r: Any) -> str:
    """A result as text: numbers to four digits, zeros without a sign."""
    if isinstance(r, torch.Tensor):
        plain = r.detach().resolve_conj().resolve_neg()
        plain = torch.view_as_real(plain.to(torch.complex64)) if plain.is_complex() else plain
        numbers = ", ".join(f"{round(float(n), 4) + 0.0:g}" for n in plain.flatten().tolist())
        bits = "conj " * r.is_conj() + "neg " * r.is_neg() + "view " * r._is_view()
        return f"{bits}{str(r.dtype).rpartition('.')[2]}[{numbers}]"
    if isinstance(r, (tuple, list)):
        return "(" + ", ".join(shown(torch, x) for x in r) + ")"
    return repr(r)


def answer(torch: Any, text: str) -> str:
    """What a program gives."""
    torch.manual_seed(0)
    numbers = [[1 + 2j, 3 - 1j], [0.5j, 2]]
    names = {"torch": torch, "io": io, "copy": copy, "x": torch.tensor(numbers), "X": lambda: torch.tensor(numbers)}
    names["W"] = lambda: torch.tensor(numbers, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compile(text, "program", "exec"), names)   # noqa: S102  the programs are this test's own
            return shown(torch, names["r"])
        except Exception as error:   # noqa: BLE001  which one it is, is the answer
            return type(error).__name__
