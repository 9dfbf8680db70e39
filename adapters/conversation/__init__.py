"""What every provider's adapter is made of: the journal as a conversation, and replies as decisions.

An adapter translates `conversation(request)` into its provider's messages, and what the provider
replies into `RawReply`, of which `decision_of` makes the decision. All of it is pure.
"""

from __future__ import annotations

from ._messages import Entry as Entry
from ._messages import Replied as Replied
from ._messages import Returned as Returned
from ._messages import Said as Said
from ._messages import WireCall as WireCall
from ._messages import WireResult as WireResult
from ._messages import conversation as conversation
from ._reply import RawCall as RawCall
from ._reply import RawReply as RawReply
from ._reply import decision_of as decision_of
