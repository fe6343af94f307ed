"""Every environment variable that Rushlight reads, in one table: the code asks here,
and the documentation is made from it.

Enters: a name. Leaves: its text, or the default. Refuses: a name that is not in the table, so that none goes
undocumented. Variables are read when asked for, not at import, so that a test or a debugger may change them.
"""

from __future__ import annotations

import os

OURS, PYTORCH, SYSTEM = "Rushlight", "PyTorch", "system"   # whose name it is


class Variable:
    """One variable: what it does, what it is when unset, and what it may be."""

    __slots__ = ("default", "meaning", "name", "origin", "values")

    def __init__(self, name: str, origin: str, meaning: str, default: str = "", values: tuple[str, ...] = ()) -> None:
        self.name, self.origin, self.meaning, self.default, self.values = name, origin, meaning, default, values


VARIABLES = {
    variable.name: variable
    for variable in (
        Variable(
            "RUSHLIGHT_CACHE",
            OURS,
            "folder for compiled kernels and tables; otherwise `$XDG_CACHE_HOME/rushlight` or `~/.cache/rushlight`",
        ),
        Variable(
            "RUSHLIGHT_CACHE_SIZE", OURS, "about how much that folder may hold: `500M`, `2G`; `0` for no limit", "1G"
        ),
        Variable(
            "RUSHLIGHT_FRAME_HOOK",
            OURS,
            "`0`: of the functions that uncaptured code calls, only those that are called by name run compiled",
            "1",
            ("0", "1"),
        ),
        Variable(
            "RUSHLIGHT_GRAPH_CACHE",
            OURS,
            "`0`: graphs are compiled anew in every process (their kernels are still kept)",
            "1",
            ("0", "1"),
        ),
        Variable(
            "RUSHLIGHT_SHOW",
            OURS,
            "layers that print themselves to stderr, separated by commas",
            "",
            ("dispatch", "graph", "lowered", "schedule", "loops", "llvm", "asm", "fallback", "recompiles", "breaks",
             "cache", "lazy"),
        ),
        Variable(
            "RUSHLIGHT_DYNAMO_DEBUG",
            OURS,
            "`1` lets errors of capture itself end the program, where the graph would break",
            "0",
            ("0", "1"),
        ),
        Variable(
            "RUSHLIGHT_CUDA_DRIVER",
            OURS,
            "the library of NVIDIA's driver, where the system does not find it",
            "libcuda.so.1",
        ),
        Variable(
            "RUSHLIGHT_CUDA_QUEUE",
            OURS,
            "`1`: work for a GPU is handed to the driver by a thread of its own, while the program goes on",
            "0",
            ("0", "1"),
        ),
        Variable(
            "RUSHLIGHT_NCCL_LIBRARY",
            OURS,
            "NVIDIA's NCCL library, where neither its wheel nor the system has `libnccl.so.2`",
        ),
        Variable(
            "RUSHLIGHT_CUPTI_LIBRARY",
            OURS,
            "NVIDIA's CUPTI, by which profiles time kernels, where neither its wheel nor the system has `libcupti.so`",
        ),
        Variable(
            "RUSHLIGHT_TRACEBACK",
            OURS,
            "`full` keeps Rushlight's own frames in the traceback of an error that ends the program",
            "short",
            ("short", "full"),
        ),
        Variable(
            "RUSHLIGHT_NOTICE",
            OURS,
            "seconds after which a kernel still being compiled, or many small ones together, say so on stderr; `0` for"
            " never",
            "2",
        ),
        Variable(
            "RUSHLIGHT_DEBUG_FOLDER", OURS, "folder where each compiled graph leaves its code, its times and a page"
        ),
        Variable(
            "RUSHLIGHT_DISTRIBUTED_TRANSPORT",
            OURS,
            "`tcp`: processes of one machine exchange tensors over sockets too, as those of several machines do",
        ),
        Variable(
            "PYTORCH_ALLOC_CONF", PYTORCH, "how device and pinned memory are cached: `expandable_segments:True`, ..."
        ),
        Variable("PYTORCH_CUDA_ALLOC_CONF", PYTORCH, "the same, by its older name, which is read first"),
        Variable("PYTORCH_NO_CUDA_MEMORY_CACHING", PYTORCH,
                 "`1`: estimates of memory (`distributed._tools`) count bytes as they are asked for"),
        Variable("MASTER_ADDR", PYTORCH, "the machine of rank 0, where several processes meet"),
        Variable("MASTER_PORT", PYTORCH, "the port that rank 0 serves there"),
        Variable("RANK", PYTORCH, "this process's number among all"),
        Variable("WORLD_SIZE", PYTORCH, "how many processes there are"),
        Variable("LOCAL_RANK", PYTORCH, "this process's number on its machine"),
        Variable("LOCAL_WORLD_SIZE", PYTORCH, "how many processes there are on this machine"),
        Variable("TORCHELASTIC_RUN_ID", PYTORCH, "the name of the job, set by a launcher that restarts processes"),
        Variable("TORCHELASTIC_USE_AGENT_STORE", PYTORCH, "`True`: the launcher serves the store at MASTER_PORT"),
        Variable("TORCHELASTIC_ERROR_FILE", PYTORCH, "where a process writes its error, for its launcher to show"),
        Variable("TORCHELASTIC_RESTART_COUNT", PYTORCH, "how often that launcher has restarted the processes", "0"),
        Variable("TORCH_FR_BUFFER_SIZE", PYTORCH, "how many of its last collectives a process keeps", "0"),
        Variable("TORCH_FR_DUMP_TEMP_FILE", PYTORCH, "the beginning of a path for them when one fails"),
        Variable(
            "TORCH_NCCL_ASYNC_ERROR_HANDLING",
            PYTORCH,
            "what follows when a call between cards fails or hangs: `0` only an error from its work, `2` the group is"
            " aborted too, `1` and `3` the process ends",
            "3",
            ("0", "1", "2", "3"),
        ),
        Variable("TORCH_NCCL_BLOCKING_WAIT", PYTORCH, "`1`: Work.wait keeps the host waiting, too", "0", ("0", "1")),
        Variable("GLOO_SOCKET_IFNAME", PYTORCH, "the network interface that processes reach each other by"),
        Variable("TP_SOCKET_IFNAME", PYTORCH, "the same for remote calls; otherwise what `GLOO_SOCKET_IFNAME` says"),
        Variable(
            "FX_GRAPH_SHOW_META", PYTORCH, "`1` prints the metadata of nodes with the code of a graph", "0", ("0", "1")
        ),
        Variable("FX_GRAPH_SHOW_STRIDE", PYTORCH, "`1` prints strides with the code of a graph", "0", ("0", "1")),
        Variable("FX_GRAPH_SHOW_DEVICE", PYTORCH, "`1` prints devices with the code of a graph", "0", ("0", "1")),
        Variable("OMP_NUM_THREADS", SYSTEM, "shown by `__config__.parallel_info()`", "[not set]"),
        Variable(
            "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD",
            PYTORCH,
            "`1` lets `load` run what a file says where the call leaves `weights_only` open",
            "0",
        ),
        Variable(
            "TORCH_FORCE_WEIGHTS_ONLY_LOAD", PYTORCH, "`1` makes every `load` refuse to run what a file says", "0"
        ),
        Variable(
            "TORCH_EXTENSIONS_DIR",
            PYTORCH,
            "folder for builds of extensions; otherwise `torch_extensions` below `$XDG_CACHE_HOME`",
        ),
        Variable("TORCH_HOME", PYTORCH, "folder for what `hub` downloads; otherwise `torch` below `$XDG_CACHE_HOME`"),
        Variable(
            "TORCH_LOGS",
            PYTORCH,
            "logs of the compile stack: `+dynamo,graph_breaks,output_code`, ...; `help` lists the names; read at import"
            " ([debugging](debugging.md))",
        ),
        Variable("TORCH_LOGS_OUT", PYTORCH, "a file that gets those lines as well"),
        Variable("TORCH_LOGS_FORMAT", PYTORCH, "how lines are formatted, as `logging` writes it; `short`: its own way"),
        Variable("TORCH_LOGS_TRACE_ID_FILTER", PYTORCH, "frames, as `[0/0],[1/0]`, whose lines alone are kept"),
        Variable("PYTORCH_JIT", PYTORCH, "`0`: `jit.script` and `jit.trace` return what they are given"),
        Variable("TORCH_TRACE", PYTORCH, "folder for structured records of what is compiled, which `tlparse` reads"),
        Variable("TORCH_DTRACE", PYTORCH, "the same, with records that slow programs down"),
        Variable(
            "TORCH_COMPILE_DEBUG",
            PYTORCH,
            "`1` leaves graphs, schedules and code of everything compiled in `torch_compile_debug`",
            "0",
            ("0", "1"),
        ),
        Variable(
            "ENABLE_PYTORCH_EXECUTION_TRACE",
            PYTORCH,
            "`1`: every `profiler.profile` writes an execution trace, into a temporary file",
            "0",
            ("0", "1"),
        ),
        Variable(
            "ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS",
            PYTORCH,
            "`1`: with a folder beside it for what a replay needs",
            "0",
            ("0", "1"),
        ),
        Variable(
            "INTEL_LIBITTNOTIFY64",
            SYSTEM,
            "the library that takes the marks of `profiler.itt`, set by Intel's VTune around the program it runs",
        ),
        Variable(
            "TORCH_MP_PARALLEL_START",
            PYTORCH,
            "`1` lets `multiprocessing` start the processes of a fork server side by side",
            "0",
            ("0", "1"),
        ),
        Variable("XDG_DATA_HOME", SYSTEM, "folder for data of all programs: `learn` keeps there what is solved",
                 "~/.local/share"),
        Variable("CXX", SYSTEM, "the C++ compiler that builds extensions; otherwise `c++`"),
        Variable("CUDA_HOME", SYSTEM, "folder of the CUDA toolkit, for extensions with CUDA sources; otherwise nvcc's"),
        Variable("CUDA_PATH", SYSTEM, "read where CUDA_HOME is unset"),
        Variable("MAX_JOBS", PYTORCH, "how many compilers a build of extensions may run at once"),
        Variable("TORCH_CUDA_ARCH_LIST", PYTORCH, "GPUs that CUDA sources are compiled for: `8.0;9.0+PTX`"),
        Variable("XDG_CACHE_HOME", SYSTEM, "folder for caches of all programs", "~/.cache"),
    )
}


def get(name: str) -> str:
    """The variable's text; its default where it is not set, or is empty."""
    return os.environ.get(name) or VARIABLES[name].default


def is_set(name: str) -> bool:
    """Whether it is set to anything."""
    return bool(os.environ.get(VARIABLES[name].name))


def with_changes(changes: dict[str, str]) -> dict[str, str]:
    """The whole environment as a child is to see it."""
    return {**os.environ, **changes}


def adopt(changes: dict[str, str]) -> None:
    """Become a process that was started with these."""
    os.environ.update(changes)


def table() -> str:
    """The variables as a Markdown table, for the documentation."""
    rows = [
        f"| `{v.name}` | {v.meaning}{': ' + ', '.join(f'`{word}`' for word in v.values) if len(v.values) > 2 else ''} "
        f"| {f'`{v.default}`' if v.default else ''} | {v.origin} |"
        for v in VARIABLES.values()
    ]
    return "\n".join(["| variable | meaning | unless set | name from |", "| --- | --- | --- | --- |", *rows])
