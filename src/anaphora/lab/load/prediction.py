"""The third witness of a load: what the cache core itself would have served of a stage's requests.

The simulator's core gets the prompts of a stage, tokenised, in the order in which they were sent, after those of the
stages before. It takes one request after another: what a request finds that others compute at the same moment is not in
it. In a closed loop that is the beginning of a stage alone; where requests come at their own times it may be any.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anaphora.errors import RequestError
from anaphora.lab.arms import Mechanism
from anaphora.lab.load.records import LoadRecord, Stage, StagePrediction
from anaphora.lab.load.timings import num_output_tokens
from anaphora.lab.load.workloads import AnyWorkload
from anaphora.lab.prediction import block_size_of, cache_config, num_blocks_of, num_slots_of
from anaphora.lab.targets.base import PromptTokenizer
from anaphora.sim.predict import Replay, SimulatedRequest
from anaphora.types import Namespace

MOST_PROMPTS = 4000
"""So many prompts of a stage are tokenised at most: some seconds."""


class Predictor:
    """Fed stage after stage. ``cache``: what the server publishes of its cache's settings; where it does not tell its
    size, each stage is taken to begin with an empty cache in which nothing need be evicted."""

    def __init__(
        self,
        tokenizer: PromptTokenizer,
        mechanism: Mechanism,
        cache: Mapping[str, Any],
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._tokenizer = tokenizer
        self._mechanism = mechanism
        self._cache = cache
        self._note = note
        self._block_size = block_size_of(cache)
        num_blocks = num_blocks_of(cache)
        self._replay = None if num_blocks is None else Replay(cache_config(cache, num_blocks))

    async def predict(self, stage: Stage, workload: AnyWorkload, records: Sequence[LoadRecord]) -> StagePrediction:
        """Of every request that was sent, failed ones too."""
        sent = sorted(records, key=lambda record: record.sent_ns)
        if stage.loop != "closed":
            return self._none(stage, "requests that come at their own times overlap: what others compute is not known")
        if num_slots_of(self._cache) is not None:
            return self._none(stage, "prompts are kept in slots: what one finds depends on those that run beside it")
        if self._mechanism is Mechanism.FLAG and stage.arm == "off":
            return self._made(stage, sent, [], [0] * len(sent))
        if len(sent) > MOST_PROMPTS:
            return self._none(stage, f"its {len(sent):,} prompts are more than the {MOST_PROMPTS:,} that are tokenised")
        self._note("predicting what was cached")
        requests = [await self._request(workload, record) for record in sent]
        known = [request for request in requests if request is not None]
        if len(known) < len(sent):
            return self._none(stage, "the target does not tokenise: give its tokenizer with --tokenizer MODEL")
        try:
            ledgers = self._replay_for(known).run_in_sequence(known)
        except RequestError as error:
            return self._none(stage, f"a prompt does not fit the cache that the server publishes: {error}")
        lengths = [len(request.prompt_token_ids) for request in known]
        return self._made(stage, sent, lengths, [ledger.num_cached_tokens for ledger in ledgers])

    async def _request(self, workload: AnyWorkload, record: LoadRecord) -> SimulatedRequest | None:
        body = json.loads(workload.body(record.number))
        ids = await self._tokenizer.chat_token_ids(body["messages"])
        if ids is None:
            return None
        return SimulatedRequest(Namespace(body.get("cache_salt", "")), ids, max(1, num_output_tokens(record)))

    def _replay_for(self, requests: Sequence[SimulatedRequest]) -> Replay:
        if self._replay is not None:
            return self._replay
        tokens = (len(request.prompt_token_ids) + len(request.output_token_ids) for request in requests)
        return Replay(cache_config(self._cache, sum(n // self._block_size + 2 for n in tokens)))

    def _made(
        self, stage: Stage, sent: Sequence[LoadRecord], lengths: Sequence[int], cached: Sequence[int]
    ) -> StagePrediction:
        return StagePrediction(
            stage=stage.number,
            reason=None,
            block_size=self._block_size,
            numbers=tuple(record.number for record in sent),
            prompt_tokens=tuple(lengths),
            cached_tokens=tuple(cached),
        )

    def _none(self, stage: Stage, reason: str) -> StagePrediction:
        return StagePrediction(stage=stage.number, reason=reason, block_size=self._block_size)
