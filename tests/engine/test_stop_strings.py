from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from anaphora.engine.stop_strings import StopStringFinder

TEXT = st.text(alphabet="ab.", max_size=30)
STOPS = st.lists(st.text(alphabet="ab.", min_size=1, max_size=4), min_size=1, max_size=3)


def feed_all(finder: StopStringFinder, pieces: Sequence[str]) -> tuple[list[str], str | None]:
    released = []
    for piece in pieces:
        text, stop = finder.feed(piece)
        released.append(text)
        if stop is not None:
            return released, stop
    return [*released, finder.flush()], None


def test_without_stop_strings_nothing_is_held_back() -> None:
    assert feed_all(StopStringFinder(()), ["ab", "c"]) == (["ab", "c", ""], None)


def test_what_may_become_a_stop_string_is_held_back_and_no_more() -> None:
    assert feed_all(StopStringFinder(["END"]), ["it is the E", "N", "d. E", "ND tail"]) == (
        ["it is the ", "", "ENd. ", ""],
        "END",
    )


def test_what_was_held_back_comes_at_the_end() -> None:
    assert feed_all(StopStringFinder(["\n\n"]), ["one\n"]) == (["one", "\n"], None)


def test_the_stop_string_stays_in_the_text_if_asked() -> None:
    assert feed_all(StopStringFinder(["##"], include=True), ["a#", "#b"]) == (["a", "##"], "##")


def test_the_stop_string_that_is_complete_first_counts() -> None:
    assert feed_all(StopStringFinder(["abcd", "bc"]), ["xabcd"]) == (["xa"], "bc")


def test_of_those_that_end_together_the_longest_counts() -> None:
    assert feed_all(StopStringFinder(["c", "abc"]), ["xabc"]) == (["x"], "abc")


@given(
    TEXT, st.lists(st.text(alphabet="ab.", min_size=1, max_size=4), min_size=1, max_size=3), st.booleans(), st.data()
)
def test_borders_between_pieces_do_not_matter(text: str, stops: list[str], include: bool, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    released, stop = feed_all(StopStringFinder(stops, include=include), pieces)

    ends = [(text.find(s) + len(s), text.find(s)) for s in stops if s in text]
    if not ends:
        assert ("".join(released), stop) == (text, None)
    else:
        end, begin = min(ends)
        assert ("".join(released), stop) == (text[: end if include else begin], text[begin:end])
