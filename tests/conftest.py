"""Settings of all tests: property tests run on shared machines, where slowness says nothing."""

import os

from hypothesis import HealthCheck, settings

from tests.postgres import postgres_url as postgres_url

settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")

# Recorded nodes have accelerators whatever is hidden from whoever runs these tests.
for _name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"):
    os.environ.pop(_name, None)
