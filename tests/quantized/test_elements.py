"""Elements, windows, rows and tables of quantized tensors against PyTorch 2.13: every integer, scale and stride.

Answers are stored beside this file (made by running it as a script where PyTorch is installed), and compared with
PyTorch itself where it is.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
import zlib
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from elements_programs import programs

STORED = Path(__file__).with_name("elements_answers.txt")


def answer(run: Any) -> str:
    """What a program gives, in one line: type, sizes, strides, scale and zero point, and a sum over the bytes."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            t = run()
    except Exception as e:
        return type(e).__name__
    quantizer = ""
    plain = t
    if t.is_quantized:
        quantizer = f" {t.q_scale():.9g} {t.q_zero_point()}"
        plain = t.int_repr()
    plain = plain.contiguous()
    data = bytes(plain.flatten().tolist()) if str(plain.dtype).endswith("uint8") else plain.numpy().tobytes()
    name = str(t.dtype).rpartition(".")[2]
    strides = "x".join(map(str, t.stride()))
    return f"{name} {'x'.join(map(str, t.shape))} {strides}{quantizer} {zlib.crc32(data):08x}"


def stored() -> dict[str, str]:
    lines = STORED.read_text().splitlines()
    return dict(line.rsplit(": ", 1) for line in lines)


PARTS = 8       # a part compiles its kernels within seconds


@pytest.mark.parametrize("part", range(PARTS))
def test_integers_are_the_stored_ones(part: int) -> None:
    torch = importlib.import_module("rushlight")
    known, every = stored(), programs(torch)
    assert every.keys() == known.keys()
    found = {name: answer(every[name]) for name in list(every)[part::PARTS]}
    assert {name: (a, known[name]) for name, a in found.items() if a != known[name]} == {}


def test_stored_answers_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        pytest.skip("answers are those of x86's engine on its widest vectors")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        known = stored()
        found = {name: answer(run) for name, run in programs(torch).items()}
    finally:
        torch.set_num_threads(threads)
    assert {n: a for n, a in found.items() if known.get(n) != a} == {}


if __name__ == "__main__":
    import torch as _torch

    _torch.set_num_threads(1)
    STORED.write_text("".join(f"{name}: {answer(run)}\n" for name, run in programs(_torch).items()))
