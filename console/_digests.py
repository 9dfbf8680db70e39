"""Which proposal is meant by the beginning of a digest."""

from __future__ import annotations

from loopwright.protocol import AlreadyDecidedError, ApprovalDecided, UnknownProposalError

from ._panels import when
from ._session import SHORT_DIGEST, Session, short
from ._tree import Tree, open_proposal


def find_digest(session: Session, tree: Tree, text: str) -> str:
    """Complete an abbreviated digest of an invocation, or of a child because of which it waits.

    One that fits nothing stays as it is, to be refused.

    Raises:
        AlreadyDecidedError: If it has its answer, or none in time.
        UnknownProposalError: If it fits nothing, and another proposal waits.
    """
    proposals = [open_proposal(one.state) for one in tree.all]
    waiting = [proposal.digest for proposal in proposals if proposal is not None]
    known = {*waiting, *(digest for one in tree.all for digest in one.state.protocol.decided)}
    fitting = [digest for digest in known if digest.startswith(text)]
    found = fitting[0] if len(text) >= SHORT_DIGEST and len(fitting) == 1 else text
    if found in known and found not in waiting:
        _say_when_decided(tree, found)
    if waiting and found not in known:
        others = ", ".join(digest[:SHORT_DIGEST] for digest in waiting)
        look = session.command("show", short(tree.root.id))
        msg = f"invocation {tree.root.id} waits for another proposal, {others}; look at it with "
        raise UnknownProposalError(f"{msg}`{look}`")
    return found


def _say_when_decided(tree: Tree, digest: str) -> None:
    for one in tree.all:
        for entry in one.stored.entries():
            record = entry.record
            if isinstance(record, ApprovalDecided) and record.digest == digest:
                where, at = f"invocation {one.id}: this proposal", when(record.at)
                if record.expired:
                    msg = f"{where} expired unanswered at {at}; nothing of it ran"
                    raise AlreadyDecidedError(msg)
                msg = f"{where} was answered before, by {record.by} at {at}; that answer stands"
                raise AlreadyDecidedError(msg)
