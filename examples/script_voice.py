"""A detector of voice as a TorchScript archive: trained, saved, loaded without its source, and fed sound bit by bit.

Enters: nothing; the sound is made here (vowels of a throat and a mouth, in noise). Leaves: the archive, a line of what
it holds, a picture of what the loaded detector says of ten seconds of sound, and the time of a chunk.

    python examples/script_voice.py                          half a minute on one core
    python examples/script_voice.py --steps 30               a quick look
    python examples/script_voice.py --archive voice.pt       another place for the archive; read it if it is there
    python examples/script_voice.py --library torch          the same program on PyTorch; either reads the other's file
"""

from __future__ import annotations

import argparse
import importlib
import time
import zipfile
from pathlib import Path
from typing import Any

RATE = 16000
CHUNK = 512
SEED = 7


def make_sound(torch: Any, seconds: float, generator: Any) -> tuple[Any, Any]:
    """Noise with vowels in it, and for each chunk whether there is voice."""
    count = int(seconds * RATE) // CHUNK
    loud = (torch.rand(count // 16 + 1, generator=generator) < 0.5).repeat_interleave(16)[:count]
    time_ = torch.arange(count * CHUNK) / RATE
    pitch = 110 + 60 * torch.rand(1, generator=generator)
    phase = 2 * torch.pi * torch.cumsum(pitch + 8 * torch.sin(2 * torch.pi * 3 * time_), 0) / RATE
    voice = sum(torch.sin(k * phase) / (1 + abs(k - 6)) for k in range(1, 24))
    sound = 0.3 * torch.randn(count * CHUNK, generator=generator)
    return sound + 0.4 * voice * loud.repeat_interleave(CHUNK), loud.float()


def build(torch: Any) -> Any:
    nn = torch.nn

    class Detector(nn.Module):
        """Says of each chunk how likely it holds voice; keeps the end of the last chunk and a state."""

        def __init__(self) -> None:
            super().__init__()
            self.ear = nn.Conv1d(1, 32, 128, stride=64)
            self.layers = nn.ModuleList([nn.Conv1d(32, 32, 3, padding=1) for _ in range(2)])
            self.cell = nn.LSTMCell(32, 32)
            self.out = nn.Linear(32, 1)
            self.register_buffer("heard", torch.zeros(1, 64))
            self.register_buffer("h", torch.zeros(1, 32))
            self.register_buffer("c", torch.zeros(1, 32))

        def look(self, chunk):  # noqa: ANN001, ANN202 - a tensor, as the language takes it
            seen = torch.relu(self.ear(chunk.unsqueeze(1)))
            for layer in self.layers:
                seen = torch.relu(layer(seen)) + seen
            return seen.mean(2)

        def forward(self, chunk, rate: int):  # noqa: ANN001, ANN202
            if rate != 16000:
                raise ValueError("this detector hears 16000 samples a second")
            if chunk.size(0) != self.h.size(0):
                self.reset(chunk.size(0))
            joined = torch.cat([self.heard, chunk], 1)
            self.heard = chunk[:, -64:]
            h, c = self.cell(self.look(joined), (self.h, self.c))
            self.h, self.c = h, c
            return self.out(h).squeeze(1)

        @torch.jit.export
        def reset(self, voices: int):  # noqa: ANN202
            self.heard = torch.zeros(voices, 64)
            self.h = torch.zeros(voices, self.h.size(1))
            self.c = torch.zeros(voices, self.c.size(1))

    return Detector()


def train(torch: Any, model: Any, steps: int) -> float:
    """The loss of the last step."""
    generator = torch.Generator().manual_seed(SEED)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loss = torch.zeros(())
    for step in range(steps):
        sounds, marks = zip(*(make_sound(torch, 1.1, generator) for _ in range(8)), strict=True)
        model.reset(8)
        chunks = torch.stack(sounds).view(8, -1, CHUNK)
        said = torch.stack([model(chunks[:, i], RATE) for i in range(chunks.shape[1])], 1)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(said, torch.stack(marks))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0 or step == steps - 1:
            print(f"\rtraining: step {step + 1} of {steps}, loss {loss.item():.3f}", end="", flush=True)
    print()
    model.reset(1)
    return loss.item()


def listen(torch: Any, detector: Any) -> None:
    """What the detector says of ten seconds, and how long a chunk takes."""
    sound, marks = make_sound(torch, 10, torch.Generator().manual_seed(SEED + 1))
    detector.reset(1)
    said = []
    with torch.no_grad():
        for _ in range(2):                      # the first time is also warming up
            start = time.process_time()
            said = [torch.sigmoid(detector(chunk.view(1, -1), RATE)).item() for chunk in sound.split(CHUNK)]
            taken = (time.process_time() - start) / len(said)
    right = sum((value > 0.5) == bool(mark) for value, mark in zip(said, marks.tolist(), strict=True))
    steps = " .:-=+*#"
    print("voice  ", "".join("#" if mark else " " for mark in marks[::4].tolist()))
    print("heard  ", "".join(steps[min(7, int(value * 8))] for value in said[::4]))
    print(f"{right} of {len(said)} chunks right; {taken * 1e6:.0f} us of processor time for a chunk of"
          f" {CHUNK / RATE * 1000:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=150, help="steps of training")
    parser.add_argument("--archive", type=Path, default=Path("voice.pt"), help="where the archive is, or shall be")
    parser.add_argument("--library", default="rushlight", choices=("rushlight", "torch"))
    options = parser.parse_args()
    torch = importlib.import_module(options.library)
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    if not options.archive.exists():
        model = build(torch)
        train(torch, model, options.steps)
        torch.jit.script(model.eval()).save(str(options.archive), _extra_files={"made_by": options.library})
    with zipfile.ZipFile(options.archive) as archive:
        names = archive.namelist()
    code = sum("/code/" in name and name.endswith(".py") for name in names)
    extra = {"made_by": ""}
    detector = torch.jit.load(str(options.archive), _extra_files=extra)
    maker = extra["made_by"]
    print(f"{options.archive}: {options.archive.stat().st_size / 1024:.0f} KiB, {code} files of code, made by"
          f" {maker.decode() if isinstance(maker, bytes) else maker}")
    listen(torch, detector)


if __name__ == "__main__":
    main()
