"""Ask an installed PyTorch for the answers to language_programs.py and store them in language_answers.txt.

    python tests/script/language_answers.py
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import tempfile
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
ANSWERS = HERE / "language_answers.txt"


def load(path: Path) -> ModuleType:
    """The programs, under the name that PyTorch saw them by: code says where functions come from."""
    spec = importlib.util.spec_from_file_location("progs", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def canonical(graph: object) -> str:
    """A graph with its values numbered in order of appearance."""
    names: dict[str, str] = {}
    text = re.sub(r"%[\w.]+", lambda m: names.setdefault(m.group(0), f"%{len(names)}"), str(graph))
    return re.sub(r" # .*", "", text).strip()


def shown(value: Any) -> str:
    """A value as text that tells types apart."""
    if hasattr(value, "tolist"):
        digits = re.sub(r"\d+\.\d+(e-?\d+)?", lambda m: f"{float(m.group(0)):.5g}", str(value.detach().tolist()))
        return f"{str(value.dtype).rpartition('.')[2]}{list(value.shape)}{digits}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(shown, value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{shown(k)}: {shown(v)}' for k, v in value.items())}}}"
    return repr(value)


def fresh(value: Any) -> Any:
    """A copy, for one call."""
    if hasattr(value, "clone"):
        return value.clone()
    if isinstance(value, (list, tuple)):
        return type(value)(map(fresh, value))
    return {k: fresh(v) for k, v in value.items()} if isinstance(value, dict) else value


def arguments(call: Any) -> tuple[Any, ...]:
    return tuple(map(fresh, call if isinstance(call, tuple) else (call,)))


def main() -> None:
    import torch  # noqa: PLC0415 - the oracle, which the product does without

    warnings.simplefilter("ignore")
    text = (HERE / "language_programs.py").read_text().replace("import rushlight as torch", "import torch")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "language_programs.py"
        path.write_text(text.replace("from rushlight import", "from torch import"))
        programs = load(path)
        found = {name: answer(torch, getattr(programs, name), calls) for name, calls in programs.CASES.items()}
    ANSWERS.write_text(json.dumps(found, indent=0) + "\n")
    print(f"{ANSWERS.name}: {len(found)} programs", file=sys.stderr)


def answer(torch: Any, function: Any, calls: tuple[Any, ...]) -> dict[str, Any]:
    try:
        script = torch.jit.script(function)
    except Exception as error:  # noqa: BLE001 - which one is the answer
        return {"refused": type(error).__name__, "said": str(error).strip().split("\n")[0]}
    runs = []
    for call in calls:
        try:
            runs.append(shown(script(*arguments(call))))
        except Exception as error:  # noqa: BLE001 - which one is the answer
            runs.append(f"error: {str(error).strip().split(chr(10))[-1].removeprefix('RuntimeError:').strip()}")
    return {"graph": canonical(script.graph).split("\n"), "code": script.code.strip().split("\n"), "runs": runs}


if __name__ == "__main__":
    main()
