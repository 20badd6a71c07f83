"""A load of our own chats: how long their parts are, and when they are sent."""

from anaphora.errors import ConfigError
from anaphora.lab.arms import Mechanism
from anaphora.lab.load.arrivals import poisson
from anaphora.lab.load.records import Stage
from anaphora.lab.load.situation import TAIL_S, Schedule, Situation, Workloads
from anaphora.lab.load.vocabulary import Vocabulary
from anaphora.lab.load.workloads import ChatWorkload
from anaphora.lab.workloads.prompts import PromptFactory
from anaphora.lab.workloads.sizing import largest_fit, token_counter
from anaphora.lab.workloads.texts import texts_of

_TEMPLATE_TOKENS = 96


async def chats(situation: Situation, vocabulary: Vocabulary, ignores_eos: bool) -> tuple[Workloads, bool]:
    """Chats behind shared system prompts, sized as asked; and whether they are exactly so long.

    Raises:
        ConfigError: they do not fit the context.
    """
    settings, texts = situation.settings, texts_of(situation.lang)
    needed = settings.prefix_tokens + settings.unique_tokens + settings.output_tokens + _TEMPLATE_TOKENS
    if situation.max_model_len is not None and needed > situation.max_model_len:
        raise ConfigError(
            f"{settings.prefix_tokens} + {settings.unique_tokens} prompt tokens, {settings.output_tokens} output "
            f"tokens and the template do not fit the context of {situation.max_model_len}: ask for fewer"
        )
    samples = PromptFactory(situation.run_id, Mechanism.NONCE, texts)

    def sample(num_units: int) -> str:
        return texts.system_prompt(samples.edition(f"sample/{num_units}"), num_units)

    count, exact = await token_counter(situation.target, situation.tokenizer, sample)
    edition = samples.edition("size")
    units = await largest_fit(lambda n: texts.system_prompt(edition, n), settings.prefix_tokens, count)
    question_tokens = await count(f" {texts.question}")
    if question_tokens >= settings.unique_tokens:
        raise ConfigError(
            f"--unique-tokens {settings.unique_tokens} leaves no room for words of a request's own beside the "
            f"question, which has {question_tokens} tokens: ask for more"
        )

    def workload(stage: Stage) -> ChatWorkload:
        return ChatWorkload(
            asking=situation.asking(stage, ignores_eos),
            lang=situation.lang,
            num_prefixes=settings.num_prefixes if settings.prefix_tokens else 0,
            num_prefix_units=units,
            num_unique_words=settings.unique_tokens - question_tokens,
            words=vocabulary.words,
            output_tokens=settings.output_tokens,
        )

    return workload, exact and vocabulary.exact


def poisson_schedule(situation: Situation) -> Schedule:
    """Arrivals at the level's rate, the same in both arms."""
    settings = situation.settings
    seconds = settings.warmup_s + settings.duration_s + TAIL_S

    def schedule(stage: Stage) -> list[tuple[float, int]]:
        times = poisson(stage.level, seconds, seed=f"{situation.seed}/{stage.round}/{stage.level:g}")
        return [(due, number) for number, due in enumerate(times)]

    return schedule
