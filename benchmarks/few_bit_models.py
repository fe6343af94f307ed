"""What quantization costs a trained model, here and in PyTorch: accuracy or loss, and the size of the file.

    python -m benchmarks.few_bit_models               both models
    python -m benchmarks.few_bit_models --only gpt    the language model alone

A residual network (examples/quantize.py) and a small GPT (examples/gpt.py) are trained once, here; both libraries load
the same weights and quantize them by the same program: PyTorch's own flows, and torchao's where it is installed. Each
line: the way, our figure and PyTorch's, our file and PyTorch's, and whether they are within a point (1% of the loss)
and 5% of the size.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
POINT, PERCENT, LARGER = 1.0, 1.01, 1.05

GPT = '''
import copy, io, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {examples!r})
import torch
sys.modules["rushlight"] = torch      # the example's one line that differs
from gpt import GPT, Config, held_out_loss
from characters import read_text
kept = torch.load({weights!r})
data = torch.tensor([kept["letters"].index(c) for c in read_text(limit=1_200_000) if c in kept["letters"]])
whole = GPT(Config(**kept["config"]))
whole.load_state_dict(kept["state"])
whole.eval()

def report(name, model):
    torch.manual_seed(1)
    loss = held_out_loss(model, data[-len(data) // 10:], model.config.context)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    print(f"{{name}}\\t{{loss:.5f}}\\t{{len(file.getvalue())}}")

report("32 bits", whole)
report("dynamic", torch.ao.quantization.quantize_dynamic(copy.deepcopy(whole), {{torch.nn.Linear}}))
try:
    from torchao.quantization import (Float8WeightOnlyConfig, Int8DynamicActivationInt8WeightConfig,
                                      Int8WeightOnlyConfig, IntxWeightOnlyConfig, quantize_)
    from torchao.quantization.granularity import PerGroup
except ImportError:
    sys.exit()
for name, config in {{
    "int8": Int8WeightOnlyConfig(), "int8, inputs too": Int8DynamicActivationInt8WeightConfig(),
    "int4": IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)), "float8": Float8WeightOnlyConfig(),
}}.items():
    model = copy.deepcopy(whole)
    quantize_(model, config)
    report(name, model)
'''


def run(*words: str, cwd: Path = EXAMPLES) -> str:
    done = subprocess.run([sys.executable, "-W", "ignore", *words], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)[:80]} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def network(folder: Path) -> list[tuple[str, list[float], list[float]]]:
    """(way, accuracies in percent, sizes in K), ours first."""
    weights = str(folder / "network.pt")
    texts = [run("quantize.py", "--save", weights), run("quantize.py", "--library", "torch", "--load", weights)]
    found = (re.findall(r"^(\S.*?) +([\d.]+)% +([\d.]+) K", text, re.M) for text in texts)
    rows = [{way: (float(accuracy), float(size)) for way, accuracy, size in lines} for lines in found]
    return [(way, [r[way][0] for r in rows], [r[way][1] for r in rows]) for way in rows[0]]


def language(folder: Path, steps: int) -> list[tuple[str, list[float], list[float]]]:
    """(way, losses, sizes in K), ours first."""
    weights, program = str(folder / "gpt.pt"), folder / "program.py"
    run("gpt.py", "--steps", str(steps), "--save", weights)
    program.write_text(GPT.format(examples=str(EXAMPLES), weights=weights))
    texts = [run("-m", "rushlight", "run", str(program)), run(str(program))]
    lines = ([line.split("\t") for line in text.splitlines() if "\t" in line] for text in texts)
    rows = [{way: (float(loss), int(size) / 1024) for way, loss, size in of} for of in lines]
    return [(way, [r[way][0] for r in rows], [r[way][1] for r in rows]) for way in rows[0] if way in rows[1]]


def show(title: str, rows: list[tuple[str, list[float], list[float]]], is_loss: bool) -> bool:
    print(f"\n{title}\n{'way':20} {'ours':>9} {'PyTorch':>9} {'K':>9} {'K':>9}")
    good = True
    for way, (ours, theirs), (size, other) in rows:
        near = ours <= theirs * PERCENT if is_loss else ours >= theirs - POINT
        small = size <= other * LARGER
        good &= near and small
        words = "" if near and small else " <-- " + " and ".join(
            word for word, fine in (("figure", near), ("size", small)) if not fine)
        print(f"{way:20} {ours:9.4f} {theirs:9.4f} {size:9.1f} {other:9.1f}{words}")
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=("network", "gpt"))
    parser.add_argument("--steps", type=int, default=600, help="of training the language model")
    options = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory() as name:
        if options.only != "gpt":
            good &= show("Residual network on digits: accuracy in percent", network(Path(name)), False)
        if options.only != "network":
            good &= show("GPT of letters: loss", language(Path(name), options.steps), True)
    sys.exit(not good)


if __name__ == "__main__":
    main()
