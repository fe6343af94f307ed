"""PyTorch's `utils` namespace: checkpointing, counting, timing, logging and what surrounds them.
Submodules load when first used."""

from ..base import late as _late

__getattr__, __dir__ = _late.names(
    globals(),
    {
        "ThroughputBenchmark": "throughput_benchmark",
        "generate_methods_for_privateuse1_backend": "backend_registration", "get_cpp_backtrace": "cpp_backtrace",
        "rename_privateuse1_backend": "backend_registration", "set_module": "naming", "swap_tensors": "swapping",
    },
    (
        "_contextlib", "_device", "_dtype_abbrs", "_foreach_utils", "_import_utils", "_mode_utils", "_ordered_set",
        "_python_dispatch", "_pytree", "_typing_utils", "backend_registration", "benchmark", "bundled_inputs",
        "checkpoint", "collect_env", "cpp_backtrace", "cpp_extension", "data",
        "deterministic", "dlpack", "flop_counter", "hooks", "mkldnn", "mobile_optimizer", "model_zoo", "module_tracker",
        "serialization", "tensorboard", "throughput_benchmark", "viz", "weak",
    ),
)
