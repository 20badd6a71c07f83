"""The examples of docs/cache.md, run as they stand."""

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "cache.md"


def test_every_example_prints_what_the_page_says() -> None:
    text = PAGE.read_text("utf-8")
    examples = "\n".join(re.findall(r"```pycon\n(.*?)```", text, flags=re.DOTALL))
    test = doctest.DocTestParser().get_doctest(examples, {}, "cache.md", str(PAGE), 0)
    found: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(test, out=found.append)
    assert not results.failed, "".join(found)
    assert results.attempted >= 40


def test_the_pool_of_twelve_is_drawn_as_it_is() -> None:
    """The picture's last row, read backwards from what is evicted first."""
    text = PAGE.read_text("utf-8")
    names = re.findall(r"\[(\w+)\]", next(line for line in text.splitlines() if line.startswith("  A again")))
    order = next(line for line in text.splitlines() if line.startswith("(9, 8"))
    evicted = [names[int(number)] for number in re.findall(r"\d+", order)]
    assert evicted == ["B1", "B0", *(f"A{number}" for number in reversed(range(10)))]
