"""Fixtures every test may use."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio: loopwright's actors are asyncio actors."""
    return "asyncio"
