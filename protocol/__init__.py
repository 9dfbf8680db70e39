"""What is said: ids, decisions, results, states, reasons, messages, records, strict JSON. Pure."""

from __future__ import annotations

from ._errors import AlreadyDecidedError as AlreadyDecidedError
from ._errors import ConfigurationError as ConfigurationError
from ._errors import FencedError as FencedError
from ._errors import InvocationNotFoundError as InvocationNotFoundError
from ._errors import InvocationStateError as InvocationStateError
from ._errors import JournalConflictError as JournalConflictError
from ._errors import JournalCorruptError as JournalCorruptError
from ._errors import LeaseHeldError as LeaseHeldError
from ._errors import LoopwrightError as LoopwrightError
from ._errors import Overloaded as Overloaded
from ._errors import ProtocolError as ProtocolError
from ._errors import ProtocolViolation as ProtocolViolation
from ._errors import RemoteProtocolError as RemoteProtocolError
from ._errors import StoreError as StoreError
from ._errors import UnknownProposalError as UnknownProposalError
