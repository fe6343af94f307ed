"""The demos: pages that draw, read and write in a browser without a network; digits read by a C program on AArch64."""

from __future__ import annotations

import importlib.util
import math
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks import demos

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"

needs_browser = pytest.mark.skipif(
    demos.browser() is None or importlib.util.find_spec("playwright") is None, reason="no playwright, or no chromium")


@pytest.fixture(scope="module")
def examples() -> Iterator[Any]:
    """Modules of `examples/`; both `build.py` by their paths."""
    before = set(sys.modules)
    sys.path[:0] = [str(EXAMPLES), str(EXAMPLES / "browser")]

    def load(path: str) -> ModuleType:
        if "/" not in path:
            return importlib.import_module(path)
        spec = importlib.util.spec_from_file_location(path.replace("/", "_"), EXAMPLES / f"{path}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield load
    del sys.path[:2]
    for name in set(sys.modules) - before:      # `gpt`, `step`: names that others might use
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(EXAMPLES)):
            del sys.modules[name]


@pytest.fixture(scope="module")
def network(examples: Any) -> Any:
    return examples("drawn_digits").reader(is_quick=True)


@pytest.fixture(scope="module")
def pages(examples: Any, network: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    build, folder = examples("browser/build"), tmp_path_factory.mktemp("pages")
    build.put(folder, "digits.html", build.digits_page(network))
    build.put(folder, "gpt.html", build.gpt_page(*build.writer(is_quick=True)))
    return folder


def test_a_folder_that_is_a_file_is_refused(examples: Any, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    assert examples("browser/build").main([str(tmp_path / "thesis.txt")]) == 2
    assert "thesis.txt cannot be a folder" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").read_text(encoding="utf-8") == "mine"


def test_without_a_compiler_the_remedy_is_told(examples: Any, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert examples("mobile/build").main([str(tmp_path / "new"), "--cc", "no-such-cc"]) == 2
    assert "no-such-cc is not on PATH" in capsys.readouterr().err and not (tmp_path / "new").exists()


def test_a_step_with_keys_and_values_is_the_whole_model(examples: Any) -> None:
    gpt, step = examples("gpt"), examples("step")
    torch = gpt.torch
    model = gpt.GPT(gpt.Config(letters=20, context=8, layers=2, heads=2, width=16)).eval()
    one, numbers = step.Step(model).eval(), torch.randint(0, 20, (1, 8))
    keys = values = one.empty()
    with torch.no_grad():
        whole = model(numbers)[0]
        for place in range(8):
            logits, keys, values = one(numbers[0, place : place + 1], torch.tensor([place]), keys, values)
            torch.testing.assert_close(logits, whole[place])


def test_drawings_fill_the_frame(examples: Any) -> None:
    digits = examples("drawn_digits")
    corner = digits.torch.tensor([[[3.0, 3.0], [5.0, 4.0]]])         # a line twice as wide as it is high
    at = digits.framed(corner)[0]
    margin = (digits.FRAME - digits.INK) / 2
    assert at[:, 0].tolist() == [margin, digits.FRAME - margin]
    assert math.isclose(at[:, 1].mean().item(), digits.FRAME / 2) and at[1, 1] - at[0, 1] == digits.INK / 2


@needs_browser
@pytest.mark.slow
@pytest.mark.ecosystem
def test_digits_drawn_with_the_mouse_are_read(pages: Path) -> None:
    with demos.open_page(pages / "digits.html") as page:
        read = demos.draw_all(page)
        assert sum(str(digit) == answer for digit, answer in read) >= 0.8 * len(read), read
        page.click("[data-clear]")
        assert page.inner_text("[data-answer]") == ""
        page.locator("[data-pad]").focus()
        for key in (" ", *["ArrowDown"] * 16, " "):
            page.keyboard.press(key)
        assert page.inner_text("[data-answer]") == "1"
        page.keyboard.press("Escape")
        assert page.inner_text("[data-answer]") == ""
        page.mouse.click(*(page.locator("[data-pad]").bounding_box()[side] + 9 for side in ("x", "y")))
        assert page.inner_text("[data-speed]") == "Too small to read: draw it larger."


@needs_browser
@pytest.mark.slow
@pytest.mark.ecosystem
def test_the_page_computes_what_the_model_does(pages: Path, network: Any, examples: Any) -> None:
    """The pad's image is that of `inked`, and the chances shown are the model's."""
    digits = examples("drawn_digits")
    torch = digits.torch
    with demos.open_page(pages / "digits.html") as page:
        demos.draw(page, "20,20 80,20 40,90")
        shown = [int(text[:-1]) for text in page.locator(".share").all_inner_texts()]
        grey = page.evaluate("""size => Array.from(document.querySelector("[data-seen]").getContext("2d")
            .getImageData(0, 0, size, size).data).filter((_, at) => at % 4 === 0)""", digits.FRAME)
    at = digits.framed(torch.tensor([[[20.0, 20.0], [80.0, 20.0], [40.0, 90.0]]]))
    image = digits.inked(at[:, :-1].contiguous(), at[:, 1:].contiguous(), torch.tensor([[sum(digits.PEN) / 2]]))
    drawn = 1 - torch.tensor(grey, dtype=torch.float32) / 255
    assert (drawn - image[0]).abs().max() < 0.1          # the mouse stops at whole pixels of the screen
    with torch.no_grad():
        expected = 100 * network(drawn.view(1, 1, digits.FRAME, digits.FRAME))[0]
    assert (torch.tensor(shown) - expected).abs().max() < 3


@needs_browser
@pytest.mark.slow
@pytest.mark.ecosystem
def test_a_gpu_reads_where_the_browser_has_one(pages: Path) -> None:
    shown = {}
    for has_gpu, engine in ((True, "webgpu"), (False, "wasm")):
        with demos.open_page(pages / "digits.html", has_gpu=has_gpu) as page:
            assert page.evaluate("document.body.dataset.engine") == engine
            demos.draw(page, "20,20 80,20 40,90")
            assert page.inner_text("[data-speed]").endswith("by WebGPU." if has_gpu else "by WebAssembly.")
            shown[engine] = [int(text[:-1]) for text in page.locator(".share").all_inner_texts()]
            page.click("[data-clear]")
            assert page.inner_text("[data-answer]") == ""
    assert all(abs(one - other) <= 1 for one, other in zip(shown["webgpu"], shown["wasm"], strict=True)), shown


@needs_browser
@pytest.mark.slow
@pytest.mark.ecosystem
def test_the_gpt_writes_fast_and_tells_strange_letters(pages: Path) -> None:
    with demos.open_page(pages / "gpt.html") as page:
        text, speed = demos.write(page, "Return the ")
        assert text.startswith("Return the ") and len(text) == len("Return the ") + 400 and speed >= 20
        page.fill("[data-prompt]", "thé")
        page.click("[data-go]")
        page.wait_for_function("document.querySelector('[data-problem]').textContent.includes('é')")
        page.click("[data-go]")                            # now says Stop
        page.wait_for_function("document.querySelector('[data-go]').textContent === 'Write'")


@needs_browser
@pytest.mark.slow
@pytest.mark.ecosystem
@pytest.mark.parametrize("name", ["digits", "gpt"])
def test_pages_fit_a_phone_and_stand_alone(name: str, pages: Path) -> None:
    text = (pages / f"{name}.html").read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=[\"'](?!data:)", text)
    with demos.open_page(pages / f"{name}.html", width=390, is_dark=True) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 23, 26)"


def needs_aarch64() -> pytest.MarkDecorator:
    tools = ("cc", "ar") if platform.machine() in ("aarch64", "arm64") else (
        "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-ar", "qemu-aarch64")
    missing = [tool for tool in tools if shutil.which(tool) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed")


@needs_aarch64()
@pytest.mark.slow
def test_a_c_program_reads_ninety_of_a_hundred_on_aarch64(
    examples: Any, network: Any, tmp_path: Path, capfd: pytest.CaptureFixture
) -> None:
    build = examples("mobile/build")
    build.put_model(network, tmp_path)
    build.put_data(tmp_path)
    build.compile_all(tmp_path, build.CC, build.AR)
    capfd.readouterr()
    build.try_out(tmp_path)
    said = capfd.readouterr().out
    assert 90 <= int(re.fullmatch(r"(\d+) of 100\n", said)[1]) <= 100, said
