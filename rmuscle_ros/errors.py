"""Every exception of the library. Messages say what was found, what was expected, what to do."""


class RmuscleError(Exception):
    """Base of all errors raised on purpose by this package."""


class ConfigError(RmuscleError):
    """A configuration key or value is unknown, of the wrong type or out of range."""


class CheckpointError(RmuscleError):
    """A checkpoint is missing, damaged, or does not fit the model it is loaded into."""


class LibraryError(RmuscleError):
    """A reference library on disk is damaged or of another format."""


class DatasetError(RmuscleError):
    """Demonstrations on disk are missing, damaged, of other settings, or cannot be written."""


class ObservationError(RmuscleError):
    """An observation lacks a camera or joint, or holds something the policy cannot use."""


class PolicyError(RmuscleError):
    """The policy computed something that must not be executed."""


class RebuildError(RmuscleError):
    """The background rebuild thread has died; its first exception is the cause."""


class TrajectoryError(RmuscleError):
    """A joint trajectory breaks a rule of the controller that should follow it."""


class SetupError(RmuscleError):
    """Something outside the package (ROS overlay, EGL, a device) is missing or broken."""


class RecordError(RmuscleError):
    """What was recorded of a run is contradictory or of the wrong shape."""


class ProcessError(RmuscleError):
    """A process of the running system could not be started, ended by itself or does not answer."""
