"""The cache under the simulator, and what is prepared in it."""

from tests.simulator.visiting import NOW, Visitor, open_simulator

from sellerwatch.simulator.recent import LruCache
from sellerwatch.simulator.rendering import Renderer
from sellerwatch.simulator.sessions import SimulatedSessions
from sellerwatch.simulator.world import World

FIRST = 900_000_001


def test_what_was_used_longest_ago_is_forgotten_first() -> None:
    cache: LruCache[str, int] = LruCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)


def test_weights_are_counted_and_given_back() -> None:
    cache: LruCache[str, bytes] = LruCache(100)
    cache.put("a", b"", 60)
    cache.put("a", b"", 40)
    cache.put("b", b"", 60)
    assert (len(cache), cache.weight) == (2, 100)
    cache.put("too heavy", b"", 101)
    assert (len(cache), cache.weight) == (0, 0)


def test_one_that_keeps_all_lets_nothing_go() -> None:
    cache: LruCache[int, bytes] = LruCache(2)
    cache.keep_all()
    for number in range(10):
        cache.put(number, b"", 100)
    assert len(cache) == 10


def test_a_renderer_with_hardly_any_cache_renders_the_same() -> None:
    world = World(1, 1, 20)
    plenty, hardly = Renderer(1), Renderer(1, cache_bytes=20_000)
    products = [product for product in map(world.product, world.listing("seller_0001")) if product]
    for _ in range(2):
        assert plenty.list_page(20, products) == hardly.list_page(20, products)
        for product in products:
            assert plenty.detail(product) == hardly.detail(product)
            assert plenty.options(product) == hardly.options(product)


def test_a_warmed_marketplace_answers_the_same() -> None:
    cold, warm = open_simulator(volatile=False), open_simulator(volatile=False)
    warm.marketplace.warm()
    assert Visitor(cold).enter().detail(FIRST).body == Visitor(warm).enter().detail(FIRST).body


def test_expired_sessions_are_swept_when_there_are_many() -> None:
    sessions = SimulatedSessions()
    old = sessions.issue("a", NOW, 10)
    for _ in range(10_001):
        new = sessions.issue("a", NOW + 20, 10)
    headers = {"user-agent": "a", "cookie": f"nid={old.nid}; mustit_uid={old.mustit_uid}"}
    assert sessions.check(headers | {"authorization": f"Bearer {old.token}"}, NOW)[0] == 401
    headers = {"user-agent": "a", "cookie": f"nid={new.nid}; mustit_uid={new.mustit_uid}"}
    assert sessions.check(headers | {"authorization": f"Bearer {new.token}"}, NOW + 21)[0] == 200
    assert sessions.issued == 10_002
