"""Timers of C++ statements, and instructions counted by callgrind: how counts are read, joined and printed, and that
valgrind really brings them where it is installed."""

from __future__ import annotations

import pickle
import shutil
from typing import Any

import pytest

import rushlight as rl
from rushlight.utils import benchmark
from rushlight.utils.benchmark import (
    CallgrindStats,
    CopyIfCallgrind,
    FunctionCount,
    FunctionCounts,
    Language,
    TaskSpec,
    Timer,
    callgrind_run,
    client_requests,
    cpp_statement,
)

needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
needs_valgrind = pytest.mark.skipif(
    shutil.which("valgrind") is None or not client_requests.is_supported(), reason="no valgrind"
)


@needs_compiler
def test_cpp_statement_is_timed_with_its_setup() -> None:
    timer = Timer(
        """
            #ifndef AT_THE_TOP
            static_assert(false);
            #endif
            values.push_back(values.size());
        """,
        setup="std::vector<size_t> values;", global_setup="#include <vector>\n#define AT_THE_TOP",
        language=Language.CPP,
    )
    m = timer.timeit(1000)
    assert 0 < m.median < 1e-3
    assert m.task_spec.global_setup.startswith("#include <vector>")
    assert "setup: std::vector" in repr(m)
    assert timer.blocked_autorange(min_run_time=0.01).number_per_run >= 1000


@needs_compiler
def test_cpp_statement_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="does not compile(.|\n)*error"):
        Timer("int x = ;", language="c++").timeit(1)
    with pytest.raises(RuntimeError, match="^out of order$"):
        Timer('throw std::runtime_error("out of order");', global_setup="#include <stdexcept>",
              language="cpp").timeit(1)
    with pytest.raises(NotImplementedError, match="torch::ones, torch::Tensor"):
        Timer("torch::Tensor y = x + 1;  // at::add", setup="auto x = torch::ones({1});", language="cpp").timeit(1)
    with pytest.raises(NotImplementedError, match="include <torch/torch.h>"):
        Timer("", global_setup="#include <torch/torch.h>", language="cpp").timeit(1)
    # a name of its own is no name of PyTorch's
    assert Timer("at::f();", global_setup="namespace at { static void f() {} }", language="cpp").timeit(1).median > 0


def test_cpp_statement_needs_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(NotImplementedError, match="need a compiler.*'no-such-compiler' is not found"):
        Timer("int a = 1;", language="c++").timeit(1)
    with pytest.raises(ValueError, match="globals"):
        Timer("x;", language="c++", globals={"x": 1})
    with pytest.raises(AssertionError):
        type("Other", (Timer,), {"_timer_cls": object})("x;", language="c++")


def counts(*rows: tuple[int, str], inclusive: bool = False) -> FunctionCounts:
    return FunctionCounts(tuple(sorted((FunctionCount(*row) for row in rows), reverse=True)), inclusive)


def stats(exclusive: FunctionCounts) -> CallgrindStats:
    empty = counts(inclusive=True)
    return CallgrindStats(TaskSpec("y = torch.ones(())", "pass"), 1000, True, empty, counts((5766, "b")), empty,
                          exclusive, "file")


ONE = (
    (408000, "???:__tls_get_addr [/usr/lib64/ld-2.28.so]"),
    (148561, "/tmp/build/python_1599604603603/work/Python/ceval.c:_PyEval_EvalFrameDefault [/home/me/bin/python3.6]"),
    (141870, "/tmp/build/work/Objects/dictobject.c:lookdict_unicode [/home/me/bin/python3.6]"),
    (2000, "/usr/include/c++/8/bits/stl_vector.h:torch::PythonArgs::intlist(int) of a name that does not fit"),
)
PRINTED = """\
  408000  ???:__tls_get_addr [/usr/lib64/ld-2.28.so]
  148561  /tmp/build/python_1599604603603/ ... lFrameDefault [/home/me/bin/python3.6]
  141870  /tmp/build/work/Objects/dictobje ... kdict_unicode [/home/me/bin/python3.6]
    2000  /usr/include/c++/8/bits/stl_vect ... s::intlist(int) of a name that does not fit

Total: 700431"""
STATS = """\
y = torch.ones(())
                           All          Noisy symbols removed
    Instructions:       700431                     558561
    Baseline:             5766                       5766
1000 runs per measurement, 1 thread"""


def without_first(text: str) -> str:
    return text.split("\n", 1)[1]


def test_counts_print_and_join() -> None:
    first, second = counts(*ONE), counts((8000, ONE[0][1]), (7, "f"))
    assert without_first(repr(stats(first))) == STATS
    assert [c for c, _ in first - second] == [400000, 148561, 141870, 2000, -7]
    assert (first + second).sum() == first.sum() + 8007
    assert [c for c, _ in first * 0.5] == [204000, 74280, 70935, 1000]
    assert first.denoise().sum() == 558561
    assert list(first.filter(lambda name: "Python" in name)) == [first[1], first[3]]
    assert first.transform(lambda name: name[0])._data == ((408000, "?"), (292431, "/"))
    assert isinstance(first[0], FunctionCount)
    assert len(first[:2]) == 2
    assert not first[:2].truncate_rows
    with pytest.raises(AssertionError):
        first + counts(inclusive=True)
    many = counts(*((k, f"f{k:02}") for k in range(1, 31)))
    shown = without_first(repr(many)).splitlines()
    assert shown[8:11] == ["  22  f22", " ...", "   9  f09"]
    assert pickle.loads(pickle.dumps(many))._data == many._data


def test_counts_equal_pytorchs() -> None:
    theirs = pytest.importorskip("torch.utils.benchmark")
    shown = {}
    for module in (benchmark, theirs):
        made = [module.FunctionCount(*row) for row in ONE]
        given = module.FunctionCounts(tuple(made), False)
        empty = module.FunctionCounts((), True)
        whole = module.CallgrindStats(module.TaskSpec("x", "pass"), 10, True, empty, given, empty, given, None)
        wide = module.FunctionCounts(tuple(made), False, _linewidth=160)
        shown[module] = [
            without_first(repr(each))
            for each in (given, wide, whole, given - given * 3, whole.as_standardized().stats())
        ]
    assert shown[benchmark] == shown[theirs]
    assert shown[benchmark][0] == without_first(repr(counts(*ONE)))


def test_standardized_names_do_not_say_where_things_were_built() -> None:
    two = (3, "/a/csrc/call.cpp:run [x.so]"), (4, "/b/c/csrc/call.cpp:run [y.so]")
    short = stats(counts(*ONE, *two)).as_standardized()
    names = [name for _, name in short.stats()]
    assert names[:3] == ["???:__tls_get_addr", "Python/ceval.c:_PyEval_EvalFrameDefault",
                         "Objects/dictobject.c:lookdict_unicode"]
    assert short.stats()[-1] == (7, "csrc/call.cpp:run")
    assert short.stmt_callgrind_out is None
    assert short.delta(short).sum() == 0


ANNOTATED = """\
--------------------------------------------------------------------------------
Profile data file 'callgrind.out.2' (creator: callgrind-3.19.0)
--------------------------------------------------------------------------------
--------------------------------------------------------------------------------
Ir
--------------------------------------------------------------------------------
{total}  PROGRAM TOTALS

--------------------------------------------------------------------------------
Ir       file:function
--------------------------------------------------------------------------------
{total}  ???:running [x]
5,000    a.c:f [x]
1,018    b.c:g

--------------------------------------------------------------------------------
-- Auto-annotated source: a.c
1        not:this
"""


def test_tables_of_callgrind_are_read() -> None:
    found = callgrind_run.read_counts(ANNOTATED.format(total="6,018"), inclusive=False)
    assert found._data == ((5000, "a.c:f [x]"), (1018, "b.c:g"))        # what was running when it wrote is left out
    assert callgrind_run.read_counts(ANNOTATED.format(total="6,018"), inclusive=True)[0] == (6018, "???:running [x]")
    whole = callgrind_run.read_counts(ANNOTATED.format(total="12,036").replace("12,036  ???", "6,018  ???"), False)
    assert whole.sum() == 12036
    with pytest.raises(OSError, match="table of functions"):
        callgrind_run.read_counts("nothing", inclusive=False)


def test_what_cannot_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="Unsupported type: <class 'list'>"):
        CopyIfCallgrind([1])
    assert CopyIfCallgrind.unwrap_all({"a": CopyIfCallgrind(3, setup="x"), "b": 4}) == {"a": 3, "b": 4}
    monkeypatch.setattr(callgrind_run.shutil, "which", lambda name: None)
    with pytest.raises(OSError, match="Missing: valgrind"):
        Timer("pass").collect_callgrind()
    monkeypatch.setattr(client_requests, "is_supported", lambda: False)
    with pytest.raises(OSError, match="not supported on this platform"):
        Timer("pass").collect_callgrind()
    with pytest.raises(NameError):      # found in this process, before any other is started
        Timer("no_such_name").collect_callgrind()


@needs_valgrind
def test_globals_must_be_copies() -> None:
    with pytest.raises(ValueError, match="requires that globals be wrapped in `CopyIfCallgrind`"):
        Timer("x", globals={"x": 1}).collect_callgrind()
    with pytest.raises(ValueError, match="mocking out `torch`"):
        Timer("pass", globals={"torch": 1}).collect_callgrind()


@pytest.mark.parametrize("processor", ["x86_64", "aarch64"])
def test_requests_are_the_sequences_valgrind_looks_for(processor: str) -> None:
    llvm = pytest.importorskip("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()
    rolls = {
        "x86_64": ("rolq $$3, %rdi; rolq $$13, %rdi; rolq $$61, %rdi; rolq $$51, %rdi; xchgq %rbx, %rbx", "~{rdi}"),
        "aarch64": ("ror x12, x12, #3; ror x12, x12, #13; ror x12, x12, #51; ror x12, x12, #61; orr x10, x10, x10",
                    "~{x12}"),
    }[processor]
    text = f'define void @f() {{ call void asm sideeffect "{rolls[0]}", "{rolls[1]}"()\n ret void }}'
    if processor != client_requests.processor():
        pytest.skip("only the native assembler is there")
    machine = llvm.Target.from_triple(f"{processor}-unknown-linux-gnu").create_target_machine()
    made = machine.emit_object(llvm.parse_assembly(text))
    code = bytes.fromhex(client_requests._MACHINE_CODE[processor])
    sequence = code[5:24] if processor == "x86_64" else code[8:28]
    assert sequence in made
    assert client_requests.request(client_requests.RUNNING_ON_VALGRIND) == 0


@needs_valgrind
@needs_compiler
def test_cpp_instructions_are_counted() -> None:
    timer = Timer("x += 1;", setup="volatile int x = 0;", language="c++")
    first, second = timer.collect_callgrind(number=1000, repeats=2)
    assert first.counts() == pytest.approx(second.counts(), abs=50)
    assert 1000 < first.counts() < 20000
    assert first.counts(denoise=True) == first.counts()
    assert first.baseline_exclusive_stats.sum() == 0
    assert any("main" in name for _, name in first.stats())
    half = timer.collect_callgrind(number=500)
    assert half.counts() == pytest.approx(first.counts() / 2, rel=0.05)


@needs_valgrind
@pytest.mark.slow
def test_python_instructions_are_counted() -> None:
    model = rl.nn.Linear(2, 2)
    timer = Timer("y = model(x) + k", setup="x = torch.ones((1, 2))", num_threads=2,
                  globals={"model": CopyIfCallgrind(model), "k": CopyIfCallgrind(5)})
    found: Any = timer.collect_callgrind(number=250, repeats=2, retain_out_file=True)
    assert all(f.counts() > 100 * 250 for f in found)
    assert found[0].counts(denoise=True) == pytest.approx(found[1].counts(denoise=True), rel=0.1)
    assert 0 < found[0].baseline_exclusive_stats.sum() < found[0].counts() / 10
    assert "fn=" in found[0].stmt_callgrind_out
    assert any("rl::" in name or "/_C." in name for _, name in found[0].stats())      # installed cores have no names
    with pytest.raises(OSError, match="Failed to collect callgrind profile(.|\n)*No module named 'not_a_module'"):
        Timer("x", setup="x = 1", globals={"k": CopyIfCallgrind(5, setup="import not_a_module")}).collect_callgrind()


def test_compiled_statements_are_kept() -> None:
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler")
    paths = {cpp_statement._built("int main() { return 0; }", "", ()) for _ in range(2)}
    assert len(paths) == 1
