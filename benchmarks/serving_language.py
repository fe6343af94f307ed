"""Language models: continuous against static batching, tokens/s beside Transformers' generate, memory of the cache.

    python -m benchmarks.serving_language               a GPT-2 of 10 million numbers with random weights, one thread

Enters: nothing. Leaves: a table of ratios, each of one run in which both sides take turns. Times are processor time,
except where a client waits: that is counted in steps of the engine, whose times are then put in. Transformers' part is
left out where it or PyTorch is not installed.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import rushlight as rl
from rushlight.serialization.tensor_files import save_file
from rushlight.serve.language.engine import Engine
from rushlight.serve.language.sampling import Sampling
from rushlight.serve.language.settings import Settings

CONFIG: dict[str, Any] = {
    "model_type": "gpt2", "n_embd": 384, "n_layer": 6, "n_head": 6, "vocab_size": 5000, "n_positions": 512,
    "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new", "eos_token_id": None, "bos_token_id": None,
    "architectures": ["GPT2LMHeadModel"], "dtype": "float32",
}
CLIENTS, REQUESTS, SHORTEST, LONGEST = 16, 48, 8, 256
READ = 16


def write_folder(folder: Path) -> None:
    """A GPT-2 with random weights, as Transformers reads it."""
    width, words = CONFIG["n_embd"], CONFIG["vocab_size"]
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (words, width), "wpe.weight": (CONFIG["n_positions"], width)}
    for n in range(CONFIG["n_layer"]):
        for name, inner, outer in (("attn.c_attn", width, 3 * width), ("attn.c_proj", width, width),
                                   ("mlp.c_fc", width, 4 * width), ("mlp.c_proj", 4 * width, width)):
            shapes |= {f"h.{n}.{name}.weight": (inner, outer), f"h.{n}.{name}.bias": (outer,)}
        for name in ("ln_1", "ln_2"):
            shapes |= {f"h.{n}.{name}.weight": (width,), f"h.{n}.{name}.bias": (width,)}
    shapes |= {"ln_f.weight": (width,), "ln_f.bias": (width,)}
    rl.manual_seed(0)
    tensors = {f"transformer.{k}": rl.randn(*s) * 0.05 + (1.0 if ".ln" in f".{k}" and k.endswith("weight") else 0.0)
               for k, s in shapes.items()}
    (folder / "config.json").write_text(json.dumps(CONFIG))
    with open(folder / "model.safetensors", "wb") as stream:
        save_file(tensors, stream, {"format": "pt"})


def engine_of(folder: Path, sequences: int, **settings: Any) -> Engine:
    return Engine.load(str(folder), Settings(max_num_seqs=sequences, shares=False, **settings))


def prompt(n: int) -> list[int]:
    return [(37 * n + 11 * k) % CONFIG["vocab_size"] for k in range(READ)]


def lengths(count: int) -> list[int]:
    """Answers of mixed lengths: as many between 8 and 16 as between 128 and 256."""
    chance = random.Random(0)
    return [round(math.exp(chance.uniform(math.log(SHORTEST), math.log(LONGEST)))) for _ in range(count)]


def run_clients(engine: Engine, is_static: bool) -> tuple[float, float]:
    """Clients ask again when they are answered. Static, as a server around `generate` is: a batch is computed whole
    until the last of it is done, then its words are told and the next one begins. (Tokens a second that were asked
    for, median seconds to the first one.)"""
    left = list(enumerate(lengths(REQUESTS)))
    asked: dict[int, float] = {}
    firsts: list[float] = []
    waiting: list[tuple[int, int]] = []
    clock, wanted = 0.0, sum(length for _, length in left)

    def ask() -> None:
        if left:
            waiting.append(left.pop(0))
            asked[waiting[-1][0]] = clock

    for _ in range(CLIENTS):
        ask()
    while waiting or engine.busy:
        if not is_static or not engine.busy:
            longest = max((length for _, length in waiting), default=0)
            for n, length in waiting:
                most = longest if is_static else length
                engine.add(n, prompt(n), Sampling(max_tokens=most, temperature=0.0, ignore_eos=True))
            waiting.clear()
        start = time.process_time()
        events = engine.step()
        clock += time.process_time() - start
        for event in events:
            if event.name in asked and (event.finish or not is_static):
                firsts.append(clock - asked.pop(event.name))
            if event.finish:
                ask()
    return wanted / clock, statistics.median(firsts)


def batching(folder: Path) -> None:
    """Continuous against static batching."""
    engine = engine_of(folder, CLIENTS)
    run_clients(engine, False)
    rates, waits = [], []
    for _ in range(3):
        (rate, first), (old_rate, old_first) = run_clients(engine, False), run_clients(engine, True)
        rates.append(rate / old_rate)
        waits.append(old_first / first)
    line(f"continuous against static, {CLIENTS} clients, {SHORTEST}-{LONGEST} words: tokens/s", rates, 2.0)
    line("the same: first token sooner", waits, 4.0)


def memory(folder: Path) -> None:
    """Blocks held at most by 64 sequences of mixed length, against room for the longest for each."""
    engine = engine_of(folder, 64, block_size=16)
    for n, length in enumerate(lengths(64)):
        engine.add(n, prompt(n), Sampling(max_tokens=length, temperature=0.0, ignore_eos=True))
    most = 0
    while engine.busy:
        engine.step()
        most = max(most, engine.blocks.count - 1 - engine.blocks.free)
    line("cache of 64 sequences against reserving the longest", [most * 16 / (64 * (READ + LONGEST))], 0.4, False)


def beside_transformers(folder: Path) -> None:
    """Tokens of processor time, 8 sequences in one batch."""
    sys.modules["torchvision"] = None      # type: ignore[assignment]  # not needed, and often of another build
    try:
        import torch
        from transformers import AutoModelForCausalLM
    except ImportError as error:
        print(f"Transformers is not here: {error}")
        return
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(str(folder)).eval()
    engine = engine_of(folder, 8)
    prompts, ratios, rates = [prompt(n) for n in range(8)], [], []
    given = torch.tensor(prompts)
    found: dict[int, list[int]] = {}
    for turn in range(4):
        start = time.process_time()
        found = {n: [] for n in range(8)}
        for n in range(8):
            engine.add(n, prompts[n], Sampling(max_tokens=128, temperature=0.0, ignore_eos=True))
        while engine.busy:
            for event in engine.step():
                found[event.name].append(event.chosen.word)
        middle = time.process_time()
        with torch.inference_mode():
            out = model.generate(given, attention_mask=torch.ones_like(given), max_new_tokens=128, do_sample=False,
                                 pad_token_id=0)
        end = time.process_time()
        if turn:
            ratios.append((end - middle) / (middle - start))
            rates.append(8 * 128 / (middle - start))
    same = sum(found[n] == out[n, READ:].tolist() for n in range(8))
    line(f"tokens/s against Transformers' generate, 8 sequences ({same} of 8 answers the same)", ratios, 1.5)
    print(f"    {statistics.median(rates):.0f} tokens a second of one processor")


def line(what: str, found: list[float], bar: float, is_least: bool = True) -> None:
    value = statistics.median(found)
    verdict = "ok" if (value >= bar if is_least else value <= bar) else "short"
    print(f"{what:<100} {value:6.2f}   bar {bar:g}   {verdict}", flush=True)


PARTS = {"batching": batching, "memory": memory, "transformers": beside_transformers}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all unless named")
    chosen = parser.parse_args()
    rl.set_num_threads(1)
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        write_folder(folder)
        for name in chosen.parts or PARTS:
            PARTS[name](folder)


if __name__ == "__main__":
    main()
