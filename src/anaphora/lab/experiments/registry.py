"""The experiments of the lab, in the order in which a report tells of them."""

from collections.abc import Mapping

from anaphora.lab.experiments import costs, gradient, prompts, scenarios, switch
from anaphora.lab.experiments.base import Experiment

EXPERIMENTS: Mapping[str, Experiment] = {
    one.name: one
    for one in (switch.EXPERIMENT, gradient.EXPERIMENT, costs.EXPERIMENT, scenarios.EXPERIMENT, prompts.EXPERIMENT)
}
