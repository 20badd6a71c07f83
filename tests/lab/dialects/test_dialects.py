"""The dialect table: every row is told from the others, and every family of counters is read in its own unit."""

import pytest

from anaphora.errors import ConfigError
from anaphora.lab.counters import MetricsText, read_counters
from anaphora.lab.dialects import DIALECTS, OTHER, OURS, CounterFamily, Dialect, dialect_named, kind_of

IDS = [row.name for row in DIALECTS]


@pytest.mark.parametrize("row", DIALECTS, ids=IDS)
def test_a_row_is_found_by_its_name_and_by_each_of_its_signs(row: Dialect) -> None:
    assert dialect_named(row.name) is row
    for owner in row.owners:
        assert kind_of("a.host", [{"id": "m", "owned_by": owner.upper()}], ()) is row
    for prefix in row.metrics:
        assert kind_of("a.host", [{"id": "m"}], {f"{prefix}anything", "process_open_fds"}) is row
    for host in row.hosts:
        assert kind_of(host, [], ()) is row


def test_ours_and_the_store_beside_vllm_are_told_from_vllm_although_they_share_its_names() -> None:
    assert kind_of("h", [], {"vllm:prefix_cache_hits", "anaphora:prompt_tokens_by_reason"}) is OURS
    assert kind_of("h", [{"owned_by": "vllm"}], {"vllm:prefix_cache_hits", "lmcache:num_hit_tokens"}).name == "lmcache"
    assert kind_of("h", [{"owned_by": "somebody"}, {}], {"up"}) is OTHER


def test_a_name_that_is_none_leads_to_the_nearest() -> None:
    with pytest.raises(ConfigError, match="no kind of server is called 'VLLMs': did you mean vllm"):
        dialect_named("VLLMs")


def test_every_row_says_what_to_do_and_names_are_unique() -> None:
    assert len(set(IDS)) == len(DIALECTS)
    assert all(row.show_cached_tokens and row.show_metrics and row.enable_caching for row in DIALECTS)


def _text(family: CounterFamily) -> str:
    """A metrics text in which every queried series has 100 and every cached one 30, each with a creation time."""
    label = family.source_label
    sources = family.sources or ("device",)
    lines = []
    for name in dict.fromkeys((*family.queried, *family.cached)):
        base = name.replace("_total", "")
        lines += [f"# HELP {base} x.", f"# TYPE {base} counter"]
        if label and name in family.cached:
            lines += [f'{base}_total{{{label}="{source}"}} 30' for source in sources]
            lines += [f'{base}_total{{{label}="computed_here"}} 100'] if family.sources else []
        else:
            lines.append(f"{base}_total {30 if name in family.cached else 100}")
        lines.append(f"{base}_created 1.7e9")
    return "\n".join(lines) + "\n"


FAMILIES = [(row, family) for row in DIALECTS for family in row.families]


@pytest.mark.parametrize(("row", "family"), FAMILIES, ids=[f"{r.name}/{f.queried[0]}" for r, f in FAMILIES])
def test_every_family_is_read_whole_in_its_unit_and_never_its_creation_times(
    row: Dialect, family: CounterFamily
) -> None:
    reading = read_counters(MetricsText.parse(_text(family)), None, row)
    assert reading is not None
    assert reading.family == family.name
    assert reading.unit == ("blocks" if family.unit == "blocks" else "tokens")
    assert reading.cached == 30 * (len(family.sources) or len(family.cached))
    assert reading.queried >= reading.cached
    assert sum(reading.by_source.values()) == (reading.cached if family.source_label else 0)


@pytest.mark.parametrize("row", [row for row in DIALECTS if not row.families], ids=lambda row: row.name)
def test_a_server_without_cache_counters_has_none_whatever_else_it_publishes(row: Dialect) -> None:
    text = "".join(_text(family) for _, family in FAMILIES)
    assert read_counters(MetricsText.parse(text), None, row) is None


def test_families_of_two_eras_are_never_mixed() -> None:
    new, old = (family for family in dialect_named("vllm").families if "gpu" in family.name or "cache" in family.name)
    both = MetricsText.parse(_text(old) + _text(new))
    assert read_counters(both, None, dialect_named("vllm")) == read_counters(MetricsText.parse(_text(new)))


REAL = {
    "vllm": (  # vLLM 0.32.0
        "# HELP vllm:prefix_cache_queries_total Prefix cache queries, in terms of number of queried tokens.\n"
        "# TYPE vllm:prefix_cache_queries_total counter\n"
        'vllm:prefix_cache_queries_total{engine="0",model_name="smol"} 74605.0\n'
        "# TYPE vllm:prefix_cache_hits_total counter\n"
        'vllm:prefix_cache_hits_total{engine="0",model_name="smol"} 16768.0\n'
        "# TYPE vllm:external_prefix_cache_hits_total counter\n"
        'vllm:external_prefix_cache_hits_total{engine="0",model_name="smol"} 0.0\n'
        "# TYPE vllm:prompt_tokens_by_source_total counter\n"
        'vllm:prompt_tokens_by_source_total{engine="0",model_name="smol",source="local_compute"} 57837.0\n'
        'vllm:prompt_tokens_by_source_total{engine="0",model_name="smol",source="local_cache_hit"} 16768.0\n'
        'vllm:prompt_tokens_by_source_total{engine="0",model_name="smol",source="external_kv_transfer"} 0.0\n',
        (74605, 16768),
    ),
    "llama.cpp": (  # of November 2026
        "# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed, excluding cached tokens\n"
        "# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total 21361\n"
        "# HELP llamacpp:prompt_tokens_cached_total Number of prompt tokens reused from the cache\n"
        "# TYPE llamacpp:prompt_tokens_cached_total counter\nllamacpp:prompt_tokens_cached_total 10726\n",
        (32087, 10726),
    ),
}


@pytest.mark.parametrize("name", REAL)
def test_what_real_servers_publish_is_read(name: str) -> None:
    text, expected = REAL[name]
    metrics = MetricsText.parse(text)
    for reading in (read_counters(metrics, "smol", dialect_named(name)), read_counters(metrics)):
        assert reading is not None
        assert (reading.queried, reading.cached, reading.unit) == (*expected, "tokens")


def test_an_older_llama_cpp_counts_no_cached_tokens_and_that_is_not_zero() -> None:
    text = "# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total 21361\n"
    assert read_counters(MetricsText.parse(text), None, dialect_named("llama.cpp")) is None
