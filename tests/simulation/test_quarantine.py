"""What looks like a redesign, or like our own misreading, is held: nothing of it reaches the receiver unseen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.simulated_service import settings_of
from tests.simulation.altered import Altered, described_by, info_of
from tests.simulation.service_world import ServiceWorld, play, simulated

from sellerwatch.catalog.facts import DetailFacts
from sellerwatch.catalog.quarantine import Case, CaseKind, CaseStatus
from sellerwatch.crawling.commands import cancel
from sellerwatch.crawling.execution import ExecutionStatus
from sellerwatch.crawling.ports import NoteKind
from sellerwatch.kernel.ids import ItemNo
from sellerwatch.marketplaces.mustit.client import MustitMarketplace
from sellerwatch.operations.quarantine import ReleasedCaseView, drop_case, release_case
from sellerwatch.service.service import Service
from sellerwatch.simulator.rendering import Redesign
from sellerwatch.simulator.world import MutationKind


async def cases(world: ServiceWorld, status: CaseStatus | None = None) -> Sequence[Case]:
    page = await world.store.read(lambda tx: tx.quarantine.page(seller_id=None, status=status, cursor=None, limit=100))
    return page.content


async def open_case(world: ServiceWorld) -> Case:
    (case,) = await cases(world, CaseStatus.OPEN)
    return case


async def release(world: ServiceWorld, service: Service, case: Case, marketplace: Any = None) -> ReleasedCaseView:
    """Release a case as an operator does, with the service's parser or another one."""
    session = world.session(service)
    rules = replace(session.rules, marketplace=marketplace or session.rules.marketplace)
    return await release_case(replace(session, rules=rules), case.case_id)


async def drop(world: ServiceWorld, service: Service, case: Case) -> int:
    return (await world.session(service).run(drop_case, case.case_id)).dropped


def events(world: ServiceWorld) -> int:
    return len(world.simulator.product_server.events())


async def pauses(world: ServiceWorld) -> list[str]:
    run = (await world.executions())[-1]
    notes = await world.store.read(lambda tx: tx.run_notes.of(run.execution_id))
    return list(notes[NoteKind.PAUSED])


class Retaught(MustitMarketplace):
    """Today's parser, which has learnt the new names."""

    def read_detail(self, body: bytes, item_no: ItemNo) -> DetailFacts:
        old = body.replace(b'"productTitle"', b'"itemName"').replace(b'"salePrice"', b'"sellingPrice"')
        return super().read_detail(old, item_no)


def retaught(service: Service) -> Retaught:
    market = service.crawl.marketplace
    assert isinstance(market, MustitMarketplace)
    return Retaught(market._transport, "http://practice", market._open_token)


def test_a_redesign_makes_no_event_pauses_the_run_and_other_sellers_go_on(migrated_template: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        redesign = Redesign(as_text=())
        async with world.serving() as service:
            await world.crawl(service, sellers)
            before = events(world)
            world.simulator.marketplace.renderer.redesign(redesign, sellers=sellers[:1])
            for item in world.simulator.world.listing(sellers[1])[:3]:
                world.simulator.world.change(item, world.rng, "reprice")
            await world.start(service, sellers[0])
            await world.crawl_to_end(service, sellers[1])
            await world.until(lambda: _is_paused(world))
            case = await open_case(world)
            assert (case.kind, case.seller_id) == (CaseKind.UNREADABLE, sellers[0])
            assert case.field == "DETAIL MISSING where=ProductInfoModule.itemName"
            assert events(world) == before + 3, "only what the other seller changed"
            waiting = await world.count("SELECT COUNT(*) FROM crawler_tasks WHERE status = 'WAITING'")
            assert waiting > 0, "the rest of the run burns no budget"
            asked = sum(world.simulator.marketplace.stats()["requests"].values())
            await world.clock.sleep(600)
            assert sum(world.simulator.marketplace.stats()["requests"].values()) <= asked + 6, "re-checks, nothing else"
            # The shop takes it back: what was held is dropped, the run goes on and finds nothing changed.
            world.simulator.marketplace.renderer.redesign(None)
            assert await drop(world, service, case) >= 10
            await world.settle(service)
            await world.crawl(service, sellers)
            assert events(world) == before + 3
            world.check_world()

    async def _is_paused(world: ServiceWorld) -> bool:
        runs = [run for run in await world.executions() if run.is_open]
        notes = [await world.store.read(lambda tx, r=r: tx.run_notes.of(r.execution_id)) for r in runs]  # type: ignore[misc]
        return any(note[NoteKind.PAUSED] for note in notes)

    play(migrated_template, story, sellers=2, products=60)


@simulated(sellers=1, products=8)
async def test_releasing_after_the_parser_has_learnt_the_new_names_restores_order(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        await world.crawl(service, sellers)
        world.simulator.marketplace.renderer.redesign(Redesign(as_text=()))
        changed = world.simulator.world.listing(sellers[0])[2]
        world.simulator.world.change(changed, world.rng, "reprice")
        await world.crawl(service, sellers)
        case = await open_case(world)
        still = await release(world, service, case)
        assert (still.taken, still.unreadable, still.status) == (0, 8, CaseStatus.OPEN)
        before = events(world)
        released = await release(world, service, case, retaught(service))
        assert (released.taken, released.unreadable, released.status) == (8, 0, CaseStatus.RELEASED)
        await world.settle(service)
        assert [e.item_no for e in world.simulator.product_server.events(before)] == [changed]
        world.check_world()


def test_a_field_that_changes_everywhere_is_held_with_a_sample_and_leaves_the_products_alone(
    migrated_template: Path,
) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        door = world.transport = Altered(world.transport)
        async with world.serving() as service:
            await world.crawl(service, sellers)
            before, held = events(world), await _products(world)
            door.details = described_by("<p>점검 중입니다</p>")
            await world.crawl(service, sellers)
            assert events(world) == before
            case = await open_case(world)
            assert (case.kind, case.field) == (CaseKind.SHARE, "descriptionHtml")
            assert case.sample_after == "<p>점검 중입니다</p>"
            assert await _held(world) == 70
            assert await _products(world) == held, "product and hashes are as they were"
            # The next run holds them again, under the same case; the shop's return to normal frees them.
            await world.crawl(service, sellers)
            assert (await open_case(world)).case_id == case.case_id
            door.stop()
            await world.crawl(service, sellers)
            assert (await _held(world), events(world)) == (0, before)
            assert await cases(world, CaseStatus.OPEN) == [], "nobody is left to decide about"
            world.check_world()

    async def _held(world: ServiceWorld) -> int:
        return await world.count("SELECT COUNT(*) FROM held_parts")

    async def _products(world: ServiceWorld) -> list[Any]:
        sql = "SELECT item_no, minishop_data_hash, detail_data_hash, option_data_hash, version FROM products ORDER BY 1"
        history = "SELECT COUNT(*) FROM product_changes"
        return await world.store.read(lambda tx: [*tx.db.rows(sql), *tx.db.rows(history)])

    play(migrated_template, story, sellers=1, products=70)


@pytest.mark.parametrize("verb", ["release", "drop"])
@simulated(sellers=1, products=120)
async def test_what_a_person_decides_stays_decided(world: ServiceWorld, verb: str) -> None:
    sellers = await world.register_all()
    door = world.transport = Altered(world.transport)
    async with world.serving() as service:
        await world.crawl(service, sellers)
        door.details = described_by("<p>새 설명</p>")
        await world.crawl(service, sellers)
        before, case = events(world), await open_case(world)
        if verb == "release":
            released = await release(world, service, case)
            assert released.taken == released.events == 120
            await world.settle(service)
            assert events(world) == before + 120
        else:
            assert await drop(world, service, case) == 120
        await world.crawl(service, sellers)
        assert await cases(world, CaseStatus.OPEN) == []
        assert events(world) == before + (120 if verb == "release" else 0)
        told = world.simulator.product_server.product(world.simulator.world.listing(sellers[0])[0])
        assert told is not None
        assert (told["descriptionHtml"] == "<p>새 설명</p>") is (verb == "release")
        # A change of another field of a dropped body is a new body: it is told.
        item = world.simulator.world.listing(sellers[0])[5]
        world.simulator.world.change(item, world.rng, "reprice")
        await world.crawl(service, sellers)
        assert world.simulator.product_server.events()[-1].item_no == item


@pytest.mark.parametrize("how", ["reprice", "restock"])
@simulated(sellers=1, products=60)
async def test_all_prices_or_stocks_may_change_overnight(world: ServiceWorld, how: str) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        await world.crawl(service, sellers)
        for item in list(world.simulator.world.listing(sellers[0])):
            world.simulator.world.change(item, world.rng, how)
        await world.crawl(service, sellers)
        assert await cases(world) == []
        world.check_world()


@pytest.mark.parametrize("products", [10, 80])
def test_changes_of_a_few_products_are_told_once_enough_or_all_have_been_judged(
    migrated_template: Path, products: int
) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        async with world.serving() as service:
            await world.crawl(service, sellers)
            changed = list(world.simulator.world.listing(sellers[0]))[:5]
            for item in changed:
                world.simulator.world.change(item, world.rng, "redescribe")
            before = events(world)
            await world.crawl(service, sellers)
            told = world.simulator.product_server.events(before)
            assert sorted(event.item_no for event in told) == sorted(changed)
            assert await world.count("SELECT COUNT(*) FROM held_parts") == 0
            world.check_world()

    play(migrated_template, story, sellers=1, products=products)


def test_a_run_that_is_cut_short_still_has_what_it_found_judged(migrated_template: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        await world.leave_agents(3)
        async with world.serving() as service:
            await world.crawl(service, sellers)
            world.simulator.world.mutate(60, world.rng, {MutationKind.CHANGED: 1})
            before = events(world)
            run = await world.start(service, sellers[0])
            assert run is not None
            await world.until(lambda: _pending(world))
            await world.transact_with_ids(
                lambda tx, ids: cancel(tx, run, service.crawl.rules, actor="kim", ids=ids, now=world.now)
            )
            await world.clock.sleep(400)
            assert await world.count("SELECT COUNT(*) FROM held_parts WHERE status = 'PENDING'") == 0
            assert events(world) > before
            await world.crawl(service, sellers)
            world.check_world()

    async def _pending(world: ServiceWorld) -> bool:
        return await world.count("SELECT COUNT(*) FROM held_parts WHERE status = 'PENDING'") > 0

    play(
        migrated_template,
        story,
        settings=settings_of(WINDOW_SECONDS=600, REQUESTS_PER_SECOND=1),
        sellers=1,
        products=45,
    )


def test_one_answer_of_another_shape_is_held_and_overtaken_by_the_next_good_one(migrated_template: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        door = world.transport = Altered(world.transport)
        async with world.serving() as service:
            await world.crawl(service, sellers)
            item = world.simulator.world.listing(sellers[0])[4]

            def odd(detail: Any) -> Any:
                info = info_of(detail)
                info["stock"] = str(info["stock"]) if info["itemNo"] == item else info["stock"]
                return detail

            door.details = odd
            (run,) = await world.crawl(service, sellers)
            assert (run.status, run.failed_tasks) == (ExecutionStatus.COMPLETED, 1)
            assert (await open_case(world)).sample_item == item
            door.stop()
            await world.crawl(service, sellers)
            assert await world.count("SELECT COUNT(*) FROM held_parts") == 0
            world.check_world()

    play(migrated_template, story, sellers=1, products=10)


@simulated(sellers=1, products=6)
async def test_a_new_products_unreadable_detail_is_taken_in_by_a_release(world: ServiceWorld) -> None:
    sellers = await world.register_all()
    world.simulator.marketplace.renderer.redesign(Redesign(as_text=()))
    async with world.serving() as service:
        await world.crawl(service, sellers)
        assert events(world) == 0
        await release(world, service, await open_case(world), retaught(service))
        await world.settle(service)
        assert events(world) == 6
        world.check_world()


def test_fields_the_contract_does_not_have_are_in_the_drift_report(migrated_template: Path) -> None:
    async def story(world: ServiceWorld) -> None:
        sellers = await world.register_all()
        door = world.transport = Altered(world.transport)

        def richer(detail: Any) -> Any:
            info_of(detail)["ecoScore"] = 5
            return detail

        door.details = richer
        async with world.serving() as service:
            await world.crawl(service, sellers)
            (noted,) = await world.store.read(lambda tx: tx.drift.all())
            assert noted.path == "moduleList[].ProductInfoModule.ecoScore"
            assert noted.times > 1
            world.check_world()

    play(migrated_template, story, sellers=1, products=40)


@simulated(settings=settings_of(FIELD_POLICIES="prices=ignore, stock=ignore, soldOut=ignore"), sellers=1, products=10)
async def test_a_body_equal_to_the_last_one_is_not_stored_again_and_a_policy_keeps_its_peace(
    world: ServiceWorld,
) -> None:
    sellers = await world.register_all()
    async with world.serving() as service:
        await world.crawl(service, sellers)
        bodies = await world.count("SELECT COUNT(*) FROM product_raw_data")
        before = events(world)
        await world.crawl(service, sellers)
        assert await world.count("SELECT COUNT(*) FROM product_raw_data") == bodies
        for item in list(world.simulator.world.listing(sellers[0])):
            world.simulator.world.change(item, world.rng, "reprice")
        await world.crawl(service, sellers)
        assert events(world) == before, "prices are ignored"
