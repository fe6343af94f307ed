"""Programs of other libraries compute the same compiled, and break only where docs/compiled_programs.md says."""

from __future__ import annotations

import pytest

from tests.ecosystem.compare import HERE, ROOT, missing
from tests.ecosystem.compiled import findings, named_in

pytestmark = [pytest.mark.ecosystem, pytest.mark.slow]

# Of every library what compiles quickly; `python -m tests.ecosystem.compiled` runs the rest too.
CHOSEN = {
    "diffusers_models": ["dit", "schedulers"],
    "einops_layers": ["functions", "layers"],
    "kornia_vision": ["colour", "enhance", "equalized"],
    "lightning_training": ["fit", "compiled_steps", "compiled_steps_that_log"],
    "timm_models": ["deit", "augmentation", "optimizer_and_schedule"],
    "torch_geometric_graphs": ["gcn", "sage", "gat", "pooled_network"],
    "torchmetrics_metrics": ["class_metrics", "images"],
    "transformers_models": ["bert_classifier", "qwen2", "vit", "whisper"],
}


@pytest.mark.share(2)
@pytest.mark.parametrize("stem", CHOSEN)
def test_compiled_programs_give_the_same_results(stem: str) -> None:
    path = HERE / "cases" / f"{stem}.py"
    if absent := missing(path):
        pytest.skip(f"not installed: {', '.join(absent)}")
    found = findings(path, CHOSEN[stem])
    wrong = [f"{finding.case}: {finding.detail[-1500:]}" for finding in found if finding.detail]
    assert not wrong, "\n\n".join(wrong)
    assert {finding.case for finding in found} == set(CHOSEN[stem])
    known = named_in(ROOT / "docs" / "compiled_programs.md")
    broken = [f"{stem}.{p.name}: {p.breaks}" for f in found for p in f.programs if p.breaks]
    new = [line for line in broken if line.partition(":")[0] not in known]
    assert not new, "graphs that were whole break:\n" + "\n".join(new)
