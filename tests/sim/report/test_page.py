"""The page of a simulation: nothing from outside is trusted, nothing is loaded, everything is explained."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from anaphora.report.colours import COLOUR_VARIABLES
from anaphora.report.figures import inline_svg
from anaphora.report.style import STYLE
from anaphora.sim.prompt_blocks import cut_into_blocks
from anaphora.sim.report.answer import answer
from anaphora.sim.report.figures import draw, names_of
from anaphora.sim.report.page import page
from anaphora.sim.report.results import results_of
from anaphora.sim.report.words import CLASSES, duration, thousands
from anaphora.sim.reuse import reuse_of
from anaphora.sim.sweep import RunPlan, Sweep
from anaphora.traces.reader import read_trace

TRACE = Path(__file__).parents[2] / "data" / "traces" / "mooncake_conversation_300.jsonl.gz"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&\"'"


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    trace = read_trace(TRACE)
    sweep = Sweep(cut_into_blocks(trace))
    plans = [RunPlan(policy, num_blocks) for policy in ("default", "belady") for num_blocks in (400, 1600, None)]
    runs = sweep.run_all(plans, lambda num_done: None)
    reuse = reuse_of(sweep.prompts, sweep.computed_paths)
    return results_of(trace, sweep.working_set, reuse, runs, None, "anaphora simulate")


@pytest.fixture(scope="module")
def text(results: dict[str, Any]) -> str:
    return page_of(results)


def page_of(results: dict[str, Any]) -> str:
    return page(results, {name: inline_svg(draw(name, results)) for name in names_of(results)})


class Elements(HTMLParser):
    """Names, attributes, and whether everything is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_texts_of_a_trace_stay_texts(results: dict[str, Any]) -> None:
    trace = {**results["trace"], "path": f"/x/{HOSTILE}.jsonl", "format": HOSTILE, "remarks": [HOSTILE]}
    runs = [{**run, "policy": HOSTILE} for run in results["runs"]]
    text = page_of({**results, "trace": trace, "runs": runs, "command": HOSTILE})
    elements = Elements(text)
    assert not elements.open
    assert not {"script", "img", "iframe", "link", "object"} & set(elements.names)
    assert not [name for name, _ in elements.attributes if name.startswith("on")]
    assert HOSTILE not in text


def test_the_page_loads_nothing_and_follows_light_and_dark(text: str) -> None:
    elements = Elements(text)
    links = [value for name, value in elements.attributes if name in ("src", "href", "xlink:href")]
    assert all(value is not None and value.startswith("#") for value in links)
    assert not re.search(r"url\((?!#)|@import", text)
    ids = [value for name, value in elements.attributes if name == "id"]
    assert len(set(ids)) == len(ids)
    body = text[text.index("<body>") :]
    assert set(re.findall(r"#[0-9a-f]{6}\b", body)) <= {"#000000", "#ffffff"}


def test_the_page_explains_itself(results: dict[str, Any], text: str) -> None:
    for part in ("Engine’s rule", "Trace rule", "Reuse distance", "working set", "nothing strange was found"):
        assert part in text
    shown = {reason for reason in CLASSES if f"<dt>{reason}</dt>" in text}
    assert shown == {reason for reason in CLASSES if any(run["ledger"][reason] for run in results["runs"])}
    assert "default serves" in answer(results)
    assert "However large, no cache serves more than 8.1%." in answer(results)
    whole = {**results, "trace": {**results["trace"], "distinct_blocks": results["runs"][0]["capacity_blocks"]}}
    assert "blocks (100% of the distinct ones)" in answer(whole)


def test_every_class_and_colour_is_known(results: dict[str, Any]) -> None:
    assert set(CLASSES) == set(results["runs"][0]["ledger"])
    for variable in COLOUR_VARIABLES.values():
        assert STYLE.count(f"{variable[4:-1]}:") >= 2, f"{variable} is not set for light and dark"


def test_words() -> None:
    assert [duration(s) for s in (0, 0.004, 1, 59.99, 90, 7200, 86400 * 2)] == [
        "0",
        "4 ms",
        "1 s",
        "1 min",
        "1.5 min",
        "2 h",
        "2 d",
    ]
    assert [thousands(n) for n in (7, 950, 18279, 1.5e6, 2e9)] == ["7", "950", "18.3k", "1.5M", "2G"]
