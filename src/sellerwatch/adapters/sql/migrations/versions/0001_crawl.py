"""The eight tables of the crawl."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Index

from sellerwatch.adapters.sql.migrations.tables import create_table, drop_tables, unique
from sellerwatch.adapters.sql.migrations.types import (
    BIG,
    BOOL,
    CODE,
    INT,
    LONG_BYTES,
    LONG_TEXT,
    MD5,
    REAL,
    SELLER,
    TEXT,
    TIME,
    UUID,
    WORD,
    may,
    need,
    row_id,
    varchar,
)

revision = "0001"
down_revision = None


def upgrade() -> None:
    _sellers_and_schedules()
    _runs_and_tasks()
    _products()
    _outboxes()


def downgrade() -> None:
    drop_tables("scheduler_outbox", "product_outbox", "product_raw_data", "products")
    drop_tables("crawler_tasks", "crawling_schedule_executions", "crawling_schedules", "sellers")


def _sellers_and_schedules() -> None:
    create_table(
        "sellers",
        row_id(),
        need("seller_id", SELLER),
        need("name", varchar(255)),
        need("interval_amount", INT),
        need("interval_unit", CODE),
        need("status", CODE),
        need("total_product_count", INT, start=0),
        need("created_at", TIME),
        need("updated_at", TIME),
        CheckConstraint("interval_amount > 0", name="sellers__ck_interval_amount"),
        unique("sellers__uq_seller_id", "seller_id"),
        Index("sellers__idx_status", "status"),
    )
    create_table(
        "crawling_schedules",
        row_id(),
        need("schedule_id", UUID),
        need("seller_id", SELLER),
        need("schedule_rule", varchar(150)),
        need("schedule_expression", varchar(100)),
        need("interval_amount", INT),
        need("interval_unit", CODE),
        need("status", CODE),
        may("next_run_at", TIME),
        need("created_at", TIME),
        need("updated_at", TIME),
        unique("crawling_schedules__uq_schedule_id", "schedule_id"),
        unique("crawling_schedules__uq_seller_id", "seller_id"),
        Index("crawling_schedules__idx_status", "status", "next_run_at"),
    )


def _runs_and_tasks() -> None:
    create_table(
        "crawling_schedule_executions",
        row_id(),
        need("execution_id", UUID),
        need("schedule_id", UUID),
        need("seller_id", SELLER),
        may("open_seller_id", SELLER),
        need("status", CODE),
        need("total_tasks_created", INT, start=0),
        need("completed_tasks", INT, start=0),
        need("failed_tasks", INT, start=0),
        need("progress_rate", REAL, start=0),
        need("success_rate", REAL, start=0),
        may("list_total", INT),
        may("error_message", TEXT),
        need("created_at", TIME),
        may("started_at", TIME),
        may("completed_at", TIME),
        may("deadline_at", TIME),
        unique("crawling_schedule_executions__uq_execution_id", "execution_id"),
        unique("crawling_schedule_executions__uq_open_seller_id", "open_seller_id"),
        Index("crawling_schedule_executions__idx_schedule_id_started_at", "schedule_id", "started_at"),
        Index("crawling_schedule_executions__idx_seller_id_started_at", "seller_id", "started_at"),
        Index("crawling_schedule_executions__idx_status", "status"),
    )
    create_table(
        "crawler_tasks",
        row_id(),
        need("task_id", UUID),
        need("execution_id", UUID),
        need("seller_id", SELLER),
        need("task_type", CODE),
        need("purpose", CODE),
        may("item_no", BIG),
        may("page_no", INT),
        need("request_url", varchar(2000)),
        need("status", CODE),
        need("retry_count", INT, start=0),
        need("publish_count", INT, start=0),
        need("attempt", INT, start=0),
        need("lost_leases", INT, start=0),
        need("requests_made", INT, start=0),
        may("agent_id", BIG),
        may("worker_id", UUID),
        may("lease_owner", WORD),
        may("lease_until", TIME),
        may("error_message", TEXT),
        need("available_at", TIME),
        need("created_at", TIME),
        may("published_at", TIME),
        may("started_at", TIME),
        may("completed_at", TIME),
        need("updated_at", TIME),
        unique("crawler_tasks__uq_task_id", "task_id"),
        Index("crawler_tasks__idx_seller_id_created_at", "seller_id", "created_at", "status"),
        Index("crawler_tasks__idx_status_created_at", "status", "created_at"),
        Index("crawler_tasks__idx_execution_id_status", "execution_id", "status", "available_at"),
        unique("crawler_tasks__uq_execution_id_item_no_task_type", "execution_id", "item_no", "task_type"),
        Index("crawler_tasks__idx_status_available_at_id", "status", "available_at", "id"),
    )


def _products() -> None:
    create_table(
        "products",
        row_id(),
        need("product_id", UUID),
        need("item_no", BIG),
        need("seller_id", SELLER),
        may("minishop_data_hash", MD5),
        may("detail_data_hash", MD5),
        may("option_data_hash", MD5),
        need("is_complete", BOOL, start=0),
        need("version", INT, start=0),
        need("missing_runs", INT, start=0),
        need("is_changed", BOOL, start=0),
        may("last_seen_execution", UUID),
        may("last_seen_at", TIME),
        need("created_at", TIME),
        need("updated_at", TIME),
        may("deleted_at", TIME),
        unique("products__uq_product_id", "product_id"),
        unique("products__uq_item_no", "item_no"),
        Index("products__idx_seller_id_is_complete", "seller_id", "is_complete"),
    )
    create_table(
        "product_raw_data",
        row_id(),
        need("product_id", UUID),
        need("data_type", CODE),
        need("raw_hash", MD5),
        need("raw_json", LONG_BYTES),
        need("created_at", TIME),
        Index("product_raw_data__idx_product_id_data_type", "product_id", "data_type"),
    )


def _outboxes() -> None:
    create_table(
        "product_outbox",
        row_id(),
        need("outbox_id", UUID),
        need("product_id", UUID),
        need("item_no", BIG),
        need("seller_id", SELLER),
        may("execution_id", UUID),
        need("event_type", CODE),
        need("version", INT),
        need("payload", LONG_TEXT),
        need("status", CODE),
        need("retry_count", INT, start=0),
        need("attempted", BOOL, start=0),
        may("error_message", TEXT),
        may("worker_id", UUID),
        may("lease_until", TIME),
        may("next_attempt_at", TIME),
        need("created_at", TIME),
        need("updated_at", TIME),
        may("sent_at", TIME),
        unique("product_outbox__uq_outbox_id", "outbox_id"),
        Index("product_outbox__idx_status_created_at", "status", "created_at"),
        Index("product_outbox__idx_status_next_attempt_at", "status", "next_attempt_at"),
        Index("product_outbox__idx_product_id", "product_id"),
    )
    create_table(
        "scheduler_outbox",
        row_id(),
        need("outbox_id", UUID),
        need("schedule_id", UUID),
        need("seller_id", SELLER),
        need("event_type", CODE),
        need("payload", LONG_TEXT),
        need("status", CODE),
        need("retry_count", INT, start=0),
        may("error_message", TEXT),
        may("worker_id", UUID),
        may("lease_until", TIME),
        may("next_attempt_at", TIME),
        need("created_at", TIME),
        need("updated_at", TIME),
        may("sent_at", TIME),
        unique("scheduler_outbox__uq_outbox_id", "outbox_id"),
        Index("scheduler_outbox__idx_status_created_at", "status", "created_at"),
        Index("scheduler_outbox__idx_status_next_attempt_at", "status", "next_attempt_at"),
        Index("scheduler_outbox__idx_schedule_id", "schedule_id"),
    )
