"""Programs over quantized tensors, element by element, by window and by row, for whichever library is called `torch`.

Enters: the module. Leaves: `{name: function}`; each gives a tensor, or raises. Scales are such that halves are common:
which integer is next to them is part of the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SHAPES = {"few": (5, 7), "many": (3, 71), "image": (2, 11, 6, 5), "wide": (2, 37, 4, 5)}


def programs(torch: Any) -> dict[str, Callable[[], Any]]:
    ops, functional = torch.ops.quantized, torch.nn.functional
    kinds = {"u": (torch.uint8, 0), "s": (torch.int8, -128), "i": (torch.int32, -128)}

    def made(shape: Any, kind: str = "u", scale: float = 0.1, point: int = 37, step: int = 37, last: bool = False):
        count = 1
        for n in shape:
            count *= n
        dtype, low = kinds[kind]
        numbers = ((torch.arange(count) * step + count) % 256 + low).reshape(shape).to(dtype)
        q = torch._make_per_tensor_quantized_tensor(numbers, scale, point)
        return q.contiguous(memory_format=torch.channels_last) if last else q

    def floats(count: int, step: int = 7) -> Any:
        return ((torch.arange(count) * step) % 23).float() * 0.125 - 1.0

    found: dict[str, Callable[[], Any]] = {}

    def add(name: str, run: Callable[[], Any]) -> None:
        found[name] = run

    def pair(kind: str, shape: Any) -> tuple[Any, Any]:
        return made(shape, kind), made(shape, kind, 0.05, 4, 101)

    for kind, shape in (("u", "few"), ("u", "many"), ("s", "many"), ("i", "few")):
        size = SHAPES[shape]
        for name in ("add", "add_relu", "mul"):
            add(f"{name} {kind} {shape}", lambda n=name, k=kind, s=size: getattr(ops, n)(*pair(k, s), 0.2, 3))
    for number in (0.33, 9.0, -40.0):
        add(f"add {number}", lambda b=number: ops.add(made(SHAPES["few"]), b))
    add("add_relu -1.25", lambda: ops.add_relu(made(SHAPES["few"]), -1.25))
    for number in (0.25, 0.0, -2.0):
        add(f"mul {number}", lambda b=number: ops.mul_relu(made(SHAPES["few"]), b))
    add("add_scalar", lambda: ops.add_scalar(made(SHAPES["few"]), torch.tensor(0.7)))
    add("add out", lambda: ops.add.out(*pair("u", SHAPES["many"]), made(SHAPES["many"], "u", 0.25, 6)))
    add("mul a row", lambda: ops.mul(made(SHAPES["many"]), made((1, 71), "u", 0.05, 4), 0.2, 3))
    add("add a column", lambda: ops.add(made(SHAPES["many"]), made((3, 1), "u", 0.05, 4), 0.2, 3))
    add("add turned", lambda: ops.add(made((71, 3)).t(), made((3, 71), "u", 0.05, 4), 0.2, 3))
    add("add channels last", lambda: ops.add(made(SHAPES["wide"], last=True), made(SHAPES["wide"]), 0.2, 3))

    add("relu", lambda: torch.relu(made(SHAPES["many"])))
    add("relu in place", lambda: functional.relu(made(SHAPES["few"]), inplace=True))
    add("relu6", lambda: ops.relu6(made(SHAPES["few"])))
    add("clamp", lambda: torch.clamp(made(SHAPES["few"]), -0.25, 1.75))
    add("clamp below", lambda: ops.clamp(made(SHAPES["few"]), max=0.85))
    add("hardtanh", lambda: functional.hardtanh(made(SHAPES["few"])))
    add("sigmoid", lambda: torch.sigmoid(made(SHAPES["many"])))
    add("sigmoid signed", lambda: torch.sigmoid(made(SHAPES["few"], "s", 0.05, 3)))
    add("sigmoid to", lambda: ops.sigmoid(made(SHAPES["many"]), 0.0043, 5))
    add("tanh", lambda: torch.tanh(made(SHAPES["many"])))
    add("hardsigmoid", lambda: functional.hardsigmoid(made(SHAPES["many"], "s", 0.05, 3)))
    add("hardswish", lambda: ops.hardswish(made(SHAPES["many"]), 0.2, 3))
    add("leaky_relu", lambda: functional.leaky_relu(made(SHAPES["many"]), 0.25))
    add("leaky_relu to", lambda: ops.leaky_relu(made(SHAPES["few"]), 0.25, False, 0.2, 3))
    add("elu", lambda: ops.elu(made(SHAPES["many"]), 0.2, 3, 0.7, 1.25, 0.5))
    add("celu", lambda: ops.celu(made(SHAPES["few"]), 0.05, 31, 0.5))
    add("threshold", lambda: functional.threshold(made(SHAPES["many"]), 0.5, 0.25))
    add("gelu", lambda: functional.gelu(made(SHAPES["many"])))
    add("gelu by tanh", lambda: functional.gelu(made(SHAPES["few"]), approximate="tanh"))
    add("prelu", lambda: functional.prelu(made(SHAPES["image"]), made((11,), "u", 0.02, 120)))
    add("prelu to", lambda: ops.prelu(made(SHAPES["few"]), made((1,), "u", 0.02, 120), 0.2, 3))
    add("softmax", lambda: ops.softmax(made(SHAPES["few"]), 1, 1 / 256, 0))
    add("cat", lambda: ops.cat([*pair("u", SHAPES["few"])], 0, 0.2, 3))
    add("cat_relu channels last",
        lambda: ops.cat_relu([made(SHAPES["image"], last=True), made(SHAPES["wide"][:1] + (11, 6, 5), last=True)],
                             1, None, None))
    add("matmul", lambda: ops.matmul(made((4, 16), "u", 0.5, 100), made((16, 3), "u", 0.25, 90), 8.0, 100))

    channels = {"image": 11, "wide": 37}
    for shape, last in (("image", False), ("image", True), ("wide", True)):
        size, count, label = SHAPES[shape], channels[shape], f"{shape}{' last' if last else ''}"
        image = lambda s=size, o=last: made(s, last=o)      # noqa: E731
        weight, bias = floats(count) + 1.5, floats(count, 5)
        add(f"batch_norm {label}", lambda i=image, w=weight, b=bias: ops.batch_norm2d_relu(
            i(), w, b, b * 0.5, w.abs() + 0.1, 1e-5, 0.2, 3))
        add(f"group_norm {label}", lambda i=image, w=weight, b=bias, n=count: ops.group_norm(
            i(), n if n == 37 else 11, w, b, 1e-5, 0.05, 30))
        add(f"avg_pool2d {label}", lambda i=image: functional.avg_pool2d(i(), 3, 2, 1))
        add(f"avg_pool2d inside {label}", lambda i=image: functional.avg_pool2d(i(), (2, 3), 1, (1, 0), True, False))
        add(f"adaptive_avg_pool2d {label}", lambda i=image: functional.adaptive_avg_pool2d(i(), (2, 3)))
        add(f"max_pool2d {label}", lambda i=image: functional.max_pool2d(i(), 3, 2, 1))
        add(f"bilinear {label}", lambda i=image: functional.interpolate(
            i(), size=(9, 7), mode="bilinear", align_corners=False))
        if label != "image last":      # there halves are decided by the order in which floats are added
            add(f"mean {label}", lambda i=image: i().mean((2, 3)))
    add("instance_norm", lambda: ops.instance_norm(made(SHAPES["image"]), None, None, 1e-5, 0.05, 30))
    add("layer_norm", lambda: ops.layer_norm(made(SHAPES["many"]), [71], floats(71) + 1.5, floats(71, 5), 1e-5, 0.05,
                                             30))
    add("layer_norm signed", lambda: ops.layer_norm(made((2, 64), "s", 0.1, 3), [64], None, None, 1e-5, 0.05, 3))
    add("std", lambda: torch.std(made(SHAPES["many"]), (1,)))
    add("mean of all", lambda: made(SHAPES["few"]).mean())
    add("max of rows", lambda: torch.max(made(SHAPES["few"]), 1)[0])
    add("min", lambda: torch.min(made(SHAPES["few"])))
    add("nearest", lambda: functional.interpolate(made(SHAPES["image"]), scale_factor=1.5))
    add("pad", lambda: functional.pad(made(SHAPES["few"]), (1, 2), value=0.45))
    add("reflect", lambda: functional.pad(made(SHAPES["image"]), (1, 2, 0, 1), mode="reflect"))
    add("shuffle", lambda: torch.channel_shuffle(made((1, 6, 2, 3)), 3))
    add("avg_pool3d", lambda: functional.avg_pool3d(made((1, 3, 4, 5, 6)), 2))
    add("max_pool1d", lambda: ops.max_pool1d(made((1, 5, 7)), [3], [2], [1], [1], False))

    table = floats(12 * 8, 11).reshape(12, 8) * 3
    indices, starts = torch.arange(20) * 5 % 12, torch.tensor([0, 3, 3, 11])
    for bits in ("byte", "4bit", "2bit"):
        packed = lambda b=bits: getattr(ops, f"embedding_bag_{b}_prepack")(table)      # noqa: E731
        add(f"table {bits}", packed)
        add(f"opened {bits}", lambda b=bits, p=packed: getattr(ops, f"embedding_bag_{b}_unpack")(p()))
        add(f"bags {bits}", lambda b=bits, p=packed: getattr(ops, f"embedding_bag_{b}_rowwise_offsets")(
            p(), indices, starts, per_sample_weights=floats(20)))

    def narrow_table() -> Any:
        scales, points = torch.full((12,), 0.5), torch.arange(12.0) * 0.25 + 4.5
        return ops.embedding_bag_prepack(torch.quantize_per_channel(table, scales, points, 0, torch.quint4x2))

    def packed_table() -> Any:
        scales, points = torch.full((12,), 0.03), torch.arange(12.0) + 40.5
        return ops.embedding_bag_prepack(torch.quantize_per_channel(table, scales, points, 0, torch.quint8))

    add("rows of a packed table", lambda: ops.embedding_byte(packed_table(), indices.reshape(4, 5)))
    add("bags of a packed table", lambda: ops.embedding_bag_byte(packed_table(), indices, starts))

    add("bags of a narrow table", lambda: ops.embedding_bag_4bit(narrow_table(), indices, starts))
    add("table optimized", lambda: ops.embedding_bag_4bit_prepack(table, True, 50, 0.2))

    # what is refused
    many, few = SHAPES["many"], SHAPES["few"]
    add("! floats", lambda: ops.add(torch.ones(3), torch.ones(3), 0.1, 0))
    add("! two dtypes", lambda: ops.add(made(few), made(few, "s"), 0.1, 0))
    add("! two shapes", lambda: ops.add(made(few), made(many), 0.1, 0))
    add("! a larger second", lambda: ops.add(made((1, 7)), made(few), 0.1, 0))
    channel = lambda: torch.quantize_per_channel(      # noqa: E731
        torch.ones(2, 3), torch.ones(2), torch.zeros(2, dtype=torch.long), 0, torch.qint8)
    add("! relu per channel", lambda: torch.relu(channel()))
    add("! add per channel", lambda: ops.add(channel(), channel(), 0.1, 0))
    add("! plus", lambda: made(few) + made(few))
    add("! exp", lambda: torch.exp(made(few)))
    add("! sigmoid in place", lambda: made(few).sigmoid_())
    add("! hardswish", lambda: functional.hardswish(made(few)))
    add("! clamp by tensors", lambda: torch.clamp(made(few), torch.tensor(0.0)))
    add("! prelu by floats", lambda: functional.prelu(made(few), torch.ones(1)))
    add("! softmax", lambda: torch.softmax(made(few), 0))
    add("! replicate", lambda: functional.pad(made(SHAPES["image"]), (1, 1, 1, 1), mode="replicate"))
    add("! bicubic", lambda: functional.interpolate(made(SHAPES["image"]), size=(3, 3), mode="bicubic"))
    add("! batch_norm without weight",
        lambda: ops.batch_norm2d(made(SHAPES["image"]), None, None, floats(11), floats(11), 1e-5, 0.1, 0))
    add("! index outside the table", lambda: ops.embedding_byte(packed_table(), torch.tensor([0, 12])))
    add("! columns that fill no byte", lambda: ops.embedding_bag_4bit_prepack(torch.ones(2, 3)))
    add("! table of doubles", lambda: ops.embedding_bag_byte_prepack(torch.ones(2, 4).double()))
    return found
