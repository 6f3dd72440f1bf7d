"""The changes that install and uninstall make on a host of given roles."""

from __future__ import annotations

import glob
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from slurm_failover.errors import InstallError
from slurm_failover.install.block import take_block
from slurm_failover.install.files import Change, read_text
from slurm_failover.install.host import FETCHED, find_covered
from slurm_failover.install.scripts import (
    chain_script,
    is_own,
    own_lua,
    own_stack,
    put_lua,
    put_plugin,
    read_stack,
    take_lua,
    take_plugin,
)
from slurm_failover.install.wire import Config, Site, unwire, wants_cli_filter, wire
from slurm_failover.wiring import HOOKS, Role, chain_path, lua_path

_CONFIG = "/etc/slurm"
"""Where a host without a slurm.conf of its own keeps its scripts."""

_LUA = ("job_submit.lua", "cli_filter.lua")


def plan_install(
    config: Config,
    roles: Collection[Role],
    *,
    home: str,
    release: tuple[int, int],
    plugin: str,
) -> list[Change]:
    """What must change so that Slurm calls us, in the order in which it is to be done: a program
    is there before slurm.conf names it. Nothing where all is in place.
    """
    if config.main == FETCHED:
        return _changed(_chains(config, home, _chains_in(config)))
    wired = wire(config, Site(home, release, find_covered(config, home)))
    chains = wired.chains if Role.NODE in roles else {}
    lua = {
        "job_submit.lua": Role.CONTROLLER in roles,
        "cli_filter.lua": wants_cli_filter(wired),
    }
    changes = _chains(config, home, chains)
    changes += [_lua(config.folder, name, home, wanted) for name, wanted in lua.items()]
    if Path(plugin).exists():
        changes.append(_plugin_stack(config, plugin))
    changes += [Change(path, config.texts[path], text) for path, text in wired.texts.items()]
    return _changed(changes)


def plan_uninstall(config: Config) -> list[Change]:
    """What must change so that nothing of us is left, slurm.conf first."""
    if config.main == FETCHED:
        here = {chain_path(_CONFIG, hook) for hook in HOOKS if hook.alone}
        return _changed([_without(path, "") for path in sorted(here | set(_chains_in(config)))])
    bare = unwire(config)
    changes = [Change(path, config.texts[path], text) for path, text in bare.texts.items()]
    # The default as well: PlugStackConfig may have been set since.
    for stack in sorted({_named_stack(config), _default_stack(config)}):
        if stack.startswith("/"):
            changes.append(_without(stack, take_plugin(read_text(stack) or "", stack)))
    for name in _LUA:
        changes.append(_without_lua(f"{config.folder}/{name}"))
    return _changed([*changes, *_chains(config, "", {})])


def needs_reconfigure(config: Config, changes: Collection[Change]) -> bool:
    """Whether Slurm's daemons must read anew what was changed: the scripts beside slurm.conf they
    read whenever they call them.
    """
    read_once = {*config.texts, _named_stack(config), _default_stack(config)}
    return any(change.path in read_once for change in changes)


def stack_path(config: Config) -> str:
    """Where Slurm looks for SPANK plugins: PlugStackConfig, or else plugstack.conf beside
    slurm.conf (slurm.conf(5)). Raises InstallError for a path that is no whole one, which Slurm
    would seek in whatever folder a command was called from.
    """
    path = _named_stack(config)
    if not path.startswith("/"):
        raise InstallError(f"{config.main}: PlugStackConfig={path}: write the whole path, from /")
    return path


def _named_stack(config: Config) -> str:
    return config.value("PlugStackConfig") or _default_stack(config)


def _default_stack(config: Config) -> str:
    return f"{config.folder}/plugstack.conf"


def _changed(changes: list[Change]) -> list[Change]:
    return [change for change in changes if change.before != change.after]


def _without(path: str, rest: str) -> Change:
    """What becomes of a file without us: what is left of it, or nothing if we made it."""
    before = read_text(path)
    made = before is not None and is_own(before) and not rest
    return Change(path, before, None if before is None or made else rest)


def _without_lua(path: str) -> Change:
    before = read_text(path) or ""
    return _without(path, "" if is_own(before) else take_lua(before))


def _chains(config: Config, home: str, chains: dict[str, str]) -> list[Change]:
    """All scripts that call a program of the site's beside ours, those not in ``chains`` gone."""
    paths = {chain_path(config.folder, hook) for hook in HOOKS if hook.alone} | set(chains)
    changes = []
    for path in sorted(paths):
        if path in chains:
            script = chain_script(home, _folder_of(path), path, chains[path])
            changes.append(Change(path, read_text(path), script, mode=0o755))
        else:
            changes.append(_without(path, ""))
    return changes


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _chains_in(config: Config) -> dict[str, str]:
    """The scripts that a slurm.conf from elsewhere names, and what they stand in place of."""
    _, block = take_block(config.texts[config.main], config.main)
    return {
        ours: theirs.strip('"')
        for name, theirs, ours in block.replaced
        for hook in HOOKS
        if hook.setting == name
    }


def _lua(folder: str, name: str, home: str, wanted: bool) -> Change:
    path = f"{folder}/{name}"
    before = read_text(path)
    if not wanted:
        return _without_lua(path)
    if before is None or is_own(before):
        shipped = read_text(lua_path(home, name))
        if shipped is None:
            raise InstallError(f"{lua_path(home, name)}: no such file; install the package anew")
        return Change(path, before, own_lua(shipped))
    return Change(path, before, put_lua(before, f"slurm_failover_{name}", home, path))


def _plugin_stack(config: Config, plugin: str) -> Change:
    """The line for our plugin, unless the site has one that Slurm can follow."""
    path = stack_path(config)
    before = read_text(path)
    site = take_block(before or "", path)[0]
    folders = [folder for folder in config.value("PluginDir").split(":") if folder]
    if _is_named(plugin, _named_plugins(site, path, folders)):
        return Change(path, before, site)
    return Change(path, before, put_plugin(own_stack() if before is None else before, plugin, path))


def _is_named(plugin: str, named: Iterable[str]) -> bool:
    alike = (path for path in named if Path(path).name == Path(plugin).name)
    return any(path == plugin or Path(path).exists() for path in alike)


def _named_plugins(
    text: str, path: str, folders: Collection[str], above: tuple[str, ...] = ()
) -> Iterator[str]:
    """The plugins that the plugstack.conf at ``path`` names, with what it includes. Slurm seeks an
    include beside the file that has it, and a plugin in the folders of PluginDir (tried on 24.11
    and 26.05).
    """
    for word, name in read_stack(text):
        if word == "include":
            pattern = str(Path(path).parent / name)
            for inner in sorted(set(glob.glob(pattern)) - {*above}):  # noqa: PTH207
                yield from _named_plugins(read_text(inner) or "", inner, folders, (*above, inner))
        elif name.startswith("/"):
            yield name
        else:
            yield from (f"{folder}/{name}" for folder in folders)
