"""Names that the tests of the sink and the drivers that they start agree on."""

from __future__ import annotations

DRIVER = "driver.pids"
"""The file with the process ids of a driver and its JVM."""
STATE_OPTION = "OTTLA_TEST_STATE"
PLAN_OPTION = "OTTLA_TEST_PLAN"
BUILT_HERE = "built-here"
"""The file that tells that a driver has built batches itself."""
