"""Cases 11, 12 and 14 over HTTP: cached tokens at block borders, scored prompts, salts; and the ledger in the usage."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from anaphora.server.settings import ServerSettings
from tests.patience import LOCAL
from tests.server.live import MODEL, LiveServer, client_of, serving

CASES = Path(__file__).parents[1] / "data" / "cases"
BORDERS = CASES / "11-engine-full-hit-block-boundary"
SCORING = CASES / "12-engine-echo-logprobs"
SALTS = CASES / "14-engine-cache-salt"


def complete(client: httpx.Client, prompt: Any, **fields: Any) -> dict[str, Any]:
    body = {"model": MODEL, "prompt": prompt, "max_tokens": 1, "temperature": 0, **fields}
    response = client.post("/v1/completions", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def cached(answer: dict[str, Any]) -> int:
    count: int = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    return count


def counters(client: httpx.Client) -> dict[str, float]:
    lines = [line for line in client.get("/metrics").text.splitlines() if not line.startswith("#")]
    return {line.partition("{")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_cached_tokens_at_every_block_border(tiny_model: Path) -> None:
    rows = [json.loads(line) for line in (BORDERS / "prompts.jsonl").read_text().splitlines()]
    with serving(tiny_model) as on, client_of(on) as client:
        for row in rows:
            first, repeat, extended = (complete(client, row[key]) for key in ("first", "first", "extended"))
            found = {"first": cached(first), "repeat": cached(repeat), "extended": cached(extended)}
            assert found == row["expect_cached"], row["n"]
            assert first["choices"] == repeat["choices"]
            row["texts"] = [answer["choices"][0]["text"] for answer in (first, extended)]
    with (
        serving(tiny_model, enable_prefix_caching=False) as off,
        client_of(off) as client,
    ):
        for row in rows:
            answers = [complete(client, row[key]) for key in ("first", "extended")]
            assert [cached(answer) for answer in answers] == [0, 0]
            assert [answer["choices"][0]["text"] for answer in answers] == row["texts"]
        assert counters(client)["vllm:prefix_cache_queries_total"] == 0


def test_a_scored_prompt_passes_the_cache_by_and_costs_no_hit_rate(client: httpx.Client, tiny_model: Path) -> None:
    body = json.loads((SCORING / "request.json").read_text())
    zero = json.loads((SCORING / "request-zero.json").read_text())
    expected = json.loads((SCORING / "expected.json").read_text())
    before = counters(client)
    answers = [client.post("/v1/completions", json=sent).json() for sent in (body, body, zero)]
    after = counters(client)
    for name in ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"):
        assert after[name] == before[name]
    with serving(tiny_model, enable_prefix_caching=False) as off:
        answers.append(httpx.post(f"{off.url}/v1/completions", json=body, **LOCAL).json())
    scores = [answer["choices"][0]["logprobs"]["token_logprobs"] for answer in answers]
    assert [len(score) for score in scores] == [41, 41, 40, 41]
    assert expected["len_token_logprobs"] == 41
    assert all(score[0] is None for score in scores)
    for score in scores[1:]:
        assert score[1:40] == pytest.approx(scores[0][1:40], abs=expected["max_abs_diff_fp32"])
    assert [cached(answer) for answer in answers] == [0, 0, 0, 0]
    assert answers[2]["choices"][0]["finish_reason"] == "length"
    assert answers[2]["usage"]["completion_tokens"] == 0


def test_salts_separate_and_equal_salts_share(client: httpx.Client) -> None:
    texts = set()
    for line in (SALTS / "steps.jsonl").read_text().splitlines():
        step = json.loads(line)
        response = client.post("/v1/completions", json=step["body"])
        assert response.status_code == step["expect_status"], step["id"]
        if response.status_code == 200:
            assert cached(response.json()) == step["expect_cached"], step["id"]
            texts.add(response.json()["choices"][0]["text"])
        else:
            assert response.json()["error"]["param"] == "cache_salt"
    assert len(texts) == 1


def test_api_keys_are_tenants(tiny_model: Path) -> None:
    settings = ServerSettings(served_model_names=(MODEL,), api_keys=("one", "two"))
    prompt = list(range(10, 60))
    with serving(tiny_model, settings) as server:
        for key, expected in (("one", 0), ("one", 48), ("two", 0), ("two", 48)):
            with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {key}"}, **LOCAL) as client:
                assert cached(complete(client, prompt)) == expected


def test_a_request_can_leave_the_cache_unread(client: httpx.Client) -> None:
    prompt = list(range(60, 110))
    complete(client, prompt)
    answer = complete(client, prompt, cache_prompt=False, include_ledger=True)
    assert answer["usage"]["prompt_tokens_details"] == {
        "cached_tokens": 0,
        "ledger": {"reasons": {"bypassed": 50}, "divergence": None, "evicted_blocks_ago": None},
    }
    assert cached(complete(client, prompt)) == 48


def test_the_ledger_tells_where_prompts_part(client: httpx.Client) -> None:
    prompt = list(range(110, 174))
    first = complete(client, prompt, cache_salt="ledger")
    answer = complete(client, [*prompt[:40], 7, *prompt[41:]], cache_salt="ledger", include_ledger=True)
    ledger = answer["usage"]["prompt_tokens_details"]["ledger"]
    assert ledger["reasons"] == {"reused_device": 32, "diverged": 32}
    assert ledger["divergence"]["position"] == 40
    assert ledger["divergence"]["earlier_request_id"] == first["id"]
    assert ledger["divergence"]["expected"]["token_ids"][0] == 150
    assert ledger["divergence"]["found"]["token_ids"][0] == 7


def test_a_tenant_does_not_see_what_others_have(client: httpx.Client) -> None:
    prompt = list(range(174, 238))
    complete(client, prompt, cache_salt="a")
    usage = complete(client, prompt, cache_salt="b", include_ledger=True)["usage"]
    assert usage["prompt_tokens_details"]["ledger"]["reasons"] == {"new": 64}


def test_the_operator_sees_every_ledger_as_it_is(client: httpx.Client) -> None:
    prompt = [*range(150, 200), *range(20, 34)]
    complete(client, prompt, cache_salt="c")
    answer = complete(client, prompt, cache_salt="d")
    account = client.get(f"/cache/requests/{answer['id']}").json()
    assert account == {
        "id": answer["id"],
        "requests": [
            {
                "prompt_tokens": 64,
                "cached_tokens": 0,
                "completion_tokens": 1,
                "recomputed_tokens": 0,
                "ledger": {"reasons": {"isolated": 64}, "divergence": None, "evicted_blocks_ago": None},
            }
        ],
    }


def test_the_prompt_counts_once_whatever_n_is(client: httpx.Client) -> None:
    prompt = list(range(238, 288))
    answer = complete(client, [prompt, prompt[:20]], n=3, temperature=1, max_tokens=4, cache_salt="n", ignore_eos=True)
    assert [choice["index"] for choice in answer["choices"]] == list(range(6))
    assert answer["usage"] == {
        "prompt_tokens": 70,
        "completion_tokens": 24,
        "total_tokens": 94,
        "prompt_tokens_details": {"cached_tokens": 16},  # the second prompt begins as the first
    }


def test_a_reset_forgets_all_blocks(client: httpx.Client) -> None:
    prompt = list(range(288, 338))
    complete(client, prompt)
    assert cached(complete(client, prompt)) == 48
    assert client.post("/reset_prefix_cache").json() == {"reset": True}
    assert cached(complete(client, prompt)) == 0


def test_a_reset_is_refused_while_blocks_are_in_use(live: LiveServer, client: httpx.Client) -> None:
    prompt = list(range(338, 388))
    body = {"prompt": [5], "n": 4, "max_tokens": 500, "ignore_eos": True, "stream": True}
    for _ in range(30):  # on a busy machine all may be generated before the reset comes: then it is truthful
        complete(client, prompt)
        with httpx.stream("POST", f"{live.url}/v1/completions", json=body, **LOCAL) as running:
            next(running.iter_bytes())
            response = client.post("/reset_prefix_cache")
            if response.status_code == 409:
                assert response.json()["error"]["code"] == "cache_in_use"
                assert cached(complete(client, prompt)) == 48
                return
        assert response.json() == {"reset": True}
    pytest.fail("no reset was refused")
