"""What a tool declares about its results, so that they can be compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from loopwright.protocol import ConfigurationError


@dataclass(frozen=True, slots=True)
class Traits:
    """What has to be known of a tool before its calls and results can be compared.

    Raises:
        ConfigurationError: If `volatile` is not a tuple of field names.
    """

    polling: bool = False
    """Whether it is called to wait for something: returning the same again is no loop."""
    volatile: tuple[str, ...] = ()
    """Fields of arguments and results, at any depth, that say nothing: times, request ids."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        polling: object = self.polling
        if type(polling) is not bool:
            raise ConfigurationError(f"Traits.polling is {polling!r}; give True or False")
        names: object = self.volatile
        if type(names) is not tuple or not all(type(name) is str for name in self.volatile):
            msg = f"Traits.volatile is {names!r}; give a tuple of field names"
            raise ConfigurationError(msg)


NO_TRAITS: Final = Traits()
