"""A residual network of 8 bits: quantized after training, by its graph, while training, and its linear layers alone.

Enters: the 1,797 digits that scikit-learn carries (`pip install rushlight[datasets]`), or a folder with the four MNIST
files. Leaves: for each way the accuracy on digits the network has not seen, the size of its file, and the time of one
batch.

    python examples/quantize.py                      a minute on two cores
    python examples/quantize.py --mnist FOLDER       on MNIST
    python examples/quantize.py --library torch      the same program on PyTorch, for comparison
"""

from __future__ import annotations

import argparse
import copy
import importlib
import io
import statistics
import time
from typing import Any

from mnist import read_digits


def make_network(torch: Any, width: int = 32) -> Any:
    """A stem, two residual blocks and a linear layer, with marks for where integers begin and end."""
    nn, ao = torch.nn, importlib.import_module(f"{torch.__name__}.ao.quantization")

    class Block(nn.Module):
        """Two convolutions beside a shortcut. The sum is a module: it will have a scale of its own."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
            self.second, self.norm2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
            self.relu1, self.relu2 = nn.ReLU(), nn.ReLU()
            self.sum = nn.quantized.FloatFunctional()

        def forward(self, x: Any) -> Any:
            inner = self.norm2(self.second(self.relu1(self.norm1(self.first(x)))))
            return self.relu2(self.sum.add(x, inner))

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter, self.leave = ao.QuantStub(), ao.DeQuantStub()
            self.stem, self.norm = nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
            self.relu = nn.ReLU()
            self.blocks = nn.Sequential(Block(), Block())
            self.pool, self.head = nn.AdaptiveAvgPool2d(2), nn.Linear(4 * width, 10)

        def forward(self, x: Any) -> Any:
            x = self.blocks(self.relu(self.norm(self.stem(self.enter(x)))))
            return self.leave(self.head(torch.flatten(self.pool(x), 1)))

    return Network()


def fused_names(blocks: int = 2) -> list[list[str]]:
    """Layers that become one: a convolution, its norm, and the rectifier after it."""
    inner = [[f"blocks.{i}.first", f"blocks.{i}.norm1", f"blocks.{i}.relu1"] for i in range(blocks)]
    return [["stem", "norm", "relu"], *inner, *([f"blocks.{i}.second", f"blocks.{i}.norm2"] for i in range(blocks))]


def train(torch: Any, model: Any, data: Any, epochs: int, rate: float) -> None:
    loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    model.train()
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
    model.eval()


# --- the ways --------------------------------------------------------------------------------------------------------


def static(torch: Any, model: Any, training: Any) -> Any:
    """Ranges are seen on training images, module by module; then every layer computes with integers."""
    ao = torch.ao.quantization
    model = ao.fuse_modules(model, fused_names())
    model.qconfig = ao.get_default_qconfig(torch.backends.quantized.engine)
    prepared = ao.prepare(model)
    prepared(torch.stack([image for image, _ in training][:256]))
    return ao.convert(prepared)


def by_graph(torch: Any, model: Any, training: Any) -> Any:
    """The same without marks: the graph says what follows what."""
    fx = importlib.import_module(f"{torch.__name__}.ao.quantization.quantize_fx")
    images = torch.stack([image for image, _ in training][:256])
    mapping = torch.ao.quantization.get_default_qconfig_mapping(torch.backends.quantized.engine)
    prepared = fx.prepare_fx(model, mapping, (images,))
    prepared(images)
    return fx.convert_fx(prepared)


def while_training(torch: Any, model: Any, training: Any) -> Any:
    """The network is trained on, with its numbers rounded as they will be."""
    ao = torch.ao.quantization
    model = ao.fuse_modules_qat(model.train(), fused_names())
    model.qconfig = ao.get_default_qat_qconfig(torch.backends.quantized.engine)
    prepared = ao.prepare_qat(model)
    train(torch, prepared, training, 2, 2e-4)
    return ao.convert(prepared)


def dynamic(torch: Any, model: Any, training: Any) -> Any:
    """Linear layers alone: weights are integers, and inputs become integers on the way, by the range each batch has."""
    return torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)


WAYS = {"after training": static, "by its graph": by_graph, "while training": while_training, "linear only": dynamic}


# --- what came of it -------------------------------------------------------------------------------------------------


def report(torch: Any, name: str, model: Any, data: Any) -> None:
    images, labels = (torch.stack([torch.as_tensor(item[k]) for item in data]) for k in (0, 1))
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).sum().item()
        batch, times = images[:64], []
        for _ in range(12):
            started = time.perf_counter()
            model(batch)
            times.append(time.perf_counter() - started)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    print(f"{name:16} {100 * right / len(labels):8.2f}% {len(file.getvalue()) / 1024:8.1f} K"
          f" {1e3 * statistics.median(times[2:]):9.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mnist", help="a folder with the four files of MNIST")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--save", help="where the trained weights go")
    parser.add_argument("--load", help="weights to take instead of training")
    parser.add_argument("--library", choices=("rushlight", "torch"), default="rushlight")
    options = parser.parse_args()
    torch = importlib.import_module(options.library)
    importlib.import_module(f"{options.library}.ao.quantization")
    torch.manual_seed(0)
    training, held_out = read_digits(torch, options.mnist)
    model = make_network(torch)
    if options.load:
        model.load_state_dict(torch.load(options.load))
        model.eval()
    else:
        train(torch, model, training, options.epochs, 2e-3)
    if options.save:
        torch.save(model.state_dict(), options.save)
    print(f"{'':16} {'accuracy':>9} {'file':>10} {'64 images':>12}")
    report(torch, "32 bits", model, held_out)
    for name, quantize in WAYS.items():
        report(torch, name, quantize(torch, copy.deepcopy(model), training), held_out)


if __name__ == "__main__":
    main()
