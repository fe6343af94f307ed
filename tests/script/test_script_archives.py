"""Archives: written and read back, the code they hold (archive_code.txt: PyTorch's own), both ways with PyTorch, old
versions, extra files, and files that are damaged or mean harm."""

from __future__ import annotations

import importlib.util
import io
import random
import zipfile
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.script.archive.reader import read_archive
from rushlight.script.archive.writer import write_archive
from rushlight.script.source import Source
from rushlight.script.text.code_reader import read_code
from rushlight.script.text.lexer import TextError

HERE = Path(__file__).parent


def programs(package: Any) -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("archive_programs", HERE / "archive_programs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.programs(package)


def answers() -> dict[str, dict[str, str]]:
    """Stored code: for each archive, its members and their texts."""
    found: dict[str, dict[str, str]] = {}
    for part in (HERE / "archive_code.txt").read_text().split("## ")[1:]:
        name, _, rest = part.partition("\n")
        archive, member = name.split(" ")
        found.setdefault(archive, {})[member] = rest
    return found


# A version-3 archive is made of these: code as PyTorch writes it, without PyTorch.
def packed(code: dict[str, str], data: bytes, version: int = 3, **more: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("a/data.pkl", data)
        for name, text in code.items():
            file.writestr(f"a/{name}", text)
        file.writestr("a/constants.pkl", more.pop("constants", b"\x80\x02)."))
        file.writestr("a/version", f"{version}\n")
        for name, record in more.items():
            file.writestr(f"a/{name}", record)
    return out.getvalue()


EMPTY = b"\x80\x02c__torch__\nM\nq\x00)\x81}(X\x08\x00\x00\x00trainingq\x01\x88ub."


def module_of(body: str, version: int = 3, before: str = "") -> bytes:
    """An archive of a module whose forward is `body`."""
    code = f"{before}class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n{body}"
    return packed({"code/__torch__.py": code}, EMPTY, version)


def loaded(data: bytes) -> Any:
    return rl.jit.load(io.BytesIO(data))


def classes_in(root: Any) -> list[Any]:
    """The classes of an object and the objects in it, in the order in which a pickle names them."""
    inner = [found for slot in root.slots if hasattr(slot.type, "slots") for found in classes_in(slot.type)]
    return list(dict.fromkeys([root, *inner]))


@pytest.mark.parametrize("name", sorted(answers()))
def test_code_comes_back_as_it_was(name: str) -> None:
    """PyTorch's code, compiled and written again, is the same text, in the same files, in the same order."""
    code = answers()[name]
    from rushlight.script.archive.imports import Importer
    from rushlight.script.text.class_writer import ProgramWriter
    from rushlight.script.unit import Unit

    importer = Importer(Unit(), 3, code.get, lambda: [rl.tensor([1.0, 2.0])])
    writer = ProgramWriter([])
    root = importer.type(f"__torch__.{name}")
    writer.add(root, classes_in(root))
    written = {file.path: file.text for file in writer.files()}
    assert set(written) == set(code)
    for path, text in code.items():
        assert written[path] == text, path


def test_modules_are_saved_and_loaded(tmp_path: Path) -> None:
    made, inputs = programs(rl)["Step"]
    scripted = rl.jit.script(made())
    path = tmp_path / "step.pt"
    scripted.save(str(path), _extra_files={"notes.txt": "hello", "raw": b"\x00\x01"})
    extra = {"notes.txt": "", "raw": "", "absent": ""}
    again = rl.jit.load(path, _extra_files=extra, map_location="cpu")
    assert extra == {"notes.txt": b"hello", "raw": b"\x00\x01", "absent": b""}
    for rate in (16, 8, 16):
        assert again(*inputs(), rate).equal(scripted(*inputs(), rate))
    assert again.state.equal(scripted.state)
    again.reset()
    assert not again.state.any()
    assert sorted(again.state_dict()) == sorted(scripted.state_dict())
    with pytest.raises(rl.jit.Error, match="a rate of 8 or 16, not 7"):
        again(*inputs(), 7)
    with zipfile.ZipFile(path) as file:
        names = [name.partition("/")[2] for name in file.namelist()]
        assert names[:2] == ["extra/notes.txt", "extra/raw"] and names[-4:] == [
            "constants.pkl", "version", "byteorder", ".data/serialization_id"]
        assert file.read("step/version") == b"3\n" and file.read("step/byteorder") == b"little"
        for info in file.infolist():
            code = info.filename.endswith((".py", ".debug_pkl")) and info.file_size > 200
            assert (info.compress_type == zipfile.ZIP_DEFLATED) == code, info.filename


def test_shared_and_strided_values_stay_shared() -> None:
    made, inputs = programs(rl)["Kinds"]
    scripted = rl.jit.script(made())
    again = loaded(scripted.save_to_buffer())
    want, got = scripted(*inputs()), again(*inputs())
    assert got[0].equal(want[0]) and got[1:] == want[1:] == (12, "a,bp")
    assert again.weight.stride() == (1, 3) and again.tied.data_ptr() == again.weight.data_ptr()
    first, second = (getattr(again.layers, key).weight for key in "01")
    assert first.data_ptr() == second.data_ptr() and first.requires_grad
    assert (again.table, again.pair, again.big) == ({"x": 1, "y": -70000}, (3, "p"), 1 << 40)
    once = again.save_to_buffer()
    assert {n: r for n, r in _records(once).items() if n.endswith(".py")} == {
        n: r for n, r in _records(loaded(once).save_to_buffer()).items() if n.endswith(".py")}


def _records(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name.partition("/")[2]: file.read(name) for name in file.namelist()}


def test_functions_are_saved_as_modules() -> None:
    @rl.jit.script
    def shifted(x: rl.Tensor, by: int = 2) -> rl.Tensor:
        return rl.nn.functional.gelu(x) + by

    data = shifted.save_to_buffer()
    assert loaded(data)(rl.ones(2), 3).equal(shifted(rl.ones(2), 3))
    assert _records(data)[".data/version"] == b"10\n"        # gelu got its argument with it
    with pytest.warns(UserWarning, match="TorchScript archive"):
        handed = rl.load(io.BytesIO(data), weights_only=False)
    assert handed(rl.zeros(1)).item() == 2
    with pytest.raises(RuntimeError, match="weights_only"):
        rl.load(io.BytesIO(data))
    with pytest.raises(AttributeError, match="not scripted"):
        rl.jit.save(rl.nn.Linear(1, 1), io.BytesIO())


def test_forms_that_only_archives_have() -> None:
    body = """  def forward(self: __torch__.M,
    x: Optional[Tensor],
    n: int=-2) -> Tuple[Tensor, float, int]:
    _0 = uninitialized(Tensor)
    if torch.__isnot__(x, None):
      y = unchecked_cast(Tensor, x)
    else:
      ops.prim.RaiseException("nothing", "builtins.ValueError")
      y = _0
    def __forked_function():
      z = torch.mul(y, 2)
      return torch.add(z, n)
    f = fork(__forked_function)
    a = [inf, 1e-10, 1.5]
    p = __torch__.Point(3, 0.5)
    c = __torch__.Color.BLUE
    o = __torch__.Box.__new__(__torch__.Box)
    _1 = (o).__init__((p)[0], )
    k = annotate(List[int], [])
    _2 = torch.append(k, (o).value)
    return (torch.wait(f), a[2], torch.add((torch.len(k)), (c).value))
"""
    before = """class Point(NamedTuple):
  x : int
  y : float
class Color(Enum):
  RED = 1
  BLUE = 2
class Box:
  value : int
  def __init__(self: __torch__.Box,
    value: int) -> NoneType:
    self.value = value
    return None
"""
    module = loaded(module_of(body, before=before))
    out, number, count = module(rl.tensor([1.0, 2.0]))
    assert out.tolist() == [0.0, 2.0] and (number, count) == (1.5, 3)
    with pytest.raises(rl.jit.Error, match="nothing"):
        module(None)


OLD = """  def forward(self: __torch__.M,
    a: Tensor,
    b: Tensor,
    n: int) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    g = torch.gelu(torch.full([1], n))
    return (torch.div(a, b), torch.div(a, 2.5), torch.full([2], n), g)
"""


@pytest.mark.parametrize("version", [1, 3, 4, 5, 9])
def test_ops_mean_what_they_meant(version: int) -> None:
    out = loaded(module_of(OLD.replace("torch.full([1], n)", "torch.full([1], 1.)"), version))(
        rl.tensor([7, -7]), rl.tensor([2, 2]), 3)
    assert out[0].tolist() == ([3, -3] if version < 4 else [3.5, -3.5])
    assert out[0].dtype is (rl.int64 if version < 4 else rl.float32)
    assert out[1].tolist() == pytest.approx([2.8, -2.8])
    assert out[2].dtype is (rl.float32 if version < 5 else rl.int64)
    assert out[3].item() == pytest.approx(0.8413, abs=1e-4)


@pytest.mark.parametrize(("version", "why"), [(0, "minimum supported"), (11, "maximum supported")])
def test_other_versions_are_refused(version: int, why: str) -> None:
    with pytest.raises(RuntimeError, match=why):
        loaded(module_of(OLD, version))


# --- harm -------------------------------------------------------------------------------------------------------------

FORWARD = "  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n"
HOSTILE = {
    "deep brackets": (module_of(FORWARD + "    return " + "(" * 5000 + "x" + ")" * 5000 + "\n"), "nested"),
    "deep blocks": (module_of(FORWARD + "".join("  " * (i + 2) + "if True:\n" for i in range(300)) + "  " * 302
                              + "return x\n"), "nested"),
    "unknown op": (module_of(FORWARD + "    return torch.system(x)\n"), "Unknown builtin op"),
    "unknown class": (module_of("  held : __torch__.os.System\n"), "Unknown type name"),
    "a name of Python": (module_of(FORWARD + "    return __import__(x)\n"), "undefined value __import__"),
    "an attribute of Python": (module_of(FORWARD + "    return x.__class__\n"), "no attribute"),
    "an import of Python": (module_of(FORWARD + "    return x\n", before="import os\nos.system(1)\n"), "expected a"),
    "recursion": (module_of(FORWARD + "    return (self).forward(x, )\n"), "recursive"),
    "a constant too many": (module_of(FORWARD + "    return CONSTANTS.c3\n"), "no constant"),
    "a class twice": (module_of(FORWARD + "    return x\n", before="class M:\n  a : int\n"), "defined twice"),
    "a base": (packed({"code/__torch__.py": "class M(object):\n  a : int\n"}, EMPTY), "inherits"),
    "no code": (packed({}, EMPTY), "not in the archive"),
    "no module": (packed({}, b"\x80\x02K\x01."), "no module"),
    "a call of Python": (packed({}, b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."), "cannot be read"),
    "a cut pickle": (packed({"code/__torch__.py": "class M(Module):\n  training : bool\n"}, EMPTY[:-9]), "be read"),
    "attributes missing": (packed({"code/__torch__.py": "class M(Module):\n  other : int\n"}, EMPTY), "lacks"),
    "a wrong attribute": (packed({"code/__torch__.py": "class M(Module):\n  training : bool\n  x : str\n"},
                                 EMPTY.replace(b"\x88u", b"\x88X\x01\x00\x00\x00xK\x01u")), "should be of type str"),
    "the oldest format": (packed({"model.json": "{}"}, EMPTY), "before PyTorch 1.3"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_harm_is_refused(name: str) -> None:
    data, why = HOSTILE[name]
    with pytest.raises(RuntimeError, match=why):
        module = loaded(data)
        module(rl.ones(1)) if hasattr(module, "forward") else None


def test_a_list_that_holds_itself_and_a_huge_storage() -> None:
    code = {"code/__torch__.py": "class M(Module):\n  training : bool\n  x : List[Any]\n"}
    cycle = EMPTY.replace(b"\x88u", b"\x88X\x01\x00\x00\x00x]q\x05(h\x05eu")
    held = read_archive(io.BytesIO(packed(code, cycle))).root.get("x")
    assert held[0] is held
    huge = (b"\x80\x02c__torch__\nM\n)\x81}(X\x08\x00\x00\x00training\x88X\x01\x00\x00\x00x"
            b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu\x8a\x08"
            + (1 << 50).to_bytes(8, "little") + b"tQK\x00(K\x01t(K\x01t\x89ccollections\nOrderedDict\n)RtRub.")
    with pytest.raises(RuntimeError, match="data/0"):
        loaded(packed({"code/__torch__.py": "class M(Module):\n  training : bool\n  x : Tensor\n"}, huge,
                      **{"data/0": b"1234"}))


def test_damage_never_crashes() -> None:
    """Cut, flipped, shortened and repeated at random: the same answers or a RuntimeError."""
    made, inputs = programs(rl)["Step"]
    data = rl.jit.script(made()).save_to_buffer()
    chance = random.Random(7)
    records = _records(data)
    texts = [name for name in records if name.endswith((".py", ".pkl"))]
    for turn in range(48):
        if turn % 3 == 0:
            broken = data[: chance.randrange(len(data))]
        elif turn % 3 == 1:
            changed = bytearray(data)
            for _ in range(chance.choice((1, 4))):
                changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            broken = bytes(changed)
        else:
            name = chance.choice(texts)
            text = bytearray(records[name])
            at = chance.randrange(len(text))
            text[at : at + chance.randrange(4)] = bytes(chance.randrange(32, 127) for _ in range(chance.randrange(3)))
            broken = packed({}, records["data.pkl"], **{k: v for k, v in {**records, name: bytes(text)}.items()
                                                        if k not in ("data.pkl", "constants.pkl", "version")})
        try:
            loaded(broken)(*inputs())
        except RuntimeError:
            continue


def test_a_failed_save_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    path.write_bytes(b"before")
    made, _ = programs(rl)["Step"]
    root = rl.jit.script(made()).__script_object__
    root.slots[root.type.index["training"]] = object()
    with pytest.raises(RuntimeError, match="cannot be saved"):
        write_archive(root, path)
    assert path.read_bytes() == b"before"


def test_errors_of_code_name_file_and_line() -> None:
    text = "def f(x: Tensor) -> Tensor:\n  y = torch.add(x,, x)\n  return y\n"
    with pytest.raises(TextError, match=r'File "code/a.py", line 2') as caught:
        read_code(text, Source(text, "code/a.py", 1))
    assert "HERE" in str(caught.value)


# --- with PyTorch -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Step", "Kinds"])
def test_both_ways_with_pytorch(name: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    made, inputs = programs(torch)[name]
    theirs = torch.jit.script(made())
    ours = rl.jit.load(io.BytesIO(theirs.save_to_buffer()))
    given = tuple(rl.tensor(x.tolist()) for x in inputs())
    back = torch.jit.load(io.BytesIO(ours.save_to_buffer()))
    want = theirs(*inputs())
    for got in (ours(*given), back(*inputs())):
        first, second = (x[0] if isinstance(x, tuple) else x for x in (got, want))
        assert first.flatten().tolist() == pytest.approx(second.flatten().tolist(), rel=1e-5)
    theirs_again = torch.jit.load(io.BytesIO(theirs.save_to_buffer())).save_to_buffer()
    fresh = read_archive(io.BytesIO(theirs.save_to_buffer())).root
    out = io.BytesIO()
    write_archive(fresh, out)
    mine, wanted = _records(out.getvalue()), _records(theirs_again)
    assert list(mine) == list(wanted)
    for record in wanted:
        if not record.endswith((".pkl", ".debug_pkl", "serialization_id")):
            assert mine[record] == wanted[record], record


class Listed(rl.nn.Module):
    def forward(self, x):
        flat: list[int] = x.tolist()
        deep: list[list[float]] = x.float()[None].tolist()
        return flat, deep


def test_lists_of_tensors_come_back_with_their_types() -> None:
    file = io.BytesIO()
    scripted = rl.jit.script(Listed())
    assert "annotate(List[List[float]], " in scripted.code
    rl.jit.save(scripted, file)
    file.seek(0)
    assert rl.jit.load(file)(rl.tensor([1, 2])) == ([1, 2], [[1.0, 2.0]])
