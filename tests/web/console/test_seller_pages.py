"""The pages of sellers and schedules: register, make a run due, see what deactivating does, and deactivate."""

from __future__ import annotations

from tests.builders import SELLER

from sellerwatch.sellers.seller import SellerStatus

from .conftest import Console


async def test_a_seller_is_registered_with_its_first_run_due_at_once(console: Console) -> None:
    await console.admin.see("/sellers/new")
    given = {"seller_id": "s1", "name": "가게", "amount": "6", "unit": "HOURS", "crawl_now": "1"}
    page = await console.admin.send("/sellers/new", **given)
    assert (page.path, page.status) == ("/sellers/s1", 200)
    now = console.world.clock.now()
    assert [due.seller_id for due in await console.world.read(lambda tx: tx.schedules.due(now))] == ["s1"]


async def test_a_form_that_is_refused_is_shown_again_with_the_reason(console: Console) -> None:
    await console.admin.see("/sellers/new")
    page = await console.admin.send("/sellers/new", seller_id="s1", name="가게", amount="31", unit="DAYS")
    assert page.status == 400
    assert "가게" in page.text


async def test_the_next_run_is_made_due_from_a_sellers_page(console: Console) -> None:
    await console.world.register_seller()
    page = await console.admin.see(f"/sellers/{SELLER}")
    assert f'action="/schedules/{SELLER}/run-now"' in page.text
    assert "The next run is now due." in (await console.admin.send(f"/schedules/{SELLER}/run-now")).words


async def test_deactivating_is_confirmed_in_numbers_before_anything_changes(console: Console) -> None:
    await console.world.register_seller()
    await console.world.add_run(done=1, waiting=2)
    before = await console.world.all_rows()
    asked = await console.admin.see(f"/sellers/{SELLER}/deactivate")
    assert "2 tasks have not finished" in asked.words
    assert await console.world.all_rows() == before
    assert "2 waiting tasks were cancelled" in (await console.admin.send(f"/sellers/{SELLER}/deactivate")).words
    seller = await console.world.read(lambda tx: tx.sellers.get(SELLER))
    assert seller is not None
    assert seller.status is SellerStatus.INACTIVE
    again = await console.admin.see(f"/sellers/{SELLER}/deactivate")
    assert again.status == 409


async def test_the_coming_day_has_the_runs_that_start_in_it(console: Console) -> None:
    await console.world.register_seller()
    page = await console.viewer.see("/schedules")
    assert f'href="/sellers/{SELLER}"' in page.text
    assert "every 1 day" in page.words
    none = await console.viewer.see("/schedules?status=FAILED")
    assert "No schedule matches." in none.words
