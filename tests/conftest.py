"""Fixtures every test may use."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says something of the machine, and nothing of a rule.
settings.register_profile(
    "house", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("house")


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio: loopwright's actors are asyncio actors."""
    return "asyncio"
