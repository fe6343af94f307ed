"""Conjugate and negative bits: `conj()` is a view, and everything reads and writes through it.

Programs and their answers are in bits_programs.txt; where PyTorch is installed, that its answers are still those.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as rl
from tests.tensor.bits_answers import Program, answer, programs

pytestmark = pytest.mark.share(2)   # of each test that has several cases

PROGRAMS = programs()
ROOT = Path(__file__).resolve().parents[2]
AS_TORCH = """
import sys
sys.path.insert(0, {root!r})
import torch
from tests.tensor.bits_answers import answer, programs
for number in {numbers}:
    print(number, answer(torch, programs()[number].text), flush=True)
"""


def is_plain(program: Program) -> bool:
    """Whether a program names nothing but the library itself, so that it runs without one served as `torch`."""
    return "import" not in program.text and ".compile(" not in program.text


def label(program: Program) -> str:
    return program.text.splitlines()[-1][:70]


@pytest.mark.parametrize("program", [p for p in PROGRAMS if is_plain(p)], ids=label)
def test_program(program: Program) -> None:
    assert answer(rl, program.text) == program.answer


def test_programs_that_import_or_compile(tmp_path: Path) -> None:
    numbers = [i for i, p in enumerate(PROGRAMS) if not is_plain(p)]
    script = tmp_path / "programs.py"
    script.write_text(AS_TORCH.format(root=str(ROOT), numbers=numbers))
    done = subprocess.run(
        [sys.executable, "-m", "rushlight", "run", str(script)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert found == {str(i): PROGRAMS[i].answer for i in numbers}, done.stderr


def test_answers_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    # importing what exports takes PyTorch longer than everything else here
    wanted = [p for p in PROGRAMS if p.is_torchs and is_plain(p) and ".export" not in p.text]
    found = [(p.text, answer(torch, p.text)) for p in wanted]
    assert found == [(p.text, p.answer) for p in wanted]


# --- what the programs cannot say -------------------------------------------------------------------------------------


def complex_matrix() -> rl.Tensor:
    return rl.tensor([[1 + 2j, 3 - 1j], [0.5j, 2]])


def test_conj_copies_nothing() -> None:
    x = complex_matrix()
    assert x.conj().data_ptr() == x.data_ptr()
    assert x.mH.data_ptr() == x.data_ptr()
    assert x.conj()._base is x


@pytest.mark.parametrize("name", ["numpy", "view_as_real", "view", "dlpack"])
def test_refusals_name_the_remedy(name: str) -> None:
    y = complex_matrix().conj()
    call = {"numpy": y.numpy, "view_as_real": lambda: rl.view_as_real(y), "view": lambda: y.view(rl.float32),
            "dlpack": y.__dlpack__}[name]
    with pytest.raises((RuntimeError, BufferError), match="resolve_conj"):
        call()
    with pytest.raises(RuntimeError, match="resolve_neg"):
        y.imag.numpy()


def test_python_buffers_are_refused() -> None:
    with pytest.raises(BufferError, match="resolve"):
        memoryview(complex_matrix().conj())


def test_files_go_both_ways(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    kept = {"a": complex_matrix().conj(), "b": complex_matrix().conj().imag, "c": complex_matrix().mH}
    rl.save(kept, tmp_path / "ours.pt")
    theirs = torch.load(tmp_path / "ours.pt")
    torch.save(theirs, tmp_path / "theirs.pt")
    again = rl.load(tmp_path / "theirs.pt")
    for name, t in kept.items():
        for other in (theirs[name], again[name]):
            assert (other.is_conj(), other.is_neg()) == (t.is_conj(), t.is_neg())
            assert other.tolist() == t.tolist()


def test_a_file_may_not_say_that_real_numbers_are_conjugates() -> None:
    from rushlight.tensors.pickling import _rebuild_tensor_v2

    with pytest.raises(RuntimeError, match="conjugates"):
        _rebuild_tensor_v2(rl.ones(2).storage(), 0, (2,), (1,), False, None, {"conj": True})


def test_registered_kernels_get_what_is_shown() -> None:
    seen = []

    @rl.library.custom_op("bits_tests::twice", mutates_args=("written",))
    def twice(x: rl.Tensor, written: rl.Tensor) -> rl.Tensor:
        seen.append((x.is_conj(), written.is_conj()))
        written.numpy()[:] = 1j
        return rl.from_numpy(2 * x.numpy())

    x, target = complex_matrix(), complex_matrix()
    assert rl.equal(twice(x.conj(), target.conj()), 2 * x.conj_physical())
    assert seen == [(False, False)]
    assert rl.equal(target, rl.full((2, 2), -1j))


def test_a_dataset_in_workers_keeps_bits() -> None:
    class Rows(rl.utils.data.Dataset):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, i: int) -> rl.Tensor:
            return complex_matrix().conj()[i]

    loader = rl.utils.data.DataLoader(Rows(), batch_size=None, num_workers=1)
    assert [row.tolist() for row in loader] == complex_matrix().conj().tolist()


def test_optimizers_step_with_gradients_behind_bits() -> None:
    plain, behind = (complex_matrix().requires_grad_() for _ in range(2))
    plain.grad, behind.grad = rl.ones(2, 2) * (1 + 2j), (rl.ones(2, 2) * (1 - 2j)).conj()
    assert behind.grad.is_conj()
    for parameter in (plain, behind):
        rl.optim.Adam([parameter], lr=0.1).step()
    assert rl.equal(plain, behind)


def test_tensors_without_dims_beside_numbers() -> None:
    assert (rl.tensor(2.0)._neg_view() * 3).item() == -6
    assert rl.tensor(1j).conj().item() == -1j
    assert rl.zeros(2, dtype=rl.complex64).fill_(rl.tensor(1j).conj()).tolist() == [-1j, -1j]
