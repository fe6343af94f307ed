"""Two pages that run a model in the browser: a pad that reads digits, and a small GPT that writes.

Enters: a folder. Leaves: `digits.html` and `gpt.html` in it, each a single file that needs no network: the models are
trained here, compiled to WebAssembly by `rushlight.freestanding`, and lie in the pages with their weights.

    python examples/browser/build.py FOLDER               at most eight minutes on two cores
    python examples/browser/build.py FOLDER --quick       hardly trained: to work on the pages
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import drawn_digits  # noqa: E402
import gpt  # noqa: E402
from characters import read_text  # noqa: E402
from step import Step  # noqa: E402
from webgpu import recorded  # noqa: E402

import rushlight as torch  # noqa: E402
from rushlight.freestanding import aot_compile  # noqa: E402

STEPS, CONTEXT, RATE = 2500, 64, 3e-3       # of the GPT's training, where there is time for as many steps
TRAINED = 330                               # seconds after which training ends; what is left of eight minutes compiles
OPENING = "Return the "


def steps_in(seconds: float, ten: Callable[[], None]) -> int:
    """How many steps of training fit into `seconds`, measured by `ten` of them."""
    ten()                               # kernels that are used for the first time are compiled
    started = time.perf_counter()
    ten()
    return max(1, int(10 * seconds / (time.perf_counter() - started)))


def writer(is_quick: bool, seconds: float = TRAINED) -> tuple[gpt.GPT, str]:
    """A GPT trained for about `seconds` at most on the standard library's docstrings, and its letters."""
    torch.manual_seed(0)
    text = read_text(limit=1_200_000)
    letters = "".join(sorted(set(text)))
    number_of = {letter: number for number, letter in enumerate(letters)}
    data = torch.tensor([number_of[letter] for letter in text])
    model = gpt.GPT(gpt.Config(letters=len(letters), context=CONTEXT, spread=0.06))
    held_out, context = len(data) // 10, model.config.context

    def ten_steps() -> None:
        gpt.train(gpt.GPT(model.config), data, 10, rate=RATE, context=context)

    steps = 2 if is_quick else min(STEPS, steps_in(seconds, ten_steps))
    gpt.train(model, data[:-held_out], steps, rate=RATE, context=context)
    print(f"gpt: {steps} steps, held-out loss {gpt.held_out_loss(model, data[-held_out:], context):.3f} nats a letter")
    return model, letters


def page(name: str, program: torch.nn.Module, args: tuple, facts: dict[str, Any], **more: str) -> str:
    """The page `name`: its frame from `pages/`, with the program compiled for WebAssembly inside, and `more` texts."""
    with tempfile.TemporaryDirectory() as scratch:
        made = aot_compile(program, args, target="wasm32", name=name, folder=scratch)
        contents = {
            "style": (HERE / "pages" / "style.css").read_text(encoding="utf-8"),
            "wasm": base64.b64encode(Path(made.object).read_bytes()).decode(),
            "weights": base64.b64encode(Path(made.weights).read_bytes()).decode(),
            "loader": Path(made.javascript).read_text(encoding="utf-8"),
            "common": (HERE / "pages" / "common.js").read_text(encoding="utf-8"),
            "facts": as_script(facts),
            **more,
        }
    text = (HERE / "pages" / f"{name}.html").read_text(encoding="utf-8")
    for key, value in contents.items():
        text = text.replace(f"@{key}@", value)
    return text


def as_script(data: Any) -> str:
    """Data as JSON of which no letter ends the script that it stands in."""
    return json.dumps(data).replace("<", "\\u003c")


def digits_page(network: torch.nn.Module) -> str:
    size = drawn_digits.FRAME
    facts = {"frame": size, "ink": drawn_digits.INK, "pen": sum(drawn_digits.PEN) / 2}
    print(f"digits: of new drawings it reads {drawn_digits.share_right(network, *drawn_digits.drawings(100)):.1%}")
    image = torch.zeros(1, 1, size, size)
    gpu = (HERE / "pages" / "webgpu.js").read_text(encoding="utf-8")
    return page("digits", network, (image,), facts, gpu=gpu, webgpu=as_script(recorded(network, image)))


def gpt_page(model: gpt.GPT, letters: str) -> str:
    step = Step(model).eval()
    state = step.empty()
    facts = {"letters": letters, "context": model.config.context, "state": state.numel(), "opening": OPENING}
    return page("gpt", step, (torch.tensor([0]), torch.tensor([0]), state, state), facts)


def put(folder: Path, name: str, text: str) -> None:
    """Write a page whole or not at all."""
    unfinished = folder / f".{name}.part"
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, folder / name)
    print(f"wrote {folder / name}: {len(text.encode()):,} bytes", flush=True)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true", help="hardly train")
    options = parser.parse_args(words)
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        print(f"build.py: {options.folder} cannot be a folder: {problem.strerror}. Name another.", file=sys.stderr)
        return 2
    started = time.perf_counter()
    put(options.folder, "digits.html", digits_page(drawn_digits.reader(options.quick)))
    left = max(60.0, TRAINED - (time.perf_counter() - started))
    put(options.folder, "gpt.html", gpt_page(*writer(options.quick, left)))
    print(f"{time.perf_counter() - started:.0f} s in all; open the pages from disk")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
