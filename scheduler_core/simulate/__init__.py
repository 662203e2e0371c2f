"""Runs the engine and the controllers on a scenario file, without a cluster."""

from scheduler_core.simulate.run import run_scenario
from scheduler_core.simulate.scenario import Scenario, load_scenarios

__all__ = ["Scenario", "load_scenarios", "run_scenario"]
