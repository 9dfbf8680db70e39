"""What is allowed: limits, authorization, approvals, planning, progress. Pure values and functions."""

from __future__ import annotations

from ._approval import proposal_digest as proposal_digest
from ._authorization import Access as Access
from ._authorization import Allow as Allow
from ._authorization import Ask as Ask
from ._authorization import Deny as Deny
from ._authorization import Judgement as Judgement
from ._authorization import Predicate as Predicate
from ._authorization import Rule as Rule
from ._authorization import over as over
from ._authorization import tool_named as tool_named
from ._authorization import writes as writes
from ._limits import fits_tool_calls as fits_tool_calls
from ._limits import soft_stop_due as soft_stop_due
from ._limits import soft_stop_notice as soft_stop_notice
from ._limits import used_up as used_up
from ._planning import stages as stages
from ._policy import Policy as Policy
from ._progress import Progress as Progress
from ._progress import Streak as Streak
from ._progress import plan_fingerprint as plan_fingerprint
from ._retry import backoff as backoff
