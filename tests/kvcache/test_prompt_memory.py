from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from anaphora.kvcache.prompt_memory import WINDOW_UNITS, NearestPrompt, PromptMemory
from anaphora.kvcache.token_blocks import TOKEN_BYTES, num_common_units, pack, units_of, unpack
from anaphora.types import RequestId

TOKENS = st.lists(st.sampled_from([0, 1, 255, 256, 70000]), max_size=8)


def packed(tokens: list[int]) -> bytes:
    return pack(tokens).tobytes()


def common(a: list[int], b: list[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def memory_of(*prompts: list[int], max_prompts: int = 10) -> PromptMemory:
    memory = PromptMemory(max_prompts)
    for number, prompt in enumerate(prompts):
        memory.remember(packed(prompt), RequestId(f"r{number}"))
    return memory


@given(TOKENS, TOKENS)
def test_common_tokens(a: list[int], b: list[int]) -> None:
    assert num_common_units(packed(a), packed(b), TOKEN_BYTES) == common(a, b)


@given(st.integers(0, 2999), st.integers(1, 5))
def test_common_units_of_long_prompts(place: int, width: int) -> None:
    prompt = list(range(3000))
    other = [*prompt[:place], 2**31, *prompt[place + 1 :]]
    assert num_common_units(packed(prompt), packed(other), width * TOKEN_BYTES) == place // width


@given(st.lists(TOKENS, max_size=12), TOKENS)
def test_the_nearest_prompt_has_the_longest_common_beginning_of_all(
    prompts: list[list[int]], prompt: list[int]
) -> None:
    nearest = memory_of(*prompts, max_prompts=12).nearest(packed(prompt))
    longest = max((common(prompt, other) for other in prompts), default=0)
    assert (nearest.num_common_units if nearest else 0) == longest
    if nearest:
        earlier = prompts[int(nearest.request_id[1:])]
        assert common(prompt, earlier) == longest
        assert nearest.num_units == len(earlier)
        assert list(unpack(nearest.next_units)) == earlier[longest:]


def test_what_is_shown_of_the_nearest_prompt_is_bounded() -> None:
    nearest = memory_of(list(range(100)), [*range(30), 7]).nearest(packed([*range(31), 8]))
    assert nearest is not None
    assert unpack(nearest.next_units) == tuple(range(31, 31 + WINDOW_UNITS))


def test_of_two_equally_near_prompts_the_longer_one_is_the_nearest() -> None:
    memory = memory_of([1, 2], [1, 2, 9, 9])
    nearest = memory.nearest(packed([1, 2, 5]))
    assert nearest is not None
    assert (nearest.request_id, nearest.num_common_units, nearest.num_units) == ("r1", 2, 4)


def test_nothing_in_common_is_nothing_near() -> None:
    assert memory_of([1, 2]).nearest(packed([2, 1])) is None
    assert memory_of().nearest(packed([2, 1])) is None


def test_the_prompt_seen_longest_ago_is_forgotten_first() -> None:
    memory = memory_of([1], [2], [1], [3], max_prompts=2)
    assert len(memory) == 2
    assert memory.nearest(packed([2])) is None
    nearest = memory.nearest(packed([1]))
    assert nearest is not None
    assert nearest.request_id == "r0", "a prompt keeps the name of its first request"


def test_a_memory_of_nothing_remembers_nothing() -> None:
    assert len(memory_of([1], max_prompts=0)) == 0


def test_only_the_request_that_brought_a_prompt_in_takes_it_out() -> None:
    memory = memory_of([1], [2])
    memory.forget(packed([1]), RequestId("r1"))
    assert len(memory) == 2
    memory.forget(packed([1]), RequestId("r0"))
    memory.forget(packed([1]), RequestId("r0"))
    assert memory.nearest(packed([1])) is None
    assert memory.nearest(packed([2])) is not None


class SortedPrompts:
    """The definition: prompts in the order of their bytes, of which one's two neighbours are the nearest."""

    def __init__(self, max_prompts: int) -> None:
        self._max_prompts = max_prompts
        self.request_ids: dict[bytes, RequestId] = {}

    def remember(self, prompt: bytes, request_id: RequestId) -> None:
        self.request_ids[prompt] = self.request_ids.pop(prompt, request_id)
        if len(self.request_ids) > self._max_prompts:
            del self.request_ids[next(iter(self.request_ids))]

    def forget(self, prompt: bytes, request_id: RequestId) -> None:
        if self.request_ids.get(prompt) == request_id:
            del self.request_ids[prompt]

    def nearest(self, prompt: bytes) -> NearestPrompt | None:
        prompts = sorted(self.request_ids)
        place = bisect_left(prompts, prompt)
        nearest, most = b"", 0
        for other in prompts[max(place - 1, 0) : place + 1]:
            num_common = num_common_units(prompt, other, TOKEN_BYTES)
            if num_common > most or (num_common == most and len(other) >= len(nearest)):
                nearest, most = other, num_common
        if not most:
            return None
        shown = units_of(nearest, most, most + WINDOW_UNITS)
        return NearestPrompt(self.request_ids[nearest], most, len(nearest) // TOKEN_BYTES, shown)


def check_tree(memory: PromptMemory) -> set[bytes]:
    """Each node is where its parent says, and is needed. Returns the prompts that it spells."""
    spelt = set()
    stack = [memory._tree._root]
    while stack:
        node = stack.pop()
        path = node.spelt(0, node.depth)
        assert len(path) == node.depth
        if node.is_end:
            spelt.add(path)
        assert node.is_end == (node in memory._request_ids)
        assert node.parent is None or node.is_end or len(node.children) > 1
        assert list(node.first_bytes) == sorted(node.children)
        for first, child in node.children.items():
            assert (child.parent, child.edge[0], child.start) == (node, first, node.depth)
        stack += node.children.values()
    return spelt


PROMPTS = TOKENS.map(packed) | st.binary(max_size=13)  # a simulator's may end in half a unit
CALLS = st.lists(
    st.tuples(st.sampled_from(["nearest", "remember", "remember", "forget", "clear"]), PROMPTS), max_size=40
)


@given(CALLS, st.booleans())
def test_the_memory_is_as_if_prompts_were_sorted(calls: list[tuple[str, bytes]], asks_before: bool) -> None:
    """Also where a prompt was looked for before: no such place is used after prompts came or went."""
    memory, definition = PromptMemory(5), SortedPrompts(5)
    for number, (call, prompt) in enumerate(calls):
        if call == "nearest" or asks_before:
            assert memory.nearest(prompt) == definition.nearest(prompt)
        if call == "remember":
            memory.remember(prompt, RequestId(f"r{number}"))
            definition.remember(prompt, RequestId(f"r{number}"))
        elif call == "forget":
            memory.forget(prompt, RequestId(f"r{number - 1}"))
            definition.forget(prompt, RequestId(f"r{number - 1}"))
        elif call == "clear" and number % 4 == 0:
            memory.clear()
            definition.request_ids.clear()
        assert check_tree(memory) == set(definition.request_ids)
        assert list(memory._request_ids.values()) == list(definition.request_ids.values())
