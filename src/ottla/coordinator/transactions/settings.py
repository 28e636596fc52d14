"""The settings of the transaction coordinator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.config import BrokerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """Kafka's defaults. `of` reads a node's."""

    timeout_ms_max: int = 900_000
    id_expiration_ms: int = 604_800_000
    timeout_check_interval_ms: int = 10_000
    expiration_check_interval_ms: int = 3_600_000
    is_two_phase_commit_enabled: bool = False

    @classmethod
    def of(cls, config: BrokerConfig) -> TransactionSettings:
        return cls(
            timeout_ms_max=config.int_of("transaction.max.timeout.ms"),
            id_expiration_ms=config.int_of("transactional.id.expiration.ms"),
            timeout_check_interval_ms=config.int_of(
                "transaction.abort.timed.out.transaction.cleanup.interval.ms"
            ),
            expiration_check_interval_ms=config.int_of(
                "transaction.remove.expired.transaction.cleanup.interval.ms"
            ),
            is_two_phase_commit_enabled=config.bool_of("transaction.two.phase.commit.enable"),
        )
