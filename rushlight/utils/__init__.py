"""PyTorch's `utils` namespace: checkpointing, counting, timing, logging and what surrounds them.
Submodules load when first used."""

from os.path import dirname as _dirname, join as _join

from ..base import late as _late

cmake_prefix_path = _join(_dirname(_dirname(__file__)), "share", "cmake")   # find_package(Torch) looks there

__getattr__, __dir__ = _late.names(
    globals(),
    {
        "ThroughputBenchmark": "throughput_benchmark", "draw": "drawing",
        "generate_methods_for_privateuse1_backend": "backend_registration", "get_cpp_backtrace": "cpp_backtrace",
        "rename_privateuse1_backend": "backend_registration", "set_module": "naming", "swap_tensors": "swapping",
    },
    (
        "_contextlib", "_device", "_dtype_abbrs", "_foreach_utils", "_import_utils", "_mode_utils", "_ordered_set",
        "_python_dispatch", "_pytree", "_typing_utils", "backend_registration", "benchmark", "bundled_inputs",
        "checkpoint", "collect_env", "cpp_backtrace", "cpp_extension", "data",
        "deterministic", "dlpack", "drawing", "flop_counter", "hooks", "mkldnn", "mobile_optimizer", "model_zoo",
        "module_tracker", "progress", "serialization", "tensorboard", "throughput_benchmark", "viz", "weak",
    ),
)
