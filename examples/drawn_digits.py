"""Digits as a hand draws them: strokes made by rule, a network that reads them, its training.

Enters: nothing; scikit-learn's 1,797 scanned digits are learned from and tested on too where it is installed
(`pip install rushlight[datasets]`). Leaves: a network that reads drawings wherever and however large they were drawn,
and how often it is right. `examples/browser` and `examples/mobile` ship it.

    python examples/drawn_digits.py               a minute on two cores
    python examples/drawn_digits.py --epochs 1    a quick look
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import time

import rushlight as torch

nn, F = torch.nn, torch.nn.functional
Tensor = torch.Tensor

FRAME = 24      # pixels across an image
INK = 18        # pixels across the longer side of the digit in it
PEN = (0.9, 1.5)    # half the width of a line, in pixels; pages draw with the middle of it
EPOCHS, RATE = 14, 3e-3

Stroke = tuple[str, tuple[tuple[float, float], ...]]


def line(*points: tuple[float, float]) -> Stroke:
    """Points joined by straight lines."""
    return "line", points


def curve(*points: tuple[float, float]) -> Stroke:
    """Points joined by a smooth curve."""
    return "curve", points


def oval(x: float, y: float, width: float, height: float, begin: float = -90) -> Stroke:
    """Once around, from the angle `begin` in degrees, with a little left open or drawn twice by the jitter."""
    turns = [math.radians(begin - 45 * step) for step in range(9)]
    return curve(*[(x + width * math.cos(t), y + height * math.sin(t)) for t in turns])


# Ways to write each digit, in a box from (0, 0) at the top left to (1, 1).
WAYS: dict[int, list[list[Stroke]]] = {
    0: [[oval(.5, .5, .45, .5)], [oval(.5, .5, .45, .5, -40)], [oval(.5, .5, .3, .5, -130)],
        [line((0, 0), (0, 1), (.8, 1), (.8, 0), (0, 0))], [oval(.5, .5, .45, .5), line((.85, .1), (.15, .9))]],
    1: [[line((.5, 0), (.5, 1))], [line((.2, .25), (.5, 0), (.5, 1))], [line((.1, .35), (.5, 0), (.48, 1))],
        [line((.25, .2), (.5, 0), (.5, 1)), line((.15, 1), (.85, 1))]],
    2: [[curve((.08, .25), (.25, .05), (.55, 0), (.85, .15), (.85, .38), (.6, .62), (.3, .82), (.05, 1)),
         line((.05, 1), (.95, 1))],
        [curve((.08, .25), (.25, .05), (.55, 0), (.85, .15), (.82, .4), (.55, .68), (.2, .95), (.06, .92), (.18, .8),
               (.5, .92), (.95, .97))],
        [curve((.05, .2), (.4, 0), (.85, .1), (.85, .4), (.5, .7), (.05, .98), (.4, .9), (.95, 1))],
        [line((0, 0), (.8, 0), (.8, .5), (0, .5), (0, 1), (.8, 1))],
        [line((.05, .15), (.45, 0), (.9, .15), (.85, .4), (.05, 1), (.95, 1))]],
    3: [[curve((.1, .12), (.45, 0), (.82, .1), (.8, .36), (.38, .48)),
         curve((.38, .48), (.82, .58), (.92, .82), (.55, 1), (.05, .88))],
        [line((.1, 0), (.9, 0), (.4, .42)), curve((.4, .42), (.85, .52), (.95, .75), (.6, 1), (.05, .9))],
        [curve((.1, .12), (.5, 0), (.85, .2), (.55, .44), (.38, .49), (.55, .53), (.92, .75), (.5, 1), (.05, .88))],
        [line((0, 0), (.8, 0), (.8, 1), (0, 1)), line((.15, .5), (.8, .5))],
        [line((.05, .1), (.5, 0), (.9, .2), (.4, .48), (.92, .75), (.5, 1), (.05, .9))]],
    4: [[line((.15, 0), (.08, .58), (.95, .58)), line((.7, .1), (.68, 1))],
        [line((.35, 0), (.05, .62), (.95, .58)), line((.65, .32), (.6, 1))],
        [line((.7, 0), (.02, .68), (1, .68)), line((.7, 0), (.7, 1))],
        [line((.66, 1), (.66, 0), (0, .65), (1, .65))],
        [line((0, 0), (0, .5), (.8, .5)), line((.8, 0), (.8, 1))],
        [curve((.15, 0), (.08, .3), (.15, .55), (.5, .58), (.75, .5)), line((.78, .02), (.72, 1))]],
    5: [[line((.9, 0), (.2, 0), (.15, .42)), curve((.15, .42), (.5, .34), (.88, .5), (.9, .78), (.5, 1), (.05, .9))],
        [line((.2, .02), (.15, .45)), curve((.15, .45), (.55, .36), (.9, .55), (.85, .85), (.45, 1), (.05, .92)),
         line((.2, .02), (.92, -.02))],
        [curve((.9, .03), (.5, .01), (.22, .08), (.18, .38), (.5, .42), (.86, .6), (.82, .88), (.45, 1), (.05, .9))],
        [line((.8, 0), (0, 0), (0, .47), (.8, .47), (.8, 1), (0, 1))],
        [line((.9, 0), (.2, 0), (.12, .45), (.6, .38), (.92, .65), (.6, 1), (.05, .92))]],
    6: [[curve((.75, 0), (.35, .2), (.1, .55), (.12, .85), (.45, 1), (.85, .88), (.88, .65), (.55, .52), (.2, .62),
               (.1, .75))],
        [curve((.15, 0), (.06, .45), (.1, .85), (.45, 1), (.85, .85), (.8, .6), (.45, .5), (.1, .65))],
        [curve((.95, .08), (.6, 0), (.2, .25), (.05, .65), (.3, .97), (.7, .97), (.9, .72), (.6, .52), (.1, .7))],
        [line((.8, 0), (0, 0), (0, 1), (.8, 1), (.8, .5), (0, .5))],
        [line((.6, 0), (.08, .6), (.1, .95), (.8, 1), (.85, .6), (.1, .6))]],
    7: [[line((.05, 0), (.95, 0), (.4, 1))], [line((.05, 0), (.95, 0), (.4, 1)), line((.25, .5), (.85, .48))],
        [line((.05, .2), (.05, .02), (.95, 0), (.45, 1))], [line((0, 0), (.7, 0), (.7, 1))],
        [line((.05, .02), (.95, 0)), curve((.95, 0), (.62, .4), (.46, .7), (.4, 1))],
        [curve((.03, .1), (.3, .02), (.6, .06), (.95, 0), (.65, .45), (.4, 1))]],
    8: [[curve((.8, .12), (.5, 0), (.2, .12), (.22, .32), (.5, .48), (.8, .65), (.85, .85), (.5, 1), (.15, .85),
               (.2, .65), (.5, .48), (.78, .32), (.8, .12))],
        [oval(.5, .24, .32, .24), oval(.5, .74, .4, .26)], [oval(.5, .25, .3, .25, 90), oval(.5, .75, .36, .25, -90)],
        [line((0, 0), (.8, 0), (.8, 1), (0, 1), (0, 0)), line((0, .5), (.8, .5))],
        [line((.1, 0), (.85, 0), (.05, 1), (.9, 1), (.1, 0))],
        [curve((.5, .48), (.2, .3), (.3, .03), (.7, .03), (.8, .3), (.5, .48), (.15, .68), (.25, .97), (.75, .97),
               (.85, .68), (.5, .48))]],
    9: [[curve((.85, .25), (.6, .02), (.2, .08), (.08, .3), (.3, .5), (.65, .45), (.87, .2)),
         line((.87, .15), (.82, 1))],
        [curve((.85, .25), (.6, .02), (.2, .08), (.08, .3), (.3, .5), (.65, .45), (.87, .2), (.9, .6), (.75, .92),
               (.4, 1), (.1, .9))],
        [curve((.8, .2), (.5, 0), (.12, .15), (.15, .42), (.5, .5), (.8, .25)), line((.82, .12), (.45, 1))],
        [oval(.5, .27, .36, .27, 0), line((.86, .25), (.8, 1))],
        [line((.8, .5), (0, .5), (0, 0), (.8, 0), (.8, 1), (0, 1))],
        [line((.8, .5), (0, .5), (0, 0), (.8, 0), (.8, 1))]],
}


def through(kind: str, count: int) -> list[list[float]]:
    """Weights of `count` given points in each point of the stroke through them (Catmull-Rom, or straight)."""
    steps, rows = (5 if kind == "curve" else 1), []
    for span in range(count - 1):
        for step in range(steps):
            t, row = step / steps, [0.0] * count
            before, after = max(span - 1, 0), min(span + 2, count - 1)
            row[before] += (-t + 2 * t * t - t**3) / 2
            row[span] += (2 - 5 * t * t + 3 * t**3) / 2
            row[span + 1] += (t + 4 * t * t - 3 * t**3) / 2
            row[after] += (-t * t + t**3) / 2
            rows.append(row)
    return [*rows, [0.0] * (count - 1) + [1.0]]


def written(way: list[Stroke], count: int) -> tuple[Tensor, Tensor]:
    """`count` hands write one way of a digit: both ends (count, segments, 2) of every segment drawn."""
    shake = 0.025 + 0.035 * torch.rand(count, 1, 1)
    begins, ends = [], []
    for kind, points in way:
        loose = torch.ones(len(points), 1)
        loose[0] = loose[-1] = 1.6                                      # pens land and leave less surely
        given = torch.tensor(points) + shake * loose * torch.randn(count, len(points), 2)
        drawn = torch.tensor(through(kind, len(points))) @ given        # (count, points of the stroke, 2)
        begins.append(drawn[:, :-1])
        ends.append(drawn[:, 1:])
    both = torch.cat([torch.cat(begins, 1), torch.cat(ends, 1)], 1)
    return torch.chunk(bent(both), 2, 1)


def bent(points: Tensor) -> Tensor:
    """Every row of (count, points, 2) turned, slanted, stretched and warped by amounts of its own."""
    count = points.shape[0]
    angle, slant, stretch = 0.16 * torch.randn(count), 0.2 * torch.randn(count), (0.16 * torch.randn(count) - 0.1).exp()
    cos, sin = angle.cos(), angle.sin()
    turn = torch.stack([torch.stack([cos, sin], 1), torch.stack([-sin, cos], 1)], 1)
    shape = torch.stack([torch.stack([stretch, 0 * slant], 1), torch.stack([-slant, 1 / stretch], 1)], 1)
    waves = torch.sin(points.flip(2) * (2 + 4 * torch.rand(count, 1, 2)) + 6.3 * torch.rand(count, 1, 2))
    return (points - 0.5 + 0.05 * torch.rand(count, 1, 2) * waves) @ shape @ turn


def framed(points: Tensor) -> Tensor:
    """Drawings (count, points, 2) moved and scaled so that each fills the frame: in pixels."""
    low, high = points.amin(1, keepdim=True), points.amax(1, keepdim=True)
    longer = (high - low).amax(2, keepdim=True).clamp(min=1e-6)
    return (points - (low + high) / 2) * (INK / longer) + FRAME / 2


@torch.compile(dynamic=True)
def inked(begin: Tensor, end: Tensor, pen: Tensor) -> Tensor:
    """Images (count, pixels) of segments (count, segments, 2): by the distance to the nearest, `pen` half the width."""
    middle = torch.arange(FRAME) + 0.5
    x, y = middle.repeat(FRAME), middle.repeat_interleave(FRAME)
    bx, by = begin[:, :, 0].unsqueeze(2), begin[:, :, 1].unsqueeze(2)
    dx, dy = end[:, :, 0].unsqueeze(2) - bx, end[:, :, 1].unsqueeze(2) - by
    along = (((x - bx) * dx + (y - by) * dy) / (dx * dx + dy * dy).clamp(min=1e-9)).clamp(0, 1)
    squared = (bx + along * dx - x).square() + (by + along * dy - y).square()
    return (pen + 0.5 - squared.amin(1).sqrt()).clamp(0, 1)


def drawings(count: int) -> tuple[Tensor, Tensor]:
    """`count` of each digit: images (10 * count, 1, FRAME, FRAME) from 0 to 1, and labels."""
    images, labels = [], []
    for digit, ways in WAYS.items():
        for k, way in enumerate(ways):
            share = count * (k + 1) // len(ways) - count * k // len(ways)
            begin, end = written(way, share)
            begin, end = torch.chunk(framed(torch.cat([begin, end], 1)), 2, 1)
            pen = PEN[0] + (PEN[1] - PEN[0]) * torch.rand(share, 1)
            images.append(inked(begin.contiguous(), end.contiguous(), pen))
            labels.append(torch.full((share,), digit))
    return torch.cat(images).view(-1, 1, FRAME, FRAME), torch.cat(labels)


def scanned() -> tuple[Tensor, Tensor, Tensor, Tensor] | None:
    """scikit-learn's digits in the same frame: images and labels to learn from, the last fifth to be tested on."""
    if importlib.util.find_spec("sklearn") is None:
        return None
    from rushlight.datasets import Digits

    digits = Digits()
    images = torch.stack([enlarged(image / 16) for image in digits.data])
    kept = len(images) * 4 // 5
    return images[:kept], digits.targets[:kept], images[kept:], digits.targets[kept:]


def enlarged(image: Tensor) -> Tensor:
    """A scan (8, 8) cut to its ink and put into the frame (1, FRAME, FRAME), its grey edges drawn sharper."""
    rows, columns = (image.amax(dim) > 0.2 for dim in (1, 0))
    (top, *_, bottom), (left, *_, right) = (torch.arange(8)[which].tolist() * 2 for which in (rows, columns))
    cut = image[top : bottom + 1, left : right + 1]
    size = [max(3, round(INK * length / max(cut.shape))) for length in cut.shape]
    large = F.interpolate(cut[None, None], size=size, mode="bilinear", align_corners=False)[0]
    x, y = (FRAME - size[1]) // 2, (FRAME - size[0]) // 2
    return F.pad((large * 2.5 - 0.75).clamp(0, 1), (x, FRAME - size[1] - x, y, FRAME - size[0] - y))


def make_network() -> nn.Module:
    """Images (batch, 1, FRAME, FRAME) in, logits (batch, 10) out; 79,000 weights."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.25), nn.Linear(32 * (FRAME // 4) ** 2, 64), nn.ReLU(), nn.Linear(64, 10),
    )


def moved(images: Tensor) -> Tensor:
    """Each image moved by up to two pixels each way."""
    wide = F.pad(images[:, 0], (2, 2, 2, 2))
    at = torch.randint(0, 5, (2, len(images), 1)) + torch.arange(FRAME)
    rows = torch.arange(len(images)).view(-1, 1, 1)
    return wide[rows, at[0].unsqueeze(2), at[1].unsqueeze(1)].unsqueeze(1)


def train(network: nn.Module, epochs: int, each: int = 1500, seconds: float = math.inf, batch: int = 128) -> None:
    """Fit `network` to `each` new drawings of every digit an epoch, and to the scans that are not for testing.

    It ends after `epochs`, or sooner after about `seconds`; the rate falls as whichever is nearer comes up.
    """
    scans = scanned()
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE)
    network.train()
    begun, done, epoch = time.perf_counter(), 0.0, 0
    while done < 1:
        optimizer.param_groups[0]["lr"] = RATE * (0.02 + math.cos(done * math.pi / 2) ** 2)
        images, labels = drawings(each)
        if scans is not None:
            images, labels = torch.cat([images, scans[0]]), torch.cat([labels, scans[1]])
        order, total = torch.randperm(len(images)).split(batch), 0.0
        for rows in order:
            loss = F.cross_entropy(network(moved(images[rows])), labels[rows], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        epoch, took = epoch + 1, time.perf_counter() - begun
        done = max(epoch / epochs, took / seconds)
        print(f"epoch {epoch} of {epochs}: loss {total / len(order):.3f}, {took:.0f} s so far", flush=True)
    network.eval()


@torch.no_grad()
def share_right(network: nn.Module, images: Tensor, labels: Tensor) -> float:
    batches = zip(images.split(256), labels.split(256))
    return sum(int((network(x).argmax(1) == y).sum()) for x, y in batches) / len(labels)


def reader(is_quick: bool = False, seconds: float = 100.0) -> nn.Module:
    """A network trained for about `seconds` at most: images in, chances of the ten digits out. Quick: a fair one."""
    torch.manual_seed(0)
    network = make_network()
    if is_quick:
        train(network, epochs=3, each=500)
    else:
        train(network, EPOCHS, seconds=seconds)
    return nn.Sequential(network, nn.Softmax(1)).eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    options = parser.parse_args()
    torch.manual_seed(0)
    network = make_network()
    train(network, options.epochs)
    print(f"of new drawings it reads {share_right(network, *drawings(200)):.1%}")
    if (scans := scanned()) is not None:
        print(f"of scans by other hands it reads {share_right(network, *scans[2:]):.1%}")


if __name__ == "__main__":
    main()
