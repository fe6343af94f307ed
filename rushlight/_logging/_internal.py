"""Loggers set up as settings ask: levels, handlers, and who listens to which artifact.

Enters: TORCH_LOGS (read when this is loaded), or `set_logs` where that is not set; TORCH_LOGS_OUT, TORCH_LOGS_FORMAT,
TORCH_TRACE. Leaves: Python loggers by PyTorch's names with levels and handlers; `artifact_listener` for the places that
tell something (base/logs.py). Refuses (ValueError): unknown names, levels that are none, artifacts that are given
anything but a bool.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Generic, ParamSpec
from weakref import WeakSet

from .. import _C
from ..base import environment, logs, show
from . import _registrations, structured
from .formatting import TorchLogsFormatter, _default_formatter, make_module_path_relative
from .registry import (
    LogRegistry,
    LogState,
    _get_module_and_submodules,
    _has_registered_parent,
    _invalid_settings_err_msg,
    _is_valid_module,
    _parse_log_settings,
    _validate_settings,
    enable_modules,
    help_message,
    log_registry,
    register_artifact,
    register_log,
)
from .tracing import (
    LOG_PREFIX,
    LazyTraceHandler,
    add_structured_logging_overhead,
    dtrace_structured,
    get_structured_logging_overhead,
    is_traced,
    structured_logging_overhead,
    trace_folder,
    trace_log,
    trace_structured,
    trace_structured_artifact,
    write,
)

__all__ = [
    "DEFAULT_FORMATTER", "DEFAULT_LOGGING", "DEFAULT_LOG_LEVEL", "LOG_ENV_VAR", "LOG_FORMAT_ENV_VAR", "LOG_OUT_ENV_VAR",
    "LOG_PREFIX", "LazyString", "LazyTraceHandler", "LogRegistry", "LogState", "TRACE_ENV_VAR", "TorchLogsFormatter",
    "_get_module_and_submodules", "_has_registered_parent", "_init_logs", "_invalid_settings_err_msg",
    "_is_valid_module", "_parse_log_settings", "_registrations", "_validate_settings",
    "add_structured_logging_overhead",
    "configure_artifact_log", "dtrace_structured", "getArtifactLogger", "get_loggers",
    "get_structured_logging_overhead", "help_message", "hide_warnings", "is_traced", "log_registry", "log_state",
    "make_module_path_relative", "register_artifact", "register_log", "set_logs", "structured",
    "structured_logging_overhead",
    "trace_log", "trace_structured", "trace_structured_artifact", "warning_once", "write",
]

_P = ParamSpec("_P")
log = logging.getLogger("torch._logging._internal")

DEFAULT_LOG_LEVEL = logging.WARNING
LOG_ENV_VAR, LOG_OUT_ENV_VAR, LOG_FORMAT_ENV_VAR = "TORCH_LOGS", "TORCH_LOGS_OUT", "TORCH_LOGS_FORMAT"
LOG_TRACE_ID_FILTER = "TORCH_LOGS_TRACE_ID_FILTER"
TRACE_ENV_VAR, DTRACE_ENV_VAR = "TORCH_TRACE", "TORCH_DTRACE"
DEFAULT_FORMATTER = _default_formatter()
# a beginning: torch._logging.set_logs(**torch._logging.DEFAULT_LOGGING)
DEFAULT_LOGGING: dict[str, Any] = {
    "dynamo": logging.INFO, "aot": logging.INFO, "inductor": logging.INFO, "fsdp": logging.INFO, "ddp_graphs": True,
    "graph_breaks": True, "side_effects": True, "guards": True, "recompiles": True, "dynamic": logging.INFO,
}
LOG_TRACE_HANDLER: LazyTraceHandler | None = None
log_state = LogState()
handlers: WeakSet[logging.Handler] = WeakSet()      # those that are ours, not the program's

# What the lower rooms show (base/show.py), and the artifact it is.
_SHOWN = {"lowered": "loop_ordering", "schedule": "loop_tiling", "fallback": "perf_hints", "cache": "caching"}
# Artifacts that are told whether or not a compilation is seen whole, and loggers that follow one.
_APART = frozenset(("recompiles", "recompiles_verbose", "caching", "not_implemented", "onnx_diagnostics",
                    "custom_format_test_artifact"))
_COMPILERS = ("torch._dynamo", "torch._functorch", "torch._functorch._aot_autograd", "torch._inductor",
              "torch._inductor.compile_fx", "torch.fx.experimental.symbolic_shapes")
_asks = False                # whether `backward()` comes by Python
_said: set[str] = set()      # artifacts of which it was said that nothing here tells them


# --- settings ---------------------------------------------------------------------------------------------------------


def set_logs(
    *, all: int | None = None, dynamo: int | None = None, aot: int | None = None,  # noqa: A002 - PyTorch's names
    autograd: int | None = None, dynamic: int | None = None, inductor: int | None = None,
    distributed: int | None = None, c10d: int | None = None, ddp: int | None = None, fsdp: int | None = None,
    dtensor: int | None = None, onnx: int | None = None, bytecode: bool = False, aot_graphs: bool = False,
    aot_joint_graph: bool = False, ddp_graphs: bool = False, graph: bool = False, graph_code: bool = False,
    graph_code_verbose: bool = False, graph_breaks: bool = False, side_effects: bool = False,
    graph_sizes: bool = False, guards: bool = False, recompiles: bool = False, recompiles_verbose: bool = False,
    trace_source: bool = False, trace_call: bool = False, trace_bytecode: bool = False, output_code: bool = False,
    kernel_code: bool = False, schedule: bool = False, perf_hints: bool = False, pre_grad_graphs: bool = False,
    post_grad_graphs: bool = False, ir_pre_fusion: bool = False, ir_post_fusion: bool = False,
    onnx_diagnostics: bool = False, fusion: bool = False, overlap: bool = False, export: int | None = None,
    modules: dict[str, int | bool] | None = None, cudagraphs: bool = False, sym_node: bool = False,
    compiled_autograd: bool = False, compiled_autograd_verbose: bool = False, cudagraph_static_inputs: bool = False,
    benchmarking: bool = False, autotuning: bool = False, incremental: bool = False,
    graph_region_expansion: bool = False, inductor_metrics: bool = False, hierarchical_compile: bool = False,
    compute_dependencies: bool = False, caching: bool = False,
) -> None:
    """Ask for logs: levels (`logging.DEBUG`, ...) of components, True for artifacts; what is not named is off again.

    `all` is the level of everything, `modules` holds further names: artifacts, logs, or modules by their full names.
    Where TORCH_LOGS is set, that counts, and a warning says so. Refuses (ValueError): unknown names and levels.
    """
    given = dict(locals())
    given.pop("modules")
    given["torch"] = given.pop("all")
    if environment.is_set(LOG_ENV_VAR):
        log.warning("set_logs: TORCH_LOGS is set in the environment and decides; this call changes nothing")
        return
    log_state.clear()
    for name, value in itertools.chain(given.items(), (modules or {}).items()):
        if value is not None:
            _set_one(name, value)
    _init_logs()


def _set_one(name: str, value: Any) -> None:
    if log_registry.is_artifact(name):
        if not isinstance(value, bool):
            raise ValueError(f"set_logs: Expected bool to enable artifact {name}, received {value}")
        if value:
            log_state.enable_artifact(name)
    elif log_registry.is_log(name) or name in log_registry.child_log_qnames:
        if value not in logging._levelToName:
            levels = ",".join(map(str, logging._levelToName))
            raise ValueError(f"set_logs: Unrecognized log level for log {name}: {value}, valid level values are:"
                             f" {levels}")
        log_state.enable_log(log_registry.log_alias_to_log_qnames.get(name, name), value)
    elif _is_valid_module(name):
        enable_modules(name, functools.partial(log_state.enable_log, log_level=value))
    else:
        raise ValueError(f"set_logs: Unrecognized log or artifact name: {name}")


def get_loggers() -> list[logging.Logger]:
    """All registered loggers."""
    return [logging.getLogger(qname) for qname in log_registry.get_log_qnames()]


def _get_log_state() -> LogState:
    return log_state


def _set_log_state(state: LogState) -> None:
    global log_state
    log_state = state


def _update_log_state_from_env() -> None:
    if environment.is_set(LOG_ENV_VAR):
        _set_log_state(_parse_log_settings(environment.get(LOG_ENV_VAR)))


# --- loggers ----------------------------------------------------------------------------------------------------------


def getArtifactLogger(module_qname: str, artifact_name: str) -> logging.Logger:  # noqa: N802 - PyTorch's name
    """The logger of an artifact below a module's. Refuses (ValueError) artifacts that nobody registered."""
    if artifact_name not in log_registry.artifact_names:
        raise ValueError(
            f"getArtifactLogger: Artifact name: {artifact_name!r} not registered, call"
            f" register_artifact({artifact_name!r}, ...) first"
        )
    qname = f"{module_qname}.__{artifact_name}"
    found = logging.getLogger(qname)
    found.artifact_name = artifact_name  # type: ignore[attr-defined]
    log_registry.register_artifact_log(qname)
    configure_artifact_log(found)
    return found


def configure_artifact_log(log: Any) -> None:
    """Turn the logger of an artifact on if that is named; those that only names turn on hear nothing of levels."""
    if log_registry.is_off_by_default(log.artifact_name):
        log.propagate = False
    if log_state.is_artifact_enabled(log.artifact_name):
        log.setLevel(logging.DEBUG)
        log.propagate = True


def _track_handler(handler: logging.Handler) -> logging.Handler:
    handlers.add(handler)
    return handler


def _is_torch_handler(handler: logging.Handler) -> bool:
    return handler in handlers


def _clear_handlers(log: logging.Logger) -> None:
    for handler in [handler for handler in log.handlers if _is_torch_handler(handler)]:
        log.removeHandler(handler)


class _ToStderr(logging.StreamHandler):
    """Writes to what `sys.stderr` is when something is told."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stderr


def _setup_handlers(create_handler_fn: Callable[[], logging.Handler], log: logging.Logger) -> None:
    handler = _track_handler(create_handler_fn())
    handler.setFormatter(DEFAULT_FORMATTER)
    handler.setLevel(logging.DEBUG)
    log.addHandler(handler)


def _reset_logs() -> None:
    """Everything as if nothing were asked for."""
    for qname in log_registry.get_log_qnames():
        found = logging.getLogger(qname)
        found.setLevel(logging.WARNING)
        found.propagate = False
        _clear_handlers(found)
    for qname in log_registry.get_artifact_log_qnames() | log_registry.get_child_log_qnames():
        found = logging.getLogger(qname)
        found.setLevel(logging.NOTSET)
        found.propagate = True
    trace_log.propagate = False
    _clear_handlers(trace_log)


def _init_logs(log_file_name: str | None = None) -> None:
    """Set all loggers up as is asked for: TORCH_LOGS, or what `set_logs` was told."""
    _reset_logs()
    _update_log_state_from_env()
    log_file_name = environment.get(LOG_OUT_ENV_VAR) or log_file_name
    registered = log_registry.get_log_qnames()
    for qname in registered - {"torch"}:      # as the one above says; the topmost stays at WARNING
        logging.getLogger(qname).setLevel(logging.NOTSET)
    for qname, level in log_state.get_log_level_pairs():
        logging.getLogger(qname).setLevel(level)
    for qname in registered:
        _setup_handlers(_ToStderr, logging.getLogger(qname))
        if log_file_name is not None:
            _setup_handlers(functools.partial(logging.FileHandler, log_file_name), logging.getLogger(qname))
    for qname in log_registry.get_artifact_log_qnames():
        configure_artifact_log(logging.getLogger(qname))
    _init_trace()
    _ask_of_backward(logging.getLogger("torch.autograd.graph").isEnabledFor(logging.DEBUG))
    show.listen({word: name for word, name in _SHOWN.items() if log_state.is_artifact_enabled(name)}, _tell_shown)
    _say_what_is_silent()


def _ask_of_backward(is_wanted: bool) -> None:
    """Let every `backward()` come by Python, where its nodes are told, or no longer."""
    global _asks
    if is_wanted != _asks:
        _asks = is_wanted
        _C._ask_python_for_backward(1 if is_wanted else -1)


def _init_trace() -> None:
    global LOG_TRACE_HANDLER
    folder = trace_folder()
    trace_log.setLevel(logging.DEBUG)
    # logging.disable() is for messages: the trace is asked for by itself.
    trace_log.isEnabledFor = lambda level: level >= trace_log.level  # type: ignore[method-assign]
    if folder is None:
        return
    if LOG_TRACE_HANDLER is None:
        LOG_TRACE_HANDLER = LazyTraceHandler(folder)
    LOG_TRACE_HANDLER.setFormatter(TorchLogsFormatter(trace=True))
    trace_log.addHandler(_track_handler(LOG_TRACE_HANDLER))


def _say_what_is_silent() -> None:
    """Once for each artifact that is asked for and that nothing here tells."""
    for name in sorted(log_registry.silent - _said):
        qnames = log_registry.log_alias_to_log_qnames.get(name, ())
        if not qnames and not log_state.is_artifact_enabled(name):
            continue
        if not all(log_state.log_qname_to_level.get(qname, logging.WARNING) < logging.WARNING for qname in qnames):
            continue
        _said.add(name)
        found = log if qnames else getArtifactLogger(log_registry.homes[name], name)
        found.warning("%s: nothing is told of this here; Rushlight has no part of this kind (%s)", name,
                      ", ".join(qnames) or log_registry.artifact_descriptions[name].rstrip("."))


# --- who listens ------------------------------------------------------------------------------------------------------


def artifact_listener(name: str, level: int) -> logging.Logger | None:
    """The logger that the compile stack tells an artifact to; None where nobody listens."""
    qname = f"{log_registry.homes[name]}.__{name}"
    known = qname in log_registry.artifact_log_qnames
    found = logging.getLogger(qname) if known else getArtifactLogger(log_registry.homes[name], name)
    return found if found.isEnabledFor(level) and (found.propagate or found.handlers) else None


def _tell_shown(artifact: str, title: str, text: str) -> None:
    """What a lower room shows; loops of eager ops are nobody's graph."""
    if artifact in ("loop_ordering", "loop_tiling") and not logs.here.graph:
        return
    found = artifact_listener(artifact, logging.DEBUG)
    if found is not None:
        found.debug("%s\n%s", title, text.rstrip(), stacklevel=3)


def follows_compilation() -> bool:
    """Whether something is asked for that only a compilation from the beginning tells."""
    if is_traced() or log_state.artifact_names - _APART - log_registry.silent:
        return True
    return any(logging.getLogger(qname).isEnabledFor(logging.INFO) for qname in _COMPILERS)


# --- for messages -----------------------------------------------------------------------------------------------------


@functools.cache
def warning_once(logger_obj: Any, *args: Any, **kwargs: Any) -> None:
    """`logger_obj.warning(...)`, the first time it is called with these arguments."""
    logger_obj.warning(*args, **kwargs)


class LazyString(Generic[_P]):
    """A text that is made when it is shown: `func(*args, **kwargs)`."""

    def __init__(self, func: Callable[_P, str], *args: _P.args, **kwargs: _P.kwargs) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs

    def __str__(self) -> str:
        return self.func(*self.args, **self.kwargs)


def safe_grad_filter(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None
                     ) -> bool:
    """For `hide_warnings`: hides what is said of `.grad` of tensors that are no leaves."""
    return "The .grad attribute of a Tensor" not in str(message)


def user_warning_filter(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None
                        ) -> bool:
    """For `hide_warnings`: hides those that are UserWarning itself."""
    return category is not UserWarning


@contextlib.contextmanager
def hide_warnings(filter_fn: Callable[..., bool] = lambda *args, **kwargs: True) -> Iterator[None]:
    """Inside, only warnings are shown for which `filter_fn` (called as `warnings.showwarning` is) says True."""
    before = warnings.showwarning

    def shown(*args: Any, **kwargs: Any) -> None:
        if filter_fn(*args, **kwargs):
            before(*args, **kwargs)

    warnings.showwarning = shown
    try:
        yield
    finally:
        warnings.showwarning = before


# Levels that the program gave to loggers before this was loaded are what it asks for.
_given = {name: found.level for name, found in logging.root.manager.loggerDict.items()
          if name.partition(".")[0] == "torch" and isinstance(found, logging.Logger) and found.level}
logs.listen(sys.modules[__name__])
_init_logs()
for _name, _level in _given.items():
    logging.getLogger(_name).setLevel(_level)
