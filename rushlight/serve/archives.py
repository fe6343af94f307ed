"""`.mar` archives, as `torch-model-archiver` makes them, before a worker runs what is in them.

Enters: a zip file with `MAR-INF/MANIFEST.json`. Leaves: a folder with its files, and which of them a worker is to load.
Refuses: archives without a manifest, members that would lie outside the folder or are links, handlers that do not
compile, and `requirements.txt` unless the operator allowed it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

from . import handled
from .refusals import LoadError
from .served import Source

MANIFEST = "MAR-INF/MANIFEST.json"
LARGEST = 1 << 36             # bytes of all members
LARGEST_MANIFEST = 1 << 20
BUILT_IN = ("image_classifier", "image_segmenter", "object_detector", "text_classifier", "base_handler")
VERSION = re.compile(r"[\w.\-]{1,100}", re.ASCII)
# What model-config.yaml may say of how a model is run, and our names.
CONFIGURED = {"batchSize": "batch_size", "maxBatchDelay": "max_batch_delay", "responseTimeout": "response_timeout",
              "minWorkers": "min_workers", "maxWorkers": "max_workers"}


def opened(path: Path, handler: str | None, may_install: bool) -> Source:
    """An archive, its files in a folder of its own."""
    folder = tempfile.mkdtemp(prefix="rushlight_mar_")
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = _manifest(archive, path.name)
            _extract(archive, Path(folder), path.name)
        return _source(path, Path(folder), manifest, handler, may_install)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise LoadError(f"{path.name} is damaged: {str(error) or type(error).__name__}") from None
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _manifest(archive: zipfile.ZipFile, name: str) -> dict[str, Any]:
    """What the archive says of itself."""
    if MANIFEST not in archive.namelist():
        raise LoadError(f"{name} has no {MANIFEST}: expected an archive of torch-model-archiver, or a .pt2 file")
    if archive.getinfo(MANIFEST).file_size > LARGEST_MANIFEST:
        raise LoadError(f"{name}: {MANIFEST} is larger than {LARGEST_MANIFEST} bytes")
    try:
        said = json.loads(archive.read(MANIFEST))
    except (ValueError, RecursionError) as error:
        raise LoadError(f"{name}: {MANIFEST} is no JSON ({str(error)[:80]})") from None
    model = said.get("model") if isinstance(said, dict) else None
    if not isinstance(model, dict) or not isinstance(model.get("handler"), str) or not model["handler"]:
        raise LoadError(f"{name}: {MANIFEST} names no handler: expected an object 'model' with 'handler'")
    for key in ("modelName", "modelVersion", "serializedFile", "modelFile", "requirementsFile", "configFile"):
        if not isinstance(model.get(key, ""), str):
            raise LoadError(f"{name}: {MANIFEST}: expected a string as {key}, got {str(model[key])[:60]}")
    if not VERSION.fullmatch(model.get("modelVersion", "1.0")):
        raise LoadError(f"{name}: {MANIFEST}: expected digits, letters and '.' as modelVersion, "
                        f"got {model['modelVersion'][:60]!r}")
    return said


def _extract(archive: zipfile.ZipFile, folder: Path, name: str) -> None:
    """Write the members, none of them elsewhere."""
    left = min(LARGEST, shutil.disk_usage(folder).free)
    for member in archive.infolist():
        parts = PurePosixPath(member.filename).parts
        if not parts or member.filename.startswith("/") or ".." in parts or "\\" in member.filename \
                or "\0" in member.orig_filename or ":" in parts[0]:
            raise LoadError(f"{name}: {member.filename[:80]!r} would lie outside the archive's folder")
        if stat.S_ISLNK(member.external_attr >> 16):
            raise LoadError(f"{name}: {member.filename[:80]!r} is a link, which archives may not hold")
        target = folder.joinpath(*parts)
        if member.is_dir():
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(member) as file, open(target, "wb") as copy:
            while piece := file.read(1 << 20):
                left -= len(piece)
                if left < 0:
                    raise LoadError(f"{name} holds more than there is room for")
                copy.write(piece)


def _source(path: Path, folder: Path, manifest: dict[str, Any], handler: str | None, may_install: bool) -> Source:
    model = manifest["model"]
    chosen = handler or model["handler"]
    module, _, entry = chosen.partition(":")
    module = module.removesuffix(".py")
    if not re.fullmatch(r"[\w./\-]+", module) or ".." in module or module.startswith("/") \
            or (entry and not entry.isidentifier()):
        raise LoadError(f"{path.name}: expected a file or a built-in handler, got {chosen[:80]!r}")
    if (folder / f"{module}.py").is_file():
        _check_compiles(folder / f"{module}.py", path.name)
    elif module not in BUILT_IN:
        raise LoadError(f"{path.name} holds no handler {chosen!r}, and built in are {', '.join(BUILT_IN)}")
    for key in ("serializedFile", "modelFile"):
        if model.get(key) and not (folder / os.path.basename(model[key])).is_file():
            raise LoadError(f"{path.name} holds no file {model[key]!r}, which its manifest names as {key}")
    if model.get("modelFile"):
        _check_compiles(folder / os.path.basename(model["modelFile"]), path.name)
    _require(folder, model, path.name, may_install)
    config = _configuration(folder, model, path.name)
    wanted = {"kind": "archive", "folder": str(folder), "manifest": manifest, "module": module, "entry": entry,
              "config": config}
    said = {ours: config[theirs] for theirs, ours in CONFIGURED.items() if theirs in config}
    if said.get("max_workers", said.get("min_workers", 1)) < said.get("min_workers", 1):
        raise LoadError(f"{path.name}: model-config.yaml: maxWorkers is below minWorkers")
    if "min_workers" in said:
        said.setdefault("max_workers", said["min_workers"])
    return Source(model.get("modelName") or path.stem, model.get("modelVersion", "1.0"), wanted, handled.together,
                  handled.apart, (), str(folder), said)


def _check_compiles(file: Path, name: str) -> None:
    """Read a file as Python, without running it."""
    try:
        compile(file.read_bytes(), file.name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        raise LoadError(f"{name}: {file.name} does not compile: {getattr(error, 'msg', error)}"
                        f"{f', line {line}' if line else ''}") from None


def _require(folder: Path, model: dict[str, Any], name: str, may_install: bool) -> None:
    """Packages that the archive asks for, into its folder."""
    file = folder / os.path.basename(model.get("requirementsFile") or "requirements.txt")
    if not file.is_file() or not file.read_text(errors="replace").strip():
        return
    if not may_install:
        raise LoadError(f"{name} asks for packages in {file.name}, which the server does not install. "
                        "Start it with --install-requirements, or install them and leave the file out.")
    told = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), "-r", str(file)],
                          capture_output=True, text=True)
    if told.returncode:
        last = (told.stderr.strip().splitlines() or ["pip failed"])[-1]
        raise LoadError(f"{name}: what {file.name} asks for cannot be installed: {last[:200]}")


def _configuration(folder: Path, model: dict[str, Any], name: str) -> dict[str, Any]:
    """What model-config.yaml says."""
    file = folder / os.path.basename(model.get("configFile") or "model-config.yaml")
    if not file.is_file():
        return {}
    try:
        import yaml
    except ImportError:
        raise LoadError(f"{name}: reading {file.name} needs PyYAML; pip install pyyaml") from None
    try:
        said = json.loads(json.dumps(yaml.safe_load(file.read_text()) or {}, default=str))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise LoadError(f"{name}: {file.name} is no YAML ({str(error).partition(chr(10))[0][:80]})") from None
    if not isinstance(said, dict):
        raise LoadError(f"{name}: {file.name}: expected names and values, got {type(said).__name__}")
    for key in CONFIGURED:
        low = 0 if key in ("maxBatchDelay", "minWorkers") else 1
        if key in said and (type(said[key]) is not int or not low <= said[key] < 1 << 20):
            raise LoadError(f"{name}: {file.name}: expected a number from {low} as {key}, got {str(said[key])[:40]}")
    return said
