"""Development tools. Not part of the package."""
