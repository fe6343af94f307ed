"""The command `rushlight`, also `python -m rushlight`: run PyTorch programs, or say what this installation is.

    rushlight run script.py --epochs 3        an unmodified PyTorch script
    rushlight run -m package.train --lr 0.1   a module, as with `python -m`
    rushlight run --nproc 2 script.py         the same in several processes, as torchrun does
    rushlight profile script.py --epochs 3    the same, and a report of where its time and memory went
    rushlight serve --models net=net.pt2      models behind HTTP and gRPC: KServe, TorchServe, OpenAI
    rushlight check package_or_path …         `torch` names it mentions that are missing or refused here
    rushlight check --device NAME             whether a device computes what the host computes
    rushlight mlir model.pt2 -o out.mlir      an exported program as MLIR (--dialect stablehlo, linalg or torch)
    rushlight onnx FILE --run --time          what an ONNX file is, and whether and how fast it runs here
    rushlight learn                           exercises that check themselves (start, check, hint, solution)
    rushlight compat torch.NAME               whether a name of PyTorch works here; without one, figures (--json)
    rushlight demo                            a model learns while you watch, in a quarter of a minute
    rushlight info                            versions, devices, the cache, what can be installed beside
    rushlight --version                       one line
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from . import version


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="rushlight", description="Run PyTorch programs on Rushlight.")
    parser.add_argument("-V", "--version", action="version", version=one_line())
    commands = parser.add_subparsers(dest="command")
    run = commands.add_parser(
        "run", help="run an unmodified PyTorch program", description="Run a program with `torch` served by Rushlight."
    )
    run.add_argument("-m", dest="module", action="store_true", help="the program is a module name, as with `python -m`")
    run.add_argument("--nproc", type=int, default=0, metavar="N", help="in so many processes, as torchrun starts them")
    run.add_argument("--max-restarts", type=int, default=0, help="with --nproc: how often all are started again")
    profile = commands.add_parser(
        "profile", help="run a PyTorch program and report what bounds it",
        description="Run a program with `torch` served by Rushlight, and report where its time and memory went: in a"
        " table, and in a folder report.html, summary.json, trace.json and stacks.txt.",
    )
    profile.add_argument("--out", default="rushlight_profile", metavar="DIR", help="the folder (%(default)s)")
    profile.add_argument("-m", dest="module", action="store_true", help="the program is a module name")
    for one in (run, profile):
        one.add_argument("program", help="path of the script, or name of the module")
        one.add_argument("arguments", nargs=argparse.REMAINDER, help="handed to the program as they are")
    serving = commands.add_parser(
        "serve", help="serve models over HTTP and gRPC",
        description="Serve .pt2 files, .mar archives and language models to clients of KServe, TorchServe and OpenAI.",
    )
    add_serving(serving)
    check = commands.add_parser(
        "check", help="list the torch names a program mentions that Rushlight lacks or refuses; or check a device",
        description="With files: list the torch names they mention that Rushlight lacks or refuses. With --device: run"
        " the conformance suite over a device. 0: all is well, 1: something is not, 2: it could not begin.",
    )
    check.add_argument("targets", nargs="*", help="files, folders or installed packages")
    add_device_check(check)
    add_mlir(commands)
    onnx = commands.add_parser("onnx", help="describe an ONNX file, run it, time it")
    onnx.add_argument("file", help="the file")
    onnx.add_argument("--run", action="store_true", help="run it on random inputs")
    onnx.add_argument("--time", action="store_true", help="time a call, beside ONNX Runtime where that is installed")
    onnx.add_argument("--size", action="append", default=[], metavar="[NAME=]N",
                      help="elements of dims that vary (1), of all or of those of a name; may be given several times")
    add_learning(commands.add_parser("learn", help="exercises that check themselves: the book's, a course, puzzles"))
    compat = commands.add_parser("compat", help="how much of PyTorch works here, or whether one name does")
    compat.add_argument("name", nargs="?", help="a name such as torch.nn.Linear; 0: it works, 1: it does not")
    compat.add_argument("--json", action="store_true", help="print it as JSON")
    demo = commands.add_parser("demo", help="watch a model learn")
    demo.add_argument("--steps", type=int, default=400, metavar="N", help="how long (%(default)s)")
    commands.add_parser("info", help="print versions, devices, the cache and what can be installed beside")
    return parser.parse_args(arguments)


def add_serving(serving: argparse.ArgumentParser) -> None:
    """The options of `serve`."""
    from .serve.command import add_options

    add_options(serving)


def add_learning(learning: argparse.ArgumentParser) -> None:
    """The options of `learn`."""
    from .learn.command import add_options

    add_options(learning)


def add_mlir(commands: Any) -> None:
    """The command `mlir` and its options."""
    mlir = commands.add_parser(
        "mlir", help="write an exported program as MLIR",
        description="Write a program that export.save kept (.pt2) as a module of MLIR.",
    )
    mlir.add_argument("program", help="path of the program, a .pt2 file")
    mlir.add_argument("--dialect", default="stablehlo", choices=("stablehlo", "linalg", "torch"), help="(%(default)s)")
    mlir.add_argument("--weights", default="inline", choices=("inline", "resource"), help="where tensors of the program"
                      " stand: in the text, or in a section of their own (%(default)s)")
    mlir.add_argument("-o", "--out", metavar="FILE", help="the file to write (standard output)")


def add_device_check(check: argparse.ArgumentParser) -> None:
    """The options of `check --device`."""
    check.add_argument("--device", metavar="NAME", help="the device to check, in place of files: cpu, cuda, …")
    check.add_argument("--import", dest="package", metavar="MODULE", help="with --device: the module that brings it")
    check.add_argument("--only", metavar="AREA,...", help="with --device: these areas alone")
    check.add_argument("--quick", action="store_true", help="with --device: fewer cases, in under a minute")
    check.add_argument("--json", metavar="FILE", help="with --device: write the report as JSON")
    check.add_argument("--html", metavar="FILE", help="with --device: write the report as one page of tables")


def one_line() -> str:
    return f"rushlight {version.rushlight} (follows PyTorch {version.follows})"


def write_mlir(chosen: argparse.Namespace) -> int:
    """An exported program as MLIR."""
    from . import export, mlir

    try:
        module = mlir.export(export.load(chosen.program), dialect=chosen.dialect, weights=chosen.weights)
        if chosen.out is None:
            print(module, end="")
        else:
            module.save(chosen.out)
    except (mlir.UnsupportedOp, OSError, RuntimeError, ValueError) as wrong:
        print(f"rushlight mlir: {wrong}", file=sys.stderr)
        return 1
    return 0


def check_device(chosen: argparse.Namespace) -> int:
    """The conformance suite over a device."""
    from .conform.command import Request, check_device as run

    return run(Request(chosen.device, chosen.package, chosen.only, chosen.quick, chosen.json, chosen.html))


def check(chosen: argparse.Namespace) -> int:
    """One of the two: files for names of torch, or a device."""
    for_devices = [name for name in ("package", "only", "quick", "json", "html") if getattr(chosen, name)]
    if chosen.device is not None and chosen.targets:
        wrong = f"either files or --device, not both: got {' '.join(chosen.targets)} and --device {chosen.device}"
    elif chosen.device is None and for_devices:
        wrong = f"--{for_devices[0].replace('package', 'import')} goes with --device NAME"
    elif chosen.device is None and not chosen.targets:
        wrong = "name files, folders or packages, or a device with --device NAME"
    else:
        return check_device(chosen) if chosen.device is not None else check_names(chosen.targets)
    print(f"rushlight check: {wrong}", file=sys.stderr)
    return 2


def check_names(targets: list[str]) -> int:
    """Names of torch in files, folders and packages that are missing or refused here."""
    from .compat import audit

    try:
        places = audit.places_of(targets)
    except FileNotFoundError as unknown:
        print(unknown, file=sys.stderr)
        return 2
    missing, refused = audit.missing(places), audit.refused(places)
    for found, note in ((missing, ""), (refused, ", refused when used")):
        for name, at in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
            print(f"{name}  ({len(at)} place{'s' if len(at) > 1 else ''}, first {at[0]}{note})")
    print(
        f"{len(missing)} names of torch are mentioned that Rushlight does not have, and {len(refused)} that it refuses"
    )
    return int(bool(missing or refused))


def main(arguments: list[str]) -> int:
    chosen = parse(arguments)
    if chosen.command is None:
        from .welcome import welcome

        welcome()
        return 0
    if chosen.command == "info":
        from .welcome import info

        info(one_line())
        return 0
    if chosen.command == "demo":
        from .welcome import demo

        return demo(chosen.steps)
    if chosen.command == "compat":
        from .compat.coverage import command as compat

        return compat(chosen.name, chosen.json)
    if chosen.command == "check":
        return check(chosen)
    if chosen.command == "mlir":
        return write_mlir(chosen)
    if chosen.command == "profile":
        return profile(chosen)
    if chosen.command == "serve":
        from .serve.command import serve

        return serve(chosen)
    if chosen.command == "learn":
        from .learn.command import learn

        return learn(chosen)
    if chosen.command == "onnx":
        from .onnx.command import show
        return show(chosen)
    if chosen.nproc:
        return run_processes(chosen)
    from .compat import run

    try:
        run(chosen.program, chosen.arguments, as_module=chosen.module)
    except FileNotFoundError as missing:
        if not str(missing).startswith("rushlight run:"):
            raise
        print(missing, file=sys.stderr)
        return 2
    return 0


def profile(chosen: argparse.Namespace) -> int:
    """The program under a recording; this process ends as the program does. 2 where it cannot begin."""
    from pathlib import Path

    from . import compat
    from .profiler.command import profile_program, usable

    folder = Path(chosen.out).absolute()
    try:
        compat.check_program(chosen.program, chosen.module, "profile")
        usable(folder)
    except OSError as refused:
        why = refused if str(refused).startswith("rushlight profile:") else f"rushlight profile: --out: {refused}"
        print(why, file=sys.stderr)
        return 2
    name = " ".join([chosen.program, *chosen.arguments])
    ours = frozenset((__file__, compat.__file__))
    profile_program(lambda: compat.run(chosen.program, chosen.arguments, chosen.module), name, folder, ours)


def run_processes(chosen: argparse.Namespace) -> int:
    """The program in several processes of this machine."""
    from .distributed.launcher import Job, Launcher

    if chosen.nproc < 1:
        print(f"rushlight run: --nproc must be positive, got {chosen.nproc}", file=sys.stderr)
        return 2
    program = [sys.executable, "-u", "-m", "rushlight", "run", *(["-m"] if chosen.module else []), chosen.program]
    job = Job([*program, *chosen.arguments], chosen.nproc, max_restarts=chosen.max_restarts)
    return Launcher(job).run()


def command() -> int:
    """What the installed command `rushlight` calls."""
    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:   # whoever reads the answer, such as `head`, has seen enough
        if sys.argv[1:2] in (["run"], ["profile"]):   # the program's own affair
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


if __name__ == "__main__":
    sys.exit(command())
