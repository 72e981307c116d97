"""What the configuration says to `host`, for the daemon and for whoever reports on it."""

from __future__ import annotations

from computerd.config.settings import Config
from computerd.host.settings import CgroupLimits, HostSettings


def host_settings(config: Config) -> HostSettings:
    """What `host` needs to know of the configuration."""
    agent = config.agent
    return HostSettings(
        workspace_root=config.workspace_root,
        agent_user=agent.user,
        users=agent.users,
        allow_system_user=agent.allow_system_user,
        allow_groups=agent.allow_groups,
        path=agent.path,
        lang=agent.lang,
        umask=agent.umask,
        no_new_privileges=agent.no_new_privileges,
        open_files=(agent.nofile_soft, agent.nofile_hard),
        kill_leftovers=agent.kill_leftovers,
        cgroup_limits=CgroupLimits(agent.processes, agent.memory, agent.cpu_weight),
    )
