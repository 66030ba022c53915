"""The lifecycles as the specification draws them (spec/domain.md, agent-pool.md, decisions.md), written by hand.

The tables in the program are compared with these, and the machines are judged by these: a table that was changed
without the specification fails here.
"""

from __future__ import annotations

Moves = dict[tuple[str, str], str]

TASK: Moves = {
    ("WAITING", "publish"): "PUBLISHED",
    ("RETRY", "publish"): "PUBLISHED",
    ("PUBLISHED", "start"): "IN_PROGRESS",
    ("RETRY", "start"): "IN_PROGRESS",
    ("IN_PROGRESS", "complete"): "COMPLETED",
    ("IN_PROGRESS", "fail"): "FAILED",
    ("FAILED", "retry"): "RETRY",
    ("PUBLISHED", "put_back"): "WAITING",
    ("IN_PROGRESS", "put_back"): "WAITING",
    ("FAILED", "reopen"): "RETRY",
    ("WAITING", "cancel"): "FAILED",
    ("PUBLISHED", "cancel"): "FAILED",
    ("IN_PROGRESS", "cancel"): "FAILED",
    ("RETRY", "cancel"): "FAILED",
}

EXECUTION: Moves = {
    ("PENDING", "start"): "RUNNING",
    ("PENDING", "fail"): "FAILED",
    ("RUNNING", "complete"): "COMPLETED",
    ("RUNNING", "fail"): "FAILED",
    ("COMPLETED", "reopen"): "RUNNING",
    ("FAILED", "reopen"): "RUNNING",
}

SELLER: Moves = {
    ("ACTIVE", "deactivate"): "INACTIVE",
    ("INACTIVE", "activate"): "ACTIVE",
    ("ACTIVE", "update_interval"): "ACTIVE",
    ("ACTIVE", "archive"): "ARCHIVED",
    ("INACTIVE", "archive"): "ARCHIVED",
    ("ARCHIVED", "activate"): "ACTIVE",
}

SCHEDULE: Moves = {
    ("ACTIVE", "update_interval"): "ACTIVE",
    ("ACTIVE", "deactivate"): "INACTIVE",
    ("INACTIVE", "activate"): "ACTIVE",
    ("ACTIVE", "fail"): "FAILED",
    ("INACTIVE", "fail"): "FAILED",
    # A replayed message can fail for good once more.
    ("FAILED", "fail"): "FAILED",
    ("FAILED", "activate"): "ACTIVE",
    ("FAILED", "deactivate"): "INACTIVE",
}

MESSAGE: Moves = {
    ("WAITING", "send"): "SENDING",
    ("SENDING", "complete"): "COMPLETED",
    ("SENDING", "fail"): "FAILED",
    ("SENDING", "refuse"): "FAILED",
    ("SENDING", "lose_lease"): "WAITING",
    ("SENDING", "put_back"): "WAITING",
    ("FAILED", "retry"): "WAITING",
    ("FAILED", "replay"): "WAITING",
    ("FAILED", "discard"): "DISCARDED",
    ("WAITING", "supersede"): "DISCARDED",
    ("SENDING", "supersede"): "DISCARDED",
    ("FAILED", "supersede"): "DISCARDED",
}

AGENT: Moves = {
    ("AVAILABLE", "suspend"): "SUSPENDED",
    ("SUSPENDED", "suspend"): "SUSPENDED",
    ("SUSPENDED", "recover"): "AVAILABLE",
    ("AVAILABLE", "block"): "BLOCKED",
    ("SUSPENDED", "block"): "BLOCKED",
    ("BLOCKED", "unblock"): "AVAILABLE",
}

CIRCUIT: Moves = {
    ("CLOSED", "open"): "OPEN",
    ("OPEN", "half_open"): "HALF_OPEN",
    # A probe that nobody answered gets a successor.
    ("HALF_OPEN", "half_open"): "HALF_OPEN",
    ("HALF_OPEN", "open"): "OPEN",
    ("HALF_OPEN", "close"): "CLOSED",
    # The pool's breaker closes early when enough agents are back; an operator closes an agent's.
    ("OPEN", "close"): "CLOSED",
}

PRODUCT: Moves = {
    ("INCOMPLETE", "see_part"): "INCOMPLETE",
    ("INCOMPLETE", "complete"): "COMPLETE",
    ("COMPLETE", "see_part"): "COMPLETE",
    ("COMPLETE", "delete"): "DELETED",
    # With its seller, without an event.
    ("INCOMPLETE", "archive"): "DELETED",
    ("COMPLETE", "archive"): "DELETED",
    # It is on its way back; it is there again when all its parts were read.
    ("DELETED", "see_part"): "DELETED",
    ("DELETED", "return"): "COMPLETE",
    ("COMPLETE", "send_snapshot"): "COMPLETE",
    ("DELETED", "send_snapshot"): "DELETED",
}

RESYNC: Moves = {
    ("RUNNING", "advance"): "RUNNING",
    ("RUNNING", "complete"): "COMPLETED",
    ("RUNNING", "cancel"): "CANCELLED",
}

RESEND: Moves = {
    ("RUNNING", "record"): "RUNNING",
    ("RUNNING", "complete"): "COMPLETED",
    ("RUNNING", "give_up"): "FAILED",
    ("RUNNING", "cancel"): "CANCELLED",
    # Answers to what was under way when it was cancelled.
    ("CANCELLED", "record"): "CANCELLED",
}

ALL: dict[str, Moves] = {
    "task": TASK,
    "execution": EXECUTION,
    "seller": SELLER,
    "schedule": SCHEDULE,
    "message": MESSAGE,
    "agent": AGENT,
    "circuit": CIRCUIT,
    "product": PRODUCT,
    "resend": RESEND,
    "resync": RESYNC,
}


def needs(moves: Moves, verb: str) -> set[str]:
    """The states from which the specification allows `verb`."""
    return {state for state, known in moves if known == verb}
