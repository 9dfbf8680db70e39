"""Where an actor is in its life.

NEW, STARTING, RUNNING, ENDED, ENDING, FINISHED follow one another; STARTING and ENDING are left out
where nothing has to be awaited. A crash leads to NEW if the actor is rebuilt, else to ENDED.
"""

from __future__ import annotations

import enum


class Phase(enum.Enum):
    """Where an actor is in its life."""

    NEW = enum.auto()
    """Its start is due; after a crash the actor object has to be built first."""

    STARTING = enum.auto()
    """`pre_start` runs; messages queue."""

    RUNNING = enum.auto()
    """Messages are handled."""

    ENDED = enum.auto()
    """Dead to everybody; `on_stop` is due."""

    ENDING = enum.auto()
    """Waiting for its cancelled tasks and for `post_stop`."""

    FINISHED = enum.auto()
    """Nothing of it is left."""
