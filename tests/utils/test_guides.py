"""The code blocks of every page of docs/ run, page by page (tools/blocks.py), and so do the examples."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT / "tools"))

import blocks  # noqa: E402

GUIDES = [str(page.relative_to(DOCS)) for page in blocks.pages()]
LONG = ("checking_a_device.md", "distributed.md", "serving.md", "xla.md")      # more than five seconds
CASES = [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in GUIDES]


@pytest.mark.share(2, "pages")
@pytest.mark.parametrize("name", CASES)
def test_the_page_runs(name: str) -> None:
    page = DOCS / name
    for module in blocks.missing(page):
        pytest.importorskip(module)
    done = blocks.run_page(page)
    assert not done.error, done.error
    assert len(done.printed) == sum(block.runs() for block in blocks.blocks_of(page))


def test_few_blocks_are_exempt() -> None:
    """Each exemption is a claim that nothing checks."""
    assert sum(not block.runs() for page in blocks.pages() for block in blocks.blocks_of(page)) <= 10


def test_every_guide_is_on_the_site_and_in_the_index() -> None:
    """A page that neither names is a page that nobody finds."""
    guides = {page.name for page in DOCS.glob("*.md")} - {"index.md"}
    menu = set(re.findall(r": (\w+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M))
    listed = set(re.findall(r"\]\((\w+\.md)[)#]", (DOCS / "index.md").read_text(encoding="utf-8")))
    assert (guides - menu, guides - listed) == (set(), set())


def test_commands_that_pages_name_exist() -> None:
    """`python -m module` is a module that runs, `python -m rushlight word` a command of ours."""
    texts = {page: page.read_text(encoding="utf-8") for page in (*DOCS.rglob("*.md"), *ROOT.glob("*.md"))}
    ours = re.compile(r"python -m ((?:rushlight|tests|benchmarks|tools)(?:\.\w+)*)(?: (\w+))?")
    named = {(page.name, *match) for page, text in texts.items() for match in ours.findall(text)}
    words = set(re.findall(r'commands\.add_parser\(\s*"(\w+)"', (ROOT / "rushlight/__main__.py").read_text("utf-8")))
    assert {"run", "learn", "mlir"} <= words and ("08_new_chip.md", "rushlight", "check") in named
    for page, module, word in sorted(named):
        path = ROOT.joinpath(*module.split("."))
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), f"{page}: python -m {module}"
        assert module != "rushlight" or not word or word in words, f"{page}: python -m rushlight {word}"


def run_example(folder: Path, name: str, *words: str) -> str:
    """What an example prints, run as a program in an empty folder."""
    program = [sys.executable, str(DOCS.parent / "examples" / name), *words]
    done = subprocess.run(
        program,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        env=dict(os.environ, PYTHONPATH=str(DOCS.parent)),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_language_model_is_trained_saved_and_fine_tuned(tmp_path: Path) -> None:
    assert "saved as gpt.pt" in run_example(tmp_path, "gpt.py", "--steps", "3")
    assert "adapter saved" in run_example(tmp_path, "finetune.py", "--steps", "2")


@pytest.mark.slow
def test_digits_are_recognised(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    assert "accuracy 9" in run_example(tmp_path, "mnist.py", "--epochs", "3").splitlines()[-1]


@pytest.mark.slow
def test_a_pruned_student_is_taught(tmp_path: Path) -> None:
    lines = run_example(tmp_path, "distill.py", "--images", "600", "--epochs", "3").splitlines()
    _, pruned, taught = (float(re.search(r"([\d.]+)%", line)[1]) for line in lines)
    assert taught > pruned + 20 and "8,182 parameters" in lines[-1]


@pytest.mark.slow
def test_a_network_is_quantized_in_four_ways(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    rows = [line.rsplit(None, 5) for line in run_example(tmp_path, "quantize.py", "--epochs", "3").splitlines()[-5:]]
    accuracy, size = ([float(row[k].rstrip("%")) for row in rows] for k in (1, 2))
    assert min(accuracy) > 90 and accuracy[0] - min(accuracy) < 3      # every way is near the network of floats
    assert max(size[1:4]) < 0.4 * size[0]


@pytest.mark.slow
def test_a_language_model_of_few_bits(tmp_path: Path) -> None:
    rows = run_example(tmp_path, "quantize_gpt.py", "--steps", "3").splitlines()[-7:]
    losses = {row[:28].strip(): float(row[28:].split()[0]) for row in rows}
    assert len(losses) == 7 and max(losses.values()) < 1.02 * losses["32 bits"]


def test_the_page_of_environment_variables_has_the_table_of_the_code() -> None:
    from rushlight.base import environment

    assert environment.table() in (DOCS / "environment.md").read_text(
        encoding="utf-8"
    ), "write environment.table() into docs/environment.md"
