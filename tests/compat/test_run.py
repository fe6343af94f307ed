"""`python -m rushlight run` and `compat.install`: programs written for torch, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def execute(*arguments: str, cwd: Path) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, cwd=cwd, timeout=120
    )


def script(folder: Path, text: str, name: str = "program.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def test_a_training_script_runs_with_its_arguments(tmp_path: Path) -> None:
    script(tmp_path, "WIDTH = 4\n", "settings.py")
    program = script(tmp_path, """
        import sys
        import torch, torch.nn as nn, torch.nn.functional as F
        from torch.optim import SGD
        from settings import WIDTH                       # beside the script, as with `python script.py`

        if __name__ == "__main__":
            torch.manual_seed(0)
            model = nn.Linear(WIDTH, 1)
            step = SGD(model.parameters(), lr=0.1)
            for _ in range(int(sys.argv[1])):
                loss = F.mse_loss(model(torch.ones(2, WIDTH)), torch.zeros(2, 1))
                step.zero_grad(); loss.backward(); step.step()
            print("done", sys.argv[1:], torch.float32, "rushlight" in torch.__file__, loss.item() < 0.1)
    """)
    done = execute("-m", "rushlight", "run", str(program), "20", "--flag", cwd=tmp_path)
    assert done.stdout.strip() == "done ['20', '--flag'] torch.float32 True True", done.stderr


def test_the_version_is_a_pytorch_version(tmp_path: Path) -> None:
    program = script(tmp_path, """
        from importlib.metadata import version
        import importlib.util
        found = importlib.util.find_spec("torch") is not None and version("torch")   # before any import of torch
        import torch
        print(found, torch.__version__.split("+")[0], torch.__version__ >= "2.4", torch.__version__ < (3, 0),
            torch.version.cuda)
    """)
    done = execute("-m", "rushlight", "run", str(program), cwd=tmp_path)
    assert done.stdout.strip() == "2.13.0 2.13.0 True True None", done.stderr


def test_child_processes_are_served_too(tmp_path: Path) -> None:
    program = script(tmp_path, """
        import subprocess, sys
        code = "from importlib.metadata import version; v = version('torch'); import torch.nn"
        code += "; print(v, 'rushlight' in torch.__file__)"
        print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip())
    """)
    done = execute("-m", "rushlight", "run", str(program), cwd=tmp_path)
    assert done.stdout.strip() == "2.13.0 True", done.stderr


def test_modules_are_one_object_under_both_names(tmp_path: Path) -> None:
    program = script(tmp_path, """
        import importlib.util
        import rushlight.compat
        rushlight.compat.install()
        import torch.nn.functional as F, rushlight.nn.functional as G, torch, rushlight, sys
        try:
            import torch.no_such_part
        except ModuleNotFoundError as error:
            print(error.name, importlib.util.find_spec("torch.no_such_part"))
        print(F is G, torch is rushlight, torch.nn.__name__, torch.nn.__spec__.name)
    """)
    done = execute(str(program), cwd=tmp_path)
    assert done.stdout.splitlines() == ["torch.no_such_part None", "True True torch.nn rushlight.nn"], done.stderr


def test_a_script_that_fails_shows_its_own_traceback(tmp_path: Path) -> None:
    program = script(tmp_path, "import torch\nraise SystemExit(7)\n")
    assert execute("-m", "rushlight", "run", str(program), cwd=tmp_path).returncode == 7
    program = script(tmp_path, "import torch\ntorch.zeros(2) @ torch.zeros(3)\n")
    done = execute("-m", "rushlight", "run", str(program), cwd=tmp_path)
    assert done.returncode == 1 and "program.py" in done.stderr and "RuntimeError" in done.stderr
    missing = execute("-m", "rushlight", "run", "nowhere.py", cwd=tmp_path)
    assert missing.returncode == 2 and "nowhere.py" in missing.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "nowhere.py"),
        ("run", "-m", "nowhere"),
        ("run", "-m", "nowhere.inside"),
        ("check", "nowhere.py"),
        ("check", "nowhere"),
    ],
)
def test_what_is_not_there_is_one_line(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = execute("-m", "rushlight", *arguments, cwd=tmp_path)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2 and arguments[-1] in line and line.startswith(f"rushlight {arguments[0]}: ")


def test_the_command_says_its_version_and_its_parts(tmp_path: Path) -> None:
    from rushlight import version

    assert (
        execute("-m", "rushlight", "--version", cwd=tmp_path).stdout
        == f"rushlight {version.rushlight} (follows PyTorch {version.follows})\n"
    )
    told = execute("-m", "rushlight", "--help", cwd=tmp_path).stdout
    assert all(word in told for word in ("run", "check", "info", "--version"))


def test_check_lists_what_is_missing(tmp_path: Path) -> None:
    program = script(tmp_path, """
        import torch
        from torch import nn
        import torch.nn.functional as F
        nn.Linear(2, 2); F.relu; torch.no_such_function(1); nn.NoSuchLayer
    """)
    done = execute("-m", "rushlight", "check", str(program), cwd=tmp_path)
    names = [line.split()[0] for line in done.stdout.splitlines()[:-1]]
    assert names == ["torch.nn.NoSuchLayer", "torch.no_such_function"] and done.returncode == 1


def test_check_lists_what_is_there_but_refuses(tmp_path: Path) -> None:
    program = script(tmp_path, "import torch\ntorch.xpu.Stream(), torch.zeros(2), torch.xpu.is_available()\n")
    done = execute("-m", "rushlight", "check", str(program), cwd=tmp_path)
    assert [line.split()[0] for line in done.stdout.splitlines()[:-1]] == ["torch.xpu.Stream"]
    assert "refused" in done.stdout and done.returncode == 1


def test_unsupported_parts_say_so_when_used(tmp_path: Path) -> None:
    program = script(tmp_path, """
        import rushlight.compat
        rushlight.compat.install()
        import torch, torch.distributed as dist, torch.onnx
        from torch.nn.parallel import DistributedDataParallel
        print(torch.cuda.is_available(), torch.cuda.device_count(), dist.is_available(), torch.onnx.is_in_onnx_export())
        for use in (lambda: torch.onnx.dynamo_export(None),
                    lambda: torch.cuda.current_device(), lambda: torch.empty(1, device="cuda")):
            try:
                use()
            except (NotImplementedError, AssertionError, RuntimeError) as refused:
                print([kind.__name__ for kind in (NotImplementedError, AssertionError, RuntimeError)
                       if isinstance(refused, kind)])
    """)
    done = execute(str(program), cwd=tmp_path)
    assert done.stdout.splitlines() == [
        "False 0 True False",
        "['NotImplementedError', 'RuntimeError']",
        "['AssertionError', 'RuntimeError']",       # PyTorch has the one class in some places, the other in others
        "['AssertionError', 'RuntimeError']",
    ], done.stderr
