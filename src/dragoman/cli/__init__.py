"""The `dragoman` command. Knows only `app` and `catalog`."""
