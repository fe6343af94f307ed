"""`cuda._memory_viz`: what it says of a snapshot is what PyTorch says of it, and its pages need no network."""

from __future__ import annotations

import copy
import json
import pickle
import re
import subprocess
import sys
import xml.etree.ElementTree

import pytest

from rushlight.cuda import _memory_viz as ours

MIB = 1 << 20


def frame(filename, line, name):
    return {"filename": filename, "line": line, "name": name}


# Innermost first, as allocators note them; the interpreter's own frames say nothing.
MODEL = [frame("/home/me/model.py", 10, "forward"), frame("/home/me/train.py", 5, "main"),
         frame("ceval.c", 1, "PyEval_Eval")]
OPTIM = [frame("optim.py", 33, "step")]


def block(size, state="active_allocated", asked=None, frames=MODEL):
    return {"size": size, "requested_size": size if asked is None else asked, "state": state, "frames": frames}


def segment(address, blocks, stream=0, device=0):
    return {
        "device": device, "address": address, "total_size": sum(b["size"] for b in blocks), "stream": stream,
        "allocated_size": sum(b["size"] for b in blocks if b["state"] == "active_allocated"), "active_size": 0,
        "requested_size": 0, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
        "blocks": blocks,
    }


def event(action, address, size, frames=MODEL, **more):
    return {"action": action, "addr": address, "size": size, "stream": 0, "frames": frames, "time_us": 1000, **more}


SNAPSHOT = {
    "segments": [
        segment(0x7F0000000000, [block(30 * MIB, asked=29 * MIB), block(20 * MIB, "inactive", 0, []),
                                 block(5 * MIB, frames=OPTIM), block(10 * MIB),
                                 block(35 * MIB, "active_pending_free", 0)]),
        segment(0x7F1000000000, [block(512, asked=100), block(2 * MIB - 512, "inactive", 0, [])]),
        segment(0x7F2000000000, [block(40 * MIB, frames=[])], stream=5),
        segment(0x7F3000000000, [{"size": 20 * MIB, "state": "inactive"}], device=1),
    ],
    "device_traces": [[
        event("segment_alloc", 0x7F0000000000, 100 * MIB), event("alloc", 0x7F0000000000, 30 * MIB),
        event("alloc", 0x7F0001E00000, 20 * MIB, OPTIM), event("free_requested", 0x7F0001E00000, 20 * MIB, OPTIM),
        event("free_completed", 0x7F0001E00000, 20 * MIB, OPTIM), event("alloc", 0x7F2000000000, 40 * MIB, []),
        event("alloc", 77, 40, []), event("segment_free", 0x7F0000000000, 100 * MIB),
        event("free_requested", 99, 2000, OPTIM),
        {"action": "oom", "device_free": 3 * MIB, "size": 900 * MIB, "stream": 0, "frames": OPTIM},
        event("alloc", 0x7F0000A00000, 3 * MIB, OPTIM),
    ], []],
    "allocator_settings": {}, "external_annotations": [],
}
# As PyTorch wrote them until 2.0: blocks with a history, of which some entries have frames.
OLD = {"segments": [segment(4096, [
    {"size": 10 * MIB, "state": "active_allocated",
     "history": [{"addr": 1, "real_size": 9 * MIB, "frames": MODEL}, {"addr": 2, "real_size": MIB - 100}]},
    {"size": 20 * MIB, "state": "inactive"}])], "device_traces": []}

SEGMENTS = """\
Summary of segments >= 20.0MiB in size
[ ] 20.0MiB allocated, 20.0MiB (0.0% internal) free
[aa] 40.0MiB allocated, 0.0B free stream_5
[aa5c ] 100.0MiB allocated, 56.0MiB (1.8% internal) free
segments: 4
total_reserved: 162.0MiB
total_allocated: 84.0MiB
total_free: 78.0MiB (1.3% internal)
"""
TRACE = """\
Device 0 ----------------
11 entries
a = cudaMalloc(139637976727552, 100.0MiB)
b = a[0:30.0MiB]
c = a[31457280:20.0MiB]
del c # 20.0MiB
# free completed for c 20.0MiB
d = seg_2[0:40.0MiB]
e = MEM[77:40.0B]
cudaFree(a) # 100.0MiB
del 99 # 2.0KiB
raise OutOfMemoryError # 900.0MiB requested, 3.0MiB free in CUDA
f = a[10485760:3.0MiB]
"""
MEMORY = """\
stream_0;active_allocated;train.py:5:main;model.py:10:forward 30408704
stream_0;active_allocated;<gaps> 1048576
stream_0;inactive;<non-python> 0
stream_0;inactive;<gaps> 20971520
stream_0;active_allocated;optim.py:33:step 5242880
stream_0;active_allocated;train.py:5:main;model.py:10:forward 10485760
stream_0;active_pending_free;train.py:5:main;model.py:10:forward 0
stream_0;active_pending_free;<gaps> 36700160
stream_0;active_allocated;train.py:5:main;model.py:10:forward 100
stream_0;active_allocated;<gaps> 412
stream_0;inactive;<non-python> 0
stream_0;inactive;<gaps> 2096640
stream_5;active_allocated;<non-python> 41943040
stream_0;inactive;<non-python> 20971520
"""


def same(lines):
    return lines


def test_texts():
    assert ours.segsum(SNAPSHOT).startswith(SEGMENTS) and "Legend" in ours.segsum(SNAPSHOT)
    assert ours.trace(SNAPSHOT).startswith(TRACE)
    assert ours.memory(SNAPSHOT, format_flamegraph=same) == MEMORY
    assert ours.segments(OLD, format_flamegraph=same) == (
        "stream_0;seg_4096;active_allocated;train.py:5:main;model.py:10:forward 9437184\n"
        "stream_0;seg_4096;active_allocated;<no-context> 1048476\nstream_0;seg_4096;active_allocated;<gaps> 100\n"
        "stream_0;seg_4096;inactive;<non-python> 20971520\n")


def test_compare(capsys):
    after = {"segments": SNAPSHOT["segments"][1:] + OLD["segments"]}
    lines = ours.compare(SNAPSHOT, after, format_flamegraph=same)
    assert capsys.readouterr().out == "only_before = [139637976727552]\nonly_after = [4096]\n"
    assert lines.startswith("only_before;stream_0;seg_139637976727552;active_allocated;train.py:5:main;")
    assert "only_after;stream_0;seg_4096;active_allocated;<no-context> 1048476\n" in lines
    assert ours.compare(SNAPSHOT["segments"], after["segments"], format_flamegraph=same) == lines


def test_blocks_that_do_not_fill_their_segment_are_refused():
    broken = copy.deepcopy(SNAPSHOT)
    broken["segments"][0]["total_size"] += 1
    with pytest.raises(AssertionError):
        ours.segsum(broken)


def test_pairs_are_filtered():
    left = ours.filter_alloc_free_pairs(copy.deepcopy(SNAPSHOT))["device_traces"][0]
    assert [e["action"] for e in left] == ["segment_alloc", "alloc", "alloc", "alloc", "segment_free", "free_requested",
                                           "oom", "alloc"]
    page = ours.trace_plot(copy.deepcopy(SNAPSHOT), filter_freed=True)
    assert len(held_in(page)["devices"][0]["trace"]) == 8


def test_pytorch_says_the_same(capsys):
    theirs = pytest.importorskip("torch.cuda._memory_viz")
    for snapshot in (SNAPSHOT, OLD):
        for name in ("memory", "segments"):
            assert getattr(ours, name)(snapshot, format_flamegraph=same) == getattr(theirs, name)(
                snapshot, format_flamegraph=same)
        assert ours.trace(snapshot) == theirs.trace(snapshot)
        assert ours.segsum(snapshot).split("\nLegend")[0] == theirs.segsum(snapshot).split("\nLegend")[0]
    told = []
    for module in (ours, theirs):
        lines = module.compare(SNAPSHOT["segments"], OLD["segments"], format_flamegraph=same)
        told.append((capsys.readouterr().out, lines))
    assert told[0] == told[1]
    left = [module.filter_alloc_free_pairs(copy.deepcopy(SNAPSHOT)) for module in (ours, theirs)]
    assert left[0] == left[1]
    for size in (0, 1023, 1024, 5 * MIB, -3 * MIB, 1 << 45, 1 << 90):
        assert repr(ours.Bytes(size) + 1) == repr(theirs.Bytes(size) + 1)


def held_in(page):
    """What a page knows of the snapshot."""
    return json.loads(re.search(r'<script type="application/json" id="snapshot">(.*?)</script>', page, re.S).group(1))


def test_pages_hold_everything_and_ask_nobody():
    odd = copy.deepcopy(SNAPSHOT)
    odd["segments"][0]["blocks"][0]["frames"] = [frame("</script><script>alert(1)", 1, "f")]
    for page, view in ((ours.trace_plot(odd), "Active Memory Timeline"),
                       (ours.trace_plot(odd, plot_segments=True), "Active Cached Memory Timeline"),
                       (ours.segment_plot(odd), "Allocator State History")):
        assert not re.search(r"https?:|src=|href=|import[ (]|fetch\(|XMLHttp", page)
        assert page.count("<script") == page.count("</script>") == 2      # a frame's name ends no script
        held = held_in(page)
        assert held["view"] == view and [d["device"] for d in held["devices"]] == [0, 1]
        device = held["devices"][0]
        assert [e[0] for e in device["trace"]] == [e["action"] for e in odd["device_traces"][0]]
        assert device["trace"][1][1] == str(0x7F0000000000)      # all digits
        where = [b[0] for b in device["segments"][0]["blocks"]]
        assert where == [str(0x7F0000000000 + n * MIB) for n in (0, 30, 50, 55, 65)]
        stack = held["stacks"][device["segments"][0]["blocks"][3][4]]
        assert [held["frames"][n] for n in stack][:2] == ["/home/me/model.py:10:forward", "/home/me/train.py:5:main"]
    with pytest.warns(FutureWarning):
        ours.segment_plot(SNAPSHOT, device=0)


def test_flame_graphs_are_pictures():
    picture = xml.etree.ElementTree.fromstring(ours.memory(SNAPSHOT))
    space = "{http://www.w3.org/2000/svg}"
    frames = {g.get("data-n"): g for g in picture.iter(f"{space}g")}
    assert {"stream_0", "stream_5", "train.py:5:main", "model.py:10:forward", "<gaps>"} <= set(frames)
    total = 162 * MIB
    assert float(frames["stream_5"].get("data-w")) == pytest.approx(1200 * 40 * MIB / total, abs=0.01)
    assert frames["stream_5"].find(f"{space}title").text == "stream_5 (41,943,040 bytes, 24.69%)"
    top = [float(frames[name].find(f"{space}rect").get("y")) for name in ("all", "stream_0", "active_allocated")]
    assert top == sorted(top, reverse=True)
    assert "0 bytes" in ours.memory({"segments": []})


def test_the_command_line(tmp_path, capsys):
    path, page, picture = tmp_path / "a.pickle", tmp_path / "p.html", tmp_path / "p.svg"
    for protocol in range(2, 6):
        path.write_bytes(pickle.dumps(SNAPSHOT, protocol))
        ours.main(["stats", str(path)])
        assert capsys.readouterr().out.startswith(SEGMENTS)
    ours.main(["trace", str(path)])
    assert capsys.readouterr().out.startswith(TRACE)
    for action in (["trace_plot", "-s"], ["trace_plot", "-f"], ["segment_plot"]):
        ours.main([*action, str(path), "-o", str(page)])
        assert held_in(page.read_text())["devices"]
    for action in ("memory", "segments"):
        ours.main([action, str(path), "-o", str(picture)])
        assert picture.read_text().startswith("<svg")
    ours.main(["compare", str(path), str(path), "-o", str(picture)])
    assert capsys.readouterr().out == "only_before = []\nonly_after = []\n"
    path.write_bytes(pickle.dumps(SNAPSHOT["segments"]))
    ours.main(["stats", str(path)])
    assert capsys.readouterr().out.startswith(SEGMENTS)
    done = subprocess.run([sys.executable, "-m", "rushlight.cuda._memory_viz", "stats", "-"], capture_output=True,
                          input=pickle.dumps(SNAPSHOT))
    assert done.stdout.decode().startswith(SEGMENTS), done.stderr


class Evil:
    def __reduce__(self):
        return (print, ("ran",))


def test_files_run_nothing(tmp_path, capsys):
    path = tmp_path / "a.pickle"
    path.write_bytes(pickle.dumps({"segments": [Evil()]}))
    with pytest.raises(pickle.UnpicklingError):
        ours.read(str(path))
    for content in (3, {"a": 1}, "text"):
        path.write_bytes(pickle.dumps(content))
        with pytest.raises(ValueError, match="no snapshot"):
            ours.read(str(path))
    path.write_bytes(pickle.dumps(SNAPSHOT)[:200])
    with pytest.raises(EOFError):
        ours.read(str(path))
    assert "ran" not in capsys.readouterr().out


def test_a_script_of_the_users_own_draws(tmp_path):
    script = tmp_path / "flame.sh"
    script.write_text("#!/bin/sh\necho \"$@\"; cat\n")
    script.chmod(0o755)
    assert ours.format_flamegraph("a;b 3\n", str(script)) == "--countname bytes\na;b 3\n"


def test_profiles_become_pages():
    import rushlight as rl
    from rushlight.profiler import profile

    net = rl.nn.Linear(64, 64)

    def step():
        net(rl.randn(512, 64)).square().sum().backward()

    step()
    with profile(record_shapes=True, profile_memory=True, with_stack=True) as found:
        step()
        held = rl.randn(1000)
    page = held_in(ours.profile_plot(found))
    device, = page["devices"]
    taken = [e for e in device["trace"] if e[0] == "alloc"]
    assert {"input", "activation"} <= {e[6] for e in taken}
    mine, = [e for e in taken if e[1] == str(held.data_ptr())]
    assert mine[2] >= 4000 and mine[5] > 10**15
    assert any("test_profiles_become_pages" in page["frames"][n] for n in page["stacks"][mine[4]])
    assert ours.segsum(ours.snapshot_of(found)).count("segments: 1") == 1
    with profile() as without, pytest.raises(ValueError, match="profile_memory=True"):
        ours.profile_plot(without)
