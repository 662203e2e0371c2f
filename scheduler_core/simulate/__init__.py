"""Runs the engine and the controllers in memory, without a cluster: on scenario files, or as a Python API.

The public names are those of `__all__`.
"""

from scheduler_core.simulate.format import scenario_schema
from scheduler_core.simulate.run import run_scenario
from scheduler_core.simulate.scenario import Scenario, load_scenarios
from scheduler_core.simulate.world import Simulation

__all__ = ["Scenario", "Simulation", "load_scenarios", "run_scenario", "scenario_schema"]
