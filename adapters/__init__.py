"""The edges to what others make; each needs its own extra, and imports it only when it is used."""

from __future__ import annotations

from .prices import Named as Named
from .prices import prices_of as prices_of
