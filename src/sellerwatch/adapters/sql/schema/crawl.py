"""The eight tables of the crawl: sellers, their schedules and runs, tasks, products, and the two outboxes.

They refer to one another by public id (sellers by the marketplace's id): those are known before the transaction, so
rows can be written in bulk without reading anything back. No foreign keys: MySQL allows none on partitioned tables,
and rows of different kinds live for different times.

`crawler_tasks` and `crawling_schedule_executions` are ready for monthly RANGE COLUMNS(created_at) partitions: the
column is never null and nothing points at their inner id. MySQL wants the partition column in every unique key, so
switching on also widens the unique indexes by `created_at`. For public ids that costs nothing (they are unique by
themselves); the runs' guard on `open_seller_id` would have to move to a table of its own.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, Double, Index, Integer, String, Text, text

from sellerwatch.adapters.sql.schema.types import (
    Code,
    Hash,
    LongBytes,
    LongText,
    PublicId,
    SellerKey,
    Time,
    Word,
    count,
    failure,
    row_id,
    table,
)

sellers = table(
    "sellers",
    row_id(),
    Column("seller_id", SellerKey, nullable=False),
    Column("name", String(255), nullable=False),
    Column("interval_amount", Integer, nullable=False),
    Column("interval_unit", Code, nullable=False),
    Column("status", Code, nullable=False),
    count("total_product_count"),
    Column("created_at", Time, nullable=False),
    Column("updated_at", Time, nullable=False),
    CheckConstraint("interval_amount > 0", name="interval_amount"),
    Index("sellers__uq_seller_id", "seller_id", unique=True),
    Index("sellers__idx_status", "status"),
)

crawling_schedules = table(
    "crawling_schedules",
    row_id(),
    Column("schedule_id", PublicId, nullable=False),
    Column("seller_id", SellerKey, nullable=False),
    Column("schedule_rule", String(150), nullable=False),
    Column("schedule_expression", String(100), nullable=False),
    Column("interval_amount", Integer, nullable=False),
    Column("interval_unit", Code, nullable=False),
    Column("status", Code, nullable=False),
    Column("next_run_at", Time),
    Column("created_at", Time, nullable=False),
    Column("updated_at", Time, nullable=False),
    Index("crawling_schedules__uq_schedule_id", "schedule_id", unique=True),
    Index("crawling_schedules__uq_seller_id", "seller_id", unique=True),
    # The paper's index on status, longer by next_run_at: it also finds the schedules that are due.
    Index("crawling_schedules__idx_status", "status", "next_run_at"),
)

crawling_schedule_executions = table(
    "crawling_schedule_executions",
    row_id(),
    Column("execution_id", PublicId, nullable=False),
    Column("schedule_id", PublicId, nullable=False),
    Column("seller_id", SellerKey, nullable=False),
    # The seller while the run is open, null once it is over: two triggers at once meet the unique index.
    Column("open_seller_id", SellerKey),
    Column("status", Code, nullable=False),
    count("total_tasks_created"),
    count("completed_tasks"),
    count("failed_tasks"),
    Column("progress_rate", Double, nullable=False, server_default=text("0")),
    Column("success_rate", Double, nullable=False, server_default=text("0")),
    # The number of products the marketplace stated; null until it was asked.
    Column("list_total", Integer),
    Column("created_at", Time, nullable=False),
    Column("started_at", Time),
    Column("completed_at", Time),
    Column("deadline_at", Time),
    *failure(),
    count("start_tries"),
    Column("next_start_at", Time),
    Column("started_by", String(100)),
    Index("crawling_schedule_executions__uq_execution_id", "execution_id", unique=True),
    Index("crawling_schedule_executions__uq_open_seller_id", "open_seller_id", unique=True),
    Index("crawling_schedule_executions__idx_schedule_id_started_at", "schedule_id", "started_at"),
    Index("crawling_schedule_executions__idx_seller_id_started_at", "seller_id", "started_at"),
    Index("crawling_schedule_executions__idx_status", "status"),
    Index("crawling_schedule_executions__idx_next_start_at", "next_start_at"),
)

crawler_tasks = table(
    "crawler_tasks",
    row_id(),
    Column("task_id", PublicId, nullable=False),
    Column("execution_id", PublicId, nullable=False),
    Column("seller_id", SellerKey, nullable=False),
    Column("task_type", Code, nullable=False),
    Column("purpose", Code, nullable=False),
    Column("item_no", BigInteger),
    Column("page_no", Integer),
    Column("request_url", String(2000), nullable=False),
    Column("status", Code, nullable=False),
    count("retry_count"),
    count("publish_count"),
    count("attempt"),
    count("lost_leases"),
    count("requests_made"),
    Column("agent_id", BigInteger),
    Column("worker_id", PublicId),
    Column("lease_owner", Word),
    Column("lease_until", Time),
    Column("available_at", Time, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("published_at", Time),
    Column("started_at", Time),
    Column("completed_at", Time),
    Column("updated_at", Time, nullable=False),
    *failure(),
    Column("note", String(255)),
    Index("crawler_tasks__uq_task_id", "task_id", unique=True),
    # Serves both of the papers' indexes: the list (newest first; an index is read backwards as well) and the metrics.
    Index("crawler_tasks__idx_seller_id_created_at", "seller_id", "created_at", "status"),
    Index("crawler_tasks__idx_status_created_at", "status", "created_at"),
    # The paper's (execution_id, status), longer by what the claim of one run goes by.
    Index("crawler_tasks__idx_execution_id_status", "execution_id", "status", "available_at"),
    # A product seen twice in a run is one product, and finding its other task is one look-up.
    Index("crawler_tasks__uq_execution_id_item_no_task_type", "execution_id", "item_no", "task_type", unique=True),
    # The claim walks it in order: a worker that locks rows out of order locks everybody's (MySQL).
    Index("crawler_tasks__idx_status_available_at_id", "status", "available_at", "id"),
)

products = table(
    "products",
    row_id(),
    Column("product_id", PublicId, nullable=False),
    Column("item_no", BigInteger, nullable=False),
    Column("seller_id", SellerKey, nullable=False),
    Column("minishop_data_hash", Hash),
    Column("detail_data_hash", Hash),
    Column("option_data_hash", Hash),
    Column("is_complete", Boolean, nullable=False, server_default=text("0")),
    count("version"),
    count("missing_runs"),
    # A part changed since the last event: what the receiver was last told is no longer true.
    Column("is_changed", Boolean, nullable=False, server_default=text("0")),
    Column("last_seen_execution", PublicId),
    Column("last_seen_at", Time),
    Column("created_at", Time, nullable=False),
    Column("updated_at", Time, nullable=False),
    Column("deleted_at", Time),
    # As it was last told, to be found by.
    Column("name", String(255)),
    Index("products__uq_product_id", "product_id", unique=True),
    Index("products__uq_item_no", "item_no", unique=True),
    Index("products__idx_seller_id_is_complete", "seller_id", "is_complete"),
)

product_raw_data = table(
    "product_raw_data",
    row_id(),
    Column("product_id", PublicId, nullable=False),
    Column("data_type", Code, nullable=False),
    Column("raw_hash", Hash, nullable=False),
    Column("raw_json", LongBytes, nullable=False),
    Column("created_at", Time, nullable=False),
    Index("product_raw_data__idx_product_id_data_type", "product_id", "data_type"),
)

product_outbox = table(
    "product_outbox",
    row_id(),
    Column("outbox_id", PublicId, nullable=False),
    Column("product_id", PublicId, nullable=False),
    Column("item_no", BigInteger, nullable=False),
    Column("seller_id", SellerKey, nullable=False),
    Column("execution_id", PublicId),
    Column("event_type", Code, nullable=False),
    Column("version", Integer, nullable=False),
    Column("payload", LongText, nullable=False),
    Column("status", Code, nullable=False),
    count("retry_count"),
    # Ever put on the wire: from then on the body is frozen and nothing may be merged into it.
    Column("attempted", Boolean, nullable=False, server_default=text("0")),
    Column("error_message", Text),
    Column("worker_id", PublicId),
    Column("lease_until", Time),
    Column("next_attempt_at", Time),
    Column("created_at", Time, nullable=False),
    Column("updated_at", Time, nullable=False),
    Column("sent_at", Time),
    Index("product_outbox__uq_outbox_id", "outbox_id", unique=True),
    Index("product_outbox__idx_status_created_at", "status", "created_at"),
    Index("product_outbox__idx_status_next_attempt_at", "status", "next_attempt_at"),
    # Knows by itself whether anybody stands before a message, however long the history of its product is.
    Index("product_outbox__idx_product_id_id_status", "product_id", "id", "status"),
)

scheduler_outbox = table(
    "scheduler_outbox",
    row_id(),
    Column("outbox_id", PublicId, nullable=False),
    Column("schedule_id", PublicId, nullable=False),
    Column("seller_id", SellerKey, nullable=False),
    Column("event_type", Code, nullable=False),
    Column("payload", LongText, nullable=False),
    Column("status", Code, nullable=False),
    count("retry_count"),
    Column("error_message", Text),
    Column("worker_id", PublicId),
    Column("lease_until", Time),
    Column("next_attempt_at", Time),
    Column("created_at", Time, nullable=False),
    Column("updated_at", Time, nullable=False),
    Column("sent_at", Time),
    Index("scheduler_outbox__uq_outbox_id", "outbox_id", unique=True),
    Index("scheduler_outbox__idx_status_created_at", "status", "created_at"),
    Index("scheduler_outbox__idx_status_next_attempt_at", "status", "next_attempt_at"),
    # Knows by itself whether anybody stands before a message, however long the history of its schedule is.
    Index("scheduler_outbox__idx_schedule_id_id_status", "schedule_id", "id", "status"),
)
