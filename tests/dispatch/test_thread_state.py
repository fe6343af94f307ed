"""What belongs to a thread, and what to the process: as in PyTorch."""

import threading

import pytest

import rushlight as rl


def elsewhere(ask):
    """What another thread answers."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(ask()))
    thread.start()
    thread.join()
    return answers[0]


def place():
    return rl.ones(2).device.type, rl.get_default_device().type, rl.tensor([1.0]).device.type, rl.arange(3).device.type


def test_a_device_block_is_of_its_thread():
    with rl.device("meta"):
        assert place() == ("meta",) * 4
        assert elsewhere(place) == ("cpu",) * 4
        assert place() == ("meta",) * 4
    assert place() == ("cpu",) * 4


def test_the_default_device_is_of_its_thread():
    rl.set_default_device("meta")
    try:
        assert place() == ("meta",) * 4 and elsewhere(place) == ("cpu",) * 4
    finally:
        rl.set_default_device("cpu")


def test_blocks_of_two_threads_do_not_mix():
    inside, leave, seen = threading.Event(), threading.Event(), []

    def other():
        with rl.device("meta"):
            inside.set()
            leave.wait(10)
            seen.append(place()[0])
        seen.append(place()[0])

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(10)
    with rl.device("cpu"):
        leave.set()
        thread.join()
        assert place()[0] == "cpu"
    assert place()[0] == "cpu" and seen == ["meta", "cpu"]


@pytest.mark.parametrize(("enter", "ask"), [
    (rl.no_grad, rl.is_grad_enabled), (rl.inference_mode, rl.is_inference_mode_enabled),
    (lambda: rl.autocast("cpu"), lambda: rl.is_autocast_enabled("cpu")),
    (lambda: rl.autocast("cpu", dtype=rl.float16), lambda: rl.get_autocast_dtype("cpu")),
])
def test_modes_of_a_thread(enter, ask):
    outside = ask()
    with enter():
        assert ask() != outside and elsewhere(ask) == outside
    assert ask() == outside


def test_settings_of_the_process():
    rl.set_default_dtype(rl.float64)
    try:
        assert elsewhere(lambda: rl.ones(1).dtype) is rl.float64
    finally:
        rl.set_default_dtype(rl.float32)
    rl.use_deterministic_algorithms(True)
    try:
        assert elsewhere(rl.are_deterministic_algorithms_enabled)
    finally:
        rl.use_deterministic_algorithms(False)
    with pytest.warns(UserWarning), rl.autograd.detect_anomaly():
        assert elsewhere(rl.is_anomaly_enabled)
    assert not rl.is_anomaly_enabled()
