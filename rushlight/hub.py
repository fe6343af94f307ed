"""PyTorch's `hub`: models from repositories with a `hubconf.py`, and weights by their address.

Enters: a folder, or the name of a GitHub repository that lies in the cache folder; the address of a file. Leaves: what
an entry point returns; loaded weights. Files come over `file://`, or over the network where there is one, are written
whole or not at all, and are checked against the hash in their name on request. Refuses to fetch repositories:
clone them and use source="local".
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.error import URLError
from urllib.parse import urlparse
from urllib.request import Request, urlopen

from .base import environment
from .serialization import load as _load_file
from .serialization.sources import replaced

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
MODULE_HUBCONF = "hubconf.py"
VAR_DEPENDENCY = "dependencies"
ENV_TORCH_HOME, ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR = "TORCH_HOME", "XDG_CACHE_HOME", "~/.cache"
READ_DATA_CHUNK = 128 * 1024
_TRUSTED_OWNERS = ("facebookresearch", "facebookincubator", "pytorch", "fairinternal")
_hub_dir: str | None = None

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]


# --- the cache folder -------------------------------------------------------------------------------------------------


def _get_torch_home() -> str:
    return os.path.expanduser(
        environment.get(ENV_TORCH_HOME) or os.path.join(environment.get(ENV_XDG_CACHE_HOME), "torch")
    )


def get_dir() -> str:
    """The folder for repositories and weights: what `set_dir` said, or `$TORCH_HOME/hub`,
    by default ~/.cache/torch/hub."""
    return _hub_dir if _hub_dir is not None else os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike) -> None:
    """Keep repositories and weights in this folder."""
    global _hub_dir
    _hub_dir = os.path.expanduser(d)


# --- repositories -----------------------------------------------------------------------------------------------------


@contextmanager
def _on_path(folder: str) -> Iterator[None]:
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _folder_of(repo: str, source: str, trust_repo: Any, force_reload: bool) -> str:
    """Where a repository lies."""
    source = source.lower()
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "local":
        return os.path.realpath(os.path.expanduser(repo))
    matched = re.fullmatch(r"([\w.-]+)/([\w.-]+?)(?::([\w./-]+))?", repo)
    if matched is None:
        raise ValueError(f"hub: expected 'owner/name' or 'owner/name:ref', got {repo!r}")
    owner, name, ref = matched.groups()
    refs = (ref,) if ref else ("main", "master")
    folders = [os.path.join(get_dir(), f"{owner}_{name}_{r.replace('/', '_')}") for r in refs]
    found = next((f for f in folders if os.path.isdir(f)), None)
    if found is None or force_reload:
        raise RuntimeError(
            f"hub: repositories are not fetched, and {repo} is"
            f" {'to be fetched again' if found else f'not in {get_dir()}'}. Clone it and use source='local' with the"
            " path of the clone."
        )
    _check_trust(owner, name, trust_repo)
    return found


def _check_trust(owner: str, name: str, trust_repo: Any) -> None:
    """A repository's code runs: ask, unless it is trusted."""
    path = os.path.join(get_dir(), "trusted_list")
    known: set[str] = set()
    if os.path.exists(path):
        with open(path) as file:
            known = {line.strip() for line in file}
    key = f"{owner}_{name}"
    is_trusted = key in known or owner in _TRUSTED_OWNERS
    if trust_repo is None:
        if not is_trusted:
            warnings.warn(
                f"You are about to run code from an untrusted repository, {owner}/{name}. Pass trust_repo=True to say"
                " you trust it.",
                stacklevel=4,
            )
        return
    if trust_repo is False or (trust_repo == "check" and not is_trusted):
        answer = input(
            f"The repository {owner}_{name} is not on the list of trusted repositories. Run its code? (y/N) "
        )
        if answer.lower() not in ("y", "yes"):
            raise RuntimeError("Untrusted repository.")
        trust_repo = True
    if trust_repo is True and key not in known:
        os.makedirs(get_dir(), exist_ok=True)
        with open(path, "a") as file:
            file.write(key + "\n")


def _hubconf(folder: str) -> Any:
    """The module `hubconf.py` of a repository, run now."""
    path = os.path.join(folder, MODULE_HUBCONF)
    spec = importlib.util.spec_from_file_location(MODULE_HUBCONF, path)
    if spec is None or spec.loader is None or not os.path.exists(path):
        raise FileNotFoundError(f"hub: there is no {MODULE_HUBCONF} in {folder}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _entry(module: Any, model: str) -> Callable:
    if not isinstance(model, str):
        raise ValueError("hub: expected the name of a function as model")
    missing = [
        name
        for name in getattr(module, VAR_DEPENDENCY, ())
        if name not in sys.modules and importlib.util.find_spec(name) is None
    ]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    found = getattr(module, model, None)
    if found is None or not callable(found):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return found


def list(  # noqa: A001 - PyTorch's name
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
    verbose: bool = True,
) -> Any:
    """The entry points of a repository: its public functions."""
    folder = _folder_of(
        github, "local" if os.path.isdir(os.path.expanduser(github)) else "github", trust_repo, force_reload
    )
    with _on_path(folder):
        module = _hubconf(folder)
    return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def help(  # noqa: A001
    github: str, model: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = "check"
) -> str | None:
    """What an entry point says of itself."""
    folder = _folder_of(
        github, "local" if os.path.isdir(os.path.expanduser(github)) else "github", trust_repo, force_reload
    )
    with _on_path(folder):
        return _entry(_hubconf(folder), model).__doc__


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """What entry point `model` of a repository returns for these arguments."""
    folder = _folder_of(repo_or_dir, source, trust_repo, force_reload)
    return _load_local(folder, model, *args, **kwargs)


def _load_local(hubconf_dir: str, model: str, *args: Any, **kwargs: Any) -> Any:
    with _on_path(hubconf_dir):
        return _entry(_hubconf(hubconf_dir), model)(*args, **kwargs)


# --- weights ----------------------------------------------------------------------------------------------------------


class _Bar:
    """How far a download is, on stderr."""

    def __init__(self, total: int | None = None, disable: bool = False, **kwargs: Any) -> None:
        self.total, self.done, self.is_shown = total, 0, not disable

    def update(self, size: int) -> None:
        self.done += size
        if self.is_shown:
            share = f"{self.done / self.total:4.0%}" if self.total else f"{self.done / 1e6:.1f} MB"
            sys.stderr.write(f"\r{share}")
            sys.stderr.flush()

    def close(self) -> None:
        if self.is_shown:
            sys.stderr.write("\n")

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Fetch a file; `dst` is written whole or not at all. The SHA-256 must begin with `hash_prefix`, if given."""
    dst = os.path.expanduser(dst)
    digest = hashlib.sha256()
    try:
        answer = urlopen(Request(url, headers={"User-Agent": "rushlight.hub"}))
    except URLError as error:
        raise URLError(
            f"{error.reason} (while fetching {url}). Without a network, put the file at {dst} yourself, or use a"
            " file:// address"
        ) from None
    with answer, replaced(dst) as fd:
        length = answer.headers.get("Content-Length")
        bar = _Bar(int(length) if length and length.isdigit() else None, not progress)
        while piece := answer.read(READ_DATA_CHUNK):
            at = 0
            while at < len(piece):
                at += os.write(fd, piece[at:])
            digest.update(piece)
            bar.update(len(piece))
        bar.close()
        if hash_prefix is not None and not digest.hexdigest().startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")')


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """Load weights from the cache folder, fetching them first if they are not there."""
    model_dir = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(model_dir, exist_ok=True)
    name = file_name if file_name is not None else os.path.basename(urlparse(url).path)
    path = os.path.join(model_dir, name)
    if not os.path.exists(path):
        sys.stderr.write(f'Downloading: "{url}" to {path}\n')
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found.group(1) if found else None, progress)
    return _load_file(path, map_location=map_location, weights_only=weights_only)


load_url = load_state_dict_from_url


def __getattr__(name: str) -> Any:
    if name == "tqdm":    # for libraries that take theirs from here
        try:
            return importlib.import_module("tqdm").tqdm
        except ImportError:
            return _Bar
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
