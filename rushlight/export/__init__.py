"""`torch.export`: whole-graph capture is not written yet; its names exist and refuse when used."""

from __future__ import annotations

from ..base.refusals import names_of

globals().update(names_of("torch.export"))
