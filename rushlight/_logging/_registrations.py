"""The logs and artifacts of PyTorch 2.13, from the table beside this file."""

from __future__ import annotations

from ..base.tables import rows
from .registry import log_registry, register_artifact, register_log


def _register() -> None:
    for row in rows(__file__):
        head, _, rest = row.partition(": ")
        kind, name, *told = head.split()
        if kind == "log":
            register_log(name, rest.split())
            if told == ["n"]:
                log_registry.silent.add(name)
            continue
        flags, home = told
        log_format = "" if name == "custom_format_test_artifact" else None
        register_artifact(name, rest, "v" in flags, "o" in flags, log_format)
        log_registry.homes[name] = home
        if "n" in flags:
            log_registry.silent.add(name)


_register()
