"""Settings of the caching allocator, and allocators of the program's own, on a driver without a device behind it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rushlight.devices.cuda.settings import AllocatorSettings
from tests.cuda.test_simulated_driver import CC, driver, run

pytestmark = pytest.mark.skipif(CC is None or sys.platform != "linux", reason="needs a C compiler")
__all__ = ["driver"]
MB = 1 << 20
BYTES = f"MB = {MB}\ndef take(n, **k): return rl.empty(n, dtype=rl.uint8, device='cuda', **k)\n"


def settings(text: str) -> AllocatorSettings:
    result = AllocatorSettings()
    result.read(text)
    return result


def test_texts_are_read():
    plan = settings("max_split_size_mb:64, garbage_collection_threshold:0.6,expandable_segments:True").plan
    assert plan.most_cut == 64 * MB and plan.collect_at == 0.6 and plan.expands
    assert settings("roundup_power2_divisions:4").plan.divisions == [4] * 16
    found = settings("roundup_power2_divisions:[256:1,512:2,1024:4,>:8],backend:cudaMallocAsync")
    assert found.plan.divisions == [1] * 9 + [2, 4] + [8] * 5 and found.backend == "cudaMallocAsync"
    assert settings("release_lock_on_cudamalloc:True").shown()["release_lock_on_malloc"]
    pinned = settings("pinned_use_cuda_host_register:True,pinned_num_register_threads:8,pinned_max_cached_size_mb:3")
    assert pinned.registers and pinned.threads == 8 and pinned.most_cached == 3 * MB


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("max_split_size:3", "max_split_size_mb"), ("max_split_size_mb:3", "max_split_size_mb"),
        ("expandable_segments:true", "expandable_segments"), ("expandable_segments", "name:value"),
        ("garbage_collection_threshold:1.5", "garbage_collection_threshold"),
        ("backend:mine", "backend"), ("pinned_num_register_threads:3", "power of two"),
        ("roundup_power2_divisions:[256:3]", "power of two"), ("roundup_power2_divisions:[256:1", "no end"),
        ("max_split_size_mb:64 expandable_segments:True", "comma"),
    ],
)
def test_what_there_is_not_is_refused_by_name(text, named):
    with pytest.raises(ValueError, match=named):
        settings(text)


def test_settings_without_effect_say_so():
    with pytest.warns(UserWarning, match="pinned_use_background_threads:True has no effect"):
        settings("pinned_use_background_threads:True")


def test_segments_expand(driver, monkeypatch):
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    run(driver, BYTES + """
sim.simulated_mapped.restype = ctypes.c_size_t
x = rl.arange(MB).cuda()
assert count(ALLOCATIONS) == 0 and sim.simulated_mapped() == rl.cuda.memory_reserved() == 20 * MB
assert (x.cpu() == rl.arange(MB)).all()                     # the pages are there
pieces = [take(20 * MB) for _ in range(10)]
assert rl.cuda.memory_reserved() == 220 * MB                # 8 MiB and 200, in pages of 20
first = pieces[0].data_ptr()
del pieces[:9]
whole = take(170 * MB)                                      # what was freed in pieces serves at once
assert whole.data_ptr() == first and rl.cuda.memory_reserved() == 220 * MB
segment, = rl.cuda.memory_snapshot()
assert segment["is_expandable"] and segment["total_size"] == 220 * MB, segment
assert sum(b["size"] for b in segment["blocks"]) == 220 * MB
del whole
rl.cuda.empty_cache()                                       # a hole in the middle is given back
assert rl.cuda.memory_reserved() == sim.simulated_mapped() == 60 * MB
assert [s["total_size"] for s in rl.cuda.memory_snapshot()] == [20 * MB, 40 * MB]
assert (x.cpu() == rl.arange(MB)).all()
again = take(100 * MB)                                      # and filled again
assert again.data_ptr() == first and rl.cuda.memory_reserved() == 160 * MB
again.copy_(rl.ones(100 * MB, dtype=rl.uint8))
small = [take(100) for _ in range(50)]
assert rl.cuda.memory_reserved() == 162 * MB
try:
    take(2000 * MB)
except rl.OutOfMemoryError as error:
    assert "out of memory" in str(error)
else:
    raise SystemExit("there is not as much")
del small, again, x, pieces
rl.cuda.empty_cache()
assert rl.cuda.memory_reserved() == sim.simulated_mapped() == 0
assert rl.cuda._snapshot()["allocator_settings"]["expandable_segments"] is True
with rl.cuda.stream(rl.cuda.Stream()):
    take(MB)                                                # each stream has address space of its own
assert rl.cuda.memory_reserved() == 2 * MB
""")


def test_expanding_ends_at_the_share(driver, monkeypatch):
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True,per_process_memory_fraction:0.1")
    run(driver, BYTES + """
x = take(60 * MB)
try:
    take(60 * MB)
except rl.OutOfMemoryError as error:
    assert "may hold" in str(error)
else:
    raise SystemExit("more than the share was given")
assert x.data_ptr() and take(30 * MB).data_ptr()
""")


def test_large_blocks_are_not_cut(driver, monkeypatch):
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64")
    run(driver, BYTES + """
del_me = take(100 * MB)
del del_me
small = take(30 * MB)
assert rl.cuda.memory_reserved() == 130 * MB                # the large block stays whole
near = take(90 * MB)
assert rl.cuda.memory_reserved() == 130 * MB and rl.cuda.memory_allocated() == 130 * MB
del near
far = take(70 * MB)                                         # 30 MiB would lie idle: a segment of its own
assert rl.cuda.memory_reserved() == 200 * MB
""")


def test_sizes_are_rounded_between_powers_of_two(driver, monkeypatch):
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "roundup_power2_divisions:4")
    run(driver, BYTES + """
sizes = []
for n in (1200, 5000, 8192, 9000, 5 * MB + 1, 1200 * 1024, 6 * MB):
    before = rl.cuda.memory_allocated()
    sizes.append((take(n), rl.cuda.memory_allocated() - before))
assert [size for _, size in sizes] == [1536, 5120, 8192, 10240, 6 * MB, 1280 * 1024, 6 * MB], [s for _, s in sizes]
""")


def test_idle_segments_are_collected(driver, monkeypatch):
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "garbage_collection_threshold:0.5")
    run(driver, BYTES + """
held = [take(n * MB) for n in (100, 110, 120)]
del held[0]
del held[-1]                                                # 100 has been idle for longest
x = take(150 * MB)
assert rl.cuda.memory_reserved() == 480 * MB                # 330 + 150 are below the half
y = take(140 * MB)
assert count(FREES) >= 1 and rl.cuda.memory_stats()["num_alloc_retries"] == 0
sizes = sorted(s["total_size"] // MB for s in rl.cuda.memory_snapshot())
assert sizes == [110, 140, 150], sizes                      # both idle ones had to go: 520 is more than 512
""")


def test_memory_in_the_order_of_streams(driver, monkeypatch):
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync")
    run(driver, BYTES + """
x = [take(1000) for _ in range(3)]
assert rl.cuda.get_allocator_backend() == "cudaMallocAsync" and count(ALLOCATIONS) == 3
assert rl.cuda.memory_allocated() == rl.cuda.memory_reserved() == 3 * 1024
stream = rl.cuda.Stream()
x[0].record_stream(stream)
sim.simulated_order_clear()
sim.simulated_order.restype = ctypes.c_char_p
del x
order = sim.simulated_order().decode().split()
assert order[0] == "mark" and order[3] == "wait", order     # the stream that frees waits for the other
assert count(FREES) == 3 and rl.cuda.memory_allocated() == rl.cuda.memory_reserved() == 0
""")


PLUGIN = """
#include <stddef.h>
#include <stdlib.h>
static long takes, gives; static size_t bytes;
long mine_takes(void) { return takes; }
long mine_gives(void) { return gives; }
void* mine_take(size_t n, int unit, void* stream) { takes++; bytes += n; return n > (1 << 28) ? 0 : malloc(n); }
void mine_give(void* at, size_t n, int unit, void* stream) { gives++; bytes -= n; free(at); }
"""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "mine.c").write_text(PLUGIN)
    subprocess.run([CC, "-shared", "-fPIC", "-o", str(folder / "mine.so"), str(folder / "mine.c")], check=True)
    return str(folder / "mine.so")


def test_an_allocator_of_ones_own(driver, plugin):
    run(driver, BYTES + f"""
mine = ctypes.CDLL({plugin!r})
allocator = rl.cuda.memory.CUDAPluggableAllocator({plugin!r}, "mine_take", "mine_give")
rl.cuda.memory.change_current_allocator(allocator)
x = rl.arange(1000).cuda()
assert mine.mine_takes() == 1 and count(ALLOCATIONS) == 0 and (x.cpu() == rl.arange(1000)).all()
assert rl.cuda.memory_allocated() == 8192 and rl.cuda.get_allocator_backend() == "pluggable"
del x
assert mine.mine_gives() == 1 and rl.cuda.memory_allocated() == 0
try:
    take(1 << 29)
except rl.OutOfMemoryError:
    pass
else:
    raise SystemExit("the allocator gave nothing")
for wrong, kind in ((allocator, RuntimeError), (object(), TypeError)):
    try:
        rl.cuda.memory.change_current_allocator(wrong)
    except kind as error:
        assert "change_current_allocator" in str(error)
    else:
        raise SystemExit("too late")
""")


def test_without_caching(driver):
    run(driver, BYTES + """
kept = take(100)
with rl.cuda.memory.caching_allocator_disabled():
    x = [take(100) for _ in range(4)]
    assert count(ALLOCATIONS) == 5
    later = x.pop()
    del x
    assert count(FREES) == 3
y = take(100)
assert count(ALLOCATIONS) == 5                              # from the cache
del later
assert count(FREES) == 4
rl.cuda.caching_allocator_enable(False)
take(100)
assert count(FREES) == 5
""")


def test_pools_that_serve_a_full_device_or_are_not_cut(driver):
    run(driver, BYTES + """
pool = rl.cuda.MemPool(use_on_oom=True)
with rl.cuda.use_mem_pool(pool):
    idle = take(600 * MB)
at = idle.data_ptr()
del idle
outside = take(300 * MB)
last = take(500 * MB)
assert last.data_ptr() == at                                # the device has 1 GiB
del outside, last
whole = rl.cuda.MemPool(no_split=True)
with rl.cuda.use_mem_pool(whole):
    x = [take(1000) for _ in range(3)]
assert [len(s["blocks"]) for s in whole.snapshot()] == [1, 1, 1]
assert not any(b["frames"] for s in whole.snapshot(include_traces=False) for b in s["blocks"])
strict = rl.cuda.MemPool()
with rl.cuda.use_mem_pool(strict):
    take(300 * MB)
try:
    take(800 * MB)
except rl.OutOfMemoryError:
    pass
else:
    raise SystemExit("a pool keeps to itself")
""")


def test_pinned_memory_is_kept_as_told(driver, monkeypatch):
    told = "pinned_use_cuda_host_register:True,pinned_num_register_threads:4,pinned_max_round_threshold_mb:1"
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", told + ",pinned_max_cached_size_mb:4")
    run(driver, """
x = rl.arange(3 << 20, dtype=rl.uint8).pin_memory()
held = lambda: rl.cuda.host_memory_stats()["reserved_bytes.current"]
assert x.is_pinned() and held() == 3 << 20                  # not rounded to 4 MiB
assert (x.cuda().cpu() == rl.arange(3 << 20, dtype=rl.uint8)).all()
del x
assert held() == 3 << 20                                    # kept
y = rl.empty(5 << 20, dtype=rl.uint8, pin_memory=True)
del y
assert held() == 3 << 20                                    # not kept
assert rl.empty(600, dtype=rl.uint8, pin_memory=True).is_pinned() and held() == (3 << 20) + 1024
""")


def test_settings_change_later(driver):
    run(driver, BYTES + """
take(MB)
rl.cuda.memory._set_allocator_settings("expandable_segments:True")
x = take(30 * MB)
assert [s["is_expandable"] for s in rl.cuda.memory_snapshot()] == [False, True]
try:
    rl.cuda.memory._set_allocator_settings("expandable:True")
except ValueError as error:
    assert "expandable_segments" in str(error)
else:
    raise SystemExit("there is no such option")
rl.cuda.memory._set_allocator_settings("throw_on_cudamalloc_oom:True,expandable_segments:False")
try:
    take(2000 * MB)
except rl.OutOfMemoryError:
    pass
""")


def test_what_is_counted(driver):
    run(driver, BYTES + """
small, large = take(1000), take(30 * MB)
stats = rl.cuda.memory_stats()
assert stats["allocation.small_pool.current"] == stats["allocation.large_pool.current"] == 1
assert stats["allocated_bytes.small_pool.current"] == 1024 and stats["requested_bytes.small_pool.current"] == 1000
assert stats["reserved_bytes.all.current"] == 32 * MB and stats["segment.all.current"] == 2
assert stats["inactive_split.all.current"] == 1 and stats["inactive_split_bytes.all.current"] == 2 * MB - 1024
assert stats["num_device_alloc"] == 2 and stats["max_split_size"] == -1 and stats["oversize_segments.current"] == 0
large.record_stream(rl.cuda.Stream())
del large
stats = rl.cuda.memory_stats()
assert stats["allocated_bytes.large_pool.current"] == 0 and stats["active_bytes.large_pool.current"] == 30 * MB
rl.cuda.empty_cache()
stats = rl.cuda.memory_stats()
assert stats["active_bytes.large_pool.current"] == 0 and stats["active_bytes.large_pool.peak"] == 30 * MB
assert stats["num_device_free"] == 1 and stats["allocated_bytes.all.freed"] == 30 * MB
rl.cuda.reset_peak_memory_stats()
assert rl.cuda.max_memory_allocated() == 1024 == rl.cuda.memory_stats()["active_bytes.all.peak"]
rl.cuda.reset_accumulated_memory_stats()
assert rl.cuda.memory_stats()["allocated_bytes.all.freed"] == 0
block = next(b for s in rl.cuda.memory_snapshot() for b in s["blocks"] if b["size"] == 1024)
assert block["requested_size"] == 1000
assert rl.cuda.memory_stats_as_nested_dict()["active"]["all"]["current"] == 1
""")
