"""KubeSchedulerConfiguration: loads text into a validated, version-free configuration; expands profiles."""

from scheduler_core.config.load import default_config, load_config
from scheduler_core.config.problems import ConfigErrors
from scheduler_core.config.profiles import PluginRef, effective_plugins, plugin_args, start_up_errors
from scheduler_core.config.schema import ProfileConfig, SchedulerConfiguration

__all__ = [
    "ConfigErrors",
    "PluginRef",
    "ProfileConfig",
    "SchedulerConfiguration",
    "default_config",
    "effective_plugins",
    "load_config",
    "plugin_args",
    "start_up_errors",
]
