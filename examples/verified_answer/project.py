"""A small project with a bug in it, and a test that finds it."""

from __future__ import annotations

from pathlib import Path

BROKEN = '''
def total(cents: int, discount_percent: int) -> int:
    """Return a price in cents after its discount, never rounded up."""
    return cents - cents * discount_percent // 100
'''.lstrip()

MENDED = BROKEN.replace(
    "cents - cents * discount_percent // 100", "cents * (100 - discount_percent) // 100"
)

_TEST = """
import unittest

from pricing import total


class TestTotal(unittest.TestCase):
    def test_it_is_never_rounded_up(self):
        self.assertEqual(total(995, 10), 895)
""".lstrip()


def make_project(folder: Path) -> None:
    """Write the project into a folder."""
    (folder / "pricing.py").write_text(BROKEN)
    (folder / "test_pricing.py").write_text(_TEST)
