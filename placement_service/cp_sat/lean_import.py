"""CP-SAT without pandas, which is half of what a solver process takes to start.

OR-tools imports pandas for functions that take or give a whole column of variables. No model
here has any. All that is asked of pandas otherwise is whether something is an `Index` or a
`Series`, and nothing is: two empty classes say so as well, in 40 MB less.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Final

_PANDAS: Final = "pandas"


def import_cp_sat() -> None:
    """Imports `ortools.sat.python.cp_model`, with pandas only if this process has it anyway.

    Who imports pandas later gets the real one.
    """
    if _PANDAS in sys.modules:
        return
    stand_in = ModuleType(_PANDAS)
    for name in ("Index", "Series"):
        setattr(stand_in, name, type(name, (), {}))
    sys.modules[_PANDAS] = stand_in
    try:
        importlib.import_module("ortools.sat.python.cp_model")
    finally:
        del sys.modules[_PANDAS]
