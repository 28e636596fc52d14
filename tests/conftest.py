"""What every test shares: hypothesis settings that do not depend on how busy the machine is."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Deadlines measure the machine, not the code. CI tries the same examples each time, so that what fails there
# fails because of a change; everywhere else each run tries new ones.
settings.register_profile(
    "ottla",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("CI") == "true",
)
settings.load_profile("ottla")
