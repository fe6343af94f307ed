"""A program for PyTorch and for Rushlight: prints, as JSON, what each setting of logs does to the loggers.

`python logging_settings.py` asks PyTorch, `python -m rushlight run logging_settings.py` Rushlight. test_logging.py has
the answers.
"""

import inspect
import json
import logging
from typing import Any

import torch

LOGS = torch._logging
INTERNAL = LOGS._internal
CALLS: list[dict[str, Any]] = [
    {}, {"dynamo": 10}, {"all": 20}, {"aot": 40, "inductor": 10, "guards": True}, {"export": 10},
    {"dynamic": 20, "modules": {"json": 10}}, {"modules": {"torch._dynamo.guards": 10, "guards": True}},
    {"output_code": True, "inductor": 50}, {"modules": {"torch._functorch._aot_autograd.graph_compile": 20}},
    {"dynamo": True}, {"dynamo": 11}, {"dynamo": "DEBUG"}, {"guards": 1}, {"nosuch": True},
    {"modules": {"no_such_module": 10}}, {"modules": {"no_such.module": 10}}, {"modules": {"guards": 10}},
    {"modules": {"torch.no_such": 10}}, {"modules": {"torch.no_such.module": 10}},
]
SETTINGS = [
    "+dynamo", "help", "+help", "dynamo,", "dynamo, aot", " dynamo", "+dynamo,-inductor,guards", "nosuch",
    "dynamo,nosuch", "no.such", "++dynamo", "torch._dynamo.guards", "json.decoder", "all", "+all", "-all",
    "guards,+guards", "a b", "dynamo;aot", "+torch._functorch._aot_autograd.graph_compile", "torch.no_such",
    "+distributed,-c10d,ddp", "onnx,onnx_diagnostics", "fsdp,pp,dtensor", "recompiles,graph_breaks,perf_hints",
]


def loggers() -> dict[str, list[Any]]:
    """Level, propagation, handlers of the loggers that a setting touches, and what their artifacts then hear."""
    found = {}
    for name in sorted(INTERNAL.log_registry.get_log_qnames()):
        one = logging.getLogger(name)
        found[name] = [one.level, one.propagate, len(one.handlers)]
    for home, name in (("torch._dynamo.guards", "guards"), ("torch._inductor.graph", "output_code"),
                       ("torch._dynamo.convert_frame", "bytecode"), ("torch._dynamo.output_graph", "graph_code")):
        one = LOGS.getArtifactLogger(home, name)
        found[one.name] = [one.level, one.propagate, one.isEnabledFor(10), one.getEffectiveLevel()]
    return found


def answer(function: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return type(error).__name__


def set_and_look(call: dict[str, Any]) -> dict[str, list[Any]]:
    LOGS.set_logs(**call)
    return loggers()


def changed(before: dict[str, Any], now: Any) -> Any:
    """What a call changed; the name of the error that it raised instead."""
    return now if isinstance(now, str) else {name: told for name, told in now.items() if before.get(name) != told}


def parsed(text: str) -> list[Any]:
    state = INTERNAL._parse_log_settings(text)
    return [sorted(state.artifact_names), sorted(state.log_qname_to_level.items())]


def main() -> None:
    registry = INTERNAL.log_registry
    told = {
        "logs": {name: sorted(found) for name, found in registry.log_alias_to_log_qnames.items()},
        "artifacts": sorted(registry.artifact_names),
        "visible": sorted(registry.visible_artifacts),
        "off by default": sorted(registry.off_by_default_artifact_names),
        "arguments": [[p.name, p.default] for p in inspect.signature(LOGS.set_logs).parameters.values()],
        "defaults": LOGS.DEFAULT_LOGGING,
    }
    # in this order: modules that a setting names are registered from then on
    told["settings"] = {text: answer(parsed, text) for text in SETTINGS}
    plain = told["plain"] = set_and_look({})
    told["calls"] = [[call, changed(plain, answer(set_and_look, call))] for call in CALLS]
    print("{" + ",\n".join(f"{json.dumps(name)}: {json.dumps(told[name], sort_keys=True)}" for name in told) + "}")


main()
