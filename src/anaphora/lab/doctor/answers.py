"""Does it answer, does it stream, and does it tell its token counts?"""

from anaphora.lab.doctor.check import Check, fault, not_applicable, ok, warning
from anaphora.lab.doctor.visit import Visit
from anaphora.lab.usage import read_usage

_STREAMED_TOKENS = 24
_FEWEST_EVENTS = 4
_LEAST_GAP_MS = 0.2
"""Between two tokens, on average. No server decodes a single stream faster; a proxy that kept them back hands them on
in one go."""


async def answer(visit: Visit) -> Check:
    """A chat is answered, whole, with choices."""
    name = "answer"
    reply = await visit.target.chat_whole(visit.prompt("answer", 8))
    if (refusal := reply.answer.error) is not None:
        if await _answers_without_system(visit):
            return warning(
                name,
                f"system messages are refused ({refusal}); a chat without one was answered",
                "put instructions at the beginning of the user's message: this model's template has no system message",
            )
        return fault(name, refusal, _advice(refusal))
    took = (reply.end_ns - reply.sent_ns) / 1e6
    return ok(name, f"a chat was answered in {took:.0f} ms, with choices")


async def _answers_without_system(visit: Visit) -> bool:
    """Whether the same is answered once what its system message says stands in the user's; then it stays so."""
    visit.target.takes_system = False
    reply = await visit.target.chat_whole(visit.prompt("answer", 8))
    visit.target.takes_system = reply.answer.error is not None
    return not visit.target.takes_system


def _advice(error: str) -> str:
    if "no choices" in error or "no completion" in error:
        return (
            "this is no chat completion: check that the address is an OpenAI-compatible API's, that every role is "
            "system, user or assistant, and that max_tokens is a positive number"
        )
    if "web page" in error:
        return "the address is a web page's: give the API's, which often ends in /v1"
    return "the words are the server's own: look into its log for the request"


async def stream(visit: Visit) -> Check:
    """Tokens come one by one as they are made."""
    name = "stream"
    reply = visit.stream = await visit.target.chat(visit.prompt("stream", 8, max_tokens=_STREAMED_TOKENS))
    said = reply.answer
    if said.error is not None:
        return fault(name, said.error, "streams are broken off or refused: look into the server's and proxy's logs")
    if not said.streamed:
        return fault(
            name,
            "a stream was asked for, and a whole answer came",
            "turn streaming on in the server or in the proxy before it: without it there is no time to first token",
        )
    if said.first_token_ns is None or said.last_token_ns is None:
        return warning(name, "the stream held no token", "ask for more output tokens, or look into the server's log")
    events = said.num_token_events
    if events < _FEWEST_EVENTS:
        return not_applicable(name, f"the answer had only {events} events: too few to see whether they are kept back")
    gap_ms = (said.last_token_ns - said.first_token_ns) / 1e6 / (events - 1)
    if gap_ms < _LEAST_GAP_MS:
        return warning(
            name,
            f"all {events} events arrived within {gap_ms * (events - 1):.1f} ms: something between keeps them back",
            "turn off response buffering in the proxy (nginx: proxy_buffering off), or ask the server itself",
        )
    ttft_ms = (said.first_token_ns - reply.sent_ns) / 1e6
    return ok(name, f"first token after {ttft_ms:.0f} ms, then {events - 1} more, {gap_ms:.1f} ms apart on average")


async def usage(visit: Visit) -> Check:
    """Token counts come with a stream, cached ones among them."""
    name = "usage"
    if visit.stream is None or visit.stream.answer.error is not None:
        return not_applicable(name, "there was no stream to look at")
    counts = read_usage(visit.stream.answer.usage)
    if counts.num_prompt_tokens is None:
        return warning(
            name,
            "the stream ended without token counts, although stream_options.include_usage was sent",
            "take a newer server, or one that honours that option; without counts only times can be measured",
        )
    if counts.num_cached_tokens is None:
        return warning(
            name,
            f"{counts.num_prompt_tokens} prompt tokens are told, but not how many were cached",
            visit.kind.show_cached_tokens,
        )
    return ok(name, f"{counts.num_prompt_tokens} prompt tokens, {counts.num_cached_tokens} of them cached")
