"""Exercises of the chapter on few bits and few weights."""

import rushlight as torch

from ..exercise import Exercise, chapter

CHAPTER = chapter(
    "quantization_and_pruning",
    "Few bits, few weights",
    "量化与剪枝",
    Exercise(
        title="Scale and zero point",
        title_zh="缩放与零点",
        text="""Map the range from `low` to `high` onto the integers 0 … 255. The range is first widened to contain 0,
        so that 0 is exact. Return (scale, zero point): scale is the width divided by 255 (1.0 for an empty range),
        the zero point is round(-low / scale), within 0 … 255.""",
        solution='''
        def parameters(low, high):
            """(scale, zero point) of unsigned 8-bit numbers."""
            low, high = min(low, 0.0), max(high, 0.0)
            scale = (high - low) / 255 if high > low else 1.0
            return scale, min(max(round(-low / scale), 0), 255)
        ''',
        hint="Widen first: min with 0 below, max with 0 above.",
        cases=lambda: [
            (0.0, 0.0),
            (0.0, 255.0),
            (-1.0, 1.0),
            (2.0, 4.0),
            (-4.0, -2.0),
            (-0.1, 25.4),
            (-3.0, 0.5),
            (-255.0, 0.0),
        ],
    ),
    Exercise(
        title="There and back",
        title_zh="量化再还原",
        text="""Given a tensor, a scale and a zero point, return (q, back): q = round(x / scale) + zero point, limited
        to -128 … 127, as int8, and back, the float numbers that q stands for.""",
        solution='''
        import rushlight as torch


        def there_and_back(x, scale, zero):
            """(the int8 numbers, what they stand for)."""
            q = ((x / scale).round() + zero).clamp(-128, 127).to(torch.int8)
            return q, (q.float() - zero) * scale
        ''',
        hint="Limit before converting: int8 wraps around.",
        cases=lambda: [
            (torch.tensor(values), scale, zero)
            for values, scale, zero in (
                ([0.0], 1.0, 0),
                ([1.0], 0.5, 3),
                ([-200.0, 200.0], 1.0, 0),
                ([0.1, 0.26, -7.0], 0.1, -5),
                ([-128.5, 126.9, 127.9], 1.0, 0),
            )
        ],
        probe=lambda answer, *case: [*answer.there_and_back(*case), str(answer.there_and_back(*case)[0].dtype)[-4:]],
        asks="[q, back, dtype of q] for {0}, scale {1}, zero point {2}",
    ),
    Exercise(
        title="Two weights in a byte",
        title_zh="一字节两个权重",
        text="""Pack int4 weights. Given a list of whole numbers from -8 to 7, return bytes as a list of numbers 0 …
        255: each byte holds two weights, the first in the lower four bits, in two's complement; an odd one out is
        followed by 0. Write `unpack(packed, count)`, too, which returns the list again.""",
        solution='''
        def pack(weights):
            """Two weights a byte."""
            nibbles = [weight & 15 for weight in weights] + [0] * (len(weights) % 2)
            return [low | high << 4 for low, high in zip(nibbles[::2], nibbles[1::2])]


        def unpack(packed, count):
            """The first `count` weights."""
            nibbles = [nibble for byte in packed for nibble in (byte & 15, byte >> 4)]
            return [(nibble ^ 8) - 8 for nibble in nibbles[:count]]
        ''',
        hint="`& 15` keeps four bits, which is two's complement already. `(n ^ 8) - 8` gives a nibble its sign again.",
        cases=lambda: [
            ([],),
            ([0],),
            ([7],),
            ([-8],),
            ([1, 2],),
            ([-1, 5, -3],),
            ([-8, 7, 0, -1, 3],),
            ([6, -5, 4, -7],),
        ],
        probe=lambda answer, weights: [
            answer.pack(weights),
            answer.unpack(answer.pack(weights), len(weights)),
            answer.unpack([0x5A, 0xF1], 3),
        ],
        asks="[packed, unpacked, unpack([90, 241], 3)] of {0}",
    ),
    Exercise(
        title="Prune the smallest",
        title_zh="剪去最小的",
        text="""Given a tensor and a number of weights to prune, return a mask (bool, of the tensor's shape) that is
        False for that many weights of smallest magnitude and True elsewhere. Of equal magnitudes those earlier in the
        flat order are pruned first.""",
        solution='''
        import rushlight as torch


        def mask(weight, count):
            """True for weights that stay."""
            sizes = weight.abs().flatten().tolist()
            order = sorted(range(len(sizes)), key=sizes.__getitem__)
            kept = torch.ones(weight.numel(), dtype=torch.bool)
            kept[order[:count]] = False
            return kept.reshape(weight.shape)
        ''',
        hint="""Sort the places by magnitude: Python's sort keeps the order of equal ones. The first `count` become
        False.""",
        cases=lambda: [
            (torch.tensor(values), count)
            for values, count in (
                ([1.0], 0),
                ([1.0], 1),
                ([3.0, -1.0, 2.0], 1),
                ([[3.0, -1.0], [0.0, -4.0]], 2),
                ([1.0, 1.0, 1.0], 2),
                ([-2.0, 2.0, -2.0, 1.0], 2),
            )
        ],
    ),
    Exercise(
        title="A scale per channel",
        title_zh="每通道一个缩放",
        text="""One scale for all rows of a weight wastes bits on rows that are small. Given a matrix, return (whole,
        rows): the largest absolute error of symmetric int8 quantization (scale = largest magnitude / 127, values
        rounded) with one scale for the matrix, and with one scale for each row. A scale of 0 counts as 1.""",
        solution='''
        import rushlight as torch


        def error(weight, scale):
            """The largest error of rounding to multiples of a scale."""
            scale = torch.where(scale == 0, 1.0, scale)
            return ((weight / scale).round() * scale - weight).abs().max().item()


        def errors(weight):
            """Largest errors: (one scale, a scale per row)."""
            rows = weight.abs().amax(1, keepdim=True) / 127
            return error(weight, rows.max()), error(weight, rows)
        ''',
        hint="`amax(1, keepdim=True)` gives a column that broadcasts against the matrix.",
        cases=lambda: [
            (torch.tensor(rows),)
            for rows in (
                [[0.0]],
                [[0.0], [1.0]],
                [[1.0, 0.3]],
                [[100.0, 3.0], [0.1, 0.03]],
                [[0.5, 0.2, -0.9], [7.0, 2.5, 1.25]],
            )
        ],
        tolerance=1e-6,
    ),
)
