"""What PyTorch's records import and a machine with a card may lack: importing this puts an empty module in its place.

`expecttest` serves the tests around the records, which nobody runs here.
"""

from __future__ import annotations

import importlib.util
import sys
import types
import unittest

if importlib.util.find_spec("expecttest") is None:
    module = types.ModuleType("expecttest")
    module.TestCase = unittest.TestCase
    sys.modules["expecttest"] = module
