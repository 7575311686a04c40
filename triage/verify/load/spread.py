"""What repeats tell of a figure: its mean, and how far that may be from the truth. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

DIFFERENCE = 0.05  # relative; what a comparison is to tell, and below which it claims nothing

# Student's t for 95 %, two-sided, for 1, 2, 3, ... degrees of freedom.
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def uncertainty(values: Sequence[float]) -> float:
    """Half of the 95 % confidence interval of the mean, relative to it; infinite where nothing is known."""
    if len(values) < 2 or not fmean(values):
        return math.inf
    student = _T95[min(len(values) - 1, len(_T95)) - 1]
    return student * stdev(values) / math.sqrt(len(values)) / abs(fmean(values))
