"""Beam search as a compiled program: lists of classes, dictionaries, early exits, a model inside, one archive.

Enters: nothing; the words are those of Python's own keywords and builtins. Leaves: a small character model, trained;
for a few beginnings the likeliest words that a search with a beam finds, by the compiled program as loaded from its
archive and by the same program run as Python; how long each takes.

    python examples/script_decode.py                     half a minute on one core
    python examples/script_decode.py --beam 8            a wider search
    python examples/script_decode.py --library torch     the same program on PyTorch
"""

from __future__ import annotations

import argparse
import builtins
import importlib
import io
import keyword
import time
from typing import Any, List, Tuple  # noqa: UP035 - the language's own words

ALPHABET = "abcdefghijklmnopqrstuvwxyz_."      # "." ends a word
LONGEST = 20
SEED = 3


def words() -> list[str]:
    found = {word.lower() for word in (*keyword.kwlist, *dir(builtins)) if word.replace("_", "").isalpha()}
    return sorted(word for word in found if not word.startswith("_") and len(word) < LONGEST)


def build(torch: Any) -> Any:
    nn = torch.nn
    Tensor = torch.Tensor

    class Letters(nn.Module):
        """The next letter, from the last one and a state."""

        def __init__(self, width: int = 96) -> None:
            super().__init__()
            self.width = width
            self.embed = nn.Embedding(len(ALPHABET) + 1, width)
            self.cell = nn.GRUCell(width, width)
            self.out = nn.Linear(width, len(ALPHABET))

        def forward(self, letters: Tensor, state: Tensor) -> Tuple[Tensor, Tensor]:  # noqa: UP006
            state = self.cell(self.embed(letters), state)
            return torch.log_softmax(self.out(state), 1), state

    class Search(nn.Module):
        """Keeps the likeliest beginnings, lengthens each by all letters, and keeps the likeliest again."""

        def __init__(self, model: nn.Module, beam: int, longest: int) -> None:
            super().__init__()
            self.model, self.beam, self.longest = model, beam, longest
            self.end = len(ALPHABET) - 1

        def forward(self, start: List[int]) -> List[Tuple[float, List[int]]]:  # noqa: UP006
            state = torch.zeros(1, self.model.width)
            scores = torch.zeros(1)
            last = torch.full([1], self.end + 1)
            for letter in start:
                _, state = self.model(last, state)
                last = torch.full([1], letter)
            alive: List[List[int]] = [start]  # noqa: UP006
            done: List[Tuple[float, List[int]]] = []  # noqa: UP006
            for _ in range(self.longest - len(start)):
                chances, state = self.model(last, state)
                total = (scores.unsqueeze(1) + chances).flatten()
                best, where = total.topk(min(self.beam, total.size(0)))
                rows: List[int] = []  # noqa: UP006
                longer: List[List[int]] = []  # noqa: UP006
                kept: List[float] = []  # noqa: UP006
                for i in range(best.size(0)):
                    place = int(where[i])
                    row, letter = place // (self.end + 1), place % (self.end + 1)
                    score = float(best[i])
                    if letter == self.end:
                        done.append((score / (len(alive[row]) + 1), alive[row]))
                        continue
                    rows.append(row)
                    kept.append(score)
                    longer.append(alive[row] + [letter])
                if len(longer) == 0 or len(done) >= 2 * self.beam:
                    break
                alive = longer
                scores = torch.tensor(kept)
                state = state[torch.tensor(rows)]
                last = torch.tensor([beginning[-1] for beginning in alive])
            return done

    return Letters(), Search


def train(torch: Any, model: Any, steps: int) -> None:
    longest = max(map(len, words())) + 1
    rows = [[ALPHABET.index(letter) for letter in word + "."] for word in words()]
    known = torch.tensor([row + [-100] * (longest - len(row)) for row in rows])
    given = torch.cat([torch.full((len(rows), 1), len(ALPHABET)), known[:, :-1].clamp(min=0)], 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(steps):
        state, loss = torch.zeros(len(rows), model.width), torch.zeros(())
        for i in range(longest):
            chances, state = model(given[:, i], state)
            loss = loss + torch.nn.functional.nll_loss(chances, known[:, i], ignore_index=-100, reduction="sum")
        loss = loss / (known >= 0).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0 or step == steps - 1:
            print(f"\rtraining: step {step + 1} of {steps}, loss {loss.item():.3f}", end="", flush=True)
    print()


def show(found: list[tuple[float, list[int]]]) -> str:
    best = sorted(found, reverse=True)[:4]
    return ", ".join("".join(ALPHABET[letter] for letter in letters) for _, letters in best)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=120, help="steps of training")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--library", default="rushlight", choices=("rushlight", "torch"))
    options = parser.parse_args()
    torch = importlib.import_module(options.library)
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    model, search = build(torch)
    train(torch, model, options.steps)
    plain = search(model, options.beam, LONGEST).eval()
    archive = io.BytesIO()
    torch.jit.save(torch.jit.script(plain), archive)
    archive.seek(0)
    compiled = torch.jit.load(archive)
    starts = ["", "re", "fl", "import", "val", "con"]
    taken = {}
    with torch.no_grad():
        for name, program in (("Python", plain), ("compiled", compiled)):
            for start in starts:
                program([ALPHABET.index(letter) for letter in start])
            begin = time.process_time()
            found = [program([ALPHABET.index(letter) for letter in start]) for start in starts]
            taken[name] = (time.process_time() - begin) / len(starts) * 1000, [show(row) for row in found]
    for start, line in zip(starts, taken["compiled"][1], strict=True):
        print(f"{start or '(anything)':>12}: {line}")
    agree = taken["compiled"][1] == taken["Python"][1]
    print(f"a search takes {taken['compiled'][0]:.1f} ms compiled, {taken['Python'][0]:.1f} ms as Python;"
          f" they {'agree' if agree else 'DIFFER'}")


if __name__ == "__main__":
    main()
