"""Running the real engine and controllers on a scenario file, with no cluster."""

from scheduler_core.simulate.run import run_scenario
from scheduler_core.simulate.scenario import Scenario, load_scenarios

__all__ = ["Scenario", "load_scenarios", "run_scenario"]
