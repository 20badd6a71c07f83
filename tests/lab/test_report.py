"""The page and the figures: nothing from outside is trusted, nothing is loaded, nothing is clipped."""

import dataclasses
import errno
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from anaphora.lab.arms import Mechanism
from anaphora.lab.report import figure_files, write_report
from anaphora.lab.report.presentations import answer
from anaphora.lab.report.tables import plain_rows
from anaphora.lab.report.words import interval, model_name, percent, signed_percent
from anaphora.traces.records import RECORDS_FILE, CounterReading, RecordWriter, RequestRecord, RunHeader
from tests.lab.records import record

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&\"'"


def header(num_planned: int, **changes: object) -> RunHeader:
    value = RunHeader(
        run_id="r",
        started_at="2026-11-29T12:00:00+00:00",
        num_planned_requests=num_planned,
        settings={
            "seed": 0,
            "mechanism": "salt",
            "mechanism_proof": HOSTILE,
            "exact_lengths": True,
            "experiments": {"switch": {"prefix_tokens": 100}},
            "command": f"anaphora bench --model '{HOSTILE}'",
        },
        target={"kind": "OpenAI-compatible", "model": HOSTILE, "version": HOSTILE, "cache_settings": {}},
        environment={"num_cpus": 2, "processor": HOSTILE, "load_average": [0.1, 0.1, 0.1], "packages": {"a": "1"}},
    )
    return dataclasses.replace(value, **changes)  # type: ignore[arg-type]


def write(folder: Path, records: list[RequestRecord]) -> None:
    with RecordWriter(folder / RECORDS_FILE) as writer:
        writer.begin(header(len(records)))
        for entry in records:
            writer.append(entry)


def both_arms(off_ms: float, on_ms: float) -> list[RequestRecord]:
    counters = [CounterReading("f", "tokens", 100.0 * n, 96.0 * n) for n in range(4)]
    records = []
    for index in (1, 2, 3):
        phase = "first" if index == 1 else "measured"
        common: dict[str, Any] = {"index": index, "phase": phase, "label": HOSTILE, "answer": HOSTILE}
        records.append(record(arm="off", ttft_ms=off_ms, e2e_ms=off_ms + 5, usage=_usage(0), **common))
        before, after = counters[index - 1], counters[index]
        records.append(record(ttft_ms=on_ms, e2e_ms=on_ms + 5, counters_before=before, counters_after=after, **common))
    return records


def _usage(cached: int) -> dict[str, object]:
    return {"prompt_tokens": 100, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": cached}}


class Elements(HTMLParser):
    """Every element and its attributes, and whether all of them are closed in order."""

    VOID = frozenset({"meta", "br", "img", "link"})

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.draws
def test_texts_of_servers_and_prompts_stay_texts(tmp_path: Path) -> None:
    failed = record(index=4, error=HOSTILE)
    write(tmp_path, [*both_arms(100, 10), failed])
    write_report(tmp_path)
    text = (tmp_path / "report.html").read_text("utf-8")
    elements = Elements()
    elements.feed(text)
    assert not elements.open
    assert not {"script", "img", "iframe", "link", "object"} & set(elements.names)
    assert not [name for name, _ in elements.attributes if name.startswith("on")]
    assert HOSTILE not in text
    assert text.count("&lt;/script&gt;") >= 5


@pytest.mark.draws
def test_the_page_needs_nothing_from_outside(tmp_path: Path) -> None:
    write(tmp_path, both_arms(100, 10))
    write_report(tmp_path)
    text = (tmp_path / "report.html").read_text("utf-8")
    elements = Elements()
    elements.feed(text)
    links = [value for name, value in elements.attributes if name in ("src", "href", "xlink:href")]
    assert all(value is not None and value.startswith("#") for value in links)
    assert not re.search(r"url\((?!#)|@import", text)
    ids = [value for name, value in elements.attributes if name == "id"]
    assert len(set(ids)) == len(ids)
    referred = set(re.findall(r"url\(#([^)]+)\)", text)) | {value[1:] for value in links if value}
    assert referred <= set(ids)
    assert (
        "#0072b2" not in text[text.index("<body>") :]
    )  # figures take the page's colours, so that they follow light and dark
    for heading in (
        "What was asked",
        "Answer",
        "Figures",
        "Tables",
        "Three witnesses",
        "trusted",
        "Environment",
        "again",
    ):
        assert heading in text


@pytest.mark.parametrize(("model", "name"), [("/models/some.gguf", "some.gguf"), ("org/some-model", "org/some-model")])
def test_a_model_that_is_called_by_its_path_is_shown_without_it(model: str, name: str) -> None:
    assert model_name({"model": model}) == name


def test_words_in_front_say_why_there_is_no_salt() -> None:
    assert Mechanism.SALT.proof_in_words("it missed") == ["Proved beforehand: it missed."]
    assert Mechanism.NONCE.proof_in_words("it is ignored") == ["A salt cannot do it here: it is ignored."]
    assert Mechanism.FLAG.proof_in_words("") == []


def test_a_loss_is_printed_as_a_loss(tmp_path: Path) -> None:
    write(tmp_path, both_arms(100, 120))
    results = write_report(tmp_path)
    assert results["experiments"]["switch"]["reduction_percent"]["ttft"] == -20
    assert "from 100.0 to 120.0 ms (+20.0%)" in answer(results)


def test_a_full_disk_leaves_the_report_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save(figure: object, stem: Path) -> None:
        stem.with_suffix(".png").write_bytes(b"half a fig")
        raise OSError(errno.ENOSPC, "No space left on device")

    write(tmp_path, both_arms(100, 10))
    write_report(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr(figure_files, "save", save)
    (tmp_path / RECORDS_FILE).unlink()
    write(tmp_path, both_arms(100, 20))
    before[RECORDS_FILE] = (tmp_path / RECORDS_FILE).read_bytes()
    with pytest.raises(OSError, match="No space left"):
        write_report(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_words() -> None:
    assert [signed_percent(v) for v in (92.6, -2.1, 0.0, None)] == ["−92.6%", "+2.1%", "±0.0%", "–"]
    assert [percent(v) for v in (92.6, -2.1, None)] == ["92.6%", "−2.1%", "unknown"]
    assert interval({"low": -1.0, "high": 2.5, "level": 0.95}) == "−1.0 to 2.5"
    assert plain_rows({"a": {"b": 1, "c": None}, "d": [1, 2]}) == [("a.b", "1"), ("d", "1, 2")]


@pytest.mark.draws
def test_figures_are_sharp_and_vector(tmp_path: Path) -> None:
    write(tmp_path, both_arms(100, 10))
    write_report(tmp_path)
    png = (tmp_path / "figure-switch.png").read_bytes()
    width = int.from_bytes(png[16:20], "big")
    assert width >= 1500
    svg = (tmp_path / "figure-switch.svg").read_text("utf-8")
    assert "<image" not in svg
    assert "<text" not in svg  # letters are outlines: the file looks the same everywhere
