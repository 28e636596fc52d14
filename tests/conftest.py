"""What every test shares: hypothesis settings that do not depend on how busy the machine is."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Deadlines measure the machine, not the code.
settings.register_profile("ottla", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ottla")
