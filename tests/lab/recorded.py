"""Real servers once recorded, played again: their own headers, fields and chunk borders, with a fake's arithmetic in
the numbers that depend on what was asked before.

A file is made by ``benchmarks/servers/record.py``.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from anaphora.lab.slots import SlotCache
from tests.lab.fakes import Canned, FakeServing, Route

FOLDER = Path(__file__).parents[1] / "data" / "recorded"
VLLM_BLOCK = 128
LLAMA_CPP_SLOTS = 4
_FRAMING = ("content-type", "content-length", "transfer-encoding", "connection")


class Recorded:
    """One recorded server. ``hides_cached``: vLLM as it is started by default, whose answers have no
    ``prompt_tokens_details``."""

    def __init__(self, name: str, *, hides_cached: bool = False) -> None:
        self.exchanges: Mapping[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))["exchanges"]
        self.is_vllm = name == "vllm"
        self.hides_cached = hides_cached
        self.words = FakeServing(block_size=VLLM_BLOCK)
        self._slots = SlotCache(LLAMA_CPP_SLOTS)
        self.queried = self.cached = 0

    def canned(self, name: str, change: Callable[[str], str] = lambda text: text) -> Canned:
        """A recorded answer, with its own chunks; ``change`` is made in each."""
        answered = self.exchanges[name]["answered"]
        headers = {key.lower(): value for key, value in answered["headers"].items()}
        return Canned(
            status=answered["status"],
            content_type=headers["content-type"],
            headers=tuple(f"{key}: {value}" for key, value in headers.items() if key not in _FRAMING),
            writes=tuple(change(chunk).encode("latin-1") for chunk in answered["chunks"]),
        )

    def routes(self) -> dict[str, Route]:
        """What was asked of the real server, and is asked again."""
        routes: dict[str, Route] = {
            "GET /v1/models": lambda *_: self.canned("models"),
            "GET /version": lambda *_: self.canned("version"),
            "GET /props": lambda *_: self.canned("props"),
            "GET /metrics": lambda *_: self.canned("metrics before", self._counts),
            "POST /v1/chat/completions": self._chat,
            "POST /tokenize": self._tokenize,
            "POST /reset_prefix_cache": lambda *_: self.canned("reset"),
        }
        if not self.is_vllm:
            routes["POST /apply-template"] = self._template
        return routes

    def _chat(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> Canned:
        if not isinstance(body["messages"], list):
            return self.canned("error: no list of messages")
        if self.is_vllm and (body.get("tools") or "/" in body.get("cache_salt", "")):
            return self.canned("tools" if body.get("tools") else "error: salt with a slash")
        prompt, cached = self._serve(body)
        self.queried += prompt
        self.cached += cached
        name = "chat stream, new" if body.get("stream") else "chat whole"
        return self.canned(name, lambda text: self._with_usage(text, prompt, cached))

    def _serve(self, body: Mapping[str, Any]) -> tuple[int, int]:
        if self.is_vllm:
            return self.words.serve(body["messages"], body.get("cache_salt"))
        ids = self.words.token_ids(self.words.words(body["messages"]))
        return len(ids), self._slots.serve(ids, 6)

    def _with_usage(self, text: str, prompt: int, cached: int) -> str:
        numbers = {"prompt_tokens": prompt, "cached_tokens": cached, "cache_n": cached, "prompt_n": prompt - cached}
        for field, value in numbers.items():
            text = re.sub(rf'"{field}":\d+', f'"{field}":{value}', text)
        return re.sub(r',"prompt_tokens_details":\{[^}]*\}', "", text) if self.hides_cached else text

    def _counts(self, text: str) -> str:
        computed = self.queried - self.cached
        counts = {
            r'vllm:prompt_tokens_by_source_total\{[^}]*source="local_compute"\}': computed,
            r'vllm:prompt_tokens_by_source_total\{[^}]*source="local_cache_hit"\}': self.cached,
            r"llamacpp:prompt_tokens_total": computed,
            r"llamacpp:prompt_tokens_cached_total": self.cached,
        }
        for series, value in counts.items():
            text = re.sub(rf"(?m)^({series}) \S+", rf"\g<1> {value}", text)
        return text

    def _tokenize(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> Canned:
        if self.is_vllm and "messages" in body:
            words = self.words.words(body["messages"])
        else:
            words = str(body["prompt" if self.is_vllm else "content"]).split()
        tokens = json.dumps(self.words.token_ids(words))
        return self.canned("tokenize text", lambda text: re.sub(r'"tokens":\[[^]]*\]', f'"tokens":{tokens}', text))

    def _template(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> Canned:
        rendered = json.dumps(" ".join(self.words.words(body["messages"])))
        return self.canned("template", lambda _: f'{{"prompt":{rendered}}}')
