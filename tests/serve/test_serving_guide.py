"""The guide's blocks run one after the other; the examples run; the container and KServe's service have their form."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")
pytest.importorskip("grpc")

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "serve"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "line"), [("classifier", "[0.9, 0.9] outside"), ("archive", "{'mean': 3.0}")])
def test_the_example_runs(name, line, tmp_path):
    done = subprocess.run([sys.executable, EXAMPLES / f"{name}.py"], cwd=tmp_path, capture_output=True, text=True,
                          timeout=300, env=dict(os.environ, PYTHONPATH=str(ROOT)))
    assert done.returncode == 0, done.stderr
    assert line in done.stdout


@pytest.mark.slow
def test_replicas_on_ray_answer(tmp_path):
    pytest.importorskip("ray.serve")
    done = subprocess.run([sys.executable, EXAMPLES / "on_ray.py"], cwd=tmp_path, capture_output=True, text=True,
                          timeout=300, env=dict(os.environ, PYTHONPATH=str(ROOT)))
    assert done.returncode == 0 and "batches" in done.stdout, done.stderr


def test_ray_refuses_a_queue_below_the_batch():
    pytest.importorskip("ray.serve")
    from rushlight.serve import ray

    with pytest.raises(ValueError, match="max_ongoing_requests"):
        ray.application("net.pt2", batch_size=8, max_ongoing_requests=4)


def fits(value, form, at="."):
    """Whether a value has the form: names with their kinds, `?` after those that may be missing."""
    if isinstance(form, dict):
        assert isinstance(value, dict), at
        known = {name.rstrip("?") for name in form}
        assert set(value) <= known, f"{at}: {set(value) - known}"
        for name, kind in form.items():
            if name.rstrip("?") in value:
                fits(value[name.rstrip("?")], kind, f"{at}{name}.")
            else:
                assert name.endswith("?"), f"{at}{name} is missing"
    elif isinstance(form, list):
        assert isinstance(value, list) and value, at
        for one in value:
            fits(one, form[0], at)
    elif isinstance(form, type):
        assert type(value) is form, at
    else:
        assert value == form, f"{at}: {value}"


PROBE = {"httpGet": {"path": str, "port": int}}
AMOUNTS = {"cpu": str, "memory": str}
SERVICE = {
    "apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": str},
    "spec": {"predictor": {"minReplicas?": int, "maxReplicas?": int, "containers": [{
        "name": "kserve-container", "image": str, "args?": [str], "ports": [{"containerPort": int, "protocol": "TCP"}],
        "readinessProbe?": PROBE, "livenessProbe?": PROBE, "resources?": {"requests": AMOUNTS, "limits": AMOUNTS}}]}}}


def test_the_service_has_kserves_form():
    yaml = pytest.importorskip("yaml")
    fits(yaml.safe_load((EXAMPLES / "inference_service.yaml").read_text()), SERVICE)


def test_the_container_starts_the_command_that_there_is():
    import json

    from rushlight.__main__ import parse

    found = {}
    for line in (EXAMPLES / "Dockerfile").read_text().splitlines():
        if line and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            assert word in {"FROM", "RUN", "USER", "COPY", "EXPOSE", "ENV", "HEALTHCHECK", "ENTRYPOINT", "CMD"}, line
            found[word] = rest
    words = json.loads(found["ENTRYPOINT"]) + json.loads(found["CMD"])
    assert words[:3] == ["python", "-m", "rushlight"]
    chosen = parse(words[3:])
    assert (chosen.host, chosen.batch_size, chosen.port) == ("0.0.0.0", 8, 8080)
