"""What people say, checked before it is told: as it would be judged if a model had proposed it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping

from loopwright.policy import refused_approver
from loopwright.protocol import (
    AlreadyDecidedError,
    ApprovalProposal,
    ApproverRefusedError,
    BrokenCall,
    CallId,
    Decision,
    Faulty,
    InvocationId,
    JsonObject,
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

    async def _check_approver(
        self, invocation_id: str, by: str, calls: Collection[CallId] | None
    ) -> None:
        if not self._names_approvers:
            return
        state = await self.state(invocation_id)
        p, proposal = state.protocol, state.proposal()
        if proposal is None:
            return
        policy = self._agent(p.agent).policy
        asks = [ask for ask in proposal.asks if calls is None or ask.call_id in calls]
        problem = refused_approver(policy, by, asks, p.started.principal)
        if problem is not None:
            raise ApproverRefusedError(f"invocation {invocation_id}: {problem}")

    async def _check_edits(
        self, invocation_id: str, digest: str, edits: Mapping[str, JsonObject]
    ) -> Mapping[CallId, JsonObject]:
        holder = await self._holder(invocation_id, digest)
        if holder is None:
            msg = f"invocation {invocation_id}: no proposal waits under this digest"
            raise UnknownProposalError(msg)
        p, proposal = holder
        judge = Judge(self._agent(p.agent))
        asks = {ask.call_id: ask for ask in proposal.asks}
        checked: dict[CallId, JsonObject] = {}
        for name, arguments in edits.items():
            ask = asks.get(CallId(name))
            if ask is None:
                msg = f"invocation {invocation_id}: call {name!r} is not waiting for an approval"
                raise UnknownProposalError(msg)
            redacting = self._redacting
            given = arguments if redacting is None else redacting.edit(name, arguments)
            call = parse_call(ask.call_id, ask.tool_name, given)
            if isinstance(call, BrokenCall):
                raise RemoteProtocolError(f"edits.{bounded(name)}", call.problem)
            checked[ask.call_id] = judge.check_edit(p.started, p.turn + 1, call)
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
