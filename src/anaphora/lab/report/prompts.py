"""How a person's own prompts are presented."""

from anaphora.lab.report.grouped import presentation

PRESENTATION = presentation(
    question="What does prefix caching give these prompts of your own?",
    title="Your prompts: cache off and on",
    noun="group",
    stem="prompts",
)
