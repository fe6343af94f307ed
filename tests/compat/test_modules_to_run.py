"""`torch` to the tools that ask the import system about it: `python -m`, `runpy`, `inspect`, `pkgutil`,
`importlib.resources`, in a program and in the processes it starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from test_run import execute, script

PROBE = """
    import importlib, importlib.resources, importlib.util, inspect, os, pickle, pkgutil, runpy, sys, warnings
    warnings.simplefilter("ignore")
    import torch

    MODULES = ["torch", "torch.nn", "torch.nn.functional", "torch.optim.adam", "torch.distributed.run",
               "torch.distributed.launch", "torch.distributed.nn.functional", "torch.utils.collect_env"]


    def answers():
        for name in MODULES:
            for asked in range(2):       # before the module is imported, and after
                spec = importlib.util.find_spec(name)
                loader = spec.loader
                assert loader.is_package(name) is (spec.submodule_search_locations is not None), name
                assert os.path.exists(loader.get_filename(name)) and loader.get_filename(name) == spec.origin, name
                assert loader.get_code(name).co_name == "<module>" and len(loader.get_source(name)) > 100, name
                module = importlib.import_module(name)
                assert module.__name__ == name == pkgutil.resolve_name(name).__name__, name
            assert inspect.getsource(module) == open(inspect.getsourcefile(module)).read(), name
            assert inspect.getmodule(module) is module, name
        assert inspect.getmodule(torch.nn.Linear).__name__ == "torch.nn.modules.linear"
        assert "class Linear" in inspect.getsource(torch.nn.Linear)
        assert importlib.util.find_spec("torch.no_such_part") is None
        assert importlib.util.find_spec("torch.nn.no_such_part") is None
        assert "torch.nn.init" in [m.name for m in pkgutil.iter_modules(torch.nn.__path__, "torch.nn.")]
        assert "torch.nn.utils.rnn" in [m.name for m in pkgutil.walk_packages(torch.nn.__path__, "torch.nn.")]
        assert pkgutil.get_data("torch.nn", "init.py") == importlib.resources.files("torch.nn").joinpath(
            "init.py").read_bytes()
        assert callable(runpy.run_module("torch.distributed.run")["get_args_parser"])
        again = importlib.reload(importlib.import_module("torch.utils.collect_env"))
        assert again.__name__ == again.main.__module__ == "torch.utils.collect_env"
        assert sys.modules["torch.utils.collect_env"] is again
        data = pickle.dumps(torch.nn.Linear(1, 1), 0)
        assert b"torch.nn.modules.linear" in data and type(pickle.loads(data)) is torch.nn.Linear
        assert pickle.loads(b"ctorch.optim.adam\\nAdam\\n.") is torch.optim.Adam
        for name in ("torch.no_such_part", "torch.nn"):
            try:
                runpy.run_module(name)
            except ImportError:
                pass
            else:
                raise AssertionError(name)


    if __name__ == "__main__":
        from multiprocessing import get_context
        answers()
        child = get_context("spawn").Process(target=answers)
        child.start()
        child.join()
        assert child.exitcode == 0
        print("all answered")
"""


def test_modules_answer_in_parent_and_children(tmp_path: Path) -> None:
    done = execute("-m", "rushlight", "run", str(script(tmp_path, PROBE)), cwd=tmp_path)
    assert done.stdout.strip() == "all answered", done.stderr


@pytest.mark.slow
def test_a_program_starts_torchs_programs(tmp_path: Path) -> None:
    script(tmp_path, """
        import os, sys, torch.distributed as dist
        dist.init_process_group("gloo")
        dist.barrier()
        name = f"said_{dist.get_rank()}"
        open(name, "w").write(f"{sys.argv[1:]} {os.environ['LOCAL_RANK']} of {dist.get_world_size()}")
        dist.destroy_process_group()
    """, "worker.py")
    program = script(tmp_path, """
        import subprocess, sys
        for module in ("torch.distributed.run", "torch.distributed.launch"):
            command = [sys.executable, "-m", module, "--nproc_per_node", "2", "worker.py", "--epochs", "3"]
            subprocess.run(command, check=True)
            print(module, [open(f"said_{rank}").read() for rank in range(2)])
        found = subprocess.run([sys.executable, "-m", "torch.utils.collect_env"], capture_output=True, text=True)
        print(found.returncode, "PyTorch version" in found.stdout)
        for module in ("torch.nn", "torch.no_such_part", "torch.nn.no_such_part"):
            found = subprocess.run([sys.executable, "-m", module], capture_output=True, text=True)
            print(found.returncode, found.stderr.splitlines()[-1].partition(": ")[2])
    """)
    done = execute("-m", "rushlight", "run", str(program), cwd=tmp_path)
    assert done.stdout.splitlines() == [
        "torch.distributed.run [\"['--epochs', '3'] 0 of 2\", \"['--epochs', '3'] 1 of 2\"]",
        "torch.distributed.launch [\"['--local-rank=0', '--epochs', '3'] 0 of 2\","
        " \"['--local-rank=1', '--epochs', '3'] 1 of 2\"]",
        "0 True",
        "1 No module named torch.nn.__main__; 'torch.nn' is a package and cannot be directly executed",
        "1 No module named torch.no_such_part",
        "1 No module named torch.nn.no_such_part",
    ], done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="starts processes")
def test_a_command_of_its_own_needs_use_env(tmp_path: Path) -> None:
    done = execute("-m", "rushlight", "run", "-m", "torch.distributed.launch", "--no-python", "true", cwd=tmp_path)
    assert done.returncode == 1 and "ValueError" in done.stderr and "--use-env" in done.stderr
    done = execute("-m", "rushlight", "run", "-m", "torch.distributed.launch", "--no-python", "--use-env", "true",
                   cwd=tmp_path)
    assert done.returncode == 0, done.stderr
