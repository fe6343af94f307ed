"""Train a small character model on the English text of Python's own standard library.

Enters: the docstrings of the standard library of the interpreter that runs this (found on the machine, nothing
is downloaded). Leaves: the accuracy of guessing the next character on held-out modules, a sample of the model's
own prose, and a speed line. Only tensors, autograd and a hand-written SGD update are used; there is no module
or optimizer library here.

    python examples/characters.py                    a minute on two cores
    python examples/characters.py --steps 200        a quick look
    python examples/characters.py --library torch    the same program on PyTorch, for comparison
"""

from __future__ import annotations

import argparse
import ast
import importlib
import random
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

CONTEXT = 16  # characters the model sees
EMBEDDING = 24
HIDDEN = 256
BATCH = 256
SEED = 20


def read_text(limit: int) -> str:
    """Docstrings of the standard library, module by module in alphabetical order, about `limit` characters."""
    pieces: list[str] = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError, OSError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node)
                if text and text.isascii() and len(text) > 40:
                    pieces.append(text)
        if sum(map(len, pieces)) > limit:
            break
    if not pieces:
        sys.exit("No standard library sources were found beside this interpreter, so there is nothing to train on.")
    return "\n\n".join(pieces)


def make_parameters(torch: Any, vocabulary: int) -> dict[str, Any]:
    """Weights scaled so that activations start near unit variance."""
    sizes = {"embedding": (vocabulary, EMBEDDING), "w1": (CONTEXT * EMBEDDING, HIDDEN), "b1": (HIDDEN,),
             "w2": (HIDDEN, HIDDEN), "b2": (HIDDEN,), "w3": (HIDDEN, vocabulary), "b3": (vocabulary,)}
    parameters = {}
    for name, size in sizes.items():
        scale = 0.0 if len(size) == 1 else 1.0 if name == "embedding" else (2.0 / size[0]) ** 0.5
        parameters[name] = (torch.randn(*size) * scale).requires_grad_(True)
    return parameters


def predict(torch: Any, p: dict[str, Any], context: Any) -> Any:
    """Logits (batch, vocabulary) of the character after each row of `context` (batch, CONTEXT)."""
    x = p["embedding"][context].reshape(context.shape[0], CONTEXT * EMBEDDING)
    x = torch.relu(x @ p["w1"] + p["b1"])
    x = torch.relu(x @ p["w2"] + p["b2"])
    return x @ p["w3"] + p["b3"]


def pick(torch: Any, data: Any, starts: Any) -> tuple[Any, Any]:
    """Contexts (batch, CONTEXT) beginning at `starts`, and the characters that follow them."""
    where = starts.unsqueeze(1) + torch.arange(CONTEXT)
    return data[where], data[starts + CONTEXT]


def measure_accuracy(torch: Any, p: dict[str, Any], data: Any) -> float:
    right, count = 0, min(len(data) - CONTEXT, 20_000)
    with torch.no_grad():
        for begin in range(0, count, 1000):
            starts = torch.arange(begin, min(begin + 1000, count))
            context, target = pick(torch, data, starts)
            right += int((predict(torch, p, context).argmax(1) == target).sum())
    return right / count


def sample(torch: Any, p: dict[str, Any], letters: str, opening: str, length: int) -> str:
    """Continue `opening` by `length` characters drawn from the model."""
    numbers = [letters.index(letter) for letter in opening.rjust(CONTEXT)[-CONTEXT:]]
    chance = random.Random(SEED)
    with torch.no_grad():
        for _ in range(length):
            logits = predict(torch, p, torch.tensor([numbers[-CONTEXT:]]))
            weights = torch.softmax(logits / 0.7, 1)[0].tolist()
            numbers.append(chance.choices(range(len(letters)), weights)[0])
    return opening + "".join(letters[number] for number in numbers[CONTEXT:])


def show_progress(step: int, steps: int, loss: float, started: float) -> None:
    """A bar redrawn in place on a terminal; ten lines in all elsewhere."""
    terminal = sys.stdout.isatty()
    if not terminal and step % max(steps // 10, 1) and step != steps:
        return
    share = step / steps
    left = (time.perf_counter() - started) * (1 - share) / share
    line = f"[{'#' * int(30 * share):30}] {step:5}/{steps}  loss {loss:.3f}  {left:4.0f} s left"
    print(("\r" if terminal else "") + line, end="" if terminal and step < steps else "\n", flush=True)


def train(torch: Any, p: dict[str, Any], data: Any, steps: int) -> float:
    """Fit the parameters in place by SGD with a decaying rate; the seconds it took."""
    started, smooth = time.perf_counter(), None
    for step in range(1, steps + 1):
        context, target = pick(torch, data, torch.randint(0, len(data) - CONTEXT, (BATCH,)))
        loss = torch.nn.functional.cross_entropy(predict(torch, p, context), target)
        loss.backward()
        rate = 0.3 * (1 - step / steps) + 0.01
        with torch.no_grad():
            for parameter in p.values():
                parameter -= rate * parameter.grad
                parameter.grad = None
        if step % 20 == 0 or step == steps:
            now = loss.item()
            smooth = now if smooth is None else 0.9 * smooth + 0.1 * now
            show_progress(step, steps, smooth, started)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=3000, help="SGD steps (default 3000)")
    parser.add_argument("--library", default="rushlight", help="rushlight or torch")
    options = parser.parse_args()
    torch = importlib.import_module(options.library)
    torch.manual_seed(SEED)

    text = read_text(limit=1_200_000)
    letters = "".join(sorted(set(text)))
    number_of = {letter: number for number, letter in enumerate(letters)}
    data = torch.tensor([number_of[letter] for letter in text])
    held_out = len(data) // 10
    train_data, test_data = data[:-held_out], data[-held_out:]
    p = make_parameters(torch, len(letters))
    count = sum(parameter.numel() for parameter in p.values())
    print(f"{options.library}: {len(text):,} characters of standard library docstrings, {len(letters)} letters, "
          f"{count:,} parameters")

    seconds = train(torch, p, train_data, options.steps)
    print(f"\nheld-out accuracy: {measure_accuracy(torch, p, test_data):.1%} of next characters "
          f"(guessing at random: {1 / len(letters):.1%})")
    print(f"speed: {options.steps / seconds:.0f} steps/s, {options.steps * BATCH / seconds:,.0f} characters/s\n")
    print(sample(torch, p, letters, "Return the ", 300))


if __name__ == "__main__":
    main()
