"""What can go wrong, named by whose fault it is and what to do about it."""


class FailoverError(Exception):
    """The base of every error that we raise on purpose; its text is fit for an admin's eyes."""


class SettingsError(FailoverError):
    """The site's settings file is wrong; the text names file, line or key, and the remedy."""


class RuleError(FailoverError):
    """A rule file is wrong; the text names file, table, key, and the remedy."""


class RecordError(FailoverError):
    """A record of ours in Slurm can not be read, for example one of a newer version."""


class SlurmError(FailoverError):
    """Slurm refused a request; the text is Slurm's own."""


class SlurmUnavailable(SlurmError):
    """Slurm did not answer, or not in time. Whether a change was made is unknown."""


class NotPermitted(SlurmError):
    """Slurm does not show this user what was asked for, or lets them not do it."""


class NoSuchJob(SlurmError):
    """Slurm answered that it does not know this job (any more)."""


class NoSuchTime(SlurmError):
    """Slurm's commands do not understand a time; the text is that time."""


class OutputLost(FailoverError):
    """What a command has to show can not be written to standard output."""


class WrongUser(FailoverError):
    """Someone runs a command that is another user's to run; the text says whose."""


class InstallError(FailoverError):
    """Slurm's configuration can not be changed as it is; the text names the file and the remedy."""


class HookEnded(Exception):
    """The process is told to end: the time that Slurm gives a hook is over. What is known by then
    is all that it can say. No FailoverError: it is not the trouble of the one job that is served.
    """


class SourceUnreadable(FailoverError):
    """Evidence could not be read. The verdict is "unknown", never "healthy" and never "faulty"."""
