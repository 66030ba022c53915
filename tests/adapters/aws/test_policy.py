"""docs/examples/iam-policy.json allows every call that is made of AWS, and no other."""

from __future__ import annotations

import ast
import json
from pathlib import Path

from sellerwatch.adapters.aws.client import SERVICES, permission

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src/sellerwatch/adapters/aws"


def calls() -> set[str]:
    """`aws.call("sqs", "create_queue", ...)`, and `queue.call("send_message", ...)`, which is SQS' own."""
    found = set()
    for path in SOURCE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "call":
                words = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
                if len(words) == 2:
                    found.add(f"{words[0]}:{permission(words[1])}")
                elif len(words) == 1 and words[0] not in SERVICES:
                    found.add(f"sqs:{permission(words[0])}")
    return found


def test_every_call_is_allowed_and_nothing_else() -> None:
    policy = json.loads((ROOT / "docs/examples/iam-policy.json").read_text("utf-8"))
    allowed = {action for statement in policy["Statement"] for action in statement["Action"]}
    assert len(calls()) >= 16
    # Not a call: EventBridge is given the role as whom it starts the crawl.
    assert calls() == allowed - {"iam:PassRole"}


def test_no_right_is_wider_than_its_name() -> None:
    policy = json.loads((ROOT / "docs/examples/iam-policy.json").read_text("utf-8"))
    for statement in policy["Statement"]:
        assert not [action for action in statement["Action"] if "*" in action]
        assert statement["Resource"] != "*" or statement["Action"] == ["events:ListRules"]
