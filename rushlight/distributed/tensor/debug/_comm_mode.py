"""`CommDebugMode`: what is sent within it, in all and by module.

Enters: `with CommDebugMode() as mode:` around forward and backward passes. Leaves: how often each collective of
distributed tensors and of `_functional_collectives` was called, the ops on distributed tensors, and which module they
belong to; as dicts, as a table, as JSON. Levels of detail: 0 counts; 1 ops on distributed tensors, and parameters;
2 every op but trivial ones; 3 every op.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any

from ....aten.namespaces import namespace
from ....base import late
from ....dispatch.modes import TorchDispatchMode
from ....utils.module_tracker import ModuleTracker
from ..._functional_ops import LEGACY
from .._api import DTensor

__all__ = ["CommDebugMode"]
WORDS = re.compile(r"\x1B\[[0-?]*[ -/]*[@-~]")
TRIVIAL = frozenset((
    "detach", "detach_", "view", "reshape", "t", "transpose", "expand", "squeeze", "unsqueeze", "alias", "clone",
    "zeros_like", "ones_like", "empty_like", "fill_", "zero_", "copy_", "as_strided", "slice", "select", "chunk",
    "split", "wait_tensor",
))


class _Modules(ModuleTracker):
    """The module that is running, and what is known of all that ran."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = ["Global"]
        self.seen: dict[str, dict[str, Any]] = {}
        self.parameters: dict[str, dict[str, Any]] = {}
        self.placements: dict[str, Any] = {}
        self.back = "Global"      # whose backward is running

    def __enter__(self) -> _Modules:
        self.stack, self.back = ["Global"], "Global"
        self.seen = {"Global": {"depth": 0, "children": [], "type": "", "parameters": {}, "parents": ()}}
        self.parameters, self.placements = {}, {}
        super().__enter__()
        hooks = late.provided("module hooks")
        self._handles.append(hooks.register_module_full_backward_pre_hook(self._going_back))
        return self

    @property
    def name(self) -> str:
        """The module that the present op belongs to."""
        return self.back if self.is_bw else self.stack[-1]

    @property
    def parents_of_name(self) -> tuple[str, ...]:
        return self.seen[self.name]["parents"]

    def _before(self, module: Any, inputs: Any) -> None:
        super()._before(module, inputs)
        name = self._name_of(module)
        if self.is_bw:      # a checkpointed part that runs again
            self.back = name
            return
        if name not in self.seen:
            parent = self.stack[-1]
            self.seen[parent]["children"].append(name)
            self.seen[name] = {
                "depth": len(self.stack), "children": [], "type": f"{type(module).__module__}.{type(module).__name__}",
                "parameters": {}, "parents": tuple(self.stack),
            }
            for key, param in module.named_parameters(recurse=False):
                self.parameters.setdefault(name, {})[key] = param.data
                if isinstance(param, DTensor):
                    self.placements[f"{name}.{key}"] = param.placements
                    self.seen[name]["parameters"][key] = str(param.placements)
        self.stack.append(name)

        def left(module: Any, inputs: Any, output: Any) -> None:
            handle.remove()
            if self.stack[-1] == name:
                self.stack.pop()

        handle = module.register_forward_hook(left)      # behind the module's own hooks, which are part of it
        self._handles.append(handle)

    def _going_back(self, module: Any, gradients: Any) -> None:
        self.back = self._name_of(module) if self._name_of(module) in self.seen else "Global"


class CommDebugMode(TorchDispatchMode):
    """Within, collectives are counted."""

    own_ops = True

    def __init__(self) -> None:
        super().__init__()
        self.comm_counts: dict[Any, int] = defaultdict(int)
        self.comm_module_counts: dict[str, dict[str, dict[Any, int]]] = {}
        self.comm_module_operation_counts: dict[str, dict[str, list]] = {}
        self.advanced_module_tracker = _Modules()

    def __enter__(self) -> CommDebugMode:
        self.comm_counts.clear()
        self.comm_module_counts.clear()
        self.comm_module_counts["Global"] = {"forward": defaultdict(int), "backward": defaultdict(int)}
        self.comm_module_operation_counts.clear()
        super().__enter__()
        self.advanced_module_tracker.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.advanced_module_tracker.__exit__(*exc)
        super().__exit__(*exc)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        modules = self.advanced_module_tracker
        spread = [a for a in args if isinstance(a, DTensor)]
        self.comm_module_operation_counts.setdefault(modules.name, {"operations_list": []})["operations_list"].append({
            "name": str(func), "input_shape": [str(t.shape) for t in spread],
            "input_sharding": [str(t.placements) for t in spread],
            "device_mesh": str(spread[0].device_mesh) if spread else "", "is_bw": modules.is_bw,
            "is_activation_checkpointing": modules.is_bw and len(modules.stack) > 1,
        })
        if DTensor in types:      # which calls ops on the parts, and collectives
            return NotImplemented
        space, _, name = func.name.rpartition("::")
        if space == "_c10d_functional" and name in LEGACY and name != "wait_tensor":
            self._count(getattr(namespace("c10d_functional"), name))
        return func(*args, **(kwargs or {}))

    def _count(self, collective: Any) -> None:
        modules = self.advanced_module_tracker
        self.comm_counts[collective] += 1
        way = "backward" if modules.is_bw else "forward"
        for name in {modules.name, *modules.parents_of_name}:
            counts = self.comm_module_counts.setdefault(
                name, {"forward": defaultdict(int), "backward": defaultdict(int)}
            )
            counts[way][collective] += 1

    # --- what was seen ------------------------------------------------------------------------------------------------

    def get_total_counts(self) -> int:
        """How many collectives there were."""
        return sum(self.comm_counts.values())

    def get_comm_counts(self) -> dict[Any, int]:
        """How often each collective was called; keys are those of `ops.c10d_functional`."""
        return self.comm_counts

    def get_parameter_info(self) -> dict[str, dict[str, Any]]:
        """The parameters of each module that ran."""
        return self.advanced_module_tracker.parameters

    def get_sharding_info(self) -> dict[str, Any]:
        """How the parameters lie that are distributed."""
        return self.advanced_module_tracker.placements

    def _operations(self, name: str, noise_level: int) -> dict[str, list[dict[str, Any]]]:
        """The ops of a module, by pass."""
        found: dict[str, list[dict[str, Any]]] = {"forward": [], "backward": [], "checkpointing": []}
        if noise_level < 1:
            return found
        for op in self.comm_module_operation_counts.get(name, {"operations_list": []})["operations_list"]:
            is_trivial = op["name"].split(".")[1] in TRIVIAL
            if (noise_level < 3 and is_trivial) or (noise_level < 2 and not op["input_shape"]):
                continue
            again = op["is_activation_checkpointing"]
            found["checkpointing" if again else "backward" if op["is_bw"] else "forward"].append(op)
        return found

    def generate_comm_debug_tracing_table(self, noise_level: int = 3) -> str:
        """The modules in the order they ran, with what each sent and did."""
        lines: list[str] = []
        for name, known in self.advanced_module_tracker.seen.items():
            indent = "    " * known["depth"]
            lines.append(f"{indent}{name}")
            if noise_level > 0 and known["type"]:
                lines.append(f"{indent}*module type: {known['type']}")
                lines += [f"{indent} *{key}: {lies}" for key, lies in known["parameters"].items()]
            counts = self.comm_module_counts.get(name, {"forward": {}, "backward": {}})
            ops = self._operations(name, noise_level)
            for way, title in (("forward", "FORWARD PASS"), ("backward", "BACKWARD PASS"),
                               ("checkpointing", "ACTIVATION CHECKPOINTING")):
                sent = counts.get(way, {})
                if sent or ops[way]:
                    lines.append(f"{indent}  {title}")
                    lines += [f"\033[1;33m{indent}    *{op}: {count}\033[0m" for op, count in sent.items()]
                    for op in ops[way]:
                        lines.append(f"\033[1;33m{indent}    **{op['name']}\033[0m")
                        if op["input_shape"]:
                            lines += [f"\033[1;31m{indent}      {label}: {op[key]}\033[0m" for label, key in (
                                ("shape", "input_shape"), ("sharding", "input_sharding"), ("device mesh", "device_mesh")
                            )]
        return "\n".join(lines) + "\n"

    def log_comm_debug_tracing_table_to_file(self, file_name: str = "comm_mode_log.txt", noise_level: int = 3) -> None:
        """The table without colours, in a file."""
        with open(file_name, "w") as file:
            file.write(WORDS.sub("", self.generate_comm_debug_tracing_table(noise_level)))

    def generate_json_dump(self, file_name: str = "comm_mode_log.json", noise_level: int = 3) -> None:
        """The same as a tree of modules, in a file."""
        with open(file_name, "w") as file:
            json.dump(self._tree("Global", noise_level), file, indent=4)

    def _tree(self, name: str, noise_level: int) -> dict[str, Any]:
        known = self.advanced_module_tracker.seen[name]
        counts = self.comm_module_counts.get(name, {"forward": {}, "backward": {}})
        ops = self._operations(name, noise_level)
        return {
            "fqn": name, "module_type": known["type"] if noise_level > 0 else "",
            "parameters": list(known["parameters"].items()) if noise_level > 0 else [],
            "children": [self._tree(child, noise_level) for child in known["children"]],
            **{f"collectives_{way}": [(str(op), n) for op, n in counts[way].items()] for way in counts},
            **{f"operations_{way}": found for way, found in ops.items()},
        }

    def __repr__(self) -> str:
        return f"CommDebugMode(get_total_counts()={self.get_total_counts()})"
