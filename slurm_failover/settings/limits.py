"""What the site's settings allow, as the decision wants it. Pure."""

from __future__ import annotations

from slurm_failover.model import Limits
from slurm_failover.settings.tables import Settings


def read_limits(settings: Settings) -> Limits:
    """The limits in the site's settings."""
    failover, image = settings.failover, settings.image
    return Limits(
        max_retries=failover.max_retries,
        trusted_reasons=failover.trusted_reasons,
        spot_partitions=failover.spot_partitions,
        spot_qos=failover.spot_qos,
        cancel_denied=failover.on_denial == "cancel",
        cancel_exceeded=failover.on_exceeded == "cancel",
        image_retries=image.retries,
        image_first_wait=image.first_wait,
        image_longest_wait=image.longest_wait,
    )
