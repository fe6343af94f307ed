"""The nccl back end, on a driver and a library that need no cards: what is called, on which stream, and what comes
back; with two to four ranks."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from .processes import Raised, all_of, results_of, run

CC = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(CC is None or sys.platform != "linux", reason="needs a C compiler")
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def cards(tmp_path_factory):
    """The environment of a process that has four GPUs."""
    folder = tmp_path_factory.mktemp("cards")
    for name, source in (("driver", HERE.parent / "cuda/simulated_driver.c"), ("nccl", HERE / "simulated_nccl.c")):
        subprocess.run([CC, "-shared", "-fPIC", "-O1", "-o", str(folder / f"{name}.so"), str(source)], check=True)
    return {
        "RUSHLIGHT_CUDA_DRIVER": str(folder / "driver.so"), "RUSHLIGHT_NCCL_LIBRARY": str(folder / "nccl.so"),
        "SIMULATED_UNITS": "4", "SIMULATED_NCCL_FOLDER": str(folder),
    }


def world(rank: int, ranks: int, backend: str = "nccl", timeout: float = 20):
    import rushlight as rl
    from rushlight import distributed as dist

    rl.cuda.set_device(rank)
    path = os.environ["MEETING"]
    dist.init_process_group(
        backend, init_method=f"file://{path}", rank=rank, world_size=ranks, timeout=timedelta(seconds=timeout)
    )
    return rl, dist


def on_card(rl, values, dtype=None):
    return rl.tensor(values, dtype=dtype).cuda()


def all_reductions(rank: int, ranks: int) -> None:
    import rushlight as rl
    from rushlight import distributed as dist

    op = dist.ReduceOp
    mine = [[1.0, 2.0], [3.0, -1.0], [5.0, 4.0], [0.5, 2.0]]
    columns = list(zip(*mine[:ranks]))
    product = [__import__("math").prod(c) for c in columns]
    for kind, expected in (
        (op.SUM, [sum(c) for c in columns]), (op.MAX, [max(c) for c in columns]), (op.MIN, [min(c) for c in columns]),
        (op.PRODUCT, product), (op.AVG, [sum(c) / ranks for c in columns]),
        (dist.ReduceOp(op.PREMUL_SUM, 0.5), [sum(c) / 2 for c in columns]),
    ):
        x = on_card(rl, mine[rank])
        dist.all_reduce(x, kind)
        assert x.cpu().tolist() == pytest.approx(expected), kind
    flags = on_card(rl, [rank == 1, True])
    dist.all_reduce(flags)
    assert flags.cpu().tolist() == [True, True]
    number = on_card(rl, [1 + rank * 1j])
    dist.all_reduce(number)
    assert number.cpu().tolist() == [ranks + sum(range(ranks)) * 1j]
    x = on_card(rl, [float(rank)])
    dist.reduce(x, 1)
    assert rank != 1 or x.cpu().item() == sum(range(ranks))
    with pytest.raises(RuntimeError, match="ReduceOp.BAND"):
        dist.all_reduce(on_card(rl, [1]), op.BAND)
    with pytest.raises(RuntimeError, match="cannot reduce"):
        dist.all_reduce(on_card(rl, [1], rl.int16))


def copies(rank: int, ranks: int) -> None:
    import rushlight as rl
    from rushlight import distributed as dist

    x = on_card(rl, [rank, rank], rl.int16)         # a type that the library has no name for
    dist.broadcast(x, 1)
    assert x.cpu().tolist() == [1, 1]
    rows = [on_card(rl, [0.0, 0.0]) for _ in range(ranks)]
    dist.all_gather(rows, on_card(rl, [float(rank), 1.0]))
    assert [r.cpu().tolist() for r in rows] == [[float(r), 1.0] for r in range(ranks)]
    whole = on_card(rl, [0] * 2 * ranks)
    dist.all_gather_into_tensor(whole, on_card(rl, [rank, -rank]))
    assert whole.cpu().tolist() == [v for r in range(ranks) for v in (r, -r)]
    rows = [on_card(rl, [0.0]) for _ in range(ranks)] if rank == 1 else None
    dist.gather(on_card(rl, [rank + 0.5]), rows, dst=1)
    assert rows is None or [r.cpu().item() for r in rows] == [r + 0.5 for r in range(ranks)]
    mine = on_card(rl, [0.0])
    dist.scatter(mine, [on_card(rl, [r * 2.0]) for r in range(ranks)] if rank == 0 else None, src=0)
    assert mine.cpu().item() == rank * 2.0


def parts(rank: int, ranks: int) -> None:
    import rushlight as rl
    from rushlight import distributed as dist

    own = on_card(rl, [0.0])
    dist.reduce_scatter(own, [on_card(rl, [float(r + rank)]) for r in range(ranks)])
    assert own.cpu().item() == ranks * rank + sum(range(ranks))
    own = on_card(rl, [0.0])
    dist.reduce_scatter_tensor(own, on_card(rl, [float(r * 10) for r in range(ranks)]))
    assert own.cpu().item() == rank * 10 * ranks
    got = [on_card(rl, [0.0]) for _ in range(ranks)]
    dist.all_to_all(got, [on_card(rl, [rank * 10.0 + r]) for r in range(ranks)])
    assert [g.cpu().item() for g in got] == [r * 10.0 + rank for r in range(ranks)]
    sizes = [r + 1 for r in range(ranks)]          # rank r gets r + 1 rows from each
    got = on_card(rl, [0.0] * (rank + 1) * ranks)
    dist.all_to_all_single(got, on_card(rl, [float(rank)] * sum(sizes)), [rank + 1] * ranks, sizes)
    assert got.cpu().tolist() == [float(r) for r in range(ranks) for _ in range(rank + 1)]


def messages(rank: int, ranks: int) -> None:
    import rushlight as rl
    from rushlight import distributed as dist

    x = on_card(rl, [7.0 + rank])
    if rank == 0:                                   # the other ranks need not be there
        dist.send(x, 1)
    elif rank == 1:
        assert dist.recv(x, 0) == 0 and x.cpu().item() == 7.0
    ahead, behind = (rank + 1) % ranks, (rank - 1) % ranks
    out, into = on_card(rl, [float(rank)]), on_card(rl, [0.0])
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, out, ahead), dist.P2POp(dist.irecv, into, behind)])
    for work in works:
        work.wait()
    assert into.cpu().item() == behind
    with pytest.raises(RuntimeError, match="give src"):
        dist.recv(x)
    with pytest.raises(ValueError, match="tag=3"):
        dist.send(x, ahead, tag=3)


def objects_and_groups(rank: int, ranks: int) -> None:
    import rushlight as rl
    from rushlight import distributed as dist

    found = [None] * ranks
    dist.all_gather_object(found, {"rank": rank})
    assert found == [{"rank": r} for r in range(ranks)]
    said = ["hello", 3] if rank == 0 else [None, None]
    dist.broadcast_object_list(said, 0)
    assert said == ["hello", 3]
    mine = [None]
    dist.scatter_object_list(mine, list("abcd")[:ranks] if rank == 0 else None, 0)
    assert mine == [list("abcd")[rank]]
    if rank < 2:
        sent = [("tuple", rank)] if rank == 0 else [None]
        dist.send_object_list(sent, 1) if rank == 0 else dist.recv_object_list(sent, 0)
        assert sent == [("tuple", 0)]
    pair = dist.new_group([0, 1])
    if rank < 2:
        x = on_card(rl, [1.0 + rank])
        dist.all_reduce(x, group=pair)
        assert x.cpu().item() == 3.0
    dist.barrier()
    assert dist.get_backend() == "nccl" and dist.is_nccl_available()


def everything(rank: int, ranks: int) -> str:
    world(rank, ranks)
    return all_of(rank, ranks, [all_reductions, copies, parts, messages, objects_and_groups])


@pytest.mark.parametrize("ranks", [2, 4])
def test_collectives_between_cards(cards, tmp_path, ranks):
    outcome = run(ranks, everything, make_world=False, environment={**cards, "MEETING": str(tmp_path / "meeting")})
    assert results_of(outcome) == ["done"] * ranks


def streams(rank: int, ranks: int) -> str:
    import ctypes

    rl, dist = world(rank, ranks, "cpu:gloo,cuda:nccl")
    driver = ctypes.CDLL(os.environ["RUSHLIGHT_CUDA_DRIVER"])
    library = ctypes.CDLL(os.environ["RUSHLIGHT_NCCL_LIBRARY"])
    driver.simulated_order.restype = library.simulated_nccl_log.restype = ctypes.c_char_p
    dist.all_reduce(on_card(rl, [1.0]))
    x = on_card(rl, [1.0 + rank])
    driver.simulated_order_clear()
    work = dist.all_reduce(x, async_op=True)
    assert work.is_completed() and work.get_future().then(lambda f: f.value()[0] is x).wait()
    driver.simulated_order_clear()
    current = rl.cuda.current_stream().cuda_stream or 0
    work = dist.all_reduce(x, async_op=True)
    begun = driver.simulated_order().decode().splitlines()
    work.wait()
    waited = driver.simulated_order().decode().splitlines()[len(begun):]
    calls = library.simulated_nccl_log().decode().splitlines()
    side = int(calls[-1].split("stream=")[1].split()[0])
    assert side != current and calls[-1].startswith("all_reduce")
    before, behind = begun[0].split(), begun[1].split()     # its stream starts behind what the current one has queued
    assert before[:2] == ["mark", str(current)] and behind == ["wait", str(side), before[2]]
    after = begun[-1].split()                               # and the current one goes on behind its mark
    assert after[:2] == ["mark", str(side)] and ["wait", str(current), after[2]] in [w.split() for w in waited]
    host = rl.tensor([1.0 + rank])
    dist.all_reduce(host)                                   # host memory goes another way
    assert host.item() == 3.0 and "cuda:nccl" in dist.get_backend_config()
    with pytest.raises(ValueError, match="one GPU"):
        dist.all_gather([on_card(rl, [0.0]), rl.zeros(1)], on_card(rl, [0.0]))
    return "done"


def test_a_collective_has_its_own_stream_and_the_host_does_not_wait(cards, tmp_path):
    outcome = run(2, streams, make_world=False, environment={**cards, "MEETING": str(tmp_path / "meeting")})
    assert results_of(outcome) == ["done"] * 2


def alone(rank: int, ranks: int) -> None:
    rl, dist = world(rank, ranks, timeout=2)
    if rank == 0:
        dist.all_reduce(on_card(rl, [1.0]))
    else:
        __import__("time").sleep(4)


def test_a_rank_that_does_not_come_is_named(cards, tmp_path):
    first, _ = run(2, alone, make_world=False, environment={**cards, "MEETING": str(tmp_path / "meeting")})
    assert isinstance(first, Raised) and first.kind == "DistBackendError"
    assert "rank 1 did not come" in first.text and "2 s" in first.text


def late(rank: int, ranks: int) -> str:
    rl, dist = world(rank, ranks, timeout=2)
    dist.all_reduce(on_card(rl, [1.0]))
    if rank == 1:
        __import__("time").sleep(4)
        return "slept"
    try:
        dist.all_reduce(on_card(rl, [1.0]))
    except dist.DistBackendError as error:
        with pytest.raises(dist.DistBackendError):      # the group is of no more use
            dist.all_reduce(on_card(rl, [1.0]))
        return str(error)
    return "no error"


def test_a_call_that_hangs_is_aborted_and_names_the_rank(cards, tmp_path):
    options = {**cards, "MEETING": str(tmp_path / "meeting"), "TORCH_NCCL_ASYNC_ERROR_HANDLING": "2"}
    first, second = results_of(run(2, late, make_world=False, environment=options))
    assert second == "slept" and "ranks [1] have not made it" in first and "allreduce (call 2)" in first


PROGRAM = """
import sys, time
from datetime import timedelta
import rushlight as rl
from rushlight import distributed as dist
rank = int(sys.argv[1])
rl.cuda.set_device(rank)
dist.init_process_group("nccl", init_method="file://" + sys.argv[2], rank=rank, world_size=2,
                        timeout=timedelta(seconds=2))
dist.all_reduce(rl.ones(1).cuda())
if rank == 1:
    time.sleep(4)
dist.all_reduce(rl.ones(1).cuda())
"""


def test_a_process_whose_call_hangs_ends(cards, tmp_path):
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(rank), str(tmp_path / "meeting")], env={**os.environ, **cards},
            stderr=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=60)[1] for process in ranks]
    assert ranks[0].returncode == -signal.SIGABRT and "ranks [1] have not made it" in said[0]
    assert ranks[1].returncode == -signal.SIGABRT and "on rank 0" in said[1]        # told by the other


def broken(rank: int, ranks: int) -> str:
    import ctypes
    import time

    rl, dist = world(rank, ranks)
    dist.all_reduce(on_card(rl, [1.0]))
    ctypes.CDLL(os.environ["RUSHLIGHT_NCCL_LIBRARY"]).simulated_nccl_break()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            dist.all_reduce(on_card(rl, [1.0]))
        except dist.DistBackendError as error:
            return str(error)
        time.sleep(0.05)
    return "no error"


def test_a_communicator_that_fails_is_noticed(cards, tmp_path):
    options = {**cards, "MEETING": str(tmp_path / "meeting"), "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"}
    (said,) = results_of(run(1, broken, make_world=False, environment=options))
    assert "NCCL failed: system error" in said


def refused(rank: int, ranks: int) -> None:
    import rushlight as rl
    from rushlight import distributed as dist

    dist.init_process_group("nccl", init_method=f"file://{os.environ['MEETING']}", rank=rank, world_size=ranks)
    dist.all_reduce(on_card(rl, [1.0]))


def test_ranks_on_one_card_are_told_so(cards, tmp_path):
    options = {**cards, "MEETING": str(tmp_path / "meeting"), "SIMULATED_NCCL_REFUSES": "1"}
    for result in run(2, refused, make_world=False, environment=options):
        assert isinstance(result, Raised) and "Ranks [0, 1] share a GPU" in result.text, result


def test_without_a_card_or_the_library_it_says_so(cards):
    program = (
        "from rushlight import distributed as dist\n"
        "try:\n    dist.init_process_group('nccl', store=dist.HashStore(), rank=0, world_size=1)\n"
        "except RuntimeError as error:\n    print(error, dist.is_nccl_available())\n"
    )
    nowhere = {"RUSHLIGHT_CUDA_DRIVER": "/nowhere.so", "RUSHLIGHT_NCCL_LIBRARY": "/nowhere.so"}
    for changed, expected in (
        (nowhere, "needs an NVIDIA GPU"), ({**cards, "RUSHLIGHT_NCCL_LIBRARY": "/nowhere.so"}, "libnccl.so.2"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, **changed}, capture_output=True, text=True
        )
        assert expected in done.stdout and "False" in done.stdout, done.stdout + done.stderr
