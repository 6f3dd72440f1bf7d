"""Trying again while Slurm does not answer: the only place that knows tenacity."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_before_delay, wait_random_exponential

from slurm_failover.errors import SlurmUnavailable

_T = TypeVar("_T")


def persist(request: Callable[[], _T], patience: float) -> _T:
    """The result of ``request``, tried again with jittered back-off for ``patience`` seconds.

    Only SlurmUnavailable is worth another try. Every change that we ask for may be made twice, so
    an answer that got lost after the change was made does no harm.
    """
    attempts = Retrying(
        retry=retry_if_exception_type(SlurmUnavailable),
        stop=stop_before_delay(patience),
        wait=wait_random_exponential(multiplier=0.2, max=5),
        reraise=True,
    )
    return attempts(request)
