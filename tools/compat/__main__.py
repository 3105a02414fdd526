"""`python -m tools.compat`: what is wrong with the manifest, one line each; ends with 1 if anything is."""

from __future__ import annotations

import sys

from tests.support.golden import all_names
from tools.compat import served
from tools.compat.check import Facts, faults
from tools.compat.manifest import ROOT, load
from tools.compat.suite import test_names


def facts() -> Facts:
    """Of this tree."""
    return Facts(
        tests=test_names(ROOT),
        mounted=served.mounted(),
        native=served.native(),
        fields=served.fields(),
        aliases=served.aliases(),
        flags=served.flags(),
        recordings=frozenset(all_names()),
    )


if __name__ == "__main__":
    found = faults(load(), facts())
    print("\n".join(found) or "The manifest, the code and the suite agree.")
    sys.exit(1 if found else 0)
