"""Serve a small GPT, and talk to it with OpenAI's client.

    pip install 'rushlight[serve]' openai
    python examples/gpt.py --save gpt.pt           some minutes; or none of it: then 50 steps are made here
    python examples/serve/talk.py gpt.pt

The checkpoint of `examples/gpt.py` becomes a folder in Hugging Face's form (a GPT-2 whose words are letters), the
server is started on it, and three clients ask at once.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import rushlight as torch

EXAMPLES = Path(__file__).resolve().parents[1]


def write_folder(checkpoint: dict[str, Any], folder: Path) -> None:
    """config.json, model.safetensors and tokenizer.json of a checkpoint."""
    from safetensors.numpy import save_file

    config, state, letters = checkpoint["config"], checkpoint["state"], checkpoint["letters"]
    names = {"letters": "transformer.wte", "places": "transformer.wpe", "norm": "transformer.ln_f", "head": "lm_head"}
    parts = {"norm1": "ln_1", "qkv": "attn.c_attn", "out": "attn.c_proj", "norm2": "ln_2", "mlp.0": "mlp.c_fc",
             "mlp.2": "mlp.c_proj"}
    tensors = {}
    for name, value in state.items():
        home, _, kind = name.rpartition(".")
        if home.startswith("blocks."):
            _, number, part = home.split(".", 2)
            home = f"transformer.h.{number}.{parts[part]}"
            value = value.t() if ".ln_" not in home and kind == "weight" else value      # GPT-2's lie the other way
        else:
            home = names[home]
        tensors[f"{home}.{kind}"] = value.contiguous().numpy()
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({
        "model_type": "gpt2", "n_embd": config["width"], "n_layer": config["layers"], "n_head": config["heads"],
        "n_positions": config["context"], "vocab_size": config["letters"], "layer_norm_epsilon": 1e-5,
        "activation_function": "gelu", "tie_word_embeddings": False,
    }))
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({letter: n for n, letter in enumerate(letters)}, unk_token=letters[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.save(str(folder / "tokenizer.json"))


def talk(port: str) -> None:
    """Ask as any program for OpenAI's servers does."""
    from openai import OpenAI

    client = OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none")

    def ask(opening: str) -> str:
        answer = client.completions.create(model="gpt", prompt=opening, max_tokens=60, temperature=0.8, seed=1)
        return opening + answer.choices[0].text

    with ThreadPoolExecutor() as pool:
        for text in pool.map(ask, ("Return the ", "This module ", "A class ")):
            print(repr(text))
    print("streamed: ", end="")
    for piece in client.completions.create(model="gpt", prompt="If ", max_tokens=40, temperature=0, stream=True):
        print(piece.choices[0].text, end="", flush=True)
    print()


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    checkpoint = Path(sys.argv[1]) if len(sys.argv) > 1 else folder / "gpt.pt"
    if not checkpoint.exists():
        train = [sys.executable, str(EXAMPLES / "gpt.py"), "--steps", "50", "--save", str(checkpoint)]
        subprocess.run(train, check=True)
    write_folder(torch.load(checkpoint), folder)
    command = [sys.executable, "-m", "rushlight", "serve", "--models", f"gpt={folder}", "--port", "0", "--no-grpc",
               "--management-port", "0", "--metrics-port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    line = server.stdout.readline()
    try:
        talk(line.partition("http ")[2].partition(" ")[0])
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
