"""An engine of seam 2 on a thread of its own, behind seam 1."""

from dragoman.backend.local.backend import LocalBackend

__all__ = ["LocalBackend"]
