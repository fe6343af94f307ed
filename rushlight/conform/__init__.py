"""Whether a device is right: the suite behind `python -m rushlight check --device NAME`.

Enters: the name of a device that is registered, or of a package that registers it. Leaves: a report of what passed and
what failed, with a script for each failure that shows it alone. Refuses: a device that is not there. One file per area
(`AREAS`, in their order), each a list of cases; whatever a device computes is compared with what the host computes.
"""

from .against import LAYOUTS, against_host, gradients_against_host
from .case import Case, Chip, NoSuchDevice, Skip, case
from .expect import same
from .report import Report
from .runner import AREAS, cases_of, check
from .samples import edges, extremes, values, whole

__all__ = [
    "AREAS", "LAYOUTS", "Case", "Chip", "NoSuchDevice", "Report", "Skip", "against_host", "case", "cases_of", "check",
    "edges", "extremes", "gradients_against_host", "same", "values", "whole",
]
