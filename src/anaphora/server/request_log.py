"""What became of the last requests' prompt tokens, in the operator's view: a bounded memory of ledgers."""

from collections import OrderedDict
from collections.abc import Sequence

from pydantic_core import to_json

from anaphora.engine import EngineUsage
from anaphora.protocol.answers import RequestAccount
from anaphora.server.usage import ledger_view
from anaphora.tokenizer.tokenizer import Tokenizer

MAX_REMEMBERED_ANSWERS = 1024


class RequestLog:
    """Accounts by answer id; the oldest is forgotten first. Requests that were aborted have none."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._usages: OrderedDict[str, tuple[EngineUsage, ...]] = OrderedDict()

    def remember(self, answer_id: str, usages: Sequence[EngineUsage]) -> None:
        """Keep the usages of an answer's engine requests, in their order."""
        self._usages[answer_id] = tuple(usages)
        if len(self._usages) > MAX_REMEMBERED_ANSWERS:
            self._usages.popitem(last=False)

    def accounts(self, answer_id: str) -> list[RequestAccount] | None:
        """One account per engine request, or ``None`` for an answer that is not, or no longer, known."""
        usages = self._usages.get(answer_id)
        return None if usages is None else [self._account(usage) for usage in usages]

    def packed_accounts(self, answer_id: str) -> bytes:
        """:meth:`accounts` as JSON; nothing if the answer is not known."""
        accounts = self.accounts(answer_id)
        return b"" if accounts is None else to_json(accounts)

    def _account(self, usage: EngineUsage) -> RequestAccount:
        return {
            "prompt_tokens": usage.num_prompt_tokens,
            "cached_tokens": usage.num_cached_tokens,
            "completion_tokens": usage.num_output_tokens,
            "recomputed_tokens": usage.num_recomputed_tokens,
            "ledger": ledger_view([usage.ledger], self._tokenizer),
        }
