"""`python -m torch.distributed.run`, also called torchrun: the processes of a job, from a command line.

    python -m rushlight.distributed.run --nproc-per-node 2 train.py --epochs 3
    rushlight run --nproc 2 train.py --epochs 3                                 an unmodified PyTorch script
"""

from __future__ import annotations

import argparse
import os
import sys

from ..base import late
from .elastic.machines import ElasticLauncher
from .elastic.membership import Limits
from .launcher import LOCAL_RANK, Job, Launcher

_ONLY_DEFAULT = ("tee", "local_ranks_filter", "duplicate_stdout_filters", "duplicate_stderr_filters", "logs_specs",
                 "numa_binding", "shutdown_timeout", "signals_to_handle")
# What --rdzv-conf may set, and what it is called here: seconds.
_CONF = {"join_timeout": "join", "timeout": "join", "last_call_timeout": "last_call", "keep_alive_interval": "beat",
         "keep_alive_timeout": "silence"}
_ETCD = ("etcd", "etcd-v2")              # one way to meet here, under both names
_ELASTIC = ("c10d", *_ETCD)              # machines number themselves, and may come and go


def get_args_parser() -> argparse.ArgumentParser:
    """The options that torchrun takes."""
    parser = argparse.ArgumentParser(prog="torchrun", description="Run a program in several processes.")

    def add(name: str, *others: str, **options: object) -> None:
        names = [name, *others]
        if "-" in name[2:]:
            names.append("--" + name[2:].replace("-", "_"))
        parser.add_argument(*names, **options)   # type: ignore[arg-type]

    add("--nnodes", default="1", help="how many machines: a number, or least:most if they come and go")
    add("--nproc-per-node", default="1", help="processes on each: a number, or cpu, gpu, auto")
    add("--node-rank", type=int, default=None, help="this machine's number")
    add("--master-addr", default="127.0.0.1", help="the address of machine 0")
    add("--master-port", type=int, default=0, help="a free port of machine 0")
    add("--standalone", action="store_true", help="one machine, a port of its own")
    add("--rdzv-backend", default="static", help="static (by --node-rank); c10d or etcd: machines number themselves")
    add("--rdzv-endpoint", default="", help="host:port where launchers of several machines meet")
    add("--rdzv-id", default="none", help="the name of the job")
    add("--rdzv-conf", default="", help="seconds, as last_call_timeout=5,join_timeout=600,keep_alive_timeout=15")
    add("--max-restarts", type=int, default=0, help="how often to start all processes again when one fails")
    add("--monitor-interval", type=float, default=0.1, help="seconds between looks at the processes")
    add("--role", default="default")
    add("--start-method", default="spawn", choices=("spawn", "fork", "forkserver"), help="accepted; always anew")
    add("--event-log-handler", default="null", choices=("null",))
    add("--module", "-m", action="store_true", help="the program is a module name")
    add("--no-python", action="store_true", help="the program is a command of its own")
    add("--run-path", action="store_true", help="the program is a path")
    add("--log-dir", default=None, help="folder for redirected output")
    add("--redirects", "-r", default="0", help="to --log-dir: 1 stdout, 2 stderr, 3 both; or per local rank, 0:1,1:3")
    add("--tee", "-t", default="0")
    add("--local-addr", default=None, help="this machine's address, as others see it")
    for name in _ONLY_DEFAULT:
        if name != "tee":
            add("--" + name.replace("_", "-"), default=None)
    parser.add_argument("training_script", help="the program")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER, help="handed to it as they are")
    return parser


def job_of(args: argparse.Namespace) -> Job:
    """What the options mean. Refuses those that are not written, by name."""
    for name in _ONLY_DEFAULT:
        if getattr(args, name) not in (None, "", "0"):
            raise SystemExit(f"torchrun: --{name.replace('_', '-')} is not written yet")
    limits = limits_of(args)
    machines = limits.most
    processes = _processes(args.nproc_per_node)
    meeting = None
    if not args.standalone and (machines > 1 or (args.rdzv_backend in _ELASTIC and args.rdzv_endpoint)):
        if args.rdzv_backend == "static":
            if args.node_rank is None:
                raise SystemExit("torchrun: --nnodes > 1 needs --node-rank, or --rdzv-backend c10d")
            endpoint = args.rdzv_endpoint or f"{args.master_addr}:{args.master_port or 29500}"
        elif args.rdzv_backend in _ELASTIC:
            endpoint = args.rdzv_endpoint
            if args.rdzv_backend in _ETCD and endpoint and ":" not in endpoint:
                endpoint += ":2379"
        else:
            known = ", ".join(("static", *_ELASTIC))
            raise SystemExit(f"torchrun: --rdzv-backend must be one of {known}, got {args.rdzv_backend!r}")
        host, _, port = endpoint.rpartition(":")
        if not host or not port.isdigit():
            raise SystemExit(f"torchrun: --rdzv-endpoint must be host:port, got {endpoint!r}")
        meeting = host, int(port)
    job = Job(
        _command(args), processes, machines, _own_number(args, meeting), args.master_addr,
        0 if args.standalone or meeting else args.master_port, meeting,
        max_restarts=args.max_restarts, interval=args.monitor_interval, role=args.role, log_folder=args.log_dir,
        redirects=_redirects(args.redirects, processes), meets_in_etcd=args.rdzv_backend in _ETCD,
    )
    if args.rdzv_id != "none":
        job.name = args.rdzv_id
    elif meeting:
        job.name = "job"        # the same on every machine
    return job


def _own_number(args: argparse.Namespace, meeting: object) -> int | None:
    """This machine's number: none where machines number themselves."""
    return 0 if meeting is None else None if args.rdzv_backend in _ELASTIC else args.node_rank


def limits_of(args: argparse.Namespace) -> Limits:
    """How many machines there may be, and for how long to wait for them."""
    least, _, most = args.nnodes.partition(":")
    most = most or least
    if not least.isdigit() or not most.isdigit() or not 1 <= int(least) <= int(most):
        raise SystemExit(f"torchrun: --nnodes must be a number, or least:most, got {args.nnodes!r}")
    if least != most and args.rdzv_backend not in _ELASTIC:
        raise SystemExit(
            f"torchrun: --nnodes {args.nnodes}: machines that come and go need --rdzv-backend c10d, or etcd"
        )
    seconds = {}
    for part in filter(None, args.rdzv_conf.split(",")):
        name, _, value = part.partition("=")
        if name not in _CONF or not value.replace(".", "", 1).isdigit():
            raise SystemExit(f"torchrun: --rdzv-conf: expected some of {sorted(_CONF)} as name=seconds, got {part!r}")
        seconds[_CONF[name]] = float(value)
    return Limits(int(least), int(most), **seconds)


def _processes(text: str) -> int:
    if text in ("cpu", "auto", "gpu"):
        gpus = late.provided("accelerator").device_count()
        if text == "gpu" and not gpus:
            raise SystemExit("torchrun: --nproc-per-node gpu: there is no GPU here")
        return gpus if gpus and text != "cpu" else os.cpu_count() or 1
    if not text.isdigit() or int(text) < 1:
        raise SystemExit(f"torchrun: --nproc-per-node must be a positive number, cpu, gpu or auto, got {text!r}")
    return int(text)


def _redirects(text: str, processes: int) -> dict[int, int]:
    try:
        if ":" not in text:
            return dict.fromkeys(range(processes), int(text)) if int(text) else {}
        return {int(rank): int(what) for rank, what in (part.split(":") for part in text.split(","))}
    except ValueError:
        raise SystemExit(f"torchrun: --redirects must be 0 to 3, or rank:number pairs, got {text!r}") from None


def _command(args: argparse.Namespace) -> list[str]:
    told = [] if getattr(args, "use_env", True) else [f"--local-rank={LOCAL_RANK}"]
    program = [args.training_script, *told, *args.training_script_args]
    if args.no_python:
        return program
    return [sys.executable, "-u", *(["-m"] if args.module else []), *program]


def parse_args(args: list[str] | None) -> argparse.Namespace:
    """A command line as options."""
    return get_args_parser().parse_args(args)


def run(args: argparse.Namespace) -> None:
    """Run the job that options describe; raise SystemExit where it failed."""
    job = job_of(args)
    is_elastic = job.meeting is not None and args.rdzv_backend in _ELASTIC
    status = (ElasticLauncher(job, limits_of(args)) if is_elastic else Launcher(job)).run()
    if status:
        raise SystemExit(status)


def main(args: list[str] | None = None) -> None:
    """Run the command line; raise SystemExit where the job failed."""
    run(parse_args(args))


if __name__ == "__main__":
    main()
