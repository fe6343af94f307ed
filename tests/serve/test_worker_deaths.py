"""Workers that die, hang or are asked too much; and requests that wait together."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")
pytest.importorskip("grpc")

import rushlight as rl
from tests.serve import running_server as running, served_models as models

SLOW = """
import time, os
def handle(data, context):
    if data is None:
        return None
    for row in data:
        body = row["body"]
        if body == b"sleep":
            time.sleep(1.0)
        if body == b"hang":
            time.sleep(60)
        if body == b"die":
            os._exit(3)
        if body == b"bad":
            raise ValueError("this one is bad")
    return [f"{os.getpid()} {len(data)}" for row in data]
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deaths")
    _, module = models.picked(folder)
    models.mixed(folder)
    models.archive(folder, "slow", SLOW, more={"model-config.yaml": "responseTimeout: 3\nbatchSize: 1\n"})
    models.archive(folder, "many", SLOW, more={"model-config.yaml": "batchSize: 4\nmaxBatchDelay: 200\n"})
    options = ("--model-store", folder, "--models", "all", "--batch-size", 8, "--max-batch-delay", 60)
    with running.server(*options) as server:
        server.module = module
        yield server


def raw(served, name, content):
    return served.ask(f"/predictions/{name}", content, headers={"Content-Type": "application/octet-stream"})


def until(condition, seconds=40.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


def good(served, name):
    status, answer = raw(served, name, b"x")
    return answer if status == 200 else None


def test_a_worker_killed_in_the_middle_of_a_request_is_replaced(served):
    pid = served.workers("slow")[0]["pid"]
    with ThreadPoolExecutor(3) as pool:
        begun = pool.submit(raw, served, "slow", b"sleep")
        time.sleep(0.3)
        waiting = [pool.submit(raw, served, "slow", b"x") for _ in range(2)]
        time.sleep(0.2)
        os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()
        status, answer = begun.result(5)
        assert status == 503 and "SIGKILL" in answer["message"], answer
        assert time.monotonic() - killed < 5.0
        answers = [one.result(40) for one in waiting]     # of these nothing had begun
        assert [status for status, _ in answers] == [200, 200]
    assert served.workers("slow")[0]["pid"] != pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_worker_that_is_idle_when_killed_costs_no_request(served):
    pid = served.workers("picked")[0]["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: [w for w in served.workers("picked") if w["pid"] != pid])
    status, _ = served.ask("/predictions/picked", [[1, 2]])
    assert status == 200
    assert 'ts_worker_deaths_total{model_name="picked"' in served.counted()


def test_a_worker_that_ends_itself_is_told_of(served):
    status, answer = raw(served, "slow", b"die")
    assert status == 503 and "status 3" in answer["message"]
    until(lambda: good(served, "slow"))


def test_a_worker_that_hangs_is_ended(served):
    begun = time.monotonic()
    status, answer = raw(served, "slow", b"hang")
    assert status == 503 and "in time" in answer["message"]
    assert 2.5 < time.monotonic() - begun < 20.0
    until(lambda: good(served, "slow"))


def test_requests_that_wait_run_together(served):
    words = [[[n % 10, 3]] for n in range(16)]
    before = served.ask("/v2/models/picked/stats")[1]["model_stats"][0]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda w: served.ask("/predictions/picked", w), words))
    with rl.no_grad():
        wanted = [served.module(rl.tensor(w)).tolist() for w in words]
    for (status, answer), value in zip(answers, wanted):
        assert status == 200
        assert rl.allclose(rl.tensor(answer), rl.tensor(value))
    after = served.ask("/v2/models/picked/stats")[1]["model_stats"][0]
    ran = after["execution_count"] - before["execution_count"]
    assert after["inference_count"] - before["inference_count"] == 16 and ran < 16
    assert any(entry["batch_size"] > 1 for entry in after["batch_stats"])


def test_of_requests_that_run_together_the_bad_one_fails_alone(served):
    words = [[[1, 2]], [[3, 4]], [[99, 0]], [[5, 6]]]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda w: served.ask("/predictions/picked", w), words))
    assert [status for status, _ in answers] == [200, 200, 400, 200], answers
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda c: raw(served, "many", c), [b"x", b"bad", b"y", b"z"]))
    assert [status for status, _ in answers] == [200, 503, 200, 200], answers
    assert "this one is bad" in answers[1][1]["message"]


def test_a_handler_sees_rows_that_came_together(served):
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: raw(served, "many", b"x")[1], range(4)))
    assert max(int(one.split()[1]) for one in answers) > 1


def test_one_alone_waits_no_longer_than_the_delay(served):
    served.ask("/predictions/picked", [[1, 2]])
    begun = time.monotonic()
    assert served.ask("/predictions/picked", [[1, 2]])[0] == 200
    assert time.monotonic() - begun < 0.06 + 3.0


def test_a_client_that_hangs_up_takes_its_request_along(served):
    import socket

    with socket.create_connection(("127.0.0.1", served.http)) as gone:
        gone.sendall(b"POST /predictions/slow HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nsleep")
        time.sleep(0.2)
    assert until(lambda: good(served, "slow"))


def test_scaled_to_none_is_unavailable_at_once(served):
    assert served.manage("PUT", "/models/mixed?min_worker=0&synchronous=true")[0] == 200
    assert served.workers("mixed") == []
    begun = time.monotonic()
    status, answer = served.ask("/predictions/mixed", {"left": [[1, 2, 3, 4]], "right": [[1, 2, 3, 4]]})
    assert (status, answer["type"]) == (503, "ServiceUnavailableException") and time.monotonic() - begun < 5
    assert served.manage("PUT", "/models/mixed?min_worker=2&synchronous=true")[0] == 200
    assert len({w["pid"] for w in served.workers("mixed")}) == 2
    assert all(w["status"] == "READY" for w in served.workers("mixed"))


def test_weights_are_mapped_from_one_file_by_all_workers(served):
    assert served.manage("PUT", "/models/mixed?min_worker=2&synchronous=true")[0] == 200
    seen = set()
    for worker in served.workers("mixed"):
        with open(f"/proc/{worker['pid']}/maps") as file:
            seen |= {line.split()[4] for line in file if "memfd:rushlight" in line}
    assert len(seen) == 1      # the same inode


def test_the_end_finishes_what_runs_and_leaves_no_process(tmp_path):
    models.archive(tmp_path, "slow", SLOW)
    found = []
    with running.server("--model-store", tmp_path, "--models", "slow", "--workers", 2) as server:
        pids = [w["pid"] for w in server.workers("slow")]
        asking = threading.Thread(target=lambda: found.append(raw(server, "slow", b"sleep")))
        asking.start()
        time.sleep(0.4)
    asking.join(10)
    assert found and found[0][0] == 200, found
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


CHILDREN = """
import subprocess, threading, time
child = subprocess.Popen(["sleep", "97"])
threading.Thread(target=time.sleep, args=(90,)).start()
def handle(data, context):
    return data and [str(child.pid) for _ in data]
"""


def runs(pid):
    """Whether a process runs; one that has ended and waits to be asked for it does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="asks /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_handler_started_ends_with_the_server(tmp_path, number):
    models.archive(tmp_path, "children", CHILDREN)
    with running.server("--model-store", tmp_path, "--models", "children", "--no-grpc") as served:
        child, worker = int(raw(served, "children", b"")[1]), served.workers("children")[0]["pid"]
        assert runs(child) and runs(worker)
        if number == signal.SIGKILL:      # nobody is left to tidy up
            served.process.kill()
            served.process.wait()
            served.process.returncode = 0
        else:
            served.process.terminate()
            assert served.process.wait(20) == 0
        until(lambda: not runs(child) and not runs(worker), 10)
