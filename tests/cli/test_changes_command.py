"""`sellerwatch changes list`: a list that is narrowed goes on as it was narrowed."""

from __future__ import annotations

import shlex

from .cli_world import ONE, CliWorld, CrawledProducts


def test_the_command_that_shows_more_keeps_what_the_list_was_narrowed_by(world: CliWorld) -> None:
    shop = CrawledProducts(world)
    shop.crawl()
    narrowed = ("changes", "list", "--seller", ONE, "--kind", "new", "--kind", "gone", "--limit", "2")
    said = world.said(*narrowed)
    (command,) = [line for line in said.splitlines() if line.startswith("More: ")]
    program, *typed = shlex.split(command.removeprefix("More: "))
    assert (program, tuple(typed[:-2])) == ("sellerwatch", narrowed)
    first, rest = world.json(*narrowed), world.json(*typed)
    assert typed[-2:] == ["--cursor", first["next"]]
    assert {each["itemNo"] for each in (*first["content"], *rest["content"])} == set(shop.items)
