"""The tree keeps its shape: tools/check_layers.py finds nothing, and does find what it should."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rushlight.codegen.schedule.forms.launch import GRAIN

ROOT = Path(__file__).resolve().parent.parent
TOOL = ROOT / "tools" / "check_layers.py"


@pytest.fixture
def checker(tmp_path, monkeypatch):
    """The tool's module, pointed at an empty tree that a test fills with `write`."""
    spec = importlib.util.spec_from_file_location("check_layers", TOOL)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "check_layers", module)
    spec.loader.exec_module(module)
    module.ROOT = tmp_path

    def write(files: dict[str, str]) -> None:
        for name, text in {"rushlight/__init__.py": "", **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    module.write = write
    module.check_rows_of = module.check_rows
    monkeypatch.setattr(module, "check_rows", lambda modules, rooms: ())      # a small tree has few of the rooms
    monkeypatch.setattr(sys, "argv", ["check_layers"])
    return module


@pytest.mark.slow
def test_this_tree_has_no_violations():
    done = subprocess.run([sys.executable, str(TOOL)], capture_output=True, text=True)
    assert done.returncode == 0, "\n" + done.stdout + done.stderr


def test_rows_that_name_nothing_are_reported(checker):
    checker.write({"rushlight/loops/__init__.py": "", "rushlight/loops/expr.py": ""})
    modules = {"rushlight.loops": checker.ROOT / "rushlight/loops/__init__.py"}
    found = list(checker.check_rows_of(modules, ["loops"]))
    assert any("LAYERS names codegen.text," in line for line in found)
    assert any("CEILINGS names definitions," in line for line in found)
    assert not any("names loops," in line or "names _C," in line for line in found)


def test_four_files_that_begin_alike_are_reported(checker, capsys):
    checker.write({f"rushlight/loops/tile_{name}.py": "" for name in "abc"})
    assert checker.main() == 0, capsys.readouterr().out
    checker.write({"rushlight/loops/tile.py": ""})
    assert checker.main() == 1 and "Make it a folder, `tile/`" in capsys.readouterr().out


def test_a_room_over_its_ceiling_is_reported(checker, capsys, monkeypatch):
    checker.write({"rushlight/loops/a.py": "x = 1\n" * 400, "rushlight/loops/b/c.py": "x = 1\n" * 400})
    monkeypatch.setattr(checker, "CEILINGS", {"loops": 800})
    assert checker.main() == 0, capsys.readouterr().out
    monkeypatch.setattr(checker, "CEILINGS", {"loops": 799})
    assert checker.main() == 1 and "loops: 800 lines, its ceiling is 799" in capsys.readouterr().out


def test_rooms_within_rooms_have_places_of_their_own(checker, capsys):
    checker.write({
        "rushlight/codegen/schedule/cpu/a.py": "from ..gpu import b\n", "rushlight/codegen/schedule/gpu/b.py": "",
        "rushlight/codegen/schedule/gpu/__init__.py": "",
    })
    assert checker.main() == 1
    assert "imports rushlight.codegen.schedule.gpu, which is not below it" in capsys.readouterr().out


def test_downward_import_is_accepted(checker, capsys):
    checker.write(
        {"rushlight/definitions/trig.py": "from rushlight.op import Pointwise\n", "rushlight/op/__init__.py": ""}
    )
    assert checker.main() == 0, capsys.readouterr().out


@pytest.mark.parametrize("text", [
    "from rushlight.definitions import trig\n",
    "from ..definitions import trig\n",
    "import rushlight.definitions.trig\n",
    "def late():\n    from rushlight.definitions.trig import sin\n",
    "import importlib\nimportlib.import_module('rushlight.definitions.trig')\n",
    "import rushlight\n",
])
def test_upward_import_is_reported(checker, capsys, text):
    checker.write(
        {"rushlight/definitions/__init__.py": "", "rushlight/definitions/trig.py": "", "rushlight/loops/expr.py": text}
    )
    assert checker.main() == 1
    assert "not below it" in capsys.readouterr().out


def test_import_for_types_only_is_accepted(checker, capsys):
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from rushlight.definitions import trig\n"
    checker.write({"rushlight/definitions/trig.py": "", "rushlight/loops/expr.py": text})
    assert checker.main() == 0, capsys.readouterr().out


def test_cycle_inside_a_package_is_reported(checker, capsys):
    checker.write({"rushlight/loops/a.py": "from rushlight.loops import b\n",
                   "rushlight/loops/b.py": "from rushlight.loops import a\n"})
    assert checker.main() == 1
    assert "cycle" in capsys.readouterr().out


def test_heavy_import_at_start_up_is_reported(checker, capsys):
    checker.write({"rushlight/__init__.py": "from rushlight import storage\n",
                   "rushlight/storage.py": "import numpy\n"})
    assert checker.main() == 1
    assert "would load numpy" in capsys.readouterr().out


def test_heavy_import_off_the_start_up_path_is_accepted(checker, capsys):
    checker.write({"rushlight/__init__.py": "from rushlight import storage\n",
                   "rushlight/storage.py": "def numpy():\n    import numpy\n",
                   "rushlight/codegen/llvm.py": "import llvmlite\n"})
    assert checker.main() == 0, capsys.readouterr().out


def test_long_file_and_vague_name_are_reported(checker, capsys):
    checker.write(
        {"rushlight/definitions/long.py": "x = 1\n" * 801, "csrc/utils.cpp": "", "rushlight/utils/data.py": ""}
    )
    assert checker.main() == 1
    shown = capsys.readouterr().out
    assert "801 lines" in shown and "csrc/utils.cpp" in shown and "rushlight/utils" not in shown


def test_undeclared_module_is_reported(checker, capsys):
    checker.write({"rushlight/novelty.py": ""})
    assert checker.main() == 1
    assert "not in LAYERS" in capsys.readouterr().out


def test_test_files_of_one_name_are_reported(checker, capsys):
    checker.write({"tests/a/test_modes.py": "", "tests/b/test_modes.py": ""})
    assert checker.main() == 1
    assert "same name" in capsys.readouterr().out


# --- imports that hide ------------------------------------------------------------------------------------------------

HIDDEN_WAYS = {
    "relative name": (
        "from importlib import import_module\ndef later():\n    return import_module('..definitions.trig',"
        " __package__)\n"
    ),
    "relative to the root": (
        "import importlib\ndef later():\n    importlib.import_module('.definitions.trig', __name__.partition('.')[0])\n"
    ),
    "dunder import": "def later():\n    __import__('rushlight.definitions.trig')\n",
    "f-string": (
        "import importlib\ndef later():\n   "
        " importlib.import_module(f\"{__name__.partition('.')[0]}.definitions.trig\")\n"
    ),
    "string from a table": (
        "import importlib\nTABLE = {'sin': 'trig'}\ndef later(name):\n   "
        " importlib.import_module(f'rushlight.definitions.{TABLE[name]}')\n"
    ),
    "whole names in a table": (
        "import importlib\nTABLE = {'sin': 'rushlight.definitions.trig'}\ndef later(name):\n   "
        " importlib.import_module(TABLE[name])\n"
    ),
    "sys.modules": "import sys\ndef later():\n    return sys.modules['rushlight.definitions.trig']\n",
    "sys.modules.get": (
        "import sys\nPACKAGE = __name__.rpartition('.loops')[0]\ndef later():\n    return"
        " sys.modules.get(f'{PACKAGE}.definitions.trig')\n"
    ),
    "asked of sys.modules": "import sys\ndef is_there():\n    return 'rushlight.definitions.trig' in sys.modules\n",
    "late rest": "from ..base import late\n__getattr__ = late.rest(__name__, 'rushlight.definitions.trig')\n",
    "late table": "from ..base import late\nTABLE = {'sin': 'definitions.trig:sin'}\nlate.provide(TABLE)\n",
}


@pytest.mark.parametrize("way", HIDDEN_WAYS)
def test_hidden_upward_import_is_reported(checker, capsys, way):
    checker.write(
        {
            "rushlight/base/late.py": "",
            "rushlight/definitions/__init__.py": "",
            "rushlight/definitions/trig.py": "",
            "rushlight/loops/expr.py": HIDDEN_WAYS[way],
        }
    )
    assert checker.main() == 1
    assert "rushlight.loops.expr imports rushlight.definitions, which is not below it" in capsys.readouterr().out


@pytest.mark.parametrize("hidden", [
    "def later():\n    from . import a\n",
    "def later():\n    from .a import thing\n",
    "from importlib import import_module\ndef later():\n    return import_module('.a', __package__)\n",
    "import sys\ndef later():\n    return sys.modules[f'{__package__}.a']\n",
    "from ..base import late\n__getattr__, __dir__ = late.names(globals(), {'thing': 'a'})\n",
])
def test_hidden_circle_is_reported(checker, capsys, hidden):
    """a -> b -> c at the head of the files, and c back to a where nobody looks."""
    checker.write(
        {
            "rushlight/base/late.py": "",
            "rushlight/loops/__init__.py": "",
            "rushlight/loops/a.py": "from . import b\nthing = 1\n",
            "rushlight/loops/b.py": "from . import c\n",
            "rushlight/loops/c.py": hidden,
            "rushlight/loops/apart.py": "from . import a\n",
        }
    )
    assert checker.main() == 1
    shown = capsys.readouterr().out
    assert "import cycle of 3 files: rushlight.loops.a, rushlight.loops.b, rushlight.loops.c\n" in shown
    assert "rushlight.loops.c -> rushlight.loops.a (" in shown and "apart" not in shown


def test_circle_through_the_face_of_a_package_is_reported(checker, capsys):
    """Importing a file of another package runs that package's __init__, and all that it imports."""
    checker.write(
        {
            "rushlight/nn/__init__.py": "",
            "rushlight/nn/modules/__init__.py": "from . import rnn\n",
            "rushlight/nn/modules/rnn.py": "from ..utils import packing\n",
            "rushlight/nn/utils/__init__.py": "from . import prune\n",
            "rushlight/nn/utils/packing.py": "",
            "rushlight/nn/utils/prune.py": "from ..modules import rnn\n",
        }
    )
    assert checker.main() == 1
    assert "import cycle" in capsys.readouterr().out


def test_circle_for_types_only_is_accepted(checker, capsys):
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import a\n"
    checker.write(
        {"rushlight/loops/__init__.py": "", "rushlight/loops/a.py": "from . import b\n", "rushlight/loops/b.py": text}
    )
    assert checker.main() == 0, capsys.readouterr().out


def test_words_of_docstrings_are_no_imports(checker, capsys):
    text = (
        '"""Nothing of definitions here."""\nimport importlib\ndef load(name):\n    """definitions, for example"""\n   '
        ' importlib.import_module(f"rushlight.{name}")\n'
    )
    checker.write({"rushlight/definitions/__init__.py": "", "rushlight/loops/expr.py": text})
    assert checker.main() == 0, capsys.readouterr().out


def test_allowed_import_needs_a_reason(checker):
    assert all(isinstance(reason, str) and len(reason) > 20 for reason in checker.ALLOWED.values())


def test_both_languages_cut_work_alike():
    """Results must not depend on which side cuts a loop into chunks."""
    written = re.findall(r"kGrain = (\d+)", "".join(p.read_text() for p in (ROOT / "csrc").rglob("*.[hc]*")))
    assert [int(n) for n in written] == [GRAIN]
