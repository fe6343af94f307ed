"""Fourier transforms of tensors that a fuzzer draws, along every choice of dims, as a table and as a CSV file."""

from __future__ import annotations

import argparse
import csv
from typing import Any

from ....base import late
from ..compare import Compare
from ..measurement import Measurement
from ..op_fuzzers.spectral import SpectralOpFuzzer
from ..timing import Timer

BENCHMARKS = {"fft_real": ("fftn", "float32"), "fft_complex": ("fftn", "complex64"), "ifft": ("ifftn", "complex64"),
              "rfft": ("rfftn", "float32"), "irfft": ("irfftn", "complex64")}
DIMS: dict[int, list[Any]] = {1: [None], 2: [0, 1, None], 3: [0, 1, 2, (0, 1), (0, 2), None]}
COLUMNS = ("benchmark", "device", "num_threads", "numel", "shape", "contiguous", "dim", "mean (us)", "median (us)",
           "iqr (us)")


def run_benchmark(name: str, device: str, args: argparse.Namespace) -> list[Measurement]:
    """The measurements of one transform on one device."""
    package, (function, dtype), is_cuda = late.provided("package"), BENCHMARKS[name], device == "cuda"
    fuzzer = SpectralOpFuzzer(
        seed=args.seed, dtype=getattr(package, dtype), cuda=is_cuda, probability_regular=args.probability_regular
    )
    found = []
    for tensors, facts, params in fuzzer.take(args.samples):
        shape = [params[f"k{i}"] for i in range(params["ndim"])]
        row = f"{' x '.join(f'{s:<4}' for s in shape)} {'' if facts['x']['is_contiguous'] else '(discontiguous)'}"
        for dim in DIMS[params["ndim"]]:
            for threads in (1,) if is_cuda else args.threads:
                m = Timer(
                    "func(x, dim=dim)", label=f"{name}_{device}", sub_label=row, description=f"dim={dim}",
                    globals={"func": getattr(package.fft, function), "x": tensors["x"], "dim": dim},
                    num_threads=threads,
                ).blocked_autorange(min_run_time=args.min_run_time)
                m.metadata = {"name": name, "device": device, "dim": dim, "shape": shape, **facts["x"]}
                found.append(m)
    return found


def write_csv(path: str, results: list[Measurement]) -> None:
    """The measurements as a table for other programs."""
    with open(path, "w", newline="") as f:
        rows = csv.writer(f)
        rows.writerow(COLUMNS)
        for m in results:
            known, dim = m.metadata, m.metadata["dim"]
            rows.writerow([
                known["name"], known["device"], m.num_threads, known["numel"], "x".join(map(str, known["shape"])),
                known["is_contiguous"], "-".join(map(str, dim)) if isinstance(dim, tuple) else dim,
                m.mean * 1e6, m.median * 1e6, m.iqr * 1e6,
            ])


def main() -> None:
    """Transforms and devices as asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    here = ["cpu", "cuda"] if late.provided("package").cuda.is_available() else ["cpu"]
    parser.add_argument("--device", choices=("cpu", "cuda"), nargs="+", default=here)
    parser.add_argument("--bench", choices=tuple(BENCHMARKS), nargs="+", default=list(BENCHMARKS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--probability-regular", "--probability_regular", type=float, default=1.0)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--min-run-time", type=float, default=1.0)
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    results = [m for device in args.device for name in args.bench for m in run_benchmark(name, device, args)]
    if args.output is not None:
        write_csv(args.output, results)
    compare = Compare(results)
    compare.trim_significant_figures()
    compare.colorize()
    compare.print()


if __name__ == "__main__":
    main()
