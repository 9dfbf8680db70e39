"""What must not be written down: a redactor decides it, value by value.

Whatever a model, a tool, a person or an exception has said passes through it once, before it is
journaled, traced or shown to a model. `Redactor` is the one that comes with loopwright; any
function of the same shape will do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Final, Literal, TypeAlias, cast

from loopwright.protocol import ConfigurationError, JsonValue

Place: TypeAlias = Literal["goal", "metadata", "arguments", "text", "output", "error", "person"]
"""What a value is: the goal or metadata of an invocation, arguments of a call (whoever wrote
them), a text the model or a rule wrote, what a tool returned, what went wrong, or what a person
said."""

Redact: TypeAlias = Callable[[JsonValue, Place], JsonValue]
"""Returns the value as it may be written down: JSON of the same kind, a text for a text and an
object for arguments. What is redacted already must come out as it is."""

Finder: TypeAlias = Callable[[str], Iterable[tuple[int, int]]]
"""Says where in a text something to be masked is: start and end, in order, apart."""

_Search: TypeAlias = Callable[[str], re.Match[str] | None]

EMAILS: Final = re.compile(r"(?<![\w.%+-])[\w.%+-]++@[\w-]++(?:\.[\w-]++)++")
BEARER_TOKENS: Final = re.compile(r"(?i)\bbearer[ \t]{1,8}[\w.~+/=-]{16,}+")

_DIGITS: Final = re.compile(r"\d(?:[ -]?\d){12,}+")
_CARD_LENGTHS: Final = range(13, 20)
_CARD_INTEGERS: Final = range(10**12, 10**19)
_DOUBLED: Final = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
"""What a doubled digit counts in a Luhn sum."""
_SEPARATORS: Final = re.compile(r"[-_ ]")
_VALUE: Final = (
    r"(?:\\{0,3}\"(?:[^\"\\]|\\.)*+\"?|'(?:[^'\\]|\\.)*+'?"
    r"|(?:(?:bearer|basic|digest|token)[ \t]{1,8})?[^\s\"']++)"
)
"""A quoted text, or everything up to a blank."""


def card_numbers(text: str) -> Iterator[tuple[int, int]]:
    """Find payment card numbers: 13 to 19 digits, blanks and dashes among them, whose sum is right."""
    for run in _DIGITS.finditer(text):
        at = [index for index in range(run.start(), run.end()) if text[index].isdecimal()]
        digits = [int(text[index]) for index in at]
        first = 0
        while first <= len(at) - _CARD_LENGTHS.start:
            last = _card_end(text, at, digits, first)
            if last is None:
                first += 1
            else:
                yield at[first], at[last - 1] + 1
                first = last


def _card_end(text: str, at: list[int], digits: list[int], first: int) -> int | None:
    """Say behind which digit a card number ends that begins with this one, if one does."""
    # Issuers' numbers begin with 2 to 6; times in milliseconds, for one, do not.
    if not 2 <= digits[first] <= 6 or text[at[first] - 1 : at[first]].isdecimal():
        return None
    for length in reversed(_CARD_LENGTHS):
        last = first + length
        if last > len(at) or text[at[last - 1] + 1 : at[last - 1] + 2].isdecimal():
            continue
        number = digits[last - 1 : first - 1 if first else None : -1]
        if (sum(number[::2]) + sum(_DOUBLED[digit] for digit in number[1::2])) % 10 == 0:
            return last
    return None


_KEYS: Final = ("password", "token", "secret", "authorization", "api_key")
_PATTERNS: Final[tuple[str | re.Pattern[str] | Finder, ...]] = (BEARER_TOKENS, card_numbers)


_KEY_CHARS: Final = 64
_KEYS_KEPT: Final = 1_000
"""Short keys of objects that a redactor remembers, at most; a hostile tool may invent any number."""


@dataclass(frozen=True, slots=True)
class Redactor:
    """Masks values by the name they stand under, and by what they look like.

    A name is one of `keys` if it ends like it, whatever its case and whether its words are
    joined by `_`, `-`, blanks or nothing: `secret` also is `Client-Secret`. In a text, what
    follows such a name and a colon or an equals sign is masked.

    Raises:
        ConfigurationError: For a pattern that is none or matches nothing at all, a blank key, or
            a mask with blanks or quotes, or one that would be masked itself.
    """

    patterns: Sequence[str | re.Pattern[str] | Finder] = _PATTERNS
    """What is masked in texts: regular expressions, or functions that find it. `EMAILS`,
    `BEARER_TOKENS` and `card_numbers` are there, and take time in proportion to the text."""
    keys: Sequence[str] = _KEYS
    arguments: bool = False
    """Whether arguments of calls are redacted too: their tools then get what is left."""
    mask: str = "[redacted]"
    _finders: tuple[tuple[_Search | None, Finder], ...] = field(
        init=False, repr=False, compare=False
    )
    """Each with what says at once that there is nothing to find, where it is known."""
    _endings: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _named: re.Pattern[str] | None = field(init=False, repr=False, compare=False)
    _keys: dict[str, tuple[str, bool]] = field(
        init=False, repr=False, compare=False, default_factory=dict[str, tuple[str, bool]]
    )

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        mask: object = self.mask
        if type(mask) is not str or not re.fullmatch(r"[^\s\"'\\]+", mask):
            msg = f"Redactor.mask is {mask!r}; give a text without blanks and quotes"
            raise ConfigurationError(msg)
        if isinstance(self.keys, str) or isinstance(self.patterns, str | re.Pattern):
            raise ConfigurationError("Redactor.keys and patterns are sequences; put one in a tuple")
        for name in ("keys", "patterns"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "_endings", tuple(_plain_key(key) for key in self.keys))
        object.__setattr__(self, "_named", _named(self.keys, self.mask))
        finders = [_finder(pattern, self.mask) for pattern in self.patterns]
        object.__setattr__(self, "_finders", tuple((_search_of(f), f) for f in finders))

    def __call__(self, value: JsonValue, place: Place, /) -> JsonValue:
        """Mask what must not be written down."""
        if place == "arguments" and not self.arguments:
            return value
        return self._value(value)

    def _value(self, value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            items = [self._value(item) for item in value]
            return value if all(map(is_, items, value)) else items
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, int) and abs(value) in _CARD_INTEGERS:
            text = str(value)
            return value if (masked := self._text(text)) == text else masked
        return value

    def _object(self, value: dict[str, JsonValue]) -> JsonValue:
        copy: dict[str, JsonValue] = {}
        same = True
        for key, item in value.items():
            name, secret = self._keys.get(key) or self._look_at(key)
            if name in copy:
                name = f"{name}{len(copy)}"
            masked = copy[name] = self.mask if secret and item is not None else self._value(item)
            same = same and masked is item and name == key
        return value if same else copy

    def _look_at(self, key: str) -> tuple[str, bool]:
        """Say how a key is written down, and whether its value is not; most come again and again."""
        found = self._text(key), _squeezed(key).endswith(self._endings)
        if len(key) <= _KEY_CHARS and len(self._keys) < _KEYS_KEPT:
            self._keys[key] = found
        return found

    def _text(self, text: str) -> str:
        if self._named is not None and (":" in text or "=" in text):
            text = self._named.sub(lambda found: found[1] + self.mask, text)
        for search, find in self._finders:
            if search is None or search(text) is not None:
                text = _masked(text, find, self.mask)
        return text


@dataclass(frozen=True, slots=True)
class _Pattern:
    """Finds what a regular expression matches."""

    compiled: re.Pattern[str]

    def __call__(self, text: str, /) -> Iterable[tuple[int, int]]:
        return (found.span() for found in self.compiled.finditer(text))


def _search_of(find: Finder) -> _Search | None:
    if isinstance(find, _Pattern):
        return find.compiled.search
    return _DIGITS.search if find is card_numbers else None


def _masked(text: str, find: Finder, mask: str) -> str:
    parts: list[str] = []
    done = 0
    for start, end in find(text):
        parts += (text[done:start], mask)
        done = end
    return "".join((*parts, text[done:])) if parts else text


def _finder(pattern: object, mask: str) -> Finder:
    if isinstance(pattern, str | re.Pattern):
        try:
            compiled = re.compile(cast("str | re.Pattern[str]", pattern))
            empty = compiled.search("")
        except (re.error, TypeError) as error:
            msg = f"Redactor.patterns has {pattern!r}, no regular expression of texts: {error}"
            raise ConfigurationError(msg) from None
        if empty is not None:
            msg = f"Redactor.patterns has {pattern!r}, which finds something where nothing is"
            raise ConfigurationError(msg)

        find: Finder = _Pattern(compiled)
    elif callable(pattern):
        find = cast("Finder", pattern)
    else:
        msg = f"Redactor.patterns has {pattern!r}; give a regular expression or a function"
        raise ConfigurationError(msg)
    if _masked(mask, find, "") != mask:
        msg = f"Redactor.mask is {mask!r}, in which the pattern {pattern!r} finds something; "
        raise ConfigurationError(f"{msg}give another mask")
    return find


def _named(keys: Sequence[str], mask: str) -> re.Pattern[str] | None:
    """Make the expression that finds, in a text, a value behind one of these names."""
    if not keys:
        return None
    # The longest first: of two names that begin alike, the one that is there.
    ordered = sorted(keys, key=len, reverse=True)
    names = "|".join("[-_ ]?".join(map(re.escape, _SEPARATORS.split(key))) for key in ordered)
    gap = r"\\{0,3}[\"']?\s{0,8}[:=]\s{0,8}"
    return re.compile(rf"(?i)((?:{names}){gap})(?!{re.escape(mask)}){_VALUE}")


def _plain_key(key: object) -> str:
    if not isinstance(key, str) or not _squeezed(key):
        raise ConfigurationError(f"Redactor.keys has {key!r}; give the name of a value")
    return _squeezed(key)


def _squeezed(key: str) -> str:
    return key.replace("_", "").replace("-", "").replace(" ", "").lower()
