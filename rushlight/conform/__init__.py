"""Whether a device is right: the suite behind `python -m rushlight check --device NAME`.

Enters: the name of a device that is registered, or of a package that registers it. Leaves: a report of what passed and
what failed, with a script for each failure that shows it alone. Refuses: a device that is not there. One file per area
(`AREAS`, in their order), each a list of cases; whatever a device computes is compared with what the host computes.
"""

from .case import Case, Chip, NoSuchDevice, Skip, case
from .expect import same
from .report import Report
from .runner import AREAS, cases_of, check

__all__ = ["AREAS", "Case", "Chip", "NoSuchDevice", "Report", "Skip", "case", "cases_of", "check", "same"]
