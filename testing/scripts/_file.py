"""Reading scripts: from Python values and from YAML files, with one sentence on what is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from pydantic import ValidationError

from loopwright.protocol import ConfigurationError, RemoteProtocolError, bounded, check_json, dumps

from ._steps import Script, ScriptDocument

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_Path: TypeAlias = tuple[str | int, ...]

_WORDS: Final = {"extra_forbidden": "is not a known key", "missing": "is missing"}


class _UnreadableError(Exception):
    """Raised inside of this module, with the path at fault and the problem."""

    def __init__(self, path: _Path, problem: str) -> None:
        super().__init__(problem)
        self.path = path


def parse_script(document: Mapping[str, Any], *, name: str = "script") -> Script:
    """Read a script from Python values of the same form as in a file.

    Args:
        document: The script.
        name: What reports call it.

    Raises:
        ConfigurationError: If it can't be read; one sentence with the path at fault.
    """
    try:
        return Script(name, _parse(document))
    except _UnreadableError as error:
        raise ConfigurationError(f"{name}: {_dotted(error.path)}: {error}") from None


def load_script(path: str | Path) -> Script:
    """Read a `*.script.yaml` file.

    Raises:
        ConfigurationError: If it can't be read; one sentence with file, line and path at fault.
    """
    try:
        from ._yaml import YamlDocument
    except ImportError:
        msg = f"{path}: reading scripts needs PyYAML; run pip install 'loopwright[testing]'"
        raise ConfigurationError(msg) from None
    try:
        read = YamlDocument(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path}: {error}") from None
    try:
        parsed = _parse(read.value)
    except _UnreadableError as error:
        where = f"{path}:{read.line(error.path)}: {_dotted(error.path)}"
        raise ConfigurationError(f"{where}: {error}") from None
    steps = range(len(parsed.script))
    return Script(str(path), parsed, tuple(read.line(("script", step)) for step in steps))


def _parse(document: object) -> ScriptDocument:
    if not isinstance(document, Mapping):
        problem = f"must be a mapping with agent, goal and script, not {type(document).__name__}"
        raise _UnreadableError((), problem)
    fields = cast("Mapping[object, object]", document)
    try:
        check_json(fields, where="script")
    except RemoteProtocolError as error:
        raise _UnreadableError((), f"{error}; quote what is meant as text") from None
    try:
        # As JSON, strict parsing takes a list for a tuple and a text for an enum, and nothing else.
        return ScriptDocument.model_validate_json(dumps(fields))
    except ValidationError as error:
        raise _explain(fields, error.errors(include_url=False, include_input=False)) from None


def _explain(document: object, errors: Sequence[ErrorDetails]) -> _UnreadableError:
    """Take the errors that lie deepest in the document: of a union, the meant alternative.

    Among equals an unknown key comes first: it is often the missing one, misspelled.
    """
    ordered = sorted(errors, key=lambda error: error["type"] != "extra_forbidden")
    paths = [_resolve(document, error) for error in ordered]
    deepest = max(paths, key=len)
    said = [_words(e) for e, path in zip(ordered, paths, strict=True) if path == deepest]
    return _UnreadableError(deepest, ", or: ".join(dict.fromkeys(said)))


def _resolve(document: object, error: ErrorDetails) -> _Path:
    """Keep those parts of an error's path that are keys and indexes of the document."""
    path: list[str | int] = []
    value: Any = document
    for part in error["loc"]:
        try:
            value = value[part]
        except (LookupError, TypeError):
            continue
        path.append(part)
    if error["type"] == "missing":
        path.append(error["loc"][-1])
    return tuple(path)


def _words(error: ErrorDetails) -> str:
    return _WORDS.get(error["type"], error["msg"].removeprefix("Value error, "))


def _dotted(path: _Path) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return bounded(text.removeprefix(".")) or "the document"
