"""Models from local repositories, weights by address."""

import hashlib
import sys
from urllib.error import URLError

import pytest

import rushlight
from rushlight import hub

HUBCONF = '''
import helper_of_the_repository
dependencies = ["json"]

def tiny(width=2):
    """A layer of one width."""
    return helper_of_the_repository.make(width)

def _hidden():
    pass

number = 5
'''


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "hubconf.py").write_text(HUBCONF)
    (folder / "helper_of_the_repository.py").write_text(
        "import rushlight\n\ndef make(width):\n    return rushlight.nn.Linear(width, width)\n"
    )
    yield str(folder)
    sys.modules.pop("helper_of_the_repository", None)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "_hub_dir", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_entry_points_of_a_local_repository(repository):
    before = list(sys.path)
    assert hub.list(repository) == ["tiny"]
    assert hub.help(repository, "tiny") == "A layer of one width."
    layer = hub.load(repository, "tiny", 3, source="local")
    assert isinstance(layer, rushlight.nn.Linear) and layer.weight.shape == (3, 3) and sys.path == before
    assert hub.load(repository, "tiny", source="local", width=4).weight.shape == (4, 4)
    for model, error in (("missing", RuntimeError), ("number", RuntimeError), (3, ValueError)):
        with pytest.raises(error):
            hub.load(repository, model, source="local")


def test_missing_dependencies_and_repositories(repository, tmp_path, cache):
    with open(f"{repository}/hubconf.py", "a") as file:
        file.write("\ndependencies = ['no_such_package_anywhere']\n")
    with pytest.raises(RuntimeError, match="no_such_package_anywhere"):
        hub.load(repository, "tiny", source="local")
    with pytest.raises(FileNotFoundError, match="hubconf"):
        hub.load(str(tmp_path), "tiny", source="local")
    with pytest.raises(ValueError, match="source"):
        hub.load(repository, "tiny", source="elsewhere")
    with pytest.raises(RuntimeError, match="source='local'"):
        hub.load("owner/name", "tiny")


def test_repositories_in_the_cache_ask_for_trust(repository, cache, monkeypatch):
    cache.mkdir()
    (cache / "owner_name_main").symlink_to(repository)
    monkeypatch.setattr("builtins.input", lambda text: "n")
    with pytest.raises(RuntimeError, match="Untrusted"):
        hub.load("owner/name", "tiny")
    assert hub.load("owner/name", "tiny", trust_repo=True).weight.shape == (2, 2)
    assert hub.load("owner/name:main", "tiny", 5).weight.shape == (5, 5)    # trusted from now on


def test_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(hub, "_hub_dir", None)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    assert hub.get_dir() == str(tmp_path / "hub")
    hub.set_dir(tmp_path / "other")
    assert hub.get_dir() == str(tmp_path / "other")


def test_weights_by_address(tmp_path, cache, capsys):
    source = tmp_path / "plain.pth"
    rushlight.save({"w": rushlight.ones(2)}, source)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    source = source.rename(tmp_path / f"weights-{digest[:8]}.pth")
    read = hub.load_state_dict_from_url(source.as_uri(), check_hash=True)
    assert read["w"].tolist() == [1, 1] and "Downloading" in capsys.readouterr().err
    source.unlink()
    assert hub.load_state_dict_from_url(source.as_uri(), weights_only=True)["w"].tolist() == [1, 1]    # from the cache
    assert "Downloading" not in capsys.readouterr().err


def test_a_wrong_hash_or_no_network_leaves_nothing(tmp_path, cache):
    source = tmp_path / "weights-deadbeef.pth"
    rushlight.save(1, source)
    with pytest.raises(RuntimeError, match="invalid hash"):
        hub.load_state_dict_from_url(source.as_uri(), check_hash=True, progress=False)
    with pytest.raises(URLError, match="file://"):
        hub.download_url_to_file("http://127.0.0.1:9/x.pth", str(tmp_path / "x.pth"))
    assert not list((cache / "checkpoints").iterdir()) and not (tmp_path / "x.pth").exists()


def test_options_are_set_for_a_block(tmp_path):
    from rushlight.utils.serialization import config

    rushlight.save(rushlight.ones(2), tmp_path / "x.pt")
    with config.patch("load.mmap", True):
        assert config.load.mmap and rushlight.load(tmp_path / "x.pt").tolist() == [1, 1]
    with config.patch({"save.compute_crc32": False}):
        assert not rushlight.serialization.get_crc32_options()
    assert not config.load.mmap and config.save.compute_crc32
    with pytest.raises(AttributeError, match=r"save\.nothing"), config.patch("save.nothing", 1):
        pass
