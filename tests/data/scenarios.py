"""Programs that load data with workers and end badly, each run by test_worker_failures in a process of its own.

`python scenarios.py NAME` prints what a user would see, last the pids of the workers it had.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import rushlight
from rushlight.utils.data import DataLoader, Dataset, IterableDataset


class Numbers(Dataset):
    """32 rows; `at` maps an index to what happens instead of returning it."""

    def __init__(self, **at):
        self.at = at

    def __len__(self):
        return 32

    def __getitem__(self, i):
        if f"i{i}" in self.at:
            self.at[f"i{i}"](i)
        return rushlight.full((1000,), float(i))


def exit_now(_):
    os._exit(3)


def kill_self(_):
    os.kill(os.getpid(), signal.SIGKILL)


def segfault(_):
    os.kill(os.getpid(), signal.SIGSEGV)


def sleep_long(_):
    time.sleep(60)


def raise_key(_):
    {}["no such key"]  # noqa: B018


class TwoArguments(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


def raise_odd(_):
    raise TwoArguments(1, 2)


def say(iterator):
    print("PIDS", *(w.pid for w in iterator._workers), flush=True)


def consume(dataset, **options):
    iterator = iter(DataLoader(dataset, batch_size=4, num_workers=2, **options))
    say(iterator)
    try:
        for batch in iterator:
            print("batch", batch[:, 0].tolist(), flush=True)
    except Exception as e:
        print(type(e).__name__, str(e).replace("\n", " | "), flush=True)


def stop_half_way():
    iterator = iter(DataLoader(Numbers(), batch_size=4, num_workers=2))
    say(iterator)
    kept = next(iterator)
    del iterator
    print("kept", kept[:, 0].tolist())
    print("threads", rushlight.get_num_threads())


def raise_in_loop():
    try:
        for batch in DataLoader(Numbers(), batch_size=4, num_workers=2):
            raise ValueError(f"at {batch[0, 0].item()}")
    except ValueError as e:
        print("ValueError", e)


def interrupted():
    # a suite in a shell's background is started with it ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)
    iterator = iter(DataLoader(Numbers(i9=sleep_long), batch_size=4, num_workers=2))
    say(iterator)
    print("READY", flush=True)
    for batch in iterator:
        print("batch", batch[0, 0].item(), flush=True)


def persistent_exit():
    loader = DataLoader(Numbers(), batch_size=4, num_workers=2, persistent_workers=True)
    iterator = iter(loader)
    say(iterator)
    print(next(iterator)[0, 0].item())


def init_fails(worker_id):
    if worker_id == 1:
        raise OSError("worker_init_fn of 1")


class Unpicklable(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return (lambda: i) if i == 2 else i


class Endless(IterableDataset):
    def __iter__(self):
        while True:
            yield 1


def many():
    for _ in range(20):
        for _batch in DataLoader(Numbers(), batch_size=16, num_workers=1):
            break
    print("descriptors", len(os.listdir("/proc/self/fd")))


CASES = {
    "exit": lambda: consume(Numbers(i9=exit_now)),
    "kill": lambda: consume(Numbers(i9=kill_self)),
    "segfault": lambda: consume(Numbers(i9=segfault)),
    "exit_unordered": lambda: consume(Numbers(i9=exit_now), in_order=False),
    "key_error": lambda: consume(Numbers(i9=raise_key)),
    "odd_error": lambda: consume(Numbers(i9=raise_odd)),
    "timeout": lambda: consume(Numbers(i9=sleep_long), timeout=1),
    "init_fails": lambda: consume(Numbers(), worker_init_fn=init_fails),
    "unpicklable": lambda: consume(Unpicklable(), collate_fn=list),
    "stop_half_way": stop_half_way,
    "raise_in_loop": raise_in_loop,
    "interrupted": interrupted,
    "persistent_exit": persistent_exit,
    "many": many,
    "endless": lambda: next(iter(DataLoader(Endless(), batch_size=2, num_workers=2))),
}

if __name__ == "__main__":
    CASES[sys.argv[1]]()
    print("DONE", flush=True)
