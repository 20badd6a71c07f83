"""Synthetic traffic of many tenants, seeded: what real traces at hand do not show, and what breaks some policies.

Every mix is a trace of block ids for 64 tokens. Who asks in it: :mod:`benchmarks.cache.actors`.
"""

from collections.abc import Callable
from pathlib import Path

from benchmarks.cache.actors import BLOCK_SIZE, World, agent, chat, loop, one_off, questions

from anaphora.traces.request import Trace, TraceRequest


def _systems(world: World, num: int) -> list[list[int]]:
    return [world.new(world.length(12)) for _ in range(num)]


def _zipf(world: World, num: int) -> int:
    """A number below ``num``: the first is asked for most."""
    return world.random.choices(range(num), [1 / (i + 1) for i in range(num)])[0]


def tenants(world: World, num_requests: int) -> list[TraceRequest]:
    """Chats of 40 tenants, each with a system prompt of its own, some with much traffic and most with little."""
    systems = _systems(world, 40)
    for at in range(num_requests):
        tenant = _zipf(world, 40)
        world.begin(at * 2.5, chat(world, systems[tenant], 0.6, 120), tenant)
    return world.play(num_requests)


def many_tenants(world: World, num_requests: int) -> list[TraceRequest]:
    """Chats of 400 tenants, more than a cache remembers the evictions of."""
    systems = _systems(world, 400)
    for at in range(num_requests):
        tenant = _zipf(world, 400)
        world.begin(at * 2.5, chat(world, systems[tenant], 0.6, 120), tenant)
    return world.play(num_requests)


def scans(world: World, num_requests: int) -> list[TraceRequest]:
    """The chats of 20 tenants, while one of them sends a long document through that nobody asks about again."""
    systems = _systems(world, 20)
    for at in range(num_requests):
        tenant = _zipf(world, 20)
        world.begin(at * 2.5, chat(world, systems[tenant], 0.6, 120), tenant)
        if at % 2:
            world.begin(at * 2.5, one_off(world, systems[0], 100))
    return world.play(num_requests)


def agents(world: World, num_requests: int) -> list[TraceRequest]:
    """Agents in loops of tool calls, some waiting long for a tool or a person, beside a few chats."""
    systems = [world.new(80) for _ in range(4)]
    for at in range(num_requests):
        tenant = at % 4
        pause = 4 if world.random.random() < 0.8 else 60
        world.begin(at * 12, agent(world, systems[tenant], round(world.length(12)), pause), tenant)
        if at % 4 == 0:
            world.begin(at * 12, chat(world, systems[tenant], 0.6, 120), tenant)
    return world.play(num_requests)


def retrieval(world: World, num_requests: int) -> list[TraceRequest]:
    """Bursts of questions about documents, some documents being asked about all day, and one-off documents between."""
    system = world.new(10)
    shelf = [system + world.new(world.length(40)) for _ in range(200)]
    for at in range(num_requests):
        if at % 3 == 0:
            document = shelf[_zipf(world, 200)]
            world.begin(at * 2, questions(world, document, round(world.length(3)), 10))
        elif at % 3 == 1:
            document = system + world.new(world.length(60))
            world.begin(at * 2, questions(world, document, round(world.length(2)), 20))
        else:
            world.begin(at * 2, one_off(world, system, 60))
    return world.play(num_requests)


def cyclic(world: World, num_requests: int) -> list[TraceRequest]:
    """One crawler that reads the same 300 documents over and over: what was used longest ago is wanted next."""
    world.begin(0, loop([world.new(world.length(20)) for _ in range(300)]))
    return world.play(num_requests)


def cyclic_and_chats(world: World, num_requests: int) -> list[TraceRequest]:
    """Such a crawler, taking every second turn, beside the chats of 10 tenants."""
    systems = _systems(world, 10)
    world.begin(0, loop([world.new(world.length(20)) for _ in range(300)]), tenant=99)
    for at in range(num_requests):
        tenant = _zipf(world, 10)
        world.begin(at * 2.5, chat(world, systems[tenant], 0.6, 80), tenant)
    return world.play(num_requests)


def fashions(world: World, num_requests: int) -> list[TraceRequest]:
    """Documents that many ask about for a while, and then nobody ever again: counts of past uses mislead."""
    system = world.new(10)
    for at in range(num_requests):
        if at % 40 == 0:
            shelf = [system + world.new(world.length(30)) for _ in range(30)]
        document = shelf[_zipf(world, 30)]
        world.begin(at * 2, questions(world, document, 1, 1))
        if at % 2:
            world.begin(at * 2, chat(world, system, 0.5, 60))
    return world.play(num_requests)


def day_and_night(world: World, num_requests: int) -> list[TraceRequest]:
    """Chats by day that are continued; by night a batch of documents, each read twice, and chats that are not."""
    systems = _systems(world, 5)
    for at in range(num_requests):
        system = systems[at % 5]
        if (at // 400) % 2 == 0:
            world.begin(at * 2, chat(world, system, 0.7, 60))
            if at % 3 == 0:
                world.begin(at * 2, one_off(world, system, 60))
        else:
            world.begin(at * 2, questions(world, system + world.new(world.length(60)), 2, 60))
            if at % 3 == 0:
                world.begin(at * 2, chat(world, system, 0, 60))
    return world.play(num_requests)


def turncoat(world: World, num_requests: int) -> list[TraceRequest]:
    """What has been learnt turns against the learner: short prompts return and long ones do not, then the reverse."""
    for at in range(num_requests):
        short_ones_return = (at // 300) % 2 == 0
        for blocks, returns in ((5, short_ones_return), (25, not short_ones_return)):
            prompt = world.new(world.length(blocks, 0.3))
            world.begin(at * 3, questions(world, prompt, 2 if returns else 1, 50))
    return world.play(num_requests)


def tenant_leaves(world: World, num_requests: int) -> list[TraceRequest]:
    """Two tenants; the one whose prompts always return stops at half time, and another takes over whose seldom do."""
    systems = _systems(world, 3)
    for at in range(num_requests):
        half = at * 2.5 > num_requests / 2
        if half:
            world.begin(at * 2.5, chat(world, systems[2], 0.2, 100, blocks_a_turn=12), tenant=2)
        else:
            world.begin(at * 2.5, chat(world, systems[0], 0.9, 100), tenant=0)
        if at % 2:
            world.begin(at * 2.5, chat(world, systems[1], 0.6, 60), tenant=1)
    return world.play(num_requests)


def unique(world: World, num_requests: int) -> list[TraceRequest]:
    """No two prompts have anything in common."""
    for at in range(num_requests):
        world.begin(at, one_off(world, [], 12))
    return world.play(num_requests)


MIXES: dict[str, Callable[[World, int], list[TraceRequest]]] = {
    make.__name__: make
    for make in (
        tenants,
        many_tenants,
        scans,
        agents,
        retrieval,
        cyclic,
        cyclic_and_chats,
        fashions,
        day_and_night,
        turncoat,
        tenant_leaves,
        unique,
    )
}


def make_mix(name: str, seed: int, num_requests: int) -> Trace:
    """A mix by its name. Equal arguments give equal requests."""
    requests = MIXES[name](World(seed), num_requests)
    return Trace(Path(f"{name}-{seed}"), "mix", BLOCK_SIZE, len(requests), tuple(requests), ())
