"""Forecasts from the command line: one layout, or the best of all.

    python -m rushlight.distributed.simulator --layers 96 --width 12288 --heads 96 --ranks 1024 --batch 1536
    python -m rushlight.distributed.simulator ... --tensor 8 --pipeline 8 --data 16 --micro-batches 96 --page step.html
"""

from __future__ import annotations

import argparse
import json
import sys

from . import CLUSTERS, Layout, page, plan, simulate, trace, transformer
from .engine import Forecast
from .layout import SCHEDULES, SHARDS


def main(words: list[str] | None = None) -> int:
    options = parser().parse_args(words)
    try:
        found = forecasts(options)
        for forecast in found:
            print(forecast)
        if options.page:
            write(options.page, page(found[0]))
        if options.trace:
            write(options.trace, json.dumps(trace(found[0])))
    except (ValueError, OSError) as error:
        print(f"simulator: {error}", file=sys.stderr)
        return 1
    return 0


def forecasts(options: argparse.Namespace) -> list[Forecast]:
    """Of the layout that was given, or of the best there are."""
    model = transformer(options.layers, options.width, options.heads, options.length, options.vocabulary)
    cluster = CLUSTERS[options.cluster]
    dims = {name: getattr(options, name) for name in ("data", "tensor", "pipeline", "context")}
    if not any(dims.values()):
        return plan(model, cluster, options.batch, ranks=options.ranks, most=options.show)
    given = {name: value or 1 for name, value in dims.items()}
    layout = Layout(**given, micro_batches=options.micro_batches, schedule=options.schedule, chunks=options.chunks,
                    shard=options.shard, recompute=options.recompute)
    if options.ranks and layout.ranks != options.ranks:
        raise ValueError(f"--ranks {options.ranks} asked for, but the layout has {layout.ranks} ({layout})")
    return [simulate(model, layout, cluster, options.batch)]


def write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    print(f"written: {path}")


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser("rushlight.distributed.simulator", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default, what in (
        ("layers", 48, "blocks of the transformer"), ("width", 8192, "numbers per position"),
        ("heads", 64, "heads of attention"), ("length", 2048, "positions of a sequence"),
        ("vocabulary", 50304, "words"), ("batch", 1024, "sequences in a step"), ("show", 5, "how many layouts"),
        ("micro-batches", 1, "per data parallel rank"), ("chunks", 1, "stages per rank, interleaved"),
    ):
        result.add_argument(f"--{name}", type=int, default=default, help=f"{what} ({default})")
    for name in ("ranks", "data", "tensor", "pipeline", "context"):
        result.add_argument(f"--{name}", type=int, default=None)
    result.add_argument("--cluster", choices=sorted(CLUSTERS), default="h200")
    result.add_argument("--schedule", choices=SCHEDULES, default="1f1b")
    result.add_argument("--shard", choices=SHARDS, default="none", help="what data parallel ranks divide among them")
    result.add_argument("--recompute", action="store_true", help="keep only the inputs of blocks")
    result.add_argument("--page", help="write the timeline of the first layout as an HTML page")
    result.add_argument("--trace", help="write it for a trace viewer")
    return result


if __name__ == "__main__":
    sys.exit(main())
