"""Count what stands behind the rows of README.md's status table.

Enters: this checkout, and PyTorch 2.13 in the environment (`pip install torch==2.13.0`). Leaves: a line per row that is
begun or further, with its number. "names" are public names of PyTorch's modules that exist here and do not refuse;
"records" are PyTorch's own descriptions of its ops, modules and optimizers, which the tests run on both libraries.

    python tools/count_status.py            print the numbers
    python tools/count_status.py --check    say which rows of README.md have another number, and exit with 1 if any has
"""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def public_names(theirs: Any) -> list[str]:
    """What a module of PyTorch's offers: its `__all__`, or what it defines itself; of a class, its attributes."""
    if isinstance(theirs, type):
        return [name for name in dir(theirs) if not name.startswith("_")]
    if hasattr(theirs, "__all__"):
        return sorted(set(theirs.__all__))
    values = {name: getattr(theirs, name) for name in dir(theirs) if not name.startswith("_")}
    return [name for name, value in values.items() if not isinstance(value, ModuleType)
            and str(getattr(value, "__module__", "")).startswith("torch")]


def find(name: str) -> Any:
    """A module, or a class of one, by its dotted name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, last = name.rpartition(".")
        return getattr(importlib.import_module(module), last)


def ours(module: str) -> str:
    """Where a module of PyTorch's is here: torch.nn -> rushlight.nn, functorch -> rushlight.functorch."""
    return "rushlight." + module.removeprefix("torch.")


def names(*modules: str) -> str:
    from rushlight.base import refusals  # noqa: PLC0415 - rows that need no PyTorch are counted without

    refused = {name for _, _, name in refusals.listed()}
    offered = [(module, name) for module in modules for name in public_names(find(module))]
    here = [name for module, name in offered if f"{module}.{name}" not in refused
            and hasattr(find(ours(module)), name)]
    return f"{len(here)} of {len(offered)} names"


def op_records() -> str:
    from tests.parity.left_out import LEFT_OUT, applies  # noqa: PLC0415 - as above
    from tests.parity.records import RECORDS  # noqa: PLC0415

    checks = sum(applies(check, record) for check in LEFT_OUT for record in RECORDS.values())
    return f"{checks - exceptions(*LEFT_OUT)} of {checks} checks of {len(RECORDS)} records"


def gradient_records() -> str:
    from tests.parity.left_out import applies  # noqa: PLC0415 - as above
    from tests.parity.records import RECORDS  # noqa: PLC0415

    checks = sum(applies(check, record) for check in ("gradient", "second") for record in RECORDS.values())
    return f"{checks - exceptions('gradient', 'second')} of {checks} checks of gradients"


def exceptions(*checks: str) -> int:
    from tests.parity.left_out import LEFT_OUT  # noqa: PLC0415 - as above

    return sum(len(LEFT_OUT[check]) for check in checks)


def module_records() -> str:
    from tests.nn.module_records import RECORDS  # noqa: PLC0415 - as above

    return f"{len(RECORDS)} records"


def optimizer_records() -> str:
    from tests.optim.optim_records import RECORDS  # noqa: PLC0415 - as above

    return f"{len(RECORDS)} records"


def captured_programs() -> str:
    from tests.dynamo.conformance import harness, test_conformance  # noqa: PLC0415 - as above

    assert test_conformance
    cases = harness.CASES
    return f"{sum(not case.breaks for case in cases)} of {len(cases)} small programs captured whole"


def lowered_ops() -> str:
    from rushlight.op import definitions, load_all  # noqa: PLC0415 - as above
    from rushlight.op.extern import Extern  # noqa: PLC0415

    load_all()
    classes = {cls for classes in definitions.values() for cls in classes}
    share = sum(not issubclass(cls, Extern) for cls in classes) / len(classes)
    return f"{share:.0%} of definitions can be fused"      # a share: one more op is no new number


def backends() -> str:
    """Names of backends, and those that compile a function here."""
    import rushlight  # noqa: PLC0415 - as above

    def works(name: str) -> bool:
        try:
            rushlight._dynamo.reset()
            rushlight.compile(lambda x: x + 1, backend=name)(rushlight.ones(2))
        except Exception:  # noqa: BLE001 - each refuses in its own way
            return False
        return True

    found = [name for name in rushlight._dynamo.list_backends(exclude_tags=None) if name != "onnxrt"]
    return f"{sum(map(works, found))} of {len(found)} names, and onnxrt where ONNX Runtime is"


def onnx_rules() -> str:
    from rushlight.onnx.rules import RULES  # noqa: PLC0415 - as above

    return f"{len(RULES)} rules"


def targets() -> str:
    from rushlight.freestanding import TARGETS  # noqa: PLC0415 - as above

    machines = {target.triple.partition("-")[0] for target in TARGETS.values() if not target.is_gpu}
    return f"{len(machines)} processors"


def writer_calls() -> str:
    from rushlight.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - as above

    return f"{sum(name.startswith('add_') for name in dir(SummaryWriter))} calls"


def libraries() -> str:
    lines = (ROOT / "tests" / "ecosystem" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return f"{sum(not line.startswith('#') for line in lines)} packages installed for it"


def exercises() -> str:
    from rushlight.learn.catalogue import chapters  # noqa: PLC0415 - as above

    return f"{sum(len(chapter.exercises) for chapter in chapters())} exercises"


def programs(pattern: str) -> str:
    found = list(ROOT.glob(pattern))
    return f"{len(found)} program{'s' * (len(found) != 1)}"


def dialects() -> str:
    from rushlight.mlir.exporting import DIALECTS  # noqa: PLC0415 - as above

    return f"{len(DIALECTS)} dialects"


def sample_device() -> str:
    source = ROOT / "examples" / "device_package" / "rushlight_tally" / "__init__.py"
    return f"a device in {source.read_text(encoding='utf-8').count(chr(10))} lines"


ROWS: dict[int, tuple[Callable[..., str], tuple[str, ...]]] = {
    1: (names, ("torch.Tensor",)),
    2: (op_records, ()),
    3: (gradient_records, ()),
    4: (names, ("torch.func", "torch.autograd.functional")),
    5: (names, ("torch.library", "torch.overrides")),
    6: (names, ("torch.random", "torch.Generator")),
    7: (module_records, ()),
    8: (optimizer_records, ()),
    9: (names, ("torch.utils.data", "torch.multiprocessing")),
    10: (names, ("torch.serialization",)),
    11: (captured_programs, ()),
    12: (names, ("torch.fx", "torch.fx.experimental.proxy_tensor")),
    13: (names, ("functorch.compile",)),
    14: (lowered_ops, ()),
    15: (backends, ()),
    16: (names, ("torch.jit",)),
    17: (names, ("torch._lazy", "torch._lazy.metrics", "torch._lazy.debug", "torch._lazy.closure", "torch._lazy.config",
                 "torch._lazy.computation", "torch._lazy.ir_cache")),
    18: (names, ("torch.cuda",)),
    19: (names, ("torch.amp", "torch.cuda.amp")),
    20: (sample_device, ()),
    22: (names, ("torch.distributed", "torch.distributed.tensor", "torch.distributed.fsdp",
                 "torch.distributed.checkpoint", "torch.distributed.pipelining", "torch.distributed.rpc")),
    23: (programs, ("examples/parallel*.py",)),
    24: (names, ("torch.ao.quantization", "torch.ao.nn.quantized", "torch.ao.nn.quantized.dynamic", "torch.ao.nn.qat",
                 "torch.ao.nn.intrinsic", "torch.ao.nn.quantizable", "torch.ao.quantization.quantize_fx")),
    25: (names, ("torch.nn.utils.prune", "torch.ao.pruning")),
    26: (onnx_rules, ()),
    27: (targets, ()),
    28: (targets, ()),
    29: (programs, ("examples/serve/*.py",)),
    30: (names, ("torch.profiler", "torch.autograd.profiler", "torch.autograd.profiler_util")),
    31: (writer_calls, ()),
    32: (libraries, ()),
    33: (dialects, ()),
    34: (exercises, ()),
    35: (programs, ("tests/ecosystem/cases/toolbelt_and_ttach.py",)),
}


def counted() -> Iterator[tuple[int, str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")     # names that PyTorch itself deprecates
        for row, (count, arguments) in ROWS.items():
            yield row, count(*arguments)


def main() -> int:
    rows = dict(re.findall(r"^\| (\d+) \|(.*)\|$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE))
    old = 0
    for row, text in counted():
        if "--check" not in sys.argv:
            print(f"{row:2} {text}")
        elif f"| {text} |" not in rows[str(row)] + "|":
            old += 1
            print(f"README.md, row {row}: now {text}")
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
