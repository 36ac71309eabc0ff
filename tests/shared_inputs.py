"""Inputs of others, where they are at hand.

They lie outside this repository: in the folder named by PLACEMENT_SHARED, or in
``shared`` beside the checkout. Without them the tests that read them are skipped.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

_BESIDE = Path(__file__).resolve().parents[1].parent / "shared"
SHARED = Path(os.environ.get("PLACEMENT_SHARED") or _BESIDE)
ABSENT = "the shared inputs are not there"


def found(pattern: str) -> list[Any]:
    """Parameters: the files of that pattern, or one that is skipped."""
    paths = sorted(SHARED.glob(pattern))
    if not paths:
        return [pytest.param(None, marks=pytest.mark.skip(reason=ABSENT), id="none")]
    return [pytest.param(p, id=str(p.relative_to(SHARED))) for p in paths]
