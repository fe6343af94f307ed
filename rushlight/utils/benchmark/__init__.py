"""Timing statements: `Timer` measures, `Measurement` holds the times, `Compare` lays many out as a table,
`Fuzzer` makes inputs, `CallgrindStats` holds instructions counted."""

from ...base import late as _late

_SOURCES = _late.by_name({
    "measurement": "Measurement TaskSpec ordered_unique select_unit set_torch_threads trim_sigfig unit_to_english",
    "callgrind": "CallgrindStats CopyIfCallgrind FunctionCount FunctionCounts",
    "timing": "Language Timer timer",
    "compare": "Colorize Compare",
    "fuzzer": "FuzzedParameter FuzzedSparseTensor FuzzedTensor Fuzzer ParameterAlias",
})
__all__ = list(_SOURCES)
__getattr__, __dir__ = _late.names(globals(), _SOURCES, ("examples", "op_fuzzers"))
