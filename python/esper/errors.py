"""What can go wrong, in the words of the program.

Everything that this package raises on purpose is an :class:`EsperError`; most are also of the kind that Python has for
such a thing (``ValueError``, ``OSError``, ``RuntimeError``), so that code which knows nothing of esper can catch them.
"""


class EsperError(Exception):
    """Anything that went wrong."""


class DataError(EsperError, ValueError):
    """Data contradicts itself, cannot be understood, or nothing can be learned from it."""


class FileError(EsperError, OSError):
    """A file cannot be read or written, or would have been overwritten."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class MissingFileError(FileError, FileNotFoundError):
    """A file or folder is not there."""


class SettingsError(EsperError, ValueError):
    """Something was asked for that there is not, or that makes no sense: a method, a setting, a task."""


class RunError(EsperError, RuntimeError):
    """A run's folder is not as it should be: damaged, incomplete, or another run's."""


class BusyError(RunError):
    """Somebody else is writing there."""


class PolicyError(EsperError, ValueError):
    """A policy cannot be loaded, or was asked for something that makes no sense."""


class WorldError(EsperError, RuntimeError):
    """A world cannot be made, or broke its word."""
