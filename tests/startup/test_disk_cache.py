"""The folder kept between processes: its limit, what goes first, and settings that make no sense."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from rushlight.base import disk_cache

PAGE = 4096


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(disk_cache, "_written", 0)
    return tmp_path


def put(folder: Path, name: str, age: float, size: int = 10) -> Path:
    path = folder / name
    path.write_bytes(b"x" * size)
    path.chmod(0o600)   # whatever the umask
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_what_is_written_is_read(folder: Path) -> None:
    assert disk_cache.read("one") is None
    assert disk_cache.write("one", b"data") is None
    assert disk_cache.read("one") == b"data"


def test_the_longest_unused_go_first(folder: Path) -> None:
    for i in range(20):
        put(folder, f"k{i}", age=10_000 * (i + 1))
    assert disk_cache.trim(str(folder), 10 * PAGE) == 12
    assert sorted(p.name for p in folder.iterdir()) == sorted(f"k{i}" for i in range(8))
    assert disk_cache.trim(str(folder), 10 * PAGE) == 0


def test_reading_counts_as_use(folder: Path) -> None:
    for i in range(10):
        put(folder, f"k{i}", age=10_000 * (i + 1))
    assert disk_cache.read("k9") == b"x" * 10
    disk_cache.trim(str(folder), 5 * PAGE)
    assert (folder / "k9").exists() and not (folder / "k8").exists()


def test_writing_keeps_the_folder_within_its_limit(folder: Path, monkeypatch) -> None:
    monkeypatch.setenv("RUSHLIGHT_CACHE_SIZE", str(20 * PAGE))
    for i in range(100):
        assert disk_cache.write(f"k{i}", b"x" * 100) is None
    assert len(list(folder.glob("k*"))) <= 22 and (folder / "k99").exists()


def test_leftovers_of_dead_processes_go(folder: Path) -> None:
    old, fresh = put(folder, "new-a-1-1", age=100_000), put(folder, "new-b-2-2", age=1)
    disk_cache.trim(str(folder), PAGE * 100)
    assert not old.exists() and fresh.exists()


def test_a_folder_is_looked_at_rarely(folder: Path, monkeypatch) -> None:
    looks = []
    monkeypatch.setattr(disk_cache, "trim", lambda *args: looks.append(args))
    for i in range(50):
        disk_cache.write(f"k{i}", b"x")
    assert len(looks) == 1


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", 1 << 30),
        ("0", 0),
        ("500M", 500 << 20),
        ("2G", 2 << 30),
        ("1.5GiB", 3 << 29),
        ("64kb", 64 << 10),
        ("1000", 1000),
    ],
)
def test_limits_as_people_write_them(monkeypatch, text: str, size: int) -> None:
    monkeypatch.setenv("RUSHLIGHT_CACHE_SIZE", text)
    assert disk_cache.limit() == size


def test_a_limit_that_is_no_number_warns(monkeypatch) -> None:
    monkeypatch.setenv("RUSHLIGHT_CACHE_SIZE", "plenty")
    with pytest.warns(RuntimeWarning, match="RUSHLIGHT_CACHE_SIZE"):
        assert disk_cache.limit() == 1 << 30


def test_no_limit_removes_nothing(folder: Path, monkeypatch) -> None:
    monkeypatch.setenv("RUSHLIGHT_CACHE_SIZE", "0")
    monkeypatch.setattr(disk_cache, "trim", lambda *args: pytest.fail("nothing may be removed"))
    for i in range(5):
        disk_cache.write(f"k{i}", b"x")


@pytest.mark.parametrize("mode", [0o770, 0o720, 0o777, 0o702])
def test_a_folder_that_others_may_write_is_not_believed(folder: Path, mode: int) -> None:
    put(folder, "old", age=1)
    folder.chmod(mode)
    assert disk_cache.read("old") is None
    assert "chmod go-w" in disk_cache.write("new", b"data")
    assert [p.name for p in folder.iterdir()] == ["old"]
    folder.chmod(0o755)
    assert disk_cache.read("old") and disk_cache.write("new", b"data") is None


@pytest.mark.parametrize("mode", [0o660, 0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_not_believed(folder: Path, mode: int) -> None:
    put(folder, "one", age=1).chmod(mode)
    assert disk_cache.read("one") is None
    assert disk_cache.write("one", b"again") is None and disk_cache.read("one") == b"again"


def test_what_is_written_is_believed_under_any_umask(folder: Path) -> None:
    before = os.umask(0o002)
    try:
        assert disk_cache.write("one", b"data") is None
    finally:
        os.umask(before)
    assert disk_cache.read("one") == b"data"
