"""Commands and queries: each surface offers every one, or there is a reason why not; none talks to a transaction."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src/sellerwatch"
FEATURES = (
    "access",
    "agents",
    "catalog",
    "crawling",
    "operations",
    "outbox",
    "oversight",
    "reports",
    "schedules",
    "sellers",
)
LAYER = tuple(f"{feature}/*.py" for feature in FEATURES)
#: Steps of a log-in and of a repeated request, which run by a session too. Nobody asks for one of them.
STEPS_OF_REQUESTS = tuple(
    f"sellerwatch.access.{name}" for name in ("logins", "login_sessions", "api_tokens", "idempotency")
)
#: Parts of the web that the console shares with the API.
SHARED = ("web/*.py", "web/api/auth.py")
SURFACES = {"api": "web/api", "cli": "cli", "console": "web/console"}

KEYS = "Tokens are sealed anew after TOKEN_KEYS was changed: where the settings are, which is the command line."
EXPORT = "An export is a file as large as the catalogue; the API lists products page by page, the console as CSV."
RETENTION = "A service does it every hour; doing it now may take many minutes, which no request waits for."
RULES = "EventBridge's rules are compared by an administrator of AWS, with keys that the service need not have."
STEPS = "One request is one transaction; what is left over is named in the answer, to be asked for again."
CHECK = (
    "It reads every row, which may take minutes: no request waits for it, and no service shares its database with it."
)
RESTORE = "It is a step of `db restore`, on a copy that no service works with yet."
TOKEN = "Who makes a credential that outlives a log-in must be at the machine; a log-in that was stolen cannot."
NO_LOGIN = "The command line works on the database and needs no log-in."
STREAM = "Pages and programs follow the event stream; `audit list` and `executions progress` show what it said."
DEMO = "It is for the progress of `crawl` and `demo`; others have the same numbers of each run."
DAY = "The numbers of one day are for programs; people see the runs of the day with theirs."
CHART = "It is a chart; the numbers of an agent are in `agents show` and its route."
OUTLOOK = "`plan` and its route say when each run ends and whether the day has room for all."
MONITORS = "These are numbers for monitors; people see them on the overview, with `status`, and what to do about them."

#: What a surface does not offer, and why.
REASONS: dict[tuple[str, str], str] = {
    ("access.commands.create_token", "api"): TOKEN,
    ("access.commands.create_token", "console"): TOKEN,
    ("agents.commands.rekey_tokens", "api"): KEYS,
    ("agents.commands.rekey_tokens", "console"): KEYS,
    ("catalog.queries.count_complete", "console"): "It is for the progress of an export or a reparse.",
    ("catalog.queries.export_page", "api"): EXPORT,
    ("catalog.queries.export_page", "console"): EXPORT,
    ("catalog.queries.product_bodies", "console"): "The page of a product links each body as a file.",
    ("catalog.queries.product_diff", "console"): "The page of a product shows what differs from version to version.",
    ("crawling.commands.retry_task", "cli"): "`tasks retry` takes one id or several.",
    ("crawling.commands.retry_tasks", "console"): "A page retries one task, or all of a choice.",
    ("crawling.queries.show_task", "console"): "The page Why? shows a task with all that led to it.",
    ("crawling.queries.follow_runs", "api"): DEMO,
    ("crawling.queries.follow_runs", "console"): DEMO,
    ("crawling.queries.saw_everything", "api"): DEMO,
    ("crawling.queries.saw_everything", "console"): DEMO,
    ("operations.aws.all_schedules", "api"): RULES,
    ("operations.aws.all_schedules", "console"): RULES,
    ("operations.database_check.check_database", "api"): CHECK,
    ("operations.database_check.check_database", "console"): CHECK,
    ("operations.restore.adopt_backup", "api"): RESTORE,
    ("operations.restore.adopt_backup", "cli"): RESTORE,
    ("operations.restore.adopt_backup", "console"): RESTORE,
    ("operations.export.export_products", "api"): EXPORT,
    ("operations.export.export_products", "console"): EXPORT,
    ("operations.outbox.move_all_chosen", "api"): STEPS,
    ("operations.outbox.move_all_chosen", "console"): STEPS,
    ("operations.reparse.reparse_products", "console"): "It is for the upgrade of a parser, which pages do not do.",
    ("operations.retention.apply_retention", "api"): RETENTION,
    ("operations.retention.apply_retention", "console"): RETENTION,
    ("operations.tasks.retry_all_chosen", "api"): STEPS,
    ("operations.tasks.retry_all_chosen", "console"): STEPS,
    ("operations.users.log_in", "cli"): NO_LOGIN,
    ("operations.users.log_in_with_new_password", "cli"): NO_LOGIN,
    ("reports.agent_minutes.agent_minutes", "api"): CHART,
    ("reports.agent_minutes.agent_minutes", "cli"): CHART,
    ("reports.capacity.show_plan", "console"): "The page of schedules shows the coming day by the same forecast.",
    ("reports.queries.activity_after", "cli"): STREAM,
    ("reports.queries.activity_after", "console"): STREAM,
    ("reports.queries.activity_span", "cli"): STREAM,
    ("reports.queries.activity_span", "console"): STREAM,
    ("reports.attention.list_attention", "cli"): "`status` begins with it.",
    ("reports.attention.list_attention", "console"): "The overview begins with it.",
    ("reports.day_metrics.crawling_metrics", "cli"): DAY,
    ("reports.day_metrics.crawling_metrics", "console"): DAY,
    ("reports.day_metrics.daily_metrics", "cli"): DAY,
    ("reports.queries.read_metrics", "cli"): MONITORS,
    ("reports.queries.read_metrics", "console"): MONITORS,
    ("reports.queries.read_service_parts", "cli"): MONITORS,
    ("reports.queries.read_service_parts", "console"): MONITORS,
    ("reports.schedule_outlook.schedule_outlook", "api"): OUTLOOK,
    ("reports.schedule_outlook.schedule_outlook", "cli"): OUTLOOK,
    ("reports.queries.show_last_backup", "api"): "`GET /api/v1/status` has it.",
    ("reports.queries.show_last_backup", "cli"): "`status` has it.",
    ("schedules.queries.list_schedules", "console"): "The page lists schedules by next start, beside the coming day.",
    ("sellers.queries.show_schedule", "console"): "A seller's page shows its schedule.",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def module_of(path: Path, package: Path) -> str:
    return ".".join(("sellerwatch", *path.relative_to(package).with_suffix("").parts))


def is_operation(node: Function) -> bool:
    """It takes a transaction and a context, or a session of operations."""
    kinds = [ast.unparse(argument.annotation) for argument in node.args.args[:2] if argument.annotation is not None]
    is_public = not node.name.startswith("_")
    return is_public and ("OperationContext" in kinds or "OperationSession" in kinds[:1])


def names_used(tree: ast.Module, node: ast.AST, module: str) -> set[str]:
    """The full names of all that `node` uses of this module and of others: `sellerwatch.agents.queries.list_agents`."""
    imported = {
        alias.asname or alias.name: f"{line.module}.{alias.name}"
        for line in ast.walk(tree)
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }
    used = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            used.add(imported.get(each.id, f"{module}.{each.id}"))
        elif isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
            used.add(f"{imported.get(each.value.id, '')}.{each.attr}")
    return used


def layer(package: Path) -> tuple[list[str], dict[str, set[str]]]:
    """The full names of all operations, and what each function of their modules and of shared ones uses."""
    operations, uses = [], {}
    for pattern in (*LAYER, *SHARED):
        for path in sorted(package.glob(pattern)):
            module, tree = module_of(path, package), ast.parse(path.read_text("utf-8"))
            for node in tree.body:
                if isinstance(node, Function):
                    uses[f"{module}.{node.name}"] = names_used(tree, node, module)
                    is_offered = pattern in LAYER and module not in STEPS_OF_REQUESTS and is_operation(node)
                    operations += [f"{module}.{node.name}"] * is_offered
    return operations, uses


def offered(package: Path, folder: str, uses: dict[str, set[str]]) -> set[str]:
    """What a surface uses of the layer, also through another operation."""
    found: set[str] = set()
    for path in (package / folder).rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        found |= names_used(tree, tree, module_of(path, package))
    return reached(found, uses)


def reached(names: Iterable[str], uses: dict[str, set[str]]) -> set[str]:
    found, waiting = set(), set(names)
    while waiting:
        found |= waiting
        waiting = {used for name in waiting for used in uses.get(name, ())} - found
    return found


OPERATIONS, USES = layer(PACKAGE)
OFFERED = {surface: offered(PACKAGE, folder, USES) for surface, folder in SURFACES.items()}


def short(name: str) -> str:
    return name.removeprefix("sellerwatch.")


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("name", OPERATIONS, ids=short)
def test_an_operation_is_offered_by_each_surface_or_there_is_a_reason_why_not(name: str, surface: str) -> None:
    is_offered, reason = name in OFFERED[surface], REASONS.get((short(name), surface))
    assert is_offered or reason, f"{surface} does not offer {name}"
    assert not (is_offered and reason), f"{surface} offers {name} now; take its reason out"


def test_no_reason_is_kept_for_what_is_gone() -> None:
    known = {short(name) for name in OPERATIONS}
    assert [key for key in REASONS if key[0] not in known or key[1] not in SURFACES] == []


def test_a_new_operation_without_surfaces_is_found(tmp_path: Path) -> None:
    (tmp_path / "sellers").mkdir()
    (tmp_path / "cli").mkdir()
    (tmp_path / "sellers/queries.py").write_text(
        "def count_sellers(tx: SellersTx, _: OperationContext) -> CountView: ...\n"
        "def list_sellers(tx: SellersTx, context: OperationContext) -> ListView:\n    count_sellers(tx, context)\n"
        "def rank_sellers(tx: SellersTx, _: OperationContext) -> RankView: ...\n"
    )
    (tmp_path / "cli/sellers.py").write_text(
        "from sellerwatch.sellers import queries\n"
        "def show(rank_sellers: bool) -> None:\n    session.ask(queries.list_sellers)\n"
    )
    operations, uses = layer(tmp_path)
    found = offered(tmp_path, "cli", uses)
    assert [name for name in operations if name not in found] == ["sellerwatch.sellers.queries.rank_sellers"]


@pytest.mark.parametrize("folder", SURFACES.values())
def test_no_surface_talks_to_a_transaction(folder: str) -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in sorted((PACKAGE / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.arg) and node.arg == "tx"
    ]
    assert found == []
