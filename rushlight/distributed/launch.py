"""`python -m torch.distributed.launch`: torchrun's forerunner, for scripts that an argument tells their number.

    python -m rushlight.distributed.launch --nproc-per-node 2 train.py      each runs: train.py --local-rank=N
    python -m rushlight.distributed.launch --use-env ...                    as torchrun: LOCAL_RANK says it
"""

from __future__ import annotations

import argparse
import warnings

from .run import get_args_parser, run


def parse_args(args: list[str] | None) -> argparse.Namespace:
    """A command line as options: those of torchrun, and `--use-env`."""
    parser = get_args_parser()
    parser.add_argument("--use-env", "--use_env", action="store_true", help="no --local-rank for the program")
    return parser.parse_args(args)


def launch(args: argparse.Namespace) -> None:
    """Run the job. Refuses a command of its own that would get an argument it does not know of."""
    if args.no_python and not args.use_env:
        raise ValueError("launch: --no-python runs a command as it is, so it needs --use-env as well")
    run(args)


def main(args: list[str] | None = None) -> None:
    """Run the command line, with a word on what has come after it."""
    warnings.warn("torch.distributed.launch is deprecated: use torchrun, which tells processes their number in the"
                  " variable LOCAL_RANK instead of --local-rank", FutureWarning, stacklevel=2)
    launch(parse_args(args))


if __name__ == "__main__":
    main()
