"""Take an ONNX file from PyPI, give it a new head, train it, write it again, and run it with ONNX Runtime.

    python examples/onnx_finetune.py                     the classifier of upright text lines in rapidocr-onnxruntime
    python examples/onnx_finetune.py FILE --steps 30     another classifier of images

The file was made by another framework, and its weights become parameters of an ordinary module. The new task: which of
four ways stripes run. Needs `pip install onnxruntime` for its last step, and pip for its first.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import rushlight as torch
from rushlight import nn

WHEEL, MEMBER = "rapidocr-onnxruntime", "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx"
SIZE = 48


def fetched(folder: Path) -> Path:
    """The file, out of a wheel."""
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), WHEEL], check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        return Path(wheel.extract(MEMBER, folder))


def without_head(model: nn.Module) -> nn.Module:
    """The model up to what its last product of matrices is given."""
    products = [n for n in model.graph.nodes if getattr(n.target, "__name__", "") in ("matmul", "gemm")]
    output = model.graph.output_node()
    output.args = (products[-1].args[0],)
    model.graph.eliminate_dead_code()
    model.recompile()
    return model


def stripes(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images of stripes in one of four directions, with noise."""
    labels = torch.randint(4, (count,))
    y, x = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    along = torch.stack([x, y, x + y, x - y]).float()[labels]
    waves = torch.sin(along * (0.5 + torch.rand(count, 1, 1)) + 6 * torch.rand(count, 1, 1))
    return (waves[:, None] + 0.3 * torch.randn(count, 3, SIZE, SIZE)), labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", help="a classifier of images; fetched from PyPI if none is given")
    parser.add_argument("--steps", type=int, default=60)
    chosen = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        path = chosen.file or fetched(Path(folder))
        backbone = without_head(torch.onnx.load(path))
        with torch.no_grad():
            width = backbone(stripes(2)[0]).shape[-1]
        model = nn.Sequential(backbone, nn.Linear(width, 4))
        print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {width} features")
        train(model, chosen.steps)
        images, labels = stripes(256)
        with torch.no_grad():
            scores = model.eval()(images)
        print(f"accuracy {(scores.argmax(1) == labels).float().mean().item():.3f}")
        written = str(Path(folder) / "stripes.onnx")
        program = torch.onnx.export(model, (images[:2],), written, dynamic_shapes=({0: "batch"},))
        (again,) = program(images[:7])
        print(f"ONNX Runtime differs by {(again - scores[:7]).abs().max().item():.1e}")


def train(model: nn.Module, steps: int) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    model.train()
    for step in range(1, steps + 1):
        images, labels = stripes(32)
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
