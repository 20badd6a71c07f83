from hypothesis import given
from hypothesis import strategies as st

from anaphora.kvcache.prompt_memory import PromptMemory
from anaphora.kvcache.token_blocks import TOKEN_BYTES, num_common_units, pack, unpack
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
        assert common(prompt, list(unpack(nearest.prompt))) == longest
        assert nearest.num_units == len(unpack(nearest.prompt))
        assert list(unpack(nearest.prompt)) == prompts[int(nearest.request_id[1:])]


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


@given(st.lists(st.tuples(st.sampled_from(["nearest", "remember", "forget"]), TOKENS), max_size=30))
def test_a_question_before_a_change_and_after_it_changes_nothing(calls: list[tuple[str, list[int]]]) -> None:
    """Places that were looked up are not used after prompts came or went."""
    asked, silent = memory_of(max_prompts=4), memory_of(max_prompts=4)
    for number, (call, tokens) in enumerate(calls):
        prompt = packed(tokens)
        if call == "nearest":
            assert asked.nearest(prompt) == silent.nearest(prompt)
        for memory in (asked, silent):
            if memory is asked:
                memory.nearest(prompt)
            if call == "remember":
                memory.remember(prompt, RequestId(f"r{number}"))
            elif call == "forget":
                memory.forget(prompt, RequestId(f"r{number - 1}"))
        assert asked._sorted == silent._sorted == sorted(asked._request_ids)
