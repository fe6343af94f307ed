"""The command `learn`, as a learner uses it, and answers that misbehave."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rushlight
from rushlight.__main__ import main
from rushlight.learn import catalogue, checker, plain, progress, running

HOME = str(Path(rushlight.__file__).parent.parent)
RIGHT = catalogue.find("choosing.2").solution


@pytest.fixture(autouse=True)
def own_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def check(tmp_path: Path, text: str | bytes, name: str = "choosing.2", seconds: float = 20.0) -> checker.Verdict:
    file = tmp_path / "answer.py"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    found = checker.check(catalogue.find(name), file, seconds)
    assert "Traceback" not in found.message and "\n" not in found.message
    return found


def test_a_learner_starts_fails_and_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.py"
    assert main(["learn", "start", "choosing.2", "--file", str(file)]) == 0
    assert "def break_even(eager, compiled, start):" in file.read_text() and "# choosing.2:" in file.read_text()
    assert main(["learn", "check", "choosing.2", str(file)]) == 1
    assert "not written yet" in capsys.readouterr().out
    assert main(["learn", "solution", "choosing.2", "--file", str(file)]) == 0
    assert main(["learn", "check", "choosing.2", str(file)]) == 0
    assert "Right" in capsys.readouterr().out and progress.solved() == {"choosing.2"}
    assert main(["learn"]) == 0
    listed = capsys.readouterr().out
    assert re.search(r"choosing +1 of +4", listed) and "Next: python -m rushlight learn start choosing.1" in listed
    assert main(["learn", "--all"]) == 0
    assert "[x] choosing.2" in capsys.readouterr().out
    assert main(["learn", "hint", "choosing.2"]) == 0
    assert "gain" in capsys.readouterr().out


def test_json_lists_all_chapters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learn", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert list(listed) == ["chapters"] and len(listed["chapters"]) == 26
    for chapter in listed["chapters"]:
        assert list(chapter) == ["slug", "title", "exercises"]
        assert all(list(exercise) == ["id", "title"] for exercise in chapter["exercises"])
    assert main(["learn", "--json", "--lang", "zh"]) == 0
    assert json.loads(capsys.readouterr().out)["chapters"][-1]["title"].startswith("GPU 谜题")


def test_what_a_file_held_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.py"
    file.write_text("mine = 1\n")
    assert main(["learn", "solution", "choosing.2", "--file", str(file)]) == 0
    assert file.read_text() == RIGHT and (tmp_path / "a.py.1").read_text() == "mine = 1\n"
    assert "a.py.1" in capsys.readouterr().out
    assert main(["learn", "start", "choosing.2", "--file", str(file)]) == 0
    assert main(["learn", "start", "choosing.2", "--file", str(file)]) == 0  # a stub is nobody's work
    assert sorted(path.name for path in tmp_path.glob("a.py*")) == ["a.py", "a.py.1", "a.py.2"]
    assert main(["learn", "start", "choosing.2"]) == 0
    assert capsys.readouterr().out.endswith(file.read_text())


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("choosing.99", "choosing.4"),
        ("chosing.1", "choosing.1"),
        ("tensor_puzzle.7", "tensor_puzzles.7"),
        ("compile", "compile.1"),
        ("", "."),
        ("x" * 5000, "."),
        ("gpu puzzles 3", "."),
        ("../etc.1", "."),
        ("课程.1", "."),
    ],
)
def test_unknown_ids_name_the_nearest(name: str, near: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["hint", name], ["check", name, "x.py"], ["start", name], ["solution", name]):
        assert main(["learn", *words]) == 2
        said = capsys.readouterr().err
        assert "nearest" in said and near in said and said.count("\n") == 1 and len(said) < 300


def test_files_that_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["check", "fx.1", str(tmp_path / "none.py")], ["check", "fx.1", str(tmp_path)],
        ["start", "fx.1", "--file", str(tmp_path)], ["solution", "fx.1", "--file", str(tmp_path / "no" / "a.py")],
    ):  # fmt: skip
        assert main(["learn", *words]) == 2
        assert capsys.readouterr().err.startswith("rushlight learn: ")
    (tmp_path / "bytes.py").write_bytes(b"x = '\xff\xfe'")
    (tmp_path / "large.py").write_bytes(b"#" * (1 << 21))
    for name, says in (("bytes.py", "UTF-8"), ("large.py", "larger")):
        assert main(["learn", "check", "fx.1", str(tmp_path / name)]) == 1
        assert says in capsys.readouterr().out


def test_the_smallest_failing_input_is_told(tmp_path: Path) -> None:
    wrong = check(tmp_path, "def break_even(eager, compiled, start):\n    return 1\n")
    assert wrong.message == "For break_even(2, 1, 5) the answer is 6. Yours gave 1."
    raised = check(tmp_path, "def break_even(a, b, c):\n\n    return a[0]\n")
    assert raised.message == (
        "For break_even(2, 1, 0) the answer is 1. Yours raised TypeError: 'int' object is not subscriptable on line 3."
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def f(:\n    pass\n", "Line 1 cannot be read"),
        ("x = 1\ndef f():\nreturn 2\n", "Line 3 cannot be read"),
        ("return 1\n", "Line 1 cannot be read"),
        ("x = 'a\x00'\n", "cannot be read"),
        ("(" * 5000, "cannot be read"),
        ("x = " + "-" * 100_000 + "1\n", "."),
        ("print 'x'\n", "Did you mean print(...)? That line is: print 'x'."),
        ("import torch_of_nobody\n", "No module named 'torch_of_nobody' on line 1. Nothing was asked of it yet."),
        ("import sys\nsys.modules['torch'] = None\nimport torch.nn\n", "Write `import rushlight as torch`, which has"),
        ("def break_even(a, b, c):\n    yield 1\n", "Yours gave a generator, since its function says yield."),
        ("async def break_even(a, b, c):\n    return 1\n", "Yours gave a coroutine, since its function is async."),
        ("class break_even:\n    def __init__(self, *a):\n        pass\n", "Yours gave <answer.break_even object>."),
        ("# -*- coding: of-nobody -*-\n", "."),
        ("", "nothing called break_even"),
        ("break_even = 5\n", "raised TypeError"),
        ("1 / 0\n", "The file raised ZeroDivisionError: division by zero on line 1"),
        ("import nothing_of_this_name\n", "The file raised ModuleNotFoundError"),
        ("raise SystemExit(0)\n", "The file raised SystemExit"),
        ("import os\nos._exit(0)\n", "ended the process (exit status 0)"),
        ("import os\ndef break_even(a, b, c):\n    os._exit(0)\n", "ended the process (exit status 0)"),
        ("import sys\ndef break_even(a, b, c):\n    sys.exit(0)\n", "Yours raised SystemExit"),
        ("import os\ndef break_even(a, b, c):\n    os.kill(os.getpid(), 9)\n", "signal SIGKILL"),
        ("def break_even(a, b, c):\n    return break_even(a, b, c)\n", "RecursionError"),
        (
            "import sys\nsys.setrecursionlimit(10**9)\ndef break_even(a, b, c):\n    return break_even(a, b, c)\n",
            "Yours",
        ),
        (
            "def break_even(a, b, c):\n    x = 1\n    for _ in range(40):\n        x = [x, x]\n    return x\n",
            "Yours gave",
        ),
        ("def break_even(a, b, c):\n    return input()\n", "EOFError"),
        ("def break_even(a, b, c):\n    return [0] * 10**12\n", "MemoryError"),
        ("def break_even(a, b, c):\n    return [[0]] * 10**7\n", "Yours gave"),
        ("def break_even(a, b, c):\n    x = []\n    x.append(x)\n    return x\n", "Yours gave"),
        ("def break_even(a, b, c):\n    return 10**100000\n", "Yours"),
        (
            "class E(int):\n    def __repr__(self):\n        raise ValueError\ndef break_even(*a):\n    return E(3)\n",
            "Yours",
        ),
        (
            "class E(Exception):\n    def __str__(self):\n        1 / 0\ndef break_even(*a):\n    raise E\n",
            "Yours raised E",
        ),
        (
            "class All:\n    def __eq__(self, other):\n        return True\ndef break_even(*a):\n    return All()\n",
            "Yours",
        ),
        ("import builtins\nfor n in list(vars(builtins)):\n    delattr(builtins, n)\n", "."),
        ("import sys\nsys.modules.clear()\ndef break_even(*a):\n    return 1\n", "."),
        (
            "from rushlight.learn import checker, plain\ncheck = checker.judge = lambda *a: (True, '')\n"
            "checker.same = plain.same = lambda *a: True\ndef break_even(*a):\n    return 1\n",
            "Yours gave 1",
        ),
        (
            "import rushlight.learn.running as r\nr.outcomes = lambda *a: iter(())\n"
            "def break_even(*a):\n    return 1\n",
            "Yours",
        ),
        (
            "import os\nfor f in range(3, 30):\n    try:\n        os.write(f, b'{\"done\": true}\\n[[[\\n')\n"
            "    except OSError:\n        pass\ndef break_even(*a):\n    return 1\n",
            "Yours gave 1",
        ),
        ("import os\nos.closerange(0, 100)\ndef break_even(*a):\n    return 1\n", "."),
        (RIGHT + "import threading, time\nthreading.Thread(target=time.sleep, args=(99,)).start()\n", "left a thread"),
        (RIGHT + "import atexit, sys\nsys.stdout.write('x' * 10**7)\nbreak_even = None\n", "Yours"),
    ],
)
def test_answers_that_misbehave_fail_politely(text: str, says: str, tmp_path: Path) -> None:
    found = check(tmp_path, text, seconds=6.0)
    assert not found.passed and says in found.message, found.message
    assert found.message.endswith(".") and len(found.message) < 900
    assert len(found.printed) <= checker.PRINTED and "Traceback" not in found.printed


def judged(name: str, text: str) -> str:
    """What is said of an answer that harms nobody, in this process."""
    exercise = catalogue.find(name)
    records = [*running.records(exercise, text, "answer.py"), {"done": True, "left": []}]
    return checker.judge(exercise, running.expected(exercise), checker.Run(records, "", 0, False), 1.0)[1]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("arange(1, 2 * n + 1, 2)", "Right"),
        ("arange(1, 2 * n + 1, 2) * 1.0", "Yours gave tensor([1.])."),
        ("arange(1, 2 * n + 1, 2) / 0", "Yours gave tensor([inf])."),
        ("arange(1, 2 * n + 1, 2).__array__()", "not allow"),
        ("(arange(1, 2 * n + 1, 2), n)[1]", "Yours gave 1."),
        ("arange(1, 2 * n + 1, 2)[None]", "Yours gave tensor([[1]])."),
        ("None", "Yours gave None."),
    ],
)
def test_answers_of_another_kind_are_shown(value: str, says: str) -> None:
    message = judged("tensor_puzzles.1", f"def odds(n):\n    return {value}\n")
    assert says in message and "\n" not in message, message


def test_numbers_of_numpy_are_numbers() -> None:
    text = "import numpy\n" + RIGHT + "own = break_even\ndef break_even(*a):\n    found = own(*a)\n"
    right = text + "    return found if found is None else numpy.int64(found)\n"
    assert judged("choosing.2", right).startswith("Right")
    assert "Yours gave np.int64(5)" in judged("choosing.2", text + "    return numpy.int64(5)\n")


@pytest.mark.parametrize(
    ("expected", "got", "says"),
    [
        (list(range(1000)), [*range(500), 7, *range(501, 1000)], "has 7 instead of 500 at [500]"),
        (list(range(1000)), [*range(1001)], "has 1001 values instead of 1000"),
        ([[0] * 99] * 99, [[0] * 99] * 50 + [[0] * 98 + [1]] + [[0] * 99] * 48, "has 1 instead of 0 at [50][98]"),
        (rushlight.zeros(40, 50), rushlight.zeros(2000), "has shape (2000,) instead of (40, 50)"),
        (rushlight.zeros(2000), rushlight.zeros(2000).long(), "has elements of kind int instead of float"),
        ({"a": 1}, {"a": 2}, ""),
    ],
)
def test_where_long_values_differ_is_told(expected: object, got: object, says: str) -> None:
    assert plain.difference(plain.plain(expected), plain.plain(got), 1e-6) == says


def test_files_are_read_as_python_reads_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    right = RIGHT.encode()
    for data in (b"# -*- coding: latin-1 -*-\n# \xe9\n" + right, b"\xef\xbb\xbf" + right.replace(b"\n", b"\r")):
        assert judged("choosing.2", running.decoded(data)).startswith("Right")
    file = tmp_path / "answer.py"
    for data, says in ((RIGHT.encode("utf-16"), "UTF-8"), (b"# coding: of-nobody\n", "an encoding that Python knows"),
                       (b"# coding: ascii\n# \xe9\n", "ASCII")):
        file.write_bytes(data)
        assert main(["learn", "check", "choosing.2", str(file)]) == 1
        said = capsys.readouterr().out
        assert says in said and said.endswith("Save it as UTF-8: nothing was run.\n") and said.count("\n") == 1, said


def test_an_endless_answer_is_stopped(tmp_path: Path) -> None:
    began = time.monotonic()
    for text in ("while True:\n    pass\n", "def break_even(*a):\n    while True:\n        print('x' * 1000)\n",
                 "import os, time\nos.closerange(0, 99)\ntime.sleep(99)\n"):  # fmt: skip
        assert "still running after 1 seconds and was stopped" in check(tmp_path, text, seconds=1).message
    assert time.monotonic() - began < 30 and checker.SECONDS < 60


def test_nothing_that_an_answer_starts_is_left_running(tmp_path: Path) -> None:
    text = "import subprocess\nmark = subprocess.Popen(['sleep', '987'])\n"
    text += f"open({str(tmp_path / 'pid')!r}, 'w').write(str(mark.pid))\n"
    began = time.monotonic()
    check(tmp_path, text + RIGHT)
    assert time.monotonic() - began < 15
    status = Path("/proc") / (tmp_path / "pid").read_text() / "stat"
    for _ in range(50):  # the system ends it soon, not at once
        if not status.exists() or status.read_text().split()[2] == "Z":
            return
        time.sleep(0.1)
    raise AssertionError("the answer's child is still running")


def test_right_answers_pass_whatever_they_print(tmp_path: Path) -> None:
    noisy = check(
        tmp_path, 'print(\'{"case": 0, "value": 5}\' * 99999)\n' + RIGHT + "import atexit\natexit.register(print)\n"
    )
    assert noisy.passed and 0 < len(noisy.printed) <= checker.PRINTED
    assert check(tmp_path, b"\xef\xbb\xbf" + RIGHT.replace("\n", "\r\n").encode()).passed
    assert check(
        tmp_path,
        "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\n"
        + RIGHT,
    ).passed


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def odds(n):\n    return arange(1, 2 * n, 2).tolist()\n", "a call of arange(1, 2 * n, 2).tolist"),
        ("def odds(n):\n    import rushlight\n    return rushlight.arange(n)\n", "one return"),
        ("import rushlight\ndef odds(n):\n    return arange(n) * 2 + 1\n", "beside the one function"),
        ("def odds(n):\n    return [2 * k + 1 for k in arange(n)]\n", "a ListComp"),
        ("def odds(n, k=(lambda: 1)()):\n    return arange(n)\n", "one return"),
        ("def odds(n):\n    return eval('1')\n", "a call of eval"),
        ("def odds(n):\n    return arange.__globals__\n", "the attribute .__globals__"),
        ("def odds(n):\n    return where\n", "the name where"),
        ("def odds(n):\n    return (x := arange(n))\n", "a NamedExpr"),
        ("def odds(n):\n    return arange(end=n)\n", "an argument by its name"),
        ("@print\ndef odds(n):\n    return arange(n)\n", "one return"),
    ],
)
def test_tensor_puzzles_refuse_other_calls(text: str, says: str, tmp_path: Path) -> None:
    found = check(tmp_path, text, "tensor_puzzles.1")
    assert not found.passed and says in found.message and "where" in found.message


def test_another_way_to_solve_a_puzzle_passes(tmp_path: Path) -> None:
    assert check(tmp_path, "def odds(n):\n    return arange(1, 2 * n + 1, 2)\n", "tensor_puzzles.1").passed


def test_progress_survives_other_files_and_two_at_once(tmp_path: Path) -> None:
    assert progress.solved() == set()
    path = progress.path()
    path.parent.mkdir(parents=True)
    for text in ("", "[1]", '{"solved": 3}', "{" * 9999, '{"solved": ["a", 5]}'):
        path.write_text(text)
        assert progress.solved() <= {"a"}
    code = "import sys\nfrom rushlight.learn import progress\n"
    code += "for k in range(20):\n    progress.add(f'{sys.argv[1]}.{k}')\n"
    running = [
        subprocess.Popen([sys.executable, "-c", code, name], env=dict(os.environ, PYTHONPATH=HOME)) for name in "xy"
    ]
    assert [process.wait(60) for process in running] == [0, 0]
    assert len(progress.solved()) == 41
    assert sorted(file.name for file in path.parent.iterdir()) == ["learn.json", "learn.lock"]


def test_a_place_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    answer = tmp_path / "a.py"
    answer.write_text(RIGHT)
    assert main(["learn", "check", "choosing.2", str(answer)]) == 0
    assert "could not be kept" in capsys.readouterr().err
