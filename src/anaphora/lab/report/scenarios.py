"""How the scenarios are presented."""

from anaphora.lab.report.grouped import presentation

PRESENTATION = presentation(
    question="What does prefix caching give the usual kinds of prompts?",
    title="Scenarios: cache off and on",
    noun="scenario",
    stem="scenarios",
)
