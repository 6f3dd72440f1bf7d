"""What slurm.conf becomes: the configuration as files of text, before and after. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from slurm_failover.errors import InstallError
from slurm_failover.install.block import Block, put_block, take_block
from slurm_failover.install.conf import (
    Setting,
    add_item,
    drop_item,
    read_settings,
    replace_value,
)
from slurm_failover.wiring import HOME, HOOKS, chain_path, hook_path, settings_of


@dataclass(frozen=True, slots=True)
class Site:
    """What must be known of a site besides its slurm.conf.

    ``covered`` are the programs that the site's own lines already name, with patterns and links
    resolved; ``release`` is Slurm's, such as (24, 11).
    """

    home: str = HOME
    release: tuple[int, int] = (24, 11)
    covered: frozenset[str] = frozenset()


@dataclass(slots=True)
class Config:
    """slurm.conf and the files that it includes, by path. ``main`` is the first of them."""

    main: str
    texts: dict[str, str]
    chains: dict[str, str] = field(default_factory=dict)
    """Scripts that call a program of the site's and our hook: our path, and the site's program."""

    @property
    def folder(self) -> str:
        """Where slurm.conf lies, and where relative includes are sought."""
        return self.main.rpartition("/")[0]

    def include(self, setting: Setting) -> str | None:
        """The file that an Include names, ``%c`` being the cluster; None for other settings."""
        if setting.name != "include":
            return None
        own = read_settings(self.texts[self.main])
        cluster = next((s.value for s in own if s.name == "clustername"), "")
        name = setting.value.replace("%c", cluster)
        return name if name.startswith("/") else f"{self.folder}/{name}"

    def walk(self) -> Iterator[tuple[str, Setting]]:
        """All settings with their file, in the order in which Slurm reads them."""
        yield from self._walk(self.main, ())

    def _walk(self, path: str, above: tuple[str, ...]) -> Iterator[tuple[str, Setting]]:
        for setting in read_settings(self.texts[path]):
            inner = self.include(setting)
            if inner is None:
                yield path, setting
            elif inner in self.texts and inner not in above:
                yield from self._walk(inner, (*above, inner))

    def last(self, name: str) -> tuple[str, Setting] | None:
        """The setting of a name that counts, and its file."""
        found = [(path, s) for path, s in self.walk() if s.name == name.lower()]
        return found[-1] if found else None

    def value(self, name: str) -> str:
        """The value that counts, or "" where the name is not set."""
        found = self.last(name)
        return found[1].value if found else ""

    def items(self, name: str) -> list[str]:
        """A list's items."""
        return [item.strip() for item in self.value(name).split(",") if item.strip()]

    def change(self, name: str, raw: str) -> None:
        """Change the value that counts, where it stands."""
        found = self.last(name)
        assert found is not None  # noqa: S101 - the caller has just seen it
        path, setting = found
        self.texts[path] = replace_value(self.texts[path], setting, raw)


def wire(config: Config, site: Site) -> Config:
    """The configuration with all that we need of slurm.conf, and ``chains`` for its programs."""
    wired = unwire(config)
    lines: list[str] = []
    replaced: list[tuple[str, str, str]] = []
    added: list[tuple[str, str]] = []
    for hook in HOOKS:
        ours = hook_path(site.home, hook)
        if ours in site.covered:
            continue
        theirs = wired.last(hook.setting) if hook.alone else None
        if theirs is None:
            lines.append(f"{hook.setting}={ours}")
        else:
            chain = chain_path(config.folder, hook)
            replaced.append(_replace(wired, hook.setting, chain))
            wired.chains[chain] = theirs[1].value
    for name, value in _once(wired, site.release).items():
        if not wired.value(name):
            lines.append(f"{name}={value}")
        elif name == "HealthCheckInterval" and wired.value(name) == "0":
            replaced.append(_replace(wired, name, value))
    for name, item in _items(wired):
        if wired.last(name) is None:
            lines.append(f"{name}={item}")
        elif item not in wired.items(name):
            wired.change(name, add_item(_raw(wired, name), item))
            added.append((name, item))
    block = Block(tuple(lines), tuple(replaced), tuple(added))
    wired.texts[config.main] = put_block(wired.texts[config.main], block)
    return wired


def unwire(config: Config) -> Config:
    """The configuration without us, byte for byte what others wrote.

    A value of ours that someone changed since is theirs, and stays.
    """
    texts = dict(config.texts)
    texts[config.main], block = take_block(texts[config.main], config.main)
    bare = Config(config.main, texts)
    for name, theirs, ours in block.replaced:
        if _raw(bare, name) == ours:
            bare.change(name, theirs)
    for name, item in block.added:
        if item in bare.items(name):
            bare.change(name, drop_item(_raw(bare, name), item))
    _refuse_orphans(bare)
    return bare


def wants_cli_filter(config: Config) -> bool:
    """Whether the log of all attempts needs cli_filter: where every job's output is not appended
    to, or where the site filters submissions in Lua anyway.

    Where CliFilterPlugins names lua and cli_filter.lua is missing, no job can be submitted from
    that host (seen on 24.11.5 and 26.05.5); so it is not asked for without need.
    """
    return config.value("JobFileAppend") == "0" or "lua" in config.items("CliFilterPlugins")


def _items(config: Config) -> list[tuple[str, str]]:
    """The lists that must have an item of ours."""
    wanted = [("SchedulerParameters", "nohold_on_prolog_fail"), ("JobSubmitPlugins", "lua")]
    if wants_cli_filter(config):
        wanted.append(("CliFilterPlugins", "lua"))
    if config.value("AccountingStorageType") == "accounting_storage/slurmdbd":
        wanted.append(("AccountingStoreFlags", "job_comment"))
    return wanted


def _once(config: Config, release: tuple[int, int]) -> Mapping[str, str]:
    """The settings of ours for a release; beside an interval of the site's own no limit of ours,
    which might not lie below it.
    """
    wanted = settings_of(release)
    if config.value("HealthCheckInterval") not in ("", "0"):
        wanted.pop("HealthCheckTimeout", None)
    return wanted


def _replace(config: Config, name: str, ours: str) -> tuple[str, str, str]:
    theirs = _raw(config, name)
    if "\n" in theirs:
        raise InstallError(f"{name}: write its value in one line, without a backslash")
    config.change(name, ours)
    return name, theirs, ours


def _raw(config: Config, name: str) -> str:
    found = config.last(name)
    return found[1].raw if found else ""


def _refuse_orphans(config: Config) -> None:
    chains: Collection[str] = {chain_path(config.folder, hook) for hook in HOOKS}
    for path, setting in config.walk():
        if setting.value in chains:
            raise InstallError(
                f"{path}: {setting.value} is named, but our lines that say what stood there before "
                "are gone; put the site's own program back (the script names it)"
            )
