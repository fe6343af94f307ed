"""`python -m rushlight profile`: programs of their own, what they leave behind, and how they end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
FILES = {"report.html", "stacks.txt", "summary.json", "trace.json"}


def execute(*arguments: str, cwd: Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(
        [sys.executable, "-m", "rushlight", *arguments], capture_output=True, text=True, env=environment, cwd=cwd,
        timeout=240, input=stdin,
    )


def script(folder: Path, text: str, name: str = "program.py") -> str:
    (folder / name).write_text(textwrap.dedent(text))
    return str(folder / name)


def summary(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "summary.json").read_text())


def profiled(folder: Path, text: str, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """A program under the command, with its report in `out`."""
    return execute("profile", "--out", "out", script(folder, text), *arguments, cwd=folder, stdin=stdin)


# --- verdicts ---------------------------------------------------------------------------------------------------------

PROGRAMS = {
    "compute": ("aten::matmul", """
        import torch
        a, b = torch.ones(768, 768), torch.ones(768, 768)
        for _ in range(40):
            c = a @ b
    """),
    "memory": ("aten::add", """
        import torch
        x, y = torch.ones(6_000_000), torch.ones(6_000_000)
        for _ in range(40):
            z = x + y
    """),
    "overhead": ("aten::mul", """
        import torch
        x = torch.ones(4)
        for _ in range(60_000):
            y = x * x
    """),
    "data": ("aten::stack", """
        import time, torch
        from torch.utils.data import DataLoader, Dataset
        class Slow(Dataset):
            def __len__(self):
                return 120
            def __getitem__(self, i):
                time.sleep(0.008)
                return torch.ones(4)
        for batch in DataLoader(Slow(), batch_size=10):
            batch.sum()
    """),
}


@pytest.mark.share(2)
@pytest.mark.parametrize("bound", PROGRAMS)
def test_the_verdict_names_what_bounds_a_program(tmp_path: Path, bound: str) -> None:
    name, text = PROGRAMS[bound]
    done = profiled(tmp_path, text)
    assert done.returncode == 0, done.stderr
    found = summary(tmp_path / "out")
    share = found["share"]
    assert set(share) == {"compute", "memory", "overhead", "data"}
    assert sum(share.values()) == pytest.approx(1.0) and all(part >= 0 for part in share.values())
    assert max(share, key=share.get) == bound, share
    row = next(row for row in found["ops"] if row["name"] == name)
    if bound != "data":
        assert row["bound"] == bound
    assert f"bound by {bound}" in done.stdout and name in done.stdout


# --- what is left behind ----------------------------------------------------------------------------------------------

TRAINING = """
    import sys
    import torch
    from torch import nn

    def step(model, x):
        loss = model(x).square().mean()
        loss.backward()
        return loss

    def main():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
        for _ in range(20):
            step(model, torch.ones(32, 64))
        print("arguments", sys.argv[1:], "input", sys.stdin.read().strip(), flush=True)

    main()
"""


class Page(HTMLParser):
    """What a page would fetch, and the pictures in it."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.pictures: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.fetched += [given[key] or "" for key in ("src", "href") if key in given]
        if tag == "svg":
            self.pictures.append(given.get("aria-label") or "")


def test_a_program_gets_its_arguments_and_leaves_every_file(tmp_path: Path) -> None:
    done = profiled(tmp_path, TRAINING, "--out", "mine", "-x", stdin="from outside\n")
    assert done.returncode == 0, done.stderr
    assert "arguments ['--out', 'mine', '-x'] input from outside" in done.stdout
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == FILES
    found = summary(out)
    assert set(found) == {"ops", "share", "peaks", "memory", "wall_us"}
    for row in found["ops"]:
        assert set(row) == {"name", "count", "us", "flops", "bytes", "bound"}
        assert row["bound"] in ("compute", "memory", "overhead")
    by_name = {row["name"]: row for row in found["ops"]}
    assert by_name["aten::linear"]["count"] == 40
    assert by_name["aten::linear"]["flops"] == 20 * (2 * 32 * 64 * 64 + 32 * 64 + 2 * 32 * 64 * 8 + 32 * 8)
    assert {"aten::relu", "ReluBackward0", "torch::autograd::AccumulateGrad"} <= set(by_name)
    assert sum(row["us"] for row in found["ops"]) <= found["wall_us"]
    assert found["peaks"]["flops_per_s"] > 1e8 and found["peaks"]["bytes_per_s"] > 1e8
    assert found["memory"]["peak_bytes"] >= found["memory"]["end_bytes"] > 0
    names = {event.get("name") for event in json.loads((out / "trace.json").read_text())["traceEvents"]}
    assert {"aten::linear", "ReluBackward0"} <= names
    lines = (out / "stacks.txt").read_text().splitlines()
    assert all(re.fullmatch(r".+ \d+", line) for line in lines)
    assert any("step" in line and "aten::linear" in line for line in lines)
    assert not any("runpy" in line.split(";")[0] or "__main__.py" in line for line in lines)
    text = (out / "report.html").read_text()
    page = Page()
    page.feed(text)
    assert not page.fetched and "http:" not in text and "https:" not in text and "@import" not in text
    assert {"roofline", "memory over time", "flame graph", "shares of the wall clock"} <= set(page.pictures)
    assert "model(x).square().mean()" in text and "program.py:7" in text      # a slow line, with its source


def test_a_module_runs_by_name(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    script(package, "", "__init__.py")
    script(package, "import sys, torch\nprint(torch.ones(2).sum().item(), sys.argv[1:], __name__)\n", "train.py")
    done = execute("profile", "--out", "out", "-m", "package.train", "7", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2.0 ['7'] __main__" in done.stdout
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES


# --- ends -------------------------------------------------------------------------------------------------------------

ENDS = """
    import os, signal, sys, threading, time
    import torch
    x = torch.ones(8)
    y = x + x

    def fail():
        raise ValueError("a word about it")

    how = sys.argv[1]
    if how == "status":
        sys.exit(7)
    if how == "message":
        sys.exit("a message")
    if how == "error":
        fail()
    if how == "interrupt":
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin with it ignored
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    if how == "thread":
        def later():
            time.sleep(0.2)
            print("later", (x * 3).sum().item(), flush=True)
        threading.Thread(target=later).start()
    if how == "fork":
        if not os.fork():
            x - x
            sys.exit(3)
        print("child", os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


@pytest.mark.parametrize(("how", "status"), [
    ("status", 7), ("message", 1), ("error", 1), ("interrupt", -2), ("thread", 0), ("fork", 0),
])
def test_however_a_program_ends_the_report_is_there_and_the_status_is_its_own(
    tmp_path: Path, how: str, status: int
) -> None:
    done = profiled(tmp_path, ENDS, how)
    assert done.returncode == status, done.stderr
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == FILES
    names = {row["name"]: row["count"] for row in summary(out)["ops"]}
    assert names["aten::add"] == 1
    if how == "error":
        assert done.stderr.startswith("Traceback (most recent call last):\n  File ")
        assert done.stderr.rstrip().endswith("ValueError: a word about it")
        assert "rushlight" not in done.stderr and "runpy" not in done.stderr
    if how == "message":
        assert done.stderr == "a message\n"
    if how == "interrupt":
        assert "KeyboardInterrupt" in done.stderr
    if how == "thread":
        assert "later 24.0" in done.stdout and names["aten::mul"] == 1
    if how == "fork":
        assert "child 3" in done.stdout and "aten::sub" not in names
        assert done.stdout.count("Report:") == 1


@pytest.mark.parametrize("case", ["script", "module", "file", "readonly"])
def test_what_cannot_begin_ends_with_2_and_one_line_before_the_program_runs(tmp_path: Path, case: str) -> None:
    program = script(tmp_path, "open('ran', 'w')\n")
    (tmp_path / "taken").write_text("")
    arguments = {
        "script": ("--out", "out", str(tmp_path / "nowhere.py")),
        "module": ("--out", "out", "-m", "no.such.module"),
        "file": ("--out", "taken", program),
        "readonly": ("--out", "/proc/rushlight", program),
    }[case]
    done = execute("profile", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert re.fullmatch(r"rushlight profile: [^\n]+\n", done.stderr), done.stderr
    assert done.stdout == "" and not (tmp_path / "ran").exists() and not (tmp_path / "out").exists()


def test_a_program_that_profiles_itself_works_and_is_seen_all_the_same(tmp_path: Path) -> None:
    done = profiled(tmp_path, """
        import torch
        x = torch.ones(8)
        x + 1
        for _ in range(2):
            with torch.profiler.profile(record_shapes=True) as inner:
                x * 2
            print("inside", [row.key for row in inner.key_averages() if row.key.startswith("aten")])
        x - 1
    """)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("inside ['aten::mul']") == 2
    counts = {row["name"]: row["count"] for row in summary(tmp_path / "out")["ops"]}
    assert (counts["aten::add"], counts["aten::mul"], counts["aten::sub"]) == (1, 2, 1)


def test_worker_processes_leave_no_reports_of_their_own(tmp_path: Path) -> None:
    done = profiled(tmp_path, """
        import multiprocessing, torch
        from torch.utils.data import DataLoader, TensorDataset
        def child():
            torch.ones(3) * 2
        if __name__ == "__main__":
            for batch, in DataLoader(TensorDataset(torch.ones(8, 2)), batch_size=4, num_workers=1):
                batch.sum()
            for how in ("fork", "spawn"):
                process = multiprocessing.get_context(how).Process(target=child)
                process.start()
                process.join()
                print(how, process.exitcode, flush=True)
    """)
    assert done.returncode == 0, done.stderr
    assert "fork 0" in done.stdout and "spawn 0" in done.stdout and done.stdout.count("Report:") == 1
    counts = {row["name"]: row["count"] for row in summary(tmp_path / "out")["ops"]}
    assert counts["aten::sum"] == 2 and "aten::mul" not in counts


# --- the example ------------------------------------------------------------------------------------------------------


def advice_of(folder: Path) -> str:
    """The part of the page that says what to do."""
    text = (folder / "report.html").read_text()
    return text[text.index("What to do") : text.index("Slowest lines")]


@pytest.mark.slow
def test_the_example_has_three_bottlenecks_and_the_report_names_them(tmp_path: Path) -> None:
    example = ROOT / "examples" / "profile_bottlenecks.py"
    planted = {
        kind: number for number, line in enumerate(example.read_text().splitlines(), 1)
        for kind in re.findall(r"# planted: (\w+)", line)
    }
    done = execute("profile", "--out", "out", str(example), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    advice = advice_of(tmp_path / "out")
    for title, kind in (("Fetch batches ahead", "data"), ("Join small ops", "loop"), ("Compute in float32", "float64")):
        assert title in advice and title in done.stdout
        item = next(part for part in advice.split("<li>") if title in part)
        assert f"profile_bottlenecks.py:{planted[kind]}" in item, (kind, item)
    mended = execute("profile", "--out", "mended", str(example), "--mend", "data,loop,float64", cwd=tmp_path)
    assert mended.returncode == 0, mended.stderr
    left = advice_of(tmp_path / "mended")
    assert "Join small ops" not in left and "Compute in float32" not in left
