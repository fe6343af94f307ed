"""What a profiler can watch, and the numbers PyTorch gives to scopes, states and kinds of device.

Enters: nothing. Leaves: the enumerations of `torch._C._profiler` and `torch._C._autograd`, the options that only the
experimental configuration has, and the kinds of event that the recorder writes (`Kind`).
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any


class _Numbered(enum.Enum):
    """Members that are numbers when asked, as PyTorch's are."""

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value


class ProfilerActivity(_Numbered):
    """What a profiler can watch."""

    CPU = 0
    XPU = 1
    CUDA = 2
    HPU = 3
    MTIA = 4
    PrivateUse1 = 5


class DeviceType(_Numbered):
    """Kinds of device, by PyTorch's numbers."""

    CPU = 0
    CUDA = 1
    MKLDNN = 2
    OPENGL = 3
    OPENCL = 4
    IDEEP = 5
    HIP = 6
    FPGA = 7
    MAIA = 8
    XLA = 9
    Vulkan = 10
    Metal = 11
    XPU = 12
    MPS = 13
    Meta = 14
    HPU = 15
    VE = 16
    Lazy = 17
    IPU = 18
    MTIA = 19
    PrivateUse1 = 20


def rename_private(name: str) -> None:
    """Show the device of others by the name that a back end gave it."""
    for kind in (ProfilerActivity, DeviceType):
        setattr(kind, name, kind.PrivateUse1)
        kind.PrivateUse1._name_ = name


class RecordScope(_Numbered):
    """Where an event comes from: a call, a node of backward, a label of the program."""

    FUNCTION = 0
    BACKWARD_FUNCTION = 1
    TORCHSCRIPT_FUNCTION = 2
    KERNEL_FUNCTION_DTYPE = 3
    CUSTOM_CLASS = 4
    BUILD_FEATURE = 5
    LITE_INTERPRETER = 6
    USER_SCOPE = 7
    STATIC_RUNTIME_OP = 8
    STATIC_RUNTIME_MODEL = 9


class ProfilerState(_Numbered):
    """How a profiler records."""

    Disabled = 0
    CPU = 1
    CUDA = 2
    NVTX = 3
    ITT = 4
    PRIVATEUSE1 = 5
    KINETO = 6
    KINETO_GPU_FALLBACK = 7
    KINETO_PRIVATEUSE1_FALLBACK = 8
    KINETO_PRIVATEUSE1 = 9


class ActiveProfilerType(_Numbered):
    """Which profiler runs."""

    NONE = 0
    LEGACY = 1
    KINETO = 2
    NVTX = 3
    ITT = 4
    PRIVATEUSE1 = 5


class Kind(enum.IntEnum):
    """The kinds of event in a recording (csrc/profile.h)."""

    OP = 0
    INNER = 1
    EVALUATE = 2
    NODE = 3
    USER = 4
    KERNEL = 5
    COMPILE = 6
    MEMORY = 7
    PYTHON = 8
    PYTHON_CALL = 9
    MODULE = 10
    REGION = 11
    COLLECTIVE = 12
    STEP = 13


    HOST_CALL = 14               # a call of a device's runtime (device_events.py): such rows are made in Python
    DEVICE = 15                  # what a device did


# By kind: PyTorch's scope, and the category in a trace.
SCOPES = (0, 0, 0, 1, 7, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0)
CATEGORIES = ("cpu_op", "cpu_op", "cpu_op", "cpu_op", "user_annotation", "cpu_op", "cpu_op", "cpu_instant_event",
              "python_function", "python_function", "python_function", "cpu_op", "cpu_op", "user_annotation",
              "cuda_runtime", "kernel")
PYTHON_KINDS = frozenset((Kind.PYTHON, Kind.PYTHON_CALL, Kind.MODULE))
LABEL_KINDS = frozenset((Kind.USER, Kind.STEP))

# Options that nothing here answers to; of the rest, `disable_external_correlation` and `adjust_timestamps` ask for what
# is always so: kernels are joined to ops without ids of their own, and all events read one clock.
_UNBUILT = ("profiler_metrics", "performance_events", "adjust_profiler_step", "capture_overload_names",
            "record_python_gc_info", "expose_kineto_event_metadata", "custom_profiler_config")
_FLAGS = ("profiler_measure_per_kernel", "verbose", "enable_cuda_sync_events", "adjust_profiler_step",
          "disable_external_correlation", "profile_all_threads", "capture_overload_names", "record_python_gc_info",
          "expose_kineto_event_metadata", "adjust_timestamps", "trace_only")


class _ExperimentalConfig:
    """Rarely used options of a profiler, as `torch._C._profiler._ExperimentalConfig` takes them.

    `verbose` gives events and traces their call stacks (with `with_stack`), `profile_all_threads` records every thread
    of the program, `profiler_measure_per_kernel` shows kernels, `trace_only` forgoes events. Refuses: what is not
    of the type that PyTorch takes (`TypeError`); options that are not built, when a profile is made with them.
    """

    trace_only: bool
    verbose: bool
    enable_cuda_sync_events: bool
    profile_all_threads: bool
    profiler_measure_per_kernel: bool
    capture_overload_names: bool
    custom_profiler_config: str

    def __init__(
        self,
        profiler_metrics: Sequence[str] = (),
        profiler_measure_per_kernel: bool = False,
        verbose: bool = False,
        performance_events: Sequence[str] = (),
        enable_cuda_sync_events: bool = False,
        adjust_profiler_step: bool = False,
        disable_external_correlation: bool = False,
        profile_all_threads: bool = False,
        capture_overload_names: bool = False,
        record_python_gc_info: bool = False,
        expose_kineto_event_metadata: bool = False,
        custom_profiler_config: str = "",
        adjust_timestamps: bool = False,
        trace_only: bool = False,
    ) -> None:
        given = dict(locals())
        for name in _FLAGS:
            if not isinstance(given[name], bool):
                raise TypeError(f"_ExperimentalConfig: {name} must be a bool, got {given[name]!r}")
        for name in ("profiler_metrics", "performance_events"):
            words = given[name]
            if isinstance(words, str) or not all(isinstance(word, str) for word in words):
                raise TypeError(f"_ExperimentalConfig: {name} must be a sequence of str, got {words!r}")
        if not isinstance(custom_profiler_config, str):
            raise TypeError("_ExperimentalConfig: custom_profiler_config must be a str, "
                            f"got {custom_profiler_config!r}")
        given.pop("self")
        vars(self).update(given, profiler_metrics=list(profiler_metrics), performance_events=list(performance_events))

    def check_built(self) -> None:
        """Refuse options that would be without effect."""
        asked = [name for name in _UNBUILT if vars(self)[name]]
        if asked:
            raise NotImplementedError(f"profile: _ExperimentalConfig({asked[0]}={vars(self)[asked[0]]!r}) is not built:"
                                      " leave it out")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"_ExperimentalConfig has no option {name!r}")
