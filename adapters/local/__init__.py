"""A model that runs on this machine, on the CPU, without a key: slow and weak, but real."""

from __future__ import annotations

from ._model import LocalModel as LocalModel
