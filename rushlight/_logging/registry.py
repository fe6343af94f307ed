"""Which logs there are, and what a setting asks of them.

Enters: registrations (`_registrations.py`), and settings as TORCH_LOGS has them: names separated by commas, each with
`+` (DEBUG), `-` (ERROR) or nothing (INFO) before it; names of logs, of artifacts, or of modules. Leaves: `LogRegistry`,
and a `LogState` for a setting. Refuses (ValueError): names that nobody knows, with a list of those that are; `help` and
`+help`, whose answer is such an error, too.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import logging
import pkgutil
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..base.tables import rows

INCR_VERBOSITY_CHAR = "+"
DECR_VERBOSITY_CHAR = "-"
_SETTINGS = re.compile(r"[+-]?[\w.]+(,\s*[+-]?[\w.]+)*")
_PACKAGE = __name__.partition(".")[0]

_HELP = """
How TORCH_LOGS is written

  TORCH_LOGS="+dynamo,aot"          graph capture at level DEBUG, AOTAutograd at INFO
  TORCH_LOGS="-dynamo,+inductor"    graph capture at level ERROR, the inductor at DEBUG
  TORCH_LOGS="aot_graphs"           an artifact: texts of one kind
  TORCH_LOGS="+dynamo,schedule"     both
  TORCH_LOGS="+some.module"         the logger of any module, and those below it, at DEBUG

  TORCH_LOGS_FORMAT="%(levelname)s: %(message)s" formats lines as `logging` does (keys: levelname, message, pathname,
  levelno, lineno, filename, name); `short` is logging.BASIC_FORMAT.
  TORCH_LOGS_OUT=/tmp/output.txt writes the lines to that file as well.
"""


@dataclass
class LogRegistry:
    """Everything that can be asked for."""

    log_alias_to_log_qnames: dict[str, list[str]] = field(default_factory=dict)
    artifact_log_qnames: set[str] = field(default_factory=set)      # loggers of artifacts that somebody asked for
    child_log_qnames: set[str] = field(default_factory=set)         # loggers below registered ones, given by name
    artifact_names: set[str] = field(default_factory=set)
    visible_artifacts: set[str] = field(default_factory=set)
    artifact_descriptions: dict[str, str] = field(default_factory=dict)
    off_by_default_artifact_names: set[str] = field(default_factory=set)
    artifact_log_formatters: dict[str, logging.Formatter] = field(default_factory=dict)
    homes: dict[str, str] = field(default_factory=dict)             # the module whose logger tells an artifact here
    silent: set[str] = field(default_factory=set)                   # artifacts that nothing here tells

    def is_artifact(self, name: str) -> bool:
        return name in self.artifact_names

    def is_log(self, alias: str) -> bool:
        return alias in self.log_alias_to_log_qnames

    def register_log(self, alias: str, log_qnames: str | Sequence[str]) -> None:
        """`alias` stands for these loggers."""
        self.log_alias_to_log_qnames[alias] = [log_qnames] if isinstance(log_qnames, str) else list(log_qnames)

    def register_artifact_name(self, name: str, description: str, visible: bool, off_by_default: bool,
                               log_format: str | None) -> None:
        self.artifact_names.add(name)
        self.artifact_descriptions[name] = description
        if visible:
            self.visible_artifacts.add(name)
        if off_by_default:
            self.off_by_default_artifact_names.add(name)
        if log_format is not None:
            self.artifact_log_formatters[name] = logging.Formatter(log_format)

    def register_artifact_log(self, artifact_log_qname: str) -> None:
        self.artifact_log_qnames.add(artifact_log_qname)

    def register_child_log(self, log_qname: str) -> None:
        self.child_log_qnames.add(log_qname)

    def get_log_qnames(self) -> set[str]:
        """All registered loggers."""
        return {qname for qnames in self.log_alias_to_log_qnames.values() for qname in qnames}

    def get_artifact_log_qnames(self) -> set[str]:
        return set(self.artifact_log_qnames)

    def get_child_log_qnames(self) -> set[str]:
        return set(self.child_log_qnames)

    def is_off_by_default(self, artifact_qname: str) -> bool:
        """Whether an artifact is told only where it is named itself."""
        return artifact_qname in self.off_by_default_artifact_names


@dataclass
class LogState:
    """What is asked for: levels of loggers, and artifacts."""

    log_qname_to_level: dict[str, int] = field(default_factory=dict)
    artifact_names: set[str] = field(default_factory=set)

    def enable_artifact(self, artifact_name: str) -> None:
        self.artifact_names.add(artifact_name)

    def is_artifact_enabled(self, name: str) -> bool:
        return name in self.artifact_names

    def enable_log(self, log_qnames: str | Sequence[str], log_level: int) -> None:
        for qname in [log_qnames] if isinstance(log_qnames, str) else log_qnames:
            self.log_qname_to_level[qname] = log_level

    def get_log_level_pairs(self) -> Any:
        """Loggers and levels that were named."""
        return self.log_qname_to_level.items()

    def clear(self) -> None:
        self.log_qname_to_level.clear()
        self.artifact_names.clear()


log_registry = LogRegistry()


def register_log(setting_name: str, log_name: str | Sequence[str]) -> None:
    """Let settings name loggers as `setting_name`."""
    log_registry.register_log(setting_name, log_name)


def register_artifact(setting_name: str, description: str, visible: bool = False, off_by_default: bool = False,
                      log_format: str | None = None) -> None:
    """Let settings name an artifact. `visible`: help shows it; `off_by_default`: the level of the logger above does
    not turn it on; `log_format`: of its lines, as `logging` writes formats."""
    log_registry.register_artifact_name(setting_name, description, visible, off_by_default, log_format)


# --- modules ----------------------------------------------------------------------------------------------------------


@functools.cache
def logger_modules() -> frozenset[str]:
    """Modules of PyTorch that have loggers, and the packages they are in: messages here go by their names, too."""
    found: set[str] = set()
    for row in rows(__file__, "logger_modules"):
        package, _, names = row.partition(": ")
        found.update(f"{package}.{name}" for name in names.split())
        parts = package.split(".")
        found.update(".".join(parts[:k]) for k in range(2, len(parts) + 1))
    return frozenset(found)


def _own_name(qname: str) -> str:
    """The module that a program means: PyTorch's are ours, whatever else is installed under its name."""
    root, dot, rest = qname.partition(".")
    return f"{_PACKAGE}{dot}{rest}" if root == "torch" else qname


def _is_valid_module(qname: str) -> bool:
    return qname in logger_modules() or importlib.util.find_spec(_own_name(qname)) is not None


def _get_module_and_submodules(qname: str) -> list[str] | None:
    """A module and all below it; None where there is none."""
    below = sorted(name for name in logger_modules() if name.startswith(f"{qname}."))
    if qname in logger_modules():
        return [qname, *below]
    own = _own_name(qname)
    spec = importlib.util.find_spec(own)
    if spec is None:
        return None
    if spec.submodule_search_locations is None:
        return [qname]
    package = importlib.import_module(own)
    found = [info.name for info in pkgutil.walk_packages(package.__path__, f"{own}.", onerror=lambda name: None)]
    return [qname, *(qname + name[len(own):] for name in found)]


def _has_registered_parent(log_qname: str) -> bool:
    registered, parts = log_registry.get_log_qnames(), log_qname.split(".")
    return any(".".join(parts[:k]) in registered for k in range(1, len(parts) + 1))


def enable_modules(name: str, enable: Callable[[str], None]) -> None:
    """Register a module, and those below it, and `enable` each."""
    for module in _get_module_and_submodules(name) or (name,):
        if _has_registered_parent(module):
            log_registry.register_child_log(module)
        else:
            log_registry.register_log(module, module)
        enable(module)


# --- settings ---------------------------------------------------------------------------------------------------------


def help_message(verbose: bool = False) -> str:
    """What TORCH_LOGS understands; `verbose`: all artifacts."""
    shown = log_registry.artifact_names if verbose else log_registry.visible_artifacts
    heading = "All names" if verbose else "Names most programs need (TORCH_LOGS='+help' lists all)"
    lines = ["all", *sorted(log_registry.log_alias_to_log_qnames)]
    lines += [f"{name:30}\t{log_registry.artifact_descriptions[name]}" for name in sorted(shown)]
    return f"\nTORCH_LOGS Info\n{_HELP}\n{heading}\n  " + "\n  ".join(lines) + "\n"


def _invalid_settings_err_msg(settings: str, verbose: bool = False) -> str:
    names = sorted({"all", *log_registry.log_alias_to_log_qnames, *log_registry.artifact_names})
    return (
        f"\nInvalid log settings: {settings}, must be a comma separated list of modules (by their full names), logs and"
        f" artifacts.\nTORCH_LOGS=\"help\" says more.\nValid settings:\n{', '.join(names)}\n"
    )


def _validate_settings(settings: str) -> bool:
    return _SETTINGS.fullmatch(settings) is not None


def _level_of(name: str) -> int:
    return {INCR_VERBOSITY_CHAR: logging.DEBUG, DECR_VERBOSITY_CHAR: logging.ERROR}.get(name[0], logging.INFO)


@functools.lru_cache
def _parse_log_settings(settings: str) -> LogState:
    """What a setting asks for."""
    state = LogState()
    if settings == "":
        return state
    if settings in ("help", "+help"):
        raise ValueError(help_message(verbose=settings == "+help"))
    if not _validate_settings(settings):
        raise ValueError(_invalid_settings_err_msg(settings))
    for word in re.sub(r"\s+", "", settings).split(","):
        level, name = _level_of(word), word.lstrip("+-")
        name = "torch" if name == "all" else name
        if log_registry.is_log(name):
            state.enable_log(log_registry.log_alias_to_log_qnames[name], level)
        elif log_registry.is_artifact(name):
            state.enable_artifact(name)
        elif _is_valid_module(name):
            enable_modules(name, functools.partial(state.enable_log, log_level=level))
        else:
            raise ValueError(_invalid_settings_err_msg(settings))
    return state
