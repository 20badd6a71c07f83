"""Rules for a system prompt and questions about history, in the two languages. A prompt takes as much of the rules
as fits."""

import re
from dataclasses import dataclass

from anaphora.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Texts:
    """``heading``: the first line, which holds the edition that makes a run's prompts its own. ``units``: the pieces by
    which a system prompt grows, begun again when all are used. ``questions``: eight short ones; ``question``: the one
    that the length experiment always asks."""

    heading: str
    units: tuple[str, ...]
    questions: tuple[str, ...]
    question: str

    def system_prompt(self, edition: str, num_units: int) -> str:
        """The prompt with that many units of rules."""
        repeats, rest = divmod(num_units, len(self.units))
        return self.heading.format(edition=edition) + "".join(self.units * repeats + self.units[:rest])


_ENGLISH_RULES = """\
You answer readers of a history magazine. Follow these rules in every reply.
1. Say only what the sources support, and keep fact and judgement apart.
2. Give the year or the century with every event, and say when a date is disputed.
3. When you do not know, write so plainly and name what one would have to look up.
4. Begin with the answer in one sentence; reasons and background come after it.
5. Name people in full at their first mention and add what office or trade they held.
6. Explain old words, coins, measures and titles in a few words of today's language.
7. Use short paragraphs; a list is welcome where three or more things are compared.
8. Mention at least two causes where an event had several, and do not rank them without a reason.
9. Give figures with their unit, and round them as far as the source deserves.
10. Quote sparingly, mark every quotation, and say who is speaking to whom.
11. Do not praise or blame whole peoples; speak of rulers, groups, laws and interests.
12. Point to one place, map, picture or document through which the reader can go on.
13. If a question rests on an error, correct the error first and answer what was meant.
14. Keep the whole reply under two hundred words unless the reader asks for more.
"""

_ENGLISH_QUESTIONS = (
    "How did the first emperor of China unite the warring states?",
    "What did the Roman roads change for trade and for the army?",
    "Why did the library of Alexandria decline?",
    "How did the printing press spread through Europe?",
    "What made Venice rich in the late Middle Ages?",
    "Why was the Suez Canal built, and who paid for it?",
    "What came of the Meiji reforms in Japan?",
    "How did the telegraph change newspapers?",
)

_CHINESE_RULES = (
    "你是一个专业的AI助手。你需要遵循以下规则：\n"
    "1. 回答必须准确、客观、有依据。\n"
    "2. 如果不确定，要明确说明不确定的原因。\n"
    "3. 回答要结构化，使用适当的标题和段落。\n"
    "4. 对于技术问题，要给出可运行的代码示例。\n"
    "5. 对于历史问题，要注明具体时间节点和史料来源。\n"
)

_CHINESE_QUESTIONS = (
    "秦始皇统一六国的过程是怎样的？",
    "汉武帝的主要功绩有哪些？",
    "唐朝的开元盛世是怎么回事？",
    "宋朝的经济发展有哪些特点？",
    "明朝的海禁政策是什么？",
    "清朝的洋务运动取得了哪些成果？",
    "辛亥革命的意义是什么？",
    "五四运动的背景和影响？",
)

_LANGUAGES = {
    "en": Texts(
        heading="Edition: {edition}.\n",
        units=tuple(re.findall(r"\S+\s*", _ENGLISH_RULES)),
        questions=_ENGLISH_QUESTIONS,
        question="Please tell me briefly what made Venice rich in the late Middle Ages.",
    ),
    "zh": Texts(
        heading="版本：{edition}。\n",
        units=tuple(_CHINESE_RULES),
        questions=_CHINESE_QUESTIONS,
        question="请简要介绍一下汉武帝的主要历史功绩。",
    ),
}

_EDITION_WORDS = """
river stone apple cloud table green seven paper light ocean music north bread glass horse tower silver garden window
winter summer market bridge forest island letter mirror orange pencil rocket saddle temple valley yellow anchor basket
candle desert engine farmer guitar hammer insect jacket kitten ladder magnet needle oyster parrot rabbit sailor ticket
violin wagon copper dragon eagle flower
"""
EDITION_WORDS = tuple(_EDITION_WORDS.split())
"""Common words of one token or two in every vocabulary, so that editions are equally long or nearly so."""


def texts_of(language: str) -> Texts:
    """The texts of a language code."""
    try:
        return _LANGUAGES[language]
    except KeyError:
        raise ConfigError(f"no texts in {language!r}: --lang takes {' or '.join(_LANGUAGES)}") from None
