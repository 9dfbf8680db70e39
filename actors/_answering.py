"""What people say, checked before it is told: as it would be judged if a model had proposed it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

from loopwright.policy import refused_approver
from loopwright.protocol import (
    AlreadyDecidedError,
    AnswerApproval,
    ApprovalProposal,
    ApproverRefusedError,
    Ask,
    BrokenCall,
    CallId,
    Decision,
    Faulty,
    InvocationId,
    JsonObject,
    ProposalDigest,
    ProtocolState,
    RemoteProtocolError,
    UnknownProposalError,
    Validate,
    bounded,
    parse_call,
    parse_decision,
)

from ._looking import Looking
from ._people import People
from ._said import check_said
from .definitions._agent import Agent
from .roles._judge import Judge
from .tracing._redacting import Redacting


class Answering(People, Looking):
    """The part of a runtime that checks what people say."""

    @property
    @abstractmethod
    def _names_approvers(self) -> bool:
        """Whether any agent of this runtime says whose answers count."""

    @abstractmethod
    def _agent(self, name: str) -> Agent:
        """Find an agent of this runtime."""

    @property
    @abstractmethod
    def _redacting(self) -> Redacting | None:
        """What people say passes it first."""

    async def _waiting_children(self, invocation_id: str) -> tuple[InvocationId, ...]:
        state = await self.state(invocation_id)
        turn = state.protocol.open
        waits = turn is not None and state.protocol.status == "suspended"
        return turn.children() if turn is not None and waits else ()

    async def _check_decision(self, invocation_id: str, decision: object) -> Decision:
        state = await self.state(invocation_id)
        p = state.protocol
        parsed = parse_decision(decision)
        started = p.started
        request = Validate(
            started.invocation_id,
            p.turn + 1,
            parsed,
            started.principal,
            metadata=started.metadata,
        )
        verdict = Judge(self._agent(p.agent)).judge(request)
        if isinstance(verdict, Faulty):
            raise RemoteProtocolError("decision", verdict.problem)
        return parsed

    async def _check_approver(self, invocation_id: str, message: AnswerApproval) -> None:
        if not self._names_approvers:
            return
        state = await self.state(invocation_id)
        proposal = state.proposal()
        # Another digest is another one's proposal: whoever is told refuses it.
        if proposal is not None and proposal.digest == message.digest:
            self._refuse_approver(state.protocol, proposal, message)

    async def _check_answers(
        self, invocation_id: str, digest: str, answers: Mapping[CallId, bool], by: str
    ) -> None:
        message = AnswerApproval(ProposalDigest(digest), True, by)
        check_said(message)
        holder = await self._holder(invocation_id, digest)
        if holder is None:
            return  # whoever is told first says what is wrong
        p, proposal = holder
        asked = {ask.call_id for ask in proposal.asks}
        for call_id in answers:
            where = f"invocation {p.started.invocation_id}: call {bounded(call_id)!r}"
            if call_id not in asked:
                raise UnknownProposalError(f"{where} is not waiting for an approval")
            if call_id in proposal.answered:
                raise AlreadyDecidedError(f"{where} was answered before; the first answer stands")
        yeses = tuple([call_id for call_id, approved in answers.items() if approved])
        self._refuse_approver(p, proposal, message._replace(calls=yeses))

    def _refuse_approver(
        self, p: ProtocolState, proposal: ApprovalProposal, message: AnswerApproval
    ) -> None:
        """Check who approves against what would run: the edited call where there is an edit."""
        agent, asks = self._agent(p.agent), list[Ask]()
        if agent.policy.may_approve is None:
            return
        for ask in proposal.asks:
            waits = ask.call_id not in proposal.answered
            if waits if message.calls is None else ask.call_id in message.calls:
                edit = message.edits.get(ask.call_id)
                asks.append(ask if edit is None else _edited(agent, p, ask, edit))
        problem = refused_approver(agent.policy.may_approve, message.by, asks, p.started.principal)
        if problem is not None:
            raise ApproverRefusedError(f"invocation {p.started.invocation_id}: {problem}")

    async def _check_edits(
        self, invocation_id: str, digest: str, edits: Mapping[str, JsonObject]
    ) -> Mapping[CallId, JsonObject]:
        holder = await self._holder(invocation_id, digest)
        if holder is None:
            msg = f"invocation {invocation_id}: no proposal waits under this digest"
            raise UnknownProposalError(msg)
        p, proposal = holder
        agent = self._agent(p.agent)
        asks = {ask.call_id: ask for ask in proposal.asks}
        checked: dict[CallId, JsonObject] = {}
        for name, arguments in edits.items():
            ask = asks.get(CallId(name))
            if ask is None:
                msg = f"invocation {invocation_id}: call {name!r} is not waiting for an approval"
                raise UnknownProposalError(msg)
            redacting = self._redacting
            given = arguments if redacting is None else redacting.edit(name, arguments)
            checked[ask.call_id] = _edited(agent, p, ask, given).arguments
        return checked

    async def _holder(
        self, invocation_id: str, digest: str
    ) -> tuple[ProtocolState, ApprovalProposal] | None:
        """Find whose proposal it is: its own, or that of a child because of which it waits."""
        state = await self.state(invocation_id)
        proposal = state.proposal()
        if proposal is not None and proposal.digest == digest:
            return state.protocol, proposal
        for child in await self._waiting_children(invocation_id):
            found = await self._holder(child, digest)
            if found is not None:
                return found
        return None

    async def _check_undelivered(self, invocation_id: str, call_id: str, turn: int | None) -> None:
        meant = [
            fact.entry
            for fact in await self.effects(invocation_id=invocation_id)
            if fact.entry.call_id == call_id and turn in (None, fact.entry.turn)
        ]
        if meant and all(entry.settled for entry in meant):
            where = f"invocation {invocation_id}: the effect of call {bounded(call_id)!r}"
            msg = f"{where} is {meant[0].status}; there is nothing to settle"
            raise AlreadyDecidedError(msg)


def _edited(agent: Agent, p: ProtocolState, ask: Ask, arguments: JsonObject) -> Ask:
    """Check edited arguments; return the call as it will run, and why a human is asked about it."""
    call = parse_call(ask.call_id, ask.tool_name, arguments)
    if isinstance(call, BrokenCall):
        raise RemoteProtocolError(f"edits.{bounded(ask.call_id)}", call.problem)
    return Judge(agent).check_edit(p.started, p.turn + 1, call, ask.reason)
