"""The policy: what no rule allows is denied, and each rule closes one hole."""

from __future__ import annotations

from decimal import Decimal

from loopwright import Policy
from loopwright.policy import (
    Access,
    Approver,
    allow_if,
    any_of,
    ask_if,
    not_,
    operation,
    outside,
    over,
    owns,
    requires,
    role,
    same_tenant,
)

from .office import CLERKS, Office

ASK_ABOVE = Decimal(50)
"""Above this amount a lead of the same shop has to say yes."""
AT_MOST = Decimal(200)
"""Nobody refunds more in one go, whoever says yes."""
CENT = Decimal("0.01")


def make_policy(office: Office) -> Policy:
    """Make the policy of a desk that serves this office.

    Denials speak first and cannot be overruled. Then the rules, in order: whoever gets past
    `requires` and owns the order may refund it, with a question above the limit.
    """
    own = any_of(owns(office.clerk_of), role("lead"))
    return Policy(
        version="tenants-1",
        default_deny=True,
        deny=[not_(same_tenant()), outside(CENT, AT_MOST)],
        rules=[
            requires("refund", "refund"),
            ask_if(operation("refund"), of_orders, own, over(ASK_ABOVE)),
            allow_if(operation("refund"), of_orders, own),
            allow_if(operation("look"), of_orders),
        ],
        may_approve=is_another_lead,
    )


def of_orders(access: Access) -> bool:
    """Hold where a call touches orders and nothing else: a rule names its kind of object."""
    return all("/order:" in name for name in access.objects)


def is_another_lead(approver: Approver) -> bool:
    """Let only a lead of the same shop approve, and nobody their own request."""
    known = CLERKS.get(approver.by)
    return (
        known is not None
        and "lead" in known.roles
        and known.tenant == approver.principal.tenant
        and known.actor != approver.principal.actor
    )
