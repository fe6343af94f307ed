"""Settings of graph capture; `torch._dynamo.config` is this module (torch_names/home_rows.py), so what programs set is
read here.

Followed: `disable`, `recompile_limit`, `error_on_recompile`, `fail_on_recompile_limit_hit`, `automatic_dynamic_shapes`,
`specialize_int`, `compiled_autograd`, `repro_after`, `repro_level` and `debug_dir_root`. The others are kept for the
programs that set them.

`capture_scalar_outputs` and `capture_dynamic_output_shape_ops` change nothing: elements that become numbers (`item()`,
`int(t)`) and sizes that elements decide (`nonzero`, masks, `unique`) are part of graphs in any case. Where PyTorch,
told to capture them, raises because a decision depends on such a number, the graph ends there instead; with
`fullgraph=True` that is an error which names the line of the decision.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

verbose = False
suppress_errors = False
cache_size_limit = 8
recompile_limit = 8
accumulated_cache_size_limit = 256
accumulated_recompile_limit = 256
assume_static_by_default = True
automatic_dynamic_shapes = True
dynamic_shapes = True
specialize_int = False
specialize_float = False
capture_scalar_outputs = False
capture_dynamic_output_shape_ops = False
capture_func_transforms = True
inline_inbuilt_nn_modules = True
guard_nn_modules = True
optimize_ddp: bool | str = True
fail_on_recompile_limit_hit = False
force_parameter_static_shapes = True
allow_unspec_int_on_nn_module = False
skip_fwd_side_effects_in_bwd_under_checkpoint = False
error_on_recompile = False
compiled_autograd = False
log_compilation_metrics = False
enable_cpp_guard_manager = True
do_not_emit_runtime_asserts = False
numpy_ndarray_as_tensor = True
trace_numpy = True
disable = False
recompile_hint_limit = 8
prepare_freezing = False
report_guard_failures = True
repro_after: str | None = None      # "dynamo" or "aot": graphs that a backend fails on are left as small scripts
repro_level = 2                     # 4: and those whose results are not those of the graph run op by op
debug_dir_root = "torch_compile_debug"


@contextlib.contextmanager
def patch(arg1: str | dict[str, Any] | None = None, arg2: Any = None, **kwargs: Any) -> Iterator[None]:
    """Settings for a block (or, as a decorator, a function): `patch("verbose", True)`,
    `patch({...})` or `patch(verbose=True)`."""
    changes = {arg1: arg2} if isinstance(arg1, str) else {**(arg1 or {}), **kwargs}
    here = globals()
    unknown = next((name for name in changes if name not in here), None)
    if unknown is not None:
        raise AttributeError(f"torch._dynamo.config.{unknown} does not exist")
    before = {name: here[name] for name in changes}
    here.update(changes)
    try:
        yield
    finally:
        here.update(before)
