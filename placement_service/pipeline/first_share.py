"""The share of the time that the first answer may take: half of it in CPU time, about."""

#: Where no other program uses the processor, and the most where others do. A plan that is cut short
#: is worse than first come, first served.
FIRST_SHARE, FIRST_SHARE_BUSY = 0.5, 0.65


def first_share(seconds: float, cpu_seconds: float) -> float:
    """The share after so many seconds, of which the processor was ours for `cpu_seconds`."""
    share = FIRST_SHARE_BUSY if cpu_seconds <= 0 else FIRST_SHARE * seconds / cpu_seconds
    return min(max(FIRST_SHARE, share), FIRST_SHARE_BUSY)
