"""What is kept on disk is named by the sources it was made with: a file that changes, in whatever room, renames it."""

import os
import shutil
from pathlib import Path

import pytest

import rushlight
from rushlight.base import sources
from rushlight.codegen.stored import artifacts, cache, graphs

PACKAGE = Path(rushlight.__file__).parent


def rooms_of(package):
    """Every folder of the package that holds sources, at any depth."""
    return sorted({path.parent.relative_to(package) for path in package.rglob("*.py")})


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """The package in a place of its own, whose files can be changed."""
    place = tmp_path_factory.mktemp("sources")
    shutil.copytree(PACKAGE, place / "rushlight", ignore=shutil.ignore_patterns("__pycache__"))
    return place / "rushlight"


@pytest.fixture
def asked(copied, monkeypatch):
    """(generator's identity, its contents, package's identity, its contents) of the copy, asked anew at each call."""
    monkeypatch.setattr(sources, "PACKAGE", str(copied))

    def ask():
        sources.identity.cache_clear()
        sources.contents.cache_clear()
        generator = sources.GENERATOR
        return sources.identity(*generator), sources.contents(*generator), sources.identity(), sources.contents()

    yield ask
    sources.identity.cache_clear()
    sources.contents.cache_clear()


@pytest.mark.share(4)
@pytest.mark.parametrize("room", rooms_of(PACKAGE), ids=str)
def test_a_change_in_any_room_is_another_identity(room, copied, asked):
    path = sorted((copied / room).glob("*.py"))[-1]
    top = room.parts[0] if room.parts else ""
    before, text = asked(), path.read_bytes()
    path.write_bytes(text + b"# changed\n")
    differs = [old != new for old, new in zip(before, asked())]
    path.write_bytes(text)
    is_generator = top in sources.GENERATOR
    assert differs == [is_generator, is_generator, sources.takes_part(top), sources.takes_part(top)]


def test_another_coefficient_counts(copied, asked):
    path = copied / "loops" / "coefficients.txt"
    before, text = asked(), path.read_text()
    path.write_text(text.replace("0.6931471805601177", "0.6931471805601178"))
    differs = [old != new for old, new in zip(before, asked())]
    path.write_text(text)
    assert differs == [True] * 4


def test_a_new_table_of_numbers_counts(copied, asked):
    before = asked()
    (copied / "loops" / "numbers.txt").write_text("1.0\n")
    differs = [old != new for old, new in zip(before, asked())]
    (copied / "loops" / "numbers.txt").unlink()
    assert differs == [True] * 4


def test_contents_do_not_depend_on_where_and_when_files_were_written(copied, asked):
    before = asked()
    for path in copied.rglob("*.py"):
        os.utime(path, ns=(1, 1))
    after = asked()
    assert before[1] == after[1] and before[3] == after[3] and before[0] != after[0]


def test_the_caches_ask_for_these(copied, asked):
    """The caches' own names for them change with a file of a room within a room."""

    def ask():
        asked()
        return (cache.source_identity(), artifacts.generator_identity(), graphs.package_identity(),
                graphs.package_contents())

    before = ask()
    path = copied / "codegen" / "library" / "__init__.py"
    text = path.read_bytes()
    path.write_bytes(text + b"# changed\n")
    after = ask()
    path.write_bytes(text)
    assert all(old != new for old, new in zip(before, after))
