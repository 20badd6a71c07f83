"""With blocks enough, hits are what a dictionary of exact prefixes says. Blocks of 4 tokens."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scheduler.bench import make_bench

BLOCK = 4
TOKEN = 7  # what every request samples, so that answers are found by later prompts
PROMPTS = st.builds(
    lambda head, turns: [*head, *(token for turn in turns for token in turn)],
    st.sampled_from([[1] * 6, [1, 2] * 5, [3]]),
    st.lists(st.sampled_from([[TOKEN] * 3, [1], [2, 2]]), max_size=4),
)
REQUESTS = st.tuples(st.sampled_from(["", "x"]), PROMPTS, st.integers(0, 6))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.lists(REQUESTS, min_size=1, max_size=4), max_size=5))
def test_hits_equal_a_dictionary_of_exact_prefixes(rounds: list[list[tuple[str, list[int], int]]]) -> None:
    bench = make_bench(num_blocks=150, budget=1000)
    stored: set[tuple[str, tuple[int, ...]]] = set()
    num_requests = num_hits = 0
    for requests in rounds:
        expected = {}
        for namespace, prompt, max_tokens in requests:  # all are admitted in one step, one after another
            name = f"r{num_requests}"
            num_requests += 1
            bench.add(name, prompt, max_tokens, namespace=namespace)
            reusable = [tuple(prompt[:end]) for end in range(BLOCK, len(prompt), BLOCK)]
            found = [(namespace, prefix) in stored for prefix in reusable]
            expected[name] = ([*found, False].index(False)) * BLOCK
            stored |= {(namespace, tuple(prompt[:end])) for end in range(BLOCK, len(prompt) + 1, BLOCK)}
        bench.drain(token=TOKEN)
        assert {name: bench.cached(name) for name in expected} == expected
        num_hits += sum(expected.values())
        for namespace, prompt, max_tokens in requests:
            computed = [*prompt, *[TOKEN] * (max_tokens - 1)]
            stored |= {(namespace, tuple(computed[:end])) for end in range(BLOCK, len(computed) + 1, BLOCK)}
    stats = bench.scheduler.cache.stats
    assert (stats.num_requests, stats.num_cached_tokens) == (num_requests, num_hits)
    assert stats.num_stored_blocks == len(stored)
    assert bench.scheduler.stats.num_preemptions == 0
