"""Reports in Chinese: nothing of them stays English but names, and nothing of a server's texts is lost."""

import dataclasses
import json
import re
import tomllib
import warnings
from collections.abc import Callable
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from anaphora.cli.main import run as command
from anaphora.errors import ConfigError
from anaphora.lab.comparison.compare import compare
from anaphora.lab.comparison.overview import side_by_side
from anaphora.lab.environment import describe
from anaphora.lab.experiments.base import ExperimentSettings
from anaphora.lab.experiments.costs import CostsSettings
from anaphora.lab.experiments.gradient import GradientSettings
from anaphora.lab.experiments.prompts import PromptsSettings
from anaphora.lab.experiments.registry import EXPERIMENTS
from anaphora.lab.experiments.scenarios import ScenariosSettings
from anaphora.lab.experiments.switch import SwitchSettings
from anaphora.lab.options import BenchOptions
from anaphora.lab.pair import comparison_page
from anaphora.lab.report import languages, write_report
from anaphora.lab.report.languages import CHINESE, LANGUAGES, language_of, messages_of
from anaphora.lab.results import results_of
from anaphora.report.figures import inline_svg
from anaphora.report.language import Catalogue, figure_in
from anaphora.traces.records import RECORDS_FILE, RecordWriter
from tests.lab.comparison.runs import LENGTHS, gradient_run, with_settings
from tests.lab.fake_bench import bench
from tests.lab.fakes import FakeServing
from tests.lab.records import record
from tests.lab.test_report import HOSTILE, both_arms, header, write

SAY = Catalogue(
    {"off": "关", "{n#} of {m#} are {state}": "{m} 个里有 {n} 个{state}", "they differ": "不同", "low": "低"},
    {"; ": ";", ". ": "。"},
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("off", "关"),
        ("3 of 1,204 are off", "1,204 个里有 3 个关"),
        ("3 of 4 are off; they differ", "4 个里有 3 个关;不同"),
        ("They do. they differ.", "They do。不同。"),
        ("offer", "offer"),
        ("some of 4 are off", "some of 4 are off"),
        ("−3.5%", "−3.5%"),
        ("", ""),
        ("  off ", "  关 "),
    ],
)
def test_a_catalogue_translates_what_it_knows_and_leaves_the_rest(text: str, said: str) -> None:
    assert SAY(text) == said


@given(st.text())
def test_a_text_that_is_no_message_is_never_lost(text: str) -> None:
    plain = re.sub(r"[A-Za-z]", "", text)
    assert CHINESE.say(plain) == plain


def test_messages_and_translations_have_the_same_places() -> None:
    for message, text in messages_of("chinese").items():
        assert {name for name, _ in places(message)} == {name for name, _ in places(text)}, message
        assert not [number for _, number in places(text) if number], text


def test_no_message_has_two_translations() -> None:
    known: dict[str, str] = {}
    for file in sorted(Path(languages.__file__).parent.glob("chinese*.toml")):
        for chapter in tomllib.loads(file.read_text("utf-8")).values():
            for message, text in chapter.items():
                assert known.setdefault(message, text) == text, message


def places(text: str) -> list[tuple[str, str]]:
    return re.findall(r"\{(\w+)(#?)\}", text)


class Texts(HTMLParser):
    """Every text of a page outside of code, environment and figures."""

    SILENT = ("style", "code", "pre", "svg")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.silent += tag in self.SILENT

    def handle_endtag(self, tag: str) -> None:
        self.silent -= tag in self.SILENT

    def handle_data(self, data: str) -> None:
        if not self.silent and data.strip():
            self.found.append(data.strip())


NAMES = re.compile(
    r"TTFT|TPOT|ITL|E2E|token|usage|metrics?|cache_salt|salt|ms|Prefix|Anaphora|records\.jsonl|\w+\.jsonl|goodput|Wilson|ours|MODEL|--[a-z-]+|R²|why\?|prefix|P\d\d|UTC|"
    r"switch|gradient|OpenAI-compatible|planted|fake-model|results\.json|h200|x86_64|USD|"
    r"costs|scenarios|prompts|assistant|documents|code|conversation|agents|independent|"  # what the commands take
    r"SmolLM2-135M-Instruct|fake|prefix_cache|nonce|\b[a-z0-9]+_[a-z0-9_]+\b|html|report|`anaphora doctor`"
)


def english_in(page: str) -> list[str]:
    """Texts of a Chinese page, and of its figures, that have an English word which is no name."""
    body = page.split("<h2>环境")[0].replace(escape(describe()["processor"] or ""), "")
    texts = Texts()
    texts.feed(body)
    drawn = re.findall(r"<text[^>]*>([^<]*)</text>", body)
    return [text for text in (*texts.found, *drawn) if re.search(r"[A-Za-z]{3}", NAMES.sub("", text))]


@pytest.mark.draws
def test_a_chinese_page_has_no_english_sentence(tmp_path: Path) -> None:
    records = [*both_arms(100, 10), record(index=9, usage={"prompt_tokens": 100}), *gradient_run(seed=1).requests]
    with RecordWriter(tmp_path / RECORDS_FILE) as writer:
        asked = {"switch": {"prefix_tokens": 100}, "gradient": {}}
        changes = {"mechanism_proof": "", "command": "anaphora", "experiments": asked}
        plain = header(len(records), settings={**header(1).settings, **changes})
        writer.begin(plain)
        for entry in records:
            writer.append(entry)
    write_report(tmp_path, CHINESE)
    page = (tmp_path / "report.html").read_text("utf-8").replace(HOSTILE, "")
    assert '<html lang="zh">' in page
    assert english_in(re.sub(r"&lt;.*?(?:&#x27;|')", "", page)) == []


PRICES = {"input": 0.5, "cached": 0.05, "output": 1.5, "currency": "USD"}
SMALL: dict[str, ExperimentSettings] = {
    "switch": SwitchSettings(prefix_tokens=64, num_questions=3, output_tokens=2),
    "gradient": GradientSettings(lengths=(64, 128, 256), repeats=3),
    "costs": CostsSettings(prefixes=(0, 64, 256), endings=(32, 128), steps=10, repeats=3),
    "scenarios": ScenariosSettings(context_tokens=200, requests=4, output_tokens=3),
    "prompts": PromptsSettings(output_tokens=2),
}


def test_every_experiment_has_its_chinese_guard() -> None:
    assert list(SMALL) == list(EXPERIMENTS)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(
    "serving",
    [
        pytest.param(lambda: FakeServing(jitter=lambda n: n * 7 % 5), marks=pytest.mark.draws),
        lambda: FakeServing(shows_cached=False, honours_salt=False),
        lambda: FakeServing(fails=lambda n: "503" if n > 5 and n % 4 == 0 else None),
        lambda: FakeServing(caching=False),
    ],
    ids=["hits", "silent", "failures", "no-cache"],
)
def test_every_experiment_reports_in_chinese(tmp_path: Path, name: str, serving: Callable[[], FakeServing]) -> None:
    settings = SMALL[name]
    if isinstance(settings, PromptsSettings):
        settings = dataclasses.replace(settings, file=str(own_prompts(tmp_path)))
    (tmp_path / "run").mkdir()
    run, _ = bench(tmp_path / "run", BenchOptions(experiments=(settings,), lang="zh"), main=serving())
    priced = dataclasses.replace(run.header, target={**run.header.target, "prices": PRICES})
    with RecordWriter(tmp_path / RECORDS_FILE) as writer:
        writer.begin(priced)
        for entry in run.requests:
            writer.append(entry)
    write_report(tmp_path, CHINESE)
    assert english_in((tmp_path / "report.html").read_text("utf-8")) == []


def own_prompts(folder: Path) -> Path:
    """Two groups of chats."""
    lines = [
        {"group": group, "messages": [{"role": "user", "content": f"{'一' * 200} {group} {number}?"}]}
        for group in ("甲", "乙")
        for number in range(3)
    ]
    path = folder / "prompts.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines), "utf-8")
    return path


@pytest.mark.parametrize(("factor", "noise"), [(1.0, 0.0), (2.0, 0.05), (0.5, 0.05)])
@pytest.mark.parametrize("lengths", [LENGTHS, (100, 300)])
def test_a_comparison_speaks_chinese(factor: float, noise: float, lengths: tuple[int, ...]) -> None:
    a, b = gradient_run(seed=1, noise=noise), gradient_run(seed=2, factor=factor, noise=noise, lengths=lengths)
    found = compare(a, with_settings(b, lang="zh", server_options=["--x=1"]), anyway=True)
    table = side_by_side(results_of(a), results_of(b))
    page = comparison_page(table, found, "", "anaphora", CHINESE).replace(escape(HOSTILE), "")
    assert english_in(page) == []


@pytest.mark.parametrize("name", ["costs", "scenarios"])
def test_a_comparison_of_other_experiments_speaks_chinese(tmp_path: Path, name: str) -> None:
    runs = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        options = BenchOptions(experiments=(SMALL[name],), lang="zh")
        run, _ = bench(folder, options, main=FakeServing(jitter=lambda n: n * 7 % 5, prefill_ms=number))
        runs.append(run)
    found = compare(*runs, anyway=True)
    table = side_by_side(*map(results_of, runs))
    assert any(row[0].startswith(name) for row in table.rows)
    assert english_in(comparison_page(table, found, "", "anaphora", CHINESE)) == []


def test_the_files_of_numbers_are_the_same_in_every_language(tmp_path: Path) -> None:
    write(tmp_path, both_arms(100, 10))
    files = []
    for language in LANGUAGES.values():
        write_report(tmp_path, language)
        files.append({name: (tmp_path / name).read_bytes() for name in ("results.json", "switch.csv")})
    assert files[0] == files[1]


@pytest.mark.draws
def test_a_figure_speaks_chinese_on_the_page_without_a_font_and_without_warnings() -> None:
    figure = Figure()
    axes, beside = figure.subplots(1, 2, sharey=True)
    beside.plot([0, 1], [0, 1])
    axes.set_title("Time to first token (ms)")
    axes.set_yticks([0, 1], ["question 1", "question 2 (first)"])
    axes.plot([0, 1], [0, 1], label="caching on")
    axes.legend()
    figure_in(figure, CHINESE.say)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svg = inline_svg(figure)
    for text in ("首 token 时间", "问题 1", "问题 2(第一个)", "缓存开"):
        assert text in svg


def test_the_command_takes_the_language_of_the_run_or_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, both_arms(100, 10))
    assert command(["report", str(tmp_path)]) == 0
    assert "prefix caching changed" in capsys.readouterr().out.replace("\n", " ")
    assert command(["report", str(tmp_path), "--lang", "zh"]) == 0
    assert "前缀缓存" in capsys.readouterr().out
    assert command(["report", str(tmp_path), "--lang", "fr"]) == 2
    assert "--lang takes en or zh" in capsys.readouterr().err
    with pytest.raises(ConfigError):
        language_of("")
