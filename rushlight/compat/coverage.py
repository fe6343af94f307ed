"""How much of PyTorch is here: `rushlight compat`, and docs/compatibility.md.

Enters: records.txt beside this file (PyTorch's public names, how many of its own op records pass, which libraries were
compared; `tools/make_compat.py` writes it where PyTorch is installed), the table of names that refuse, and this package
as it is. Leaves: figures, the answer for one name, a page. It needs no PyTorch, and refuses to guess: a name that
PyTorch does not have is said to be unknown.
"""

from __future__ import annotations

import difflib
import functools
import json
import os
from typing import Any

from ..base import late
from . import audit
from .following import follow

MODULES = ("torch", "nn", "nn.functional", "optim", "linalg", "fft", "special", "utils.data", "distributed", "fx")
# Packages whose names are taken for PyTorch's.
NEIGHBOURS = (
    "torchvision", "torchaudio", "torchtext", "torchao", "torchdata", "torchmetrics", "torchtune", "torchrec",
    "lightning", "pytorch_lightning", "transformers", "accelerate", "timm", "triton", "numpy", "tensorflow", "jax",
)
DEVICES = ("cpu", "cuda", "meta", "lazy", "xla", "mps", "xpu", "mtia")


@functools.cache
def records() -> dict[str, Any]:
    """What is known of PyTorch, and of comparisons with it."""
    with open(os.path.join(os.path.dirname(__file__), "records.txt"), encoding="utf-8") as file:
        return json.load(file)


def dotted(module: str, name: str) -> str:
    return f"torch.{name}" if module == "torch" else f"torch.{module}.{name}"


def names() -> dict[str, dict[str, Any]]:
    """Per module: how many public names PyTorch has, how many of them refuse here, how many are missing; and which."""
    found = {}
    for module in MODULES:
        public = records()["names"][module]
        missing = [name for name in public if audit.find(dotted(module, name)) is audit.MISSING]
        refuse = [name for name in public if name not in missing and audit.why_refused(dotted(module, name))]
        found[module] = {"public": len(public), "refuse": len(refuse), "missing": len(missing),
                         "refuse_names": refuse, "missing_names": missing}
    return found


def devices() -> dict[str, dict[str, bool]]:
    """The devices that have a name here, and whether a tensor can be made on each now."""
    package: Any = late.provided("package")
    found = {}
    for name in DEVICES:
        try:
            package.empty(1, device=name)
            found[name] = {"available": True}
        except Exception:   # noqa: BLE001 - each refuses in its own way
            found[name] = {"available": False}
    return found


def figures() -> dict[str, Any]:
    """Everything, as `rushlight compat --json` prints it."""
    return {"names": names(), "ops": records()["ops"], "devices": devices(), "libraries": records()["libraries"]}


def told(name: str) -> tuple[bool, str]:
    """Whether a dotted name of PyTorch works here, and a sentence about it."""
    asked = name.strip().removesuffix("()")
    parts = asked.split(".")
    if not all(part.isidentifier() for part in parts):
        return False, f"{show(name)} is not a dotted name. Ask for one such as torch.nn.Linear or torch.Tensor.add_."
    if parts[0] in ("torch", "rushlight"):
        parts = parts[1:]
    full = ".".join(["torch", *parts])
    own = records()["own"]
    if any(full.startswith(f"{space}.") and full[len(space) + 1 :].partition(".")[0] in own[space] for space in own):
        return False, f"{full} is not a name of PyTorch; {'.'.join(['rushlight', *parts])} is Rushlight's own."
    found, reason = follow(full)
    if reason is not None:
        return False, f"{full} can be imported but not used: {reason.rstrip('.')}."
    if found is not audit.MISSING:
        return True, f"{full} works."
    known = {dotted(module, one) for module in MODULES for one in records()["names"][module]}
    if full in known:
        return False, f"{full} is missing."
    package = asked.partition(".")[0]
    if package in NEIGHBOURS:
        return False, (f"{show(asked)} is not a name of PyTorch but of a package of its own: "
                       f"`rushlight check {package}` says which names of torch it mentions that are missing here.")
    near = difflib.get_close_matches(full, sorted(known), 3)
    return False, f"{show(full)} is not known here, nor a public name of PyTorch." + (
        f" Did you mean {' or '.join(near)}?" if near else "")


def show(name: str) -> str:
    """A name as part of a sentence: one line, cut where it is long."""
    text = name if name.isprintable() and name else repr(name)
    return text if len(text) <= 80 else f"{text[:80]}…"


def lines() -> list[str]:
    """The figures for a terminal."""
    table = [f"{'names of':16} {'public':>7} {'work':>7} {'refuse':>7} {'missing':>8}"]
    for module, row in names().items():
        works = row["public"] - row["refuse"] - row["missing"]
        table.append(f"{module:16} {row['public']:7} {works:7} {row['refuse']:7} {row['missing']:8}")
    ops, libraries = records()["ops"], records()["libraries"]
    equal = sum(row["equal"] for row in libraries.values())
    return [*table, "",
            f"ops        {ops['passed']} of {ops['checks']} checks of PyTorch's {ops['records']} records of ops pass",
            f"libraries  {equal} of {sum(row['cases'] for row in libraries.values())} programs in {len(libraries)}"
            " groups give PyTorch's results",
            "devices    " + ", ".join(name for name, row in devices().items() if row["available"]),
            "", "one name: rushlight compat torch.NAME; a program: rushlight check FILE; as data: --json"]


def page() -> str:
    """docs/compatibility.md."""
    rows = []
    for module, row in names().items():
        works = row["public"] - row["refuse"] - row["missing"]
        lacking = ", ".join(f"`{name}`" for name in row["missing_names"])
        rows.append(f"| `{dotted(module, '').rstrip('.')}` | {row['public']} | {works} | {row['refuse']} | "
                    f"{row['missing']} | {lacking or 'none'} |")
    ops = records()["ops"]
    groups = [f"| {name.replace('_', ' ')} | {row['cases']} | {row['equal']} |"
              for name, row in records()["libraries"].items()]
    return PAGE.format(names="\n".join(rows), groups="\n".join(groups), torch=records()["torch"], **ops)


PAGE = """# Compatibility in figures

Written by `python tools/make_compat.py`; a test compares it with the code. `rushlight compat` prints the same for your
installation, `rushlight compat --json` as data, and `rushlight compat torch.NAME` answers for one name (0: it works,
1: it does not). What differs where something works is in [Coming from PyTorch](coming_from_pytorch.md).

## Names

Public names of PyTorch {torch}: a module's `__all__`, or else what it defines itself. *Refuse* are those that can be
imported and say why when they are used: a GPU of another maker, forms of programs that have no use here.

| module | public | work | refuse | missing | which are missing |
| --- | --- | --- | --- | --- | --- |
{names}

## Ops

PyTorch describes its ops in {records} records. Of the {checks} checks they make (results, gradients, second gradients,
dtypes, strides, errors …), {passed} pass; [the others](operators.md), with the reason of each.

## Libraries

Programs that ran once on PyTorch and once here, from the same seed; *equal* are those whose results agree
([which they are](ecosystem.md)).

| group | programs | equal |
| --- | --- | --- |
{groups}
"""


def command(name: str | None, as_json: bool) -> int:
    """`rushlight compat`: 0, or for a name that does not work 1."""
    if name is None:
        print(json.dumps(figures(), indent=1) if as_json else "\n".join(lines()))
        return 0
    works, sentence = told(name)
    print(json.dumps({"name": name, "works": works, "told": sentence}) if as_json else sentence)
    return 0 if works else 1
