"""Timing statements: `Timer` measures, `Measurement` holds the times, `Compare` lays many out as a table,
`Fuzzer` makes inputs."""

from ...base import late as _late

__getattr__, __dir__ = _late.names(globals(), {
    **dict.fromkeys(("Measurement", "TaskSpec", "ordered_unique", "select_unit", "set_torch_threads", "trim_sigfig",
                     "unit_to_english"), "measurement"),
    **dict.fromkeys(("CallgrindStats", "CopyIfCallgrind", "FunctionCount", "FunctionCounts", "Language", "Timer",
                     "timer"), "timing"),
    **dict.fromkeys(("Colorize", "Compare"), "compare"),
    **dict.fromkeys(("FuzzedParameter", "FuzzedSparseTensor", "FuzzedTensor", "Fuzzer", "ParameterAlias"), "fuzzer"),
})
