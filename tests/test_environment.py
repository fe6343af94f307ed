"""Environment variables: one table, and what each of ours does. Processes of their own,
since they are read as a program runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import rushlight
from rushlight.base import environment, notice

PACKAGE = Path(rushlight.__file__).parent


def run(code: str, folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(textwrap.dedent(code))
    env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), **variables}
    return subprocess.run(
        [sys.executable, *arguments, str(program)], cwd=folder, env=env, capture_output=True, text=True, timeout=120
    )


def test_every_variable_is_in_the_table() -> None:
    """Nobody reads the environment but the table's module; some ask for names that are the system's or XLA's and no
    setting of ours, one guards what captured programs read, and two hand all of it to a child."""
    allowed = {
        "base/environment.py", "compat/__init__.py", "codegen/text/targets.py", "utils/cpp_extension.py",
        "dynamo/rules/library_rules.py", "conform/supervise.py", "serve/spares.py",
        "compat/finder.py", "xla/client.py", "xla/runtime.py", "xla/stored.py",
    }
    readers = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if re.search(r"os\.(environ|getenv)\b", path.read_text())
    }
    assert readers <= allowed
    with pytest.raises(KeyError):
        environment.get("RUSHLIGHT_NO_SUCH")
    assert all(f"`{name}`" in environment.table() for name in environment.VARIABLES)


def test_the_documentation_has_the_table() -> None:
    """`python -c "from rushlight.base import environment; print(environment.table())"` prints it anew."""
    assert environment.table() in (PACKAGE.parent / "docs" / "environment.md").read_text()


def test_a_word_that_shows_nothing_is_answered_with_those_that_do(tmp_path: Path) -> None:
    done = run("import rushlight as rl\nrl.ones(2) + 1\nrl.ones(2) * 1\n", tmp_path, RUSHLIGHT_SHOW="nonsense")
    assert (
        done.returncode == 0
        and done.stderr.count(
            "RUSHLIGHT_SHOW: expected some of dispatch, graph, lowered, schedule, loops, llvm, asm, fallback,"
            " recompiles, breaks, cache, lazy, got 'nonsense'"
        )
        == 1
    )
    assert (
        "RUSHLIGHT_SHOW"
        not in run("import rushlight as rl\nrl.ones(2) + 1\n", tmp_path, RUSHLIGHT_SHOW="dispatch").stderr
    )


FAILS = {
    "eager": "rl.zeros(2) @ rl.zeros(3)",
    "binding": "rl.add(rl.zeros(2), 'a')",
    "module": "rl.nn.Sequential(rl.nn.Linear(3, 2), rl.nn.ReLU())(rl.zeros(2, 5))",
    "backward": "rl.ones(2, requires_grad=True).sin().backward()",
}


@pytest.mark.share(2)
@pytest.mark.parametrize("how", FAILS)
def test_a_traceback_shows_the_users_frames(how: str, tmp_path: Path) -> None:
    code = f"import rushlight as rl\ndef users():\n    {FAILS[how]}\nusers()\n"
    short, full = run(code, tmp_path), run(code, tmp_path, RUSHLIGHT_TRACEBACK="full")
    frames = re.findall(r'File "(.*?)", line (\d+)', short.stderr)
    assert [(Path(name).name, line) for name, line in frames] == [
        ("program.py", "4"),
        ("program.py", "3"),
    ], short.stderr
    messages = [
        next(line for line in text.splitlines() if re.match(r"\w+Error: ", line))
        for text in (short.stderr, full.stderr)
    ]
    assert messages[0] == messages[1] and short.returncode == full.returncode == 1
    assert ("not shown" in short.stderr) == (str(PACKAGE) in full.stderr) and "not shown" not in full.stderr


def test_the_users_module_between_ours_stays(tmp_path: Path) -> None:
    done = run("""
        import rushlight as rl
        class Mine(rl.nn.Module):
            def forward(self, x):
                return x @ rl.zeros(7)
        rl.nn.Sequential(Mine())(rl.zeros(2, 5))
    """, tmp_path)
    assert re.findall(r"line (\d+), in", done.stderr) == ["6", "5"], done.stderr


def test_under_run_and_in_threads(tmp_path: Path) -> None:
    program = (
        "import torch, threading\ndef work():\n    torch.zeros(2) @ torch.zeros(3)\nt ="
        " threading.Thread(target=work)\nt.start(); t.join()\nwork()\n"
    )
    done = run(program, tmp_path, "-m", "rushlight", "run")
    assert str(PACKAGE) not in done.stderr and "runpy" not in done.stderr, done.stderr
    assert done.stderr.count("line 3, in work") == 2


def test_the_exception_keeps_its_frames(tmp_path: Path) -> None:
    """For pdb.pm() and for hooks that a program sets itself."""
    done = run("""
        import sys, traceback
        def mine(kind, error, trace):
            print(len(traceback.extract_tb(trace)))
        sys.excepthook = mine
        import rushlight as rl
        import atexit
        atexit.register(lambda: print(len(traceback.extract_tb(sys.last_value.__traceback__))))
        rl.add(rl.zeros(2), "a")
    """, tmp_path)
    assert done.stdout.split()[0] == "1" and int(done.stdout.split()[1]) > 1, done.stderr


def test_an_error_of_ours_alone_is_whole() -> None:
    from rushlight.base.tracebacks import hidden

    try:
        environment.get("RUSHLIGHT_NO_SUCH")
    except KeyError as error:
        inner = error.__traceback__.tb_next
    assert hidden(inner) == (None, 0)


def test_a_long_wait_is_announced(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("RUSHLIGHT_NOTICE", "0.05")
    monkeypatch.setattr(notice.waiting_for, "added_up", True)
    with notice.waiting_for("compiling the kernel slow"):
        time.sleep(0.5)
    lines = capfd.readouterr().err.splitlines()
    assert (
        len(lines) == 2 and lines[0].startswith("rushlight: compiling the kernel slow, ") and "done after" in lines[1]
    )
    with notice.waiting_for("quick"):
        pass
    monkeypatch.setenv("RUSHLIGHT_NOTICE", "0")
    with notice.waiting_for("never said"):
        time.sleep(0.1)
    assert capfd.readouterr().err == ""
    monkeypatch.setenv("RUSHLIGHT_NOTICE", "soon")
    with pytest.warns(RuntimeWarning, match="expected a number of seconds, got 'soon'"):
        assert notice.patience() == 2


def test_short_waits_are_announced_once_they_add_up(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first epoch of a hundred kernels, none of them slow, was seconds of silence."""
    import time

    monkeypatch.setenv("RUSHLIGHT_NOTICE", "0.5")
    monkeypatch.setattr(notice.waiting_for, "added_up", False)
    monkeypatch.setattr(notice.waiting_for, "unsaid", 0.4)
    for _ in range(3):
        with notice.waiting_for("compiling the kernel short"):
            time.sleep(0.15)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1 and "kernels that are used for the first time" in lines[0], lines


def test_warnings_show_the_line_of_the_program(tmp_path: Path) -> None:
    done = run("""
        import rushlight as rl
        x = rl.zeros(3, 1, requires_grad=True)
        def loss():
            return rl.nn.functional.mse_loss(x, rl.zeros(3))    # mse
        loss()
        rl.nn.MSELoss()(x, rl.zeros(3))                         # module
        heads = rl.nn.MultiheadAttention(4, 1, batch_first=True)
        y = rl.zeros(1, 2, 4)
        heads(y, y, y, key_padding_mask=rl.zeros(1, 2) > 0, attn_mask=rl.zeros(2, 2))   # masks
    """, tmp_path)
    lines = [line.rsplit("#", 1)[-1].strip() for line in done.stderr.splitlines() if "#" in line]
    assert lines == ["mse", "module", "masks"], done.stderr


def test_compiling_a_kernel_is_announced(tmp_path: Path) -> None:
    done = run(
        "import rushlight as rl\n(rl.ones(3) * 2.5).exp()\n",
        tmp_path,
        RUSHLIGHT_NOTICE="0.000001",
        RUSHLIGHT_CACHE=str(tmp_path / "cache"),
    )
    assert done.returncode == 0 and "rushlight: compiling the kernel " in done.stderr
