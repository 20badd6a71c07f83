"""One request with all that the server tells of it: its answer, and what its counters grew by meanwhile."""

from dataclasses import dataclass

from anaphora.lab.counters import difference
from anaphora.lab.settled_counters import settled_counters
from anaphora.lab.targets.base import ChatRequest, Reply, Target
from anaphora.lab.usage import read_usage
from anaphora.lab.witnesses import told_cached
from anaphora.traces.records import CounterReading


@dataclass(frozen=True, slots=True)
class CountedReply:
    """``counted``: ``None`` where the server has no counters."""

    reply: Reply
    counted: CounterReading | None

    @property
    def num_cached_tokens(self) -> int | None:
        """As the answer tells or, where it is silent, as the counters do; ``None``: nobody tells."""
        usage = read_usage(self.reply.answer.usage)
        return told_cached(usage.num_cached_tokens, usage.num_prompt_tokens, self.counted)


async def counted_chat(target: Target, request: ChatRequest) -> CountedReply:
    """Send one request between two readings of the counters."""
    before = await target.read_counters()
    reply = await target.chat(request)
    is_counted = before is not None and reply.answer.error is None
    after = (await settled_counters(target, before))[0] if is_counted else None
    return CountedReply(reply, difference(before, after) if is_counted else None)
