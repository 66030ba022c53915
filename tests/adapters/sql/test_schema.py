"""The schema as spec/persistence.md has it, typed here once more by hand, and what it holds against."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import Engine, insert, inspect, select
from sqlalchemy.exc import IntegrityError
from tests.adapters.sql import reflected
from tests.builders import NOW

CRAWL = {
    "sellers": {"uq_seller_id": "seller_id", "idx_status": "status"},
    "crawler_tasks": {
        "uq_task_id": "task_id",
        "idx_seller_id_created_at": "seller_id created_at status",
        "idx_status_created_at": "status created_at",
        "uq_execution_id_item_no_task_type": "execution_id item_no task_type",
        "idx_execution_id_status": "execution_id status available_at",
    },
    "products": {
        "uq_product_id": "product_id",
        "uq_item_no": "item_no",
        "idx_seller_id_is_complete": "seller_id is_complete",
        "idx_updated_at": "updated_at",
    },
    "product_raw_data": {"idx_product_id_data_type": "product_id data_type"},
    "product_outbox": {
        "uq_outbox_id": "outbox_id",
        "idx_status_created_at": "status created_at",
        "idx_status_next_attempt_at": "status next_attempt_at",
        "idx_status_seller_id_next_attempt_at": "status seller_id next_attempt_at",
        "idx_product_id_id_status": "product_id id status",
        "idx_seller_id_sent_at": "seller_id sent_at created_at",
    },
    "crawling_schedules": {
        "uq_schedule_id": "schedule_id",
        "uq_seller_id": "seller_id",
        "idx_status": "status next_run_at",
    },
    "crawling_schedule_executions": {
        "uq_execution_id": "execution_id",
        "uq_open_seller_id": "open_seller_id",
        "idx_schedule_id_started_at": "schedule_id started_at",
        "idx_seller_id_started_at": "seller_id started_at",
        "idx_status": "status",
        "idx_next_start_at": "next_start_at",
    },
    "scheduler_outbox": {
        "uq_outbox_id": "outbox_id",
        "idx_status_created_at": "status created_at",
        "idx_status_next_attempt_at": "status next_attempt_at",
        "idx_status_seller_id_next_attempt_at": "status seller_id next_attempt_at",
        "idx_schedule_id_id_status": "schedule_id id status",
    },
}
POOL = {
    "user_agent_pool": {
        "uq_user_agent_id": "user_agent_id",
        "uq_user_agent_hash": "user_agent_hash",
        "idx_active_unblocked": "status suspended_until",
        "idx_last_used": "last_used_at",
        "idx_usage_stats": "usage_count success_count failure_count",
    },
    "user_agent_token": {
        "uq_token_fingerprint": "token_fingerprint",
        "idx_user_agent_active": "agent_id is_active",
        "idx_expires": "expires_at is_active",
    },
    "token_usage_log": {
        "idx_user_agent_time": "agent_id request_timestamp",
        "idx_429_errors": "is_429_error agent_id request_timestamp",
        "idx_rate_limit": "is_rate_limited request_timestamp",
        "idx_success_time": "is_success request_timestamp",
        "idx_http_status": "http_status_code request_timestamp",
    },
    "circuit_breaker_state": {
        "uq_agent_id": "agent_id",
        "idx_opened": "opened_at",
        "idx_state_failure": "circuit_state failure_count",
    },
    "circuit_breaker_event": {
        "idx_user_agent_time": "agent_id event_timestamp",
        "idx_event_type": "event_type event_timestamp",
        "idx_state_change": "from_state to_state event_timestamp",
    },
    "rate_limit_bucket": {
        "uq_agent_id": "agent_id",
        "idx_last_refill": "last_refill_at",
        "idx_token_level": "current_tokens last_refill_at",
    },
    "removed_agents": {"uq_user_agent_hash": "user_agent_hash"},
    "token_refresh_schedule": {
        "uq_agent_id_token_id": "agent_id token_id",
        "idx_next_refresh": "is_enabled next_refresh_time",
        "idx_failure_count": "consecutive_failures next_refresh_time",
    },
}
SERVICE = {
    "permits": {"idx_answered_boot_us": "answered_boot_us agent_id"},
    "workers": {"uq_worker_id": "worker_id", "idx_heartbeat_at": "heartbeat_at"},
    "pool_breaker": {"uq_marketplace": "marketplace"},
    "marketplace_circuits": {"uq_endpoint": "endpoint"},
    "marketplace_pauses": {"uq_scope": "scope"},
    "job_leases": {"uq_job": "job"},
    "last_backup": {"uq_name": "name"},
    "restores": {},
    "setting_overrides": {"uq_name": "name"},
    "outbox_channels": {"uq_outbox": "outbox"},
    "outbox_attempts": {"idx_outbox_id": "outbox_id"},
    "outbox_seller_circuits": {"uq_outbox_seller_id": "outbox seller_id"},
    "activity": {"idx_subject_id_at": "subject_id at"},
    "audit": {
        "idx_subject_type_subject_id_id": "subject_type subject_id id",
        "idx_actor_id": "actor id",
        "idx_action_id": "action id",
    },
}
CATALOG = {
    "text_conversions": {"uq_table_name": "table_name"},
    "product_changes": {"idx_product_id": "product_id"},
    "changes": {
        "idx_seller_id_created_at": "seller_id created_at",
        "idx_seller_id_kind_created_at": "seller_id kind created_at",
        "idx_execution_id_kind": "execution_id kind",
    },
    "body_hashes": {},
    "run_notes": {"uq_execution_id_kind_name": "execution_id kind name"},
    "quarantine": {"uq_case_id": "case_id", "idx_status": "status", "idx_seller_id_status": "seller_id status"},
    "held_parts": {
        "uq_item_no_data_type": "item_no data_type",
        "idx_execution_id_status": "execution_id status",
        "idx_case_id": "case_id",
    },
    "removals": {"uq_removal_id": "removal_id", "idx_status": "status", "idx_seller_id_status": "seller_id status"},
    "resyncs": {
        "uq_resync_id": "resync_id",
        "uq_open_key": "open_key",
        "idx_seller_id": "seller_id",
        "idx_status": "status",
    },
    "resends": {"uq_resend_id": "resend_id", "idx_status": "status"},
    "resent_events": {
        "uq_resend_id_outbox_id": "resend_id outbox_id",
        "idx_resend_id_next_try_at": "resend_id next_try_at",
        "idx_tried_at": "tried_at",
    },
    "drift": {"uq_endpoint_path": "endpoint path"},
}
REPORTS = {
    "seller_freshness": {"uq_seller_id": "seller_id"},
    "day_metrics": {"uq_seller_id_day": "seller_id day", "idx_day": "day"},
    "day_counts": {"uq_seller_id_day_kind_name": "seller_id day kind name", "idx_kind_name_number": "kind name number"},
}
PEOPLE = {
    "users": {"uq_name": "name"},
    "login_attempts": {"uq_who_hash": "who_hash", "idx_last_at": "last_at"},
    "login_sessions": {"uq_session_id": "session_id", "idx_user_name": "user_name", "idx_expires_at": "expires_at"},
    "api_tokens": {"uq_token_id": "token_id", "idx_expires_at": "expires_at"},
    "idempotency_keys": {"uq_key_hash": "key_hash", "idx_created_at": "created_at"},
}
TABLES: dict[str, dict[str, str]] = {**CRAWL, **POOL, **SERVICE, **CATALOG, **REPORTS, **PEOPLE}


def seller(**changed: object) -> dict[str, object]:
    usual: dict[str, object] = {
        "seller_id": "seller_1",
        "name": "가게",
        "interval_amount": 1,
        "interval_unit": "DAYS",
        "status": "ACTIVE",
        "created_at": NOW,
        "updated_at": NOW,
    }
    return usual | changed


def test_there_are_the_tables_of_the_specification_and_those_of_our_own(migrated: Engine) -> None:
    assert (len(CRAWL), len(POOL), len(SERVICE), len(CATALOG), len(REPORTS), len(PEOPLE)) == (8, 8, 14, 12, 3, 5)
    assert set(inspect(migrated).get_table_names()) == set(TABLES) | {"alembic_version"}


@pytest.mark.parametrize("table", TABLES)
def test_indexes_have_the_papers_names_and_columns(migrated: Engine, table: str) -> None:
    found = {
        str(index["name"]): (" ".join(map(str, index["column_names"])), bool(index["unique"]))
        for index in inspect(migrated).get_indexes(table)
    }
    assert found == {f"{table}__{name}": (columns, name[:3] == "uq_") for name, columns in TABLES[table].items()}


@pytest.mark.parametrize("table", TABLES)
def test_no_index_is_the_beginning_of_another(migrated: Engine, table: str) -> None:
    inspected = inspect(migrated)
    columns = [tuple(index["column_names"]) for index in inspected.get_indexes(table)]
    columns.append(tuple(inspected.get_pk_constraint(table)["constrained_columns"]))
    redundant = [(a, b) for a in columns for b in columns if a is not b and a == b[: len(a)]]
    assert redundant == []


@pytest.mark.parametrize("table", TABLES)
def test_every_row_has_a_big_integer_id_that_sqlite_keeps_as_its_rowid(migrated: Engine, table: str) -> None:
    found = inspect(migrated)
    (key,) = found.get_pk_constraint(table)["constrained_columns"]
    assert {each["name"]: str(each["type"]) for each in found.get_columns(table)}[key] == "INTEGER"


@pytest.mark.parametrize("table", TABLES)
def test_no_table_has_a_foreign_key_or_a_default_time(migrated: Engine, table: str) -> None:
    assert inspect(migrated).get_foreign_keys(table) == []
    times = [each for each in inspect(migrated).get_columns(table) if str(each["type"]) == "DATETIME"]
    assert [each["name"] for each in times if each["default"] is not None] == []


@pytest.mark.parametrize("amount", [0, -1])
def test_an_interval_must_be_positive(migrated: Engine, amount: int) -> None:
    sellers = reflected.tables(migrated)["sellers"]
    with migrated.begin() as database, pytest.raises(IntegrityError, match="sellers__ck_interval_amount"):
        database.execute(insert(sellers), seller(interval_amount=amount))


def test_a_seller_is_unique_by_its_id_and_case_counts(migrated: Engine) -> None:
    sellers = reflected.tables(migrated)["sellers"]
    with migrated.begin() as database:
        database.execute(insert(sellers), [seller(), seller(seller_id="Seller_1")])
        with pytest.raises(IntegrityError):
            database.execute(insert(sellers), seller())


def test_a_seller_has_one_open_run_but_any_number_of_closed_ones(migrated: Engine) -> None:
    runs = reflected.tables(migrated)["crawling_schedule_executions"]

    def run(number: int, open_seller_id: str | None) -> dict[str, object]:
        ids = {"execution_id": f"{number:036d}", "schedule_id": f"{0:036d}", "seller_id": "s"}
        return {**ids, "open_seller_id": open_seller_id, "status": "PENDING", "created_at": NOW}

    with migrated.begin() as database:
        database.execute(insert(runs), [run(1, None), run(2, None), run(3, "s")])
        with pytest.raises(IntegrityError):
            database.execute(insert(runs), run(4, "s"))


def test_a_product_has_one_task_of_a_type_in_a_run_but_a_run_any_number_of_list_pages(migrated: Engine) -> None:
    def task(number: int, task_type: str, item_no: int | None, run: int = 1) -> dict[str, object]:
        ids = {"task_id": f"{number:036d}", "execution_id": f"{run:036d}", "seller_id": "s", "item_no": item_no}
        what = {"task_type": task_type, "purpose": "CRAWL", "request_url": "/", "status": "WAITING"}
        return {**ids, **what, "available_at": NOW, "created_at": NOW, "updated_at": NOW}

    allowed = [
        task(1, "MINISHOP", None),
        task(2, "MINISHOP", None),
        task(3, "PRODUCT_DETAIL", 7),
        task(4, "PRODUCT_OPTION", 7),
        task(5, "PRODUCT_DETAIL", 8),
        task(6, "PRODUCT_DETAIL", 7, run=2),
    ]
    crawler_tasks = reflected.tables(migrated)["crawler_tasks"]
    with migrated.begin() as database:
        database.execute(insert(crawler_tasks), allowed)
        with pytest.raises(IntegrityError):
            database.execute(insert(crawler_tasks), task(7, "PRODUCT_DETAIL", 7))


def test_a_user_agent_is_unique_by_the_hash_of_the_whole_string(migrated: Engine) -> None:
    user_agent_pool = reflected.tables(migrated)["user_agent_pool"]
    with migrated.begin() as database:
        seeded = database.execute(select(user_agent_pool).limit(1)).mappings().one()
        with pytest.raises(IntegrityError):
            database.execute(insert(user_agent_pool), {**seeded, "agent_id": 900, "user_agent_id": "another"})


def test_ids_that_somebody_remembers_are_never_given_twice(migrated: Engine) -> None:
    activity = reflected.tables(migrated)["activity"]
    with migrated.begin() as database:
        first = database.execute(insert(activity), {"at": NOW, "kind": "a"}).inserted_primary_key
        database.execute(activity.delete())
        second = database.execute(insert(activity), {"at": NOW, "kind": "b"}).inserted_primary_key
    assert (first, second) == ((1,), (2,))


def test_times_keep_their_microseconds_and_come_back_in_utc(migrated: Engine) -> None:
    korea = timezone(timedelta(hours=9))
    sellers = reflected.tables(migrated)["sellers"]
    with migrated.begin() as database:
        database.execute(insert(sellers), seller(created_at=NOW.astimezone(korea)))
        found = database.execute(select(sellers.c.created_at)).one()
        raw = database.exec_driver_sql("SELECT created_at || '' FROM sellers").scalar_one()
    assert found.created_at == NOW
    assert found.created_at.tzinfo is UTC
    assert raw == "2026-11-15 06:04:05.123456"


def test_a_whole_second_is_written_as_wide_as_any_other_so_that_times_sort(migrated: Engine) -> None:
    sellers = reflected.tables(migrated)["sellers"]
    with migrated.begin() as database:
        database.execute(insert(sellers), seller(created_at=NOW.replace(microsecond=0)))
        assert (
            database.exec_driver_sql("SELECT created_at || '' FROM sellers").scalar_one()
            == "2026-11-15 06:04:05.000000"
        )


def test_a_time_without_a_zone_is_refused(migrated: Engine) -> None:
    naive = datetime(2026, 2, 3)  # noqa: DTZ001
    sellers = reflected.tables(migrated)["sellers"]
    with migrated.begin() as database, pytest.raises(ValueError, match="time without a zone"):
        database.execute(insert(sellers), seller(created_at=naive))


@pytest.mark.parametrize("on", ["mariadb"])
def test_on_mysql_ids_are_ascii_texts_compare_by_bytes_and_times_have_microseconds(migrated: Engine) -> None:
    with migrated.connect() as database:
        ddl = str(database.exec_driver_sql("SHOW CREATE TABLE crawler_tasks").one()[1])
    assert "`task_id` char(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL" in ddl
    assert "`seller_id` varchar(100) NOT NULL" in ddl
    assert "`created_at` datetime(6) NOT NULL" in ddl
    assert "ENGINE=InnoDB" in ddl
    assert "DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin" in ddl
