"""What AWS says when it does not want us, as it says it on the wire: the emulator takes any key and allows all."""

from __future__ import annotations

import json

import pytest

from sellerwatch.adapters.aws.client import Aws, AwsUnavailable
from sellerwatch.adapters.aws.events import EventBridge, Target
from sellerwatch.adapters.aws.queue import SqsQueue, tasks_queue
from sellerwatch.simulator.http import serve
from sellerwatch.simulator.wire import SimulatedAnswer, SimulatedRequest

SECRET = "a-secret-of-aws"


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "ap-northeast-2"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)


class Refusing:
    """Answers every request with one error of AWS' JSON protocol; the message repeats the key id, as theirs do."""

    def __init__(self, code: str, status: int) -> None:
        said = {"__type": f"com.amazonaws#{code}", "message": f"AKIAEXAMPLE is not welcome: {code}"}
        self._answer = SimulatedAnswer(status, json.dumps(said).encode(), content_type="application/x-amz-json-1.0")

    def __call__(self, request: SimulatedRequest, now: float) -> SimulatedAnswer:
        return self._answer


async def refusal(service: str, code: str, status: int) -> AwsUnavailable:
    async with serve(Refusing(code, status)) as listening:
        aws = Aws(listening.url)
        asked = {
            "SQS": SqsQueue(tasks_queue(aws, "tasks.fifo"), visibility=30).check,
            "EventBridge": EventBridge(aws, Target("arn:aws:events:x", None)).check,
        }
        try:
            with pytest.raises(AwsUnavailable) as refused:
                await asked[service]()
        finally:
            await aws.close()
    return refused.value


@pytest.mark.parametrize("service", ["SQS", "EventBridge"])
@pytest.mark.parametrize("code", ["InvalidClientTokenId", "UnrecognizedClientException", "ExpiredTokenException"])
async def test_refused_credentials_are_said_with_what_to_mend_and_without_them(service: str, code: str) -> None:
    said = str(await refusal(service, code, 403))
    assert said.startswith(f"{service} cannot be used: it refused the credentials ({code}): see AWS_ACCESS_KEY_ID")
    assert "AKIAEXAMPLE" not in said
    assert SECRET not in said


@pytest.mark.parametrize(("service", "needed"), [("SQS", "sqs:GetQueueUrl"), ("EventBridge", "events:")])
async def test_a_missing_right_is_named_with_where_the_policy_is(service: str, needed: str) -> None:
    said = str(await refusal(service, "AccessDeniedException", 400))
    assert f"the policy needs {needed}" in said
    assert "docs/examples/iam-policy.json" in said
    assert "AKIAEXAMPLE" not in said
