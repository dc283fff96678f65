"""Lets any Hydra app say ``defaults: [optimizer: lars, strategy: fused_all_reduce]``: Hydra loads this file wherever we are installed.

This folder has no ``__init__.py``: Hydra's plugins of all packages share it.
"""

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

from lightning_fastnet.cli.configs import register_resolvers, shipped

PROVIDER = "lightning_fastnet"


class LightningFastnetSearchPath(SearchPathPlugin):
    """Adds ``conf/`` behind the app's own folders, so that a group or file of the same name in the app goes first."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Called by Hydra before it composes. Our own commands have the folder in front already: nothing is added twice."""
        register_resolvers()
        conf = str(shipped("conf"))
        if all(part.path.removeprefix("file://") != conf for part in search_path.get_path()):
            search_path.append(provider=PROVIDER, path=f"file://{conf}")
