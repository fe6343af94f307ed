"""The command `python -m rushlight serve`.

Enters: words of a command line. Leaves: a server that runs until it is told to end, and the status of the process: 0,
or 1 where it could not start. Refuses: options and models that cannot be, in one line.
"""

from __future__ import annotations

import argparse
import re
import ssl
import sys
from pathlib import Path
from typing import Any

MOST_EARLY = 4      # workers that start before it is known what they are for


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("--model-store", metavar="DIR", help="folder of .pt2 files, .mar archives and folders of language models")
    add("--models", nargs="+", default=[], metavar="NAME=FILE",
        help="what to load at the start, from the store or by path; 'all' is all of the store")
    add("--host", default="127.0.0.1", help="the address to listen at (%(default)s)")
    add("--port", type=_port, default=8080, help="KServe, TorchServe, OpenAI (%(default)s); 0 finds a free one")
    add("--management-port", type=_port, default=8081, help="TorchServe's management (%(default)s)")
    add("--metrics-port", type=_port, default=8082, help="Prometheus (%(default)s)")
    add("--grpc-port", type=_port, default=7070, help="KServe over gRPC (%(default)s)")
    add("--no-grpc", action="store_true", help="no gRPC, which then need not be installed")
    add("--keys", metavar="FILE", help='JSON: {"management": {"key": "…"}, "inference": {"key": "…"}}')
    add("--certificate", metavar="FILE", help="PEM: speak TLS at every port, with --private-key")
    add("--private-key", metavar="FILE", help="PEM: the key of the certificate")
    add("--device", type=_device, nargs="+", default=[("", ("cpu",))], metavar="[NAME=]DEVICE",
        help="cpu, cuda or cuda:N, for all models or the one of a name; several with commas, one for each worker (cpu)")
    add("--max-request-size", type=_count, default=64 << 20, metavar="N", help="bytes of a request (%(default)s)")
    add("--workers", type=_count, default=1, metavar="N", help="processes for each model (%(default)s)")
    add("--threads", type=_count, default=0, metavar="N", help="threads of each process (all cores by the workers)")
    add("--batch-size", type=_count, default=1, metavar="N", help="rows that may run together (%(default)s)")
    add("--max-batch-delay", type=_delay, default=100.0, metavar="MS",
        help="how long a request waits for others, where more than one may run together (%(default)s)")
    add("--response-timeout", type=_delay, default=120.0, metavar="S", help="after it a worker is ended (%(default)s)")
    add("--allowed-urls", nargs="+", default=[], metavar="REGEX", help="addresses that models may be registered from")
    add("--install-requirements", action="store_true", help="install the requirements.txt of archives")
    for option, of in (("--block-size", "tokens in a block of the cache"), ("--num-blocks", "blocks of the cache"),
                       ("--max-num-seqs", "sequences that run together"), ("--max-model-len", "tokens of a sequence")):
        add(option, type=_count, metavar="N", help=f"language models: {of}")


def _port(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else -1
    if not 0 <= number < 1 << 16:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, got {text!r}")
    return number


def _device(text: str) -> tuple[str, tuple[str, ...]]:
    """A model's name ("" for all), and its devices."""
    name, _, devices = text.rpartition("=")
    found = tuple(devices.split(","))
    if not all(re.fullmatch(r"cpu|cuda(:\d{1,3})?", one, re.ASCII) for one in found) or text.startswith("="):
        raise argparse.ArgumentTypeError(f"expected cpu, cuda or cuda:N, or NAME=cuda:N, got {text!r}")
    return name, found


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1, got {text!r}")
    return int(text)


def _delay(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"expected a time from 0, got {text!r}")
    return value


def serve(chosen: argparse.Namespace) -> int:
    """Run the server as the command line says."""
    from .refusals import LoadError, Refusal
    from .spares import Spares

    spares = Spares()
    spares.fill(min(MOST_EARLY, chosen.workers * sum(word.endswith((".pt2", ".mar")) for word in chosen.models)))
    try:
        wanted = _wanted(chosen)
        import asyncio

        from .server import serve as run

        return asyncio.run(run(wanted, spares))
    except (LoadError, Refusal) as refused:
        print(f"rushlight serve: {refused}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as missing:
        print(f"rushlight serve: needs {missing.name}; pip install 'rushlight[serve]'", file=sys.stderr)
        return 1
    finally:
        spares.close()


def _wanted(chosen: argparse.Namespace) -> Any:
    from .devices import check_device
    from .refusals import LoadError
    from .served import Settings
    from .server import Wanted

    store = Path(chosen.model_store) if chosen.model_store is not None else None
    if store is not None and not store.is_dir():
        raise LoadError(f"--model-store: there is no folder {str(store)!r}")
    devices = dict(chosen.device)
    if len(devices) != len(chosen.device):
        raise LoadError("--device: expected each model once, and one device for all others")
    for device in {one for several in devices.values() for one in several}:
        check_device(device)
    for pattern in chosen.allowed_urls:
        try:
            re.compile(pattern)
        except re.error as error:
            raise LoadError(f"--allowed-urls: {pattern!r} is no regular expression: {error}") from None
    settings = Settings(chosen.batch_size, chosen.max_batch_delay, chosen.response_timeout, chosen.workers,
                        chosen.workers)
    models = tuple(_models(chosen.models, store))
    unknown = sorted(set(devices) - {"", *(name for name, _ in models)})
    if unknown and store is None:
        raise LoadError(f"--device: expected the name of a model that is served, got {unknown[0]!r}")
    language = {key: getattr(chosen, key) for key in ("block_size", "num_blocks", "max_num_seqs", "max_model_len")}
    return Wanted(
        store=store, models=models, host=chosen.host, port=chosen.port,
        management_port=chosen.management_port, metrics_port=chosen.metrics_port,
        grpc_port=None if chosen.no_grpc else chosen.grpc_port, keys=Path(chosen.keys) if chosen.keys else None,
        largest=chosen.max_request_size, settings=settings, allowed_urls=tuple(chosen.allowed_urls),
        may_install=chosen.install_requirements, threads=chosen.threads,
        language={**language, "workers": chosen.workers}, devices=devices,
        certificate=_certificate(chosen.certificate, chosen.private_key))


def _certificate(certificate: str | None, key: str | None) -> tuple[ssl.SSLContext, bytes, bytes] | None:
    """What TLS needs: for HTTP a context, for gRPC the key and the certificate."""
    from .refusals import LoadError

    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise LoadError("--certificate and --private-key: expected both or none")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")      # one with a password is refused, not asked
        return context, Path(key).read_bytes(), Path(certificate).read_bytes()
    except (OSError, ssl.SSLError, ValueError) as error:
        why = getattr(error, "strerror", None) or getattr(error, "reason", None) or type(error).__name__
        raise LoadError(f"--certificate, --private-key: expected PEM files that belong together: {why}") from None


def _models(words: list[str], store: Path | None) -> list[tuple[str, Path]]:
    """Names and files."""
    from .refusals import LoadError
    from .repository import SUFFIXES, check_name, is_language_folder

    found: list[tuple[str, Path]] = []
    for word in words:
        if word == "all" and store is not None:
            found += [(p.stem if p.suffix in SUFFIXES else p.name, p) for p in sorted(store.iterdir())
                      if p.suffix in SUFFIXES or is_language_folder(p)]
            continue
        name, equals, file = word.partition("=")
        file = file if equals else word
        places = [folder / (file + end) for folder in (store or Path(), Path()) for end in ("", *SUFFIXES)]
        path = next((p for p in places if p.is_file() or is_language_folder(p)), None)
        if path is None:
            where = f" in {store} or" if store is not None else ""
            raise LoadError(f"--models: there is no {file!r}{where} here")
        found.append((check_name(name if equals else path.stem if path.suffix in SUFFIXES else path.name), path))
    names = [name for name, _ in found]
    doubled = next((n for n in names if names.count(n) > 1), None)
    if doubled is not None:
        raise LoadError(f"--models: {doubled!r} is named twice")
    return found
