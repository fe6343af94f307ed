"""`rushlight profile`: one command that says of a program whether compute, memory, overhead or data bounds it.

Enters: a program and a folder. Leaves: a report (report.py), and the program's own end. Flops and bytes come from the
plans of the calls (calls.py, counting.py), times from a recording (recorder.py), what this machine can do from a
measurement at the start (peaks.py). Refuses: folders that take no files.
"""

from .folder import usable
from .report import profile as profile_program

__all__ = ["profile_program", "usable"]
