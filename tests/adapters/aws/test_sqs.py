"""SQS as the queue: what FIFO means, what goes wrong there, and what is said about it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import orjson
import pytest
from msgspec import structs
from tests.aws import Queues, emulator, queues
from tests.builders import a_task, task_id
from tests.servers import Aws as Emulator
from tests.servers import free_port

from sellerwatch.adapters.aws.client import Aws, AwsUnavailable
from sellerwatch.adapters.aws.queue import QueueMissing, SqsQueue, group_of, set_up, tasks_queue
from sellerwatch.crawling.task import RequestUrl, Task, TaskType
from sellerwatch.kernel.ids import ItemNo, SellerId


@pytest.fixture(scope="module")
def aws() -> Iterator[Emulator]:
    with emulator() as server:
        yield server


@pytest.fixture
async def made(aws: Emulator) -> AsyncIterator[Queues]:
    async with queues(aws) as found:
        yield found


def published(number: int, seller: str = "seller_1", count: int = 1) -> Task:
    return structs.replace(a_task(number), seller_id=SellerId(seller), publish_count=count)


async def raw(made: Queues, operation: str, name: str, **given: Any) -> dict[str, Any]:
    url = (await made.aws.call("sqs", "get_queue_url", QueueName=name))["QueueUrl"]
    return await made.aws.call("sqs", operation, QueueUrl=url, **given)


async def test_a_message_says_what_the_paper_says(made: Queues) -> None:
    traced = SqsQueue(tasks_queue(made.aws, made.name), visibility=30, trace=lambda: "00-abc-def-01")
    task = published(1, "셀러")
    await traced.send([task])
    given = {"MessageAttributeNames": ["All"], "AttributeNames": ["All"]}
    (message,) = (await raw(made, "receive_message", made.name, **given))["Messages"]
    assert orjson.loads(message["Body"]) == {
        "taskId": task.task_id,
        "sellerId": "셀러",
        "taskType": "MINISHOP",
        "requestUrl": task.request_url,
    }
    attributes = {name: value["StringValue"] for name, value in message["MessageAttributes"].items()}
    assert attributes == {"sellerId": "셀러", "traceparent": "00-abc-def-01"}
    assert message["Attributes"]["MessageDeduplicationId"] == f"{task.task_id}-1"


async def test_more_than_ten_go_in_batches_and_all_come(made: Queues) -> None:
    tasks = [published(number, f"seller_{number % 7}") for number in range(1, 36)]
    assert await made.queue.send(tasks) == {task.task_id for task in tasks}
    found = set()
    while hints := await made.queue.receive(100, 1):
        found |= {hint.task_id for hint in hints}
        await made.queue.acknowledge(hints)
    assert found == {task.task_id for task in tasks}


async def test_the_same_publication_sent_twice_is_one_message_and_the_next_is_another(made: Queues) -> None:
    await made.queue.send([published(1)])
    await made.queue.send([published(1)])
    (first,) = await made.queue.receive(10, 0)
    await made.queue.acknowledge([first])
    assert await made.queue.receive(10, 0) == []
    await made.queue.send([published(1, count=2)])
    assert [hint.task_id for hint in await made.queue.receive(10, 0)] == [task_id(1)]


async def test_of_one_seller_ten_are_in_flight_at_most_and_others_go_on(made: Queues) -> None:
    await made.queue.send([published(number, "busy") for number in range(1, 16)])
    await made.queue.send([published(20, "other")])
    found = await made.queue.receive(100, 0)
    assert sum(hint.task_id != task_id(20) for hint in found) == 10
    assert task_id(20) in {hint.task_id for hint in found}


async def test_by_product_a_seller_has_as_many_in_flight_as_it_has_products(aws: Emulator) -> None:
    async with queues(aws, group="product") as made:
        tasks = [structs.replace(published(number), item_no=ItemNo(number), page_no=None) for number in range(1, 16)]
        await made.queue.send(tasks)
        assert len(await made.queue.receive(100, 0)) == 15


async def test_one_that_is_refused_in_a_batch_spoils_only_itself(made: Queues) -> None:
    await raw(made, "set_queue_attributes", made.name, Attributes={"MaximumMessageSize": "1024"})
    fine, spoilt = published(1), structs.replace(published(2), request_url=RequestUrl("/" + "x" * 2000))
    assert await made.queue.send([fine, spoilt]) == {fine.task_id}


async def test_what_is_extended_stays_ours_and_what_is_not_comes_again(made: Queues) -> None:
    await made.queue.send([published(1, "kept"), published(2, "lost")])
    hints = await made.queue.receive(10, 0)
    kept = [hint for hint in hints if hint.task_id == task_id(1)]
    for _ in range(4):
        await asyncio.sleep(0.4)
        await made.queue.extend(kept)
    assert [hint.task_id for hint in await made.queue.receive(10, 1)] == [task_id(2)]


async def test_received_more_than_twice_it_is_a_dead_letter(made: Queues) -> None:
    await made.queue.send([published(1)])
    for _ in range(2):
        assert len(await made.queue.receive(10, 3)) == 1
    while not await made.dead_letters.count():
        assert await made.queue.receive(10, 1) == []
    (letter,) = await made.dead_letters.look(10)
    assert letter.hint.task_id == task_id(1)
    await made.dead_letters.leave([letter])
    assert await made.dead_letters.count() == 1
    (again,) = await made.dead_letters.look(10)
    await made.dead_letters.remove([again])
    assert await made.dead_letters.count() == 0


@pytest.mark.parametrize("body", ["rubbish", "{}", '{"taskId": 7}', '{"taskId": "x"}', "[]"])
async def test_rubbish_names_no_task_and_harms_nobody(made: Queues, body: str) -> None:
    await raw(
        made, "send_message", made.name, MessageBody=body, MessageGroupId="x", MessageDeduplicationId=str(hash(body))
    )
    (hint,) = await made.queue.receive(10, 0)
    assert hint.task_id is None


async def test_set_up_says_what_it_did_and_done_again_changes_nothing(aws: Emulator) -> None:
    client = Aws(aws.url)
    first = await set_up(client, "new.fifo", "new-dlq.fifo", 30)
    again = await set_up(client, "new.fifo", "new-dlq.fifo", 30)
    other = await set_up(client, "new.fifo", "new-dlq.fifo", 60)
    assert [step.did for step in first] == ["made", "made"]
    assert [step.did for step in again] == ["as it should be", "as it should be"]
    assert [step.did for step in other] == ["as it should be", "changed (VisibilityTimeout)"]
    await client.close()


async def test_a_queue_that_is_not_there_is_one_sentence_with_its_mending(aws: Emulator) -> None:
    client = Aws(aws.url)
    with pytest.raises(QueueMissing, match=r"no queue nowhere\.fifo in SQS: create it"):
        await SqsQueue(tasks_queue(client, "nowhere.fifo"), visibility=30).check()
    await client.close()


async def test_restarted_empty_it_is_missing_until_it_is_set_up_again() -> None:
    with emulator() as own:
        async with queues(own) as made:
            await made.queue.send([published(1)])
            own.kill()
            with pytest.raises(AwsUnavailable):
                await made.queue.receive(1, 0)
            own.start()
            with pytest.raises(QueueMissing):
                await made.queue.receive(1, 0)
            await set_up(made.aws, made.name, made.dlq, 1)
            await made.queue.send([published(1, count=2)])
            assert [hint.task_id for hint in await made.queue.receive(1, 1)] == [task_id(1)]


async def test_nobody_there_is_one_sentence_without_a_secret(aws: Emulator) -> None:
    client = Aws(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(AwsUnavailable, match="no server answers there") as refused:
        await client.call("sqs", "list_queues")
    assert "t0p-s3cret" not in f"{refused.value!r} {refused.value} {client!r}"
    await client.close()


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (("AWS_REGION",), "set AWS_REGION"),
        (("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "there are no credentials"),
    ],
)
async def test_what_is_missing_is_named(
    aws: Emulator, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, missing: tuple[str, ...], said: str
) -> None:
    for name in (*missing, "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    client = Aws(aws.url)
    with pytest.raises(AwsUnavailable, match=said):
        await client.call("sqs", "list_queues")
    await client.close()


def test_a_group_is_what_sqs_allows_and_no_two_sellers_share_one() -> None:
    names = ["plain", "셀러", "셀러 2", "x" * 200, "x" * 201, "a b"]
    groups = [group_of(published(1, name), "seller") for name in names]
    assert len(set(groups)) == len(names)
    assert groups[0] == "plain"
    assert all(len(group) <= 128 and group.isascii() and " " not in group for group in groups)
    page, item = (
        published(1),
        structs.replace(published(1), item_no=ItemNo(7), page_no=None, task_type=TaskType.PRODUCT_DETAIL),
    )
    assert group_of(page, "product") != group_of(item, "product")
