"""Options of a model: fields of its requests that the user gives, and those nobody may give."""

from __future__ import annotations

from collections.abc import Mapping

from loopwright.protocol import ConfigurationError, JsonValue


def checked_options(
    kind: str, options: Mapping[str, JsonValue] | None, conversation: str
) -> dict[str, JsonValue]:
    """Take options.

    Args:
        kind: Of the model.
        options: As they were given.
        conversation: The field that has the conversation, which is the journal's.

    Raises:
        ConfigurationError: If one would change what is not an option.
    """
    others = {
        "model": "give the model as such",
        "stream": "give stream=True or stream=False to the model",
        conversation: "what is said is what the journal has",
    }
    for name in options or ():
        if name in others:
            msg = f"{kind} has the option {name!r}, which is none; {others[name]}"
            raise ConfigurationError(msg)
    return dict(options or {})
