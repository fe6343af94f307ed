"""A language model on a CUDA device: the kernel over pages against a reference, and tokens/s beside Transformers.

    python -m benchmarks.serving_cuda                   a 1B-class Llama with random weights in bf16, 64 sequences
    python -m benchmarks.serving_cuda --device cpu --small

Enters: nothing. Leaves: a short table; a part that fails is a line of it, and the rest goes on. Transformers runs in a
process of its own, and is left out where it or PyTorch's CUDA is not installed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import traceback
from typing import Any

BIG = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
       "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 2048, "tie_word_embeddings": True}
SMALL = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 8,
         "num_key_value_heads": 2, "vocab_size": 500, "max_position_embeddings": 512, "tie_word_embeddings": True}
REST = {"model_type": "llama", "rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 500000.0}
PATIENCE = 150     # seconds for Transformers


def line(what: str, *told: Any) -> None:
    print(f"{what:<52}", *told, flush=True)


def guarded(what: str, part: Any, *args: Any) -> Any:
    """What a part answers; None where it fails, which is told."""
    try:
        return part(*args)
    except Exception as error:
        line(what, f"FAILED: {type(error).__name__}: {str(error)[:300]}")
        traceback.print_exc(limit=-6, file=sys.stdout)
        return None


def check_kernel(device: str) -> None:
    """The device's attention over pages against gathered keys and values in single precision on the host."""
    import rushlight as rl
    from rushlight.definitions.attention.paged import gathered
    from rushlight.op import find_op
    from rushlight.op.extern import own_function

    if device != "cpu":
        own = own_function("_paged_attention", rl.device(device))
        line("paged attention: the device's own kernel", own is not None)
    attend = find_op("_paged_attention")
    rl.manual_seed(0)
    for code, heads, own, width, block, pages, window in (
        ("bfloat16", 32, 8, 64, 16, 40, 0), ("bfloat16", 8, 8, 128, 16, 70, 100), ("float16", 12, 4, 64, 32, 9, 0),
        ("float32", 6, 2, 80, 16, 33, 0), ("bfloat16", 8, 1, 256, 4, 20, 0), ("float32", 4, 4, 24, 1, 65, 7),
        ("bfloat16", 4, 2, 20, 16, 5, 0),
    ):
        dtype, tokens, sequences = getattr(rl, code), 9, 4
        query = rl.randn(tokens, heads, width).to(dtype)
        keys, values = (rl.randn(sequences * pages + 1, block, own, width).to(dtype) for _ in "kv")
        tables = (rl.randperm(sequences * pages) + 1).reshape(sequences, pages)
        rows = rl.tensor([0, 1, 2, 3, 3, 2, 1, 0, 0])
        most = pages * block
        near = [min(63, most - 1), min(64, most - 1)]
        positions = rl.tensor([0, 1, most - 1, most // 2, -1, most // 3, *near, most - 2])
        given = (query, keys, values, tables, rows, positions)
        found = attend(*[t.to(device) for t in given], window=window).cpu().float()
        wide = [t.float() for t in given[:3]]
        want = gathered(*wide, tables, rows, positions, window, width**-0.5)
        error = (found - want).abs().max().item()
        bound = {"float32": 1e-4, "float16": 4e-3, "bfloat16": 3e-2}[code]
        verdict = "ok" if error < bound else "WRONG"
        line(f"paged {code} {heads}/{own} heads of {width}, page {block}", f"{error:.1e} {verdict}")


def time_kernel(device: str, small: bool) -> None:
    """Bytes of keys and values per second, decoding 64 sequences."""
    import rushlight as rl
    from rushlight.op import find_op

    attend = find_op("_paged_attention")
    sequences, pages = (4, 4) if small else (64, 64)
    query = rl.randn(sequences, 32, 64, device=device).to(rl.bfloat16)
    keys, values = (rl.randn(sequences * pages, 16, 8, 64, device=device).to(rl.bfloat16) for _ in "kv")
    tables = rl.randperm(sequences * pages).reshape(sequences, pages).to(device)
    rows, positions = rl.arange(sequences, device=device), rl.full((sequences,), pages * 16 - 1, device=device)
    times = 3 if small else 50

    def run(n: int) -> float:
        start = time.perf_counter()
        for _ in range(n):
            found = attend(query, keys, values, tables, rows, positions)
        found[0, 0, 0].item()
        return time.perf_counter() - start

    run(3)
    spent = run(times) / times
    size = 2 * keys.numel() * 2
    line(f"decode {sequences} x {pages * 16} positions, 32/8 heads of 64",
         f"{spent * 1e6:.0f} us, {size / spent / 1e9:.0f} GB/s")


def config_of(small: bool) -> Any:
    from rushlight.serve.language.config import config_of as described

    return described({**REST, **(SMALL if small else BIG), "model_type": "llama", "dtype": "bfloat16"}, {})


def same_words(device: str) -> None:
    """A small model gives the same words on the device (steps captured and not) as on the host."""
    import rushlight as rl
    from rushlight.serve.language.engine import Engine
    from rushlight.serve.language.model import Decoder
    from rushlight.serve.language.sampling import Sampling
    from rushlight.serve.language.settings import Settings

    config = config_of(True)
    host = Decoder(config, None, rl.float32, "cpu", 512)
    found = []
    for place, captures in (("cpu", False), (device, False), (device, True)):
        decoder = Decoder(config, None, rl.float32, place, 512)
        copy_weights(decoder, host)
        engine = Engine(decoder, Settings(num_blocks=60, max_num_seqs=6, chunk=32, device=place, captures=captures))
        words: dict[int, list[int]] = {n: [] for n in range(9)}
        for n in words:
            engine.add(n, [(7 * n + 3 * k) % 500 for k in range(5 + 9 * n)], Sampling(max_tokens=24, temperature=0.0))
        while engine.busy:
            for event in engine.step():
                words[event.name].append(event.chosen.word)
        found.append(words)
    line("same words as on the host: step by step, captured", found[1] == found[0], found[2] == found[0])


def copy_weights(to: Any, source: Any) -> None:
    """The weights of one decoder into another."""
    to.words.copy_(source.words)
    to.end.weight.copy_(source.end.weight)
    for mine, theirs in zip(to.layers, source.layers, strict=True):
        for part in ("norm", "parts", "out", "second_norm"):
            getattr(mine, part).weight.copy_(getattr(theirs, part).weight)
        for part in ("up", "down"):
            getattr(mine.feed, part).weight.copy_(getattr(theirs.feed, part).weight)


def ours(device: str, small: bool, sequences: int, read: int, write: int) -> float:
    """Tokens written a second by the engine, prompts included."""
    import rushlight as rl
    from rushlight.serve.language.engine import Engine
    from rushlight.serve.language.model import Decoder
    from rushlight.serve.language.sampling import Sampling
    from rushlight.serve.language.settings import Settings

    start = time.perf_counter()
    decoder = Decoder(config_of(small), None, rl.bfloat16, device, 2048 if not small else 512)
    pages = -(-(read + write + 1) // 16)
    settings = Settings(num_blocks=pages * sequences + 8, max_num_seqs=sequences, max_model_len=pages * 16, chunk=2048,
                        device=device, shares=False)
    engine = Engine(decoder, settings)
    line("model and cache made", f"{time.perf_counter() - start:.1f} s")
    words = decoder.config.words
    best = 0.0
    for turn in range(3):
        for n in range(sequences):
            engine.add((turn, n), [(31 * n + 7 * k + turn) % words for k in range(read)],
                       Sampling(max_tokens=write, temperature=0.0, ignore_eos=True))
        start, steps, decoding = time.perf_counter(), 0, []
        while engine.busy:
            before = time.perf_counter()
            engine.step()
            steps += 1
            if len(engine.running) == sequences and all(s.left == 1 for s in engine.running):
                decoding.append(time.perf_counter() - before)
        spent = time.perf_counter() - start
        best = max(best, sequences * write / spent)
        typical = sorted(decoding)[len(decoding) // 2] if decoding else float("nan")
        line(f"ours, turn {turn}: {sequences} x ({read} read, {write} written)",
             f"{sequences * write / spent:.0f} tokens/s, {steps} steps, {typical * 1e3:.2f} ms a decoding step")
    return best


def theirs(device: str, small: bool, sequences: int, read: int, write: int) -> None:
    """The same by Transformers' generate, as one line of JSON."""
    sys.modules["torchvision"] = None      # type: ignore[assignment]  # not needed, and often of another build
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    given = {**REST, **(SMALL if small else BIG)}
    given.pop("model_type")
    with torch.device(device):
        model = LlamaForCausalLM(LlamaConfig(**given)).to(torch.bfloat16).eval()
    model.generation_config.eos_token_id = None
    prompts = torch.tensor([[(31 * n + 7 * k) % given["vocab_size"] for k in range(read)] for n in range(sequences)])
    prompts = prompts.to(device)
    best = 0.0
    for _ in range(2):
        start = time.perf_counter()
        out = model.generate(prompts, attention_mask=torch.ones_like(prompts), max_new_tokens=write, do_sample=False,
                             pad_token_id=0)
        out[0, -1].item()
        assert out.shape[1] == read + write, out.shape
        best = max(best, sequences * write / (time.perf_counter() - start))
    print(json.dumps({"rate": best, "version": torch.__version__}))


def other_process(chosen: argparse.Namespace, sizes: tuple[int, int, int]) -> float | None:
    """Transformers' rate; None where it cannot be had."""
    command = [sys.executable, "-m", "benchmarks.serving_cuda", "--theirs", "--device", chosen.device]
    command += ["--small"] if chosen.small else []
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        said = json.loads(done.stdout.strip().splitlines()[-1])
    except subprocess.TimeoutExpired:
        line("Transformers", f"took more than {PATIENCE} s")
        return None
    except (ValueError, IndexError):
        line("Transformers", f"not here: {(done.stderr.strip().splitlines() or ['?'])[-1][:200]}")
        return None
    line(f"Transformers' generate on PyTorch {said['version']}", f"{said['rate']:.0f} tokens/s")
    return float(said["rate"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="sizes that a CPU takes")
    parser.add_argument("--theirs", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    sizes = (4, 20, 12) if chosen.small else (64, 128, 256)
    if chosen.theirs:
        theirs(chosen.device, chosen.small, *sizes)
        return
    guarded("paged attention", check_kernel, chosen.device)
    guarded("paged attention, time", time_kernel, chosen.device, chosen.small)
    guarded("same words", same_words, chosen.device)
    mine = guarded("engine", ours, chosen.device, chosen.small, *sizes)
    other = guarded("Transformers", other_process, chosen, sizes)
    if mine and other:
        line("ratio", f"{mine / other:.2f}")


if __name__ == "__main__":
    main()
