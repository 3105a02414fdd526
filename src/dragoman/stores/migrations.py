"""The tables, as a list of steps that only ever grows. Knows no store."""

from __future__ import annotations

import sqlite3
import time

from dragoman.core.errors import StorageFailure

# Append only: a step that has been released is never changed. Times are Unix seconds, sizes bytes.
STEPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "responses",
        (
            """CREATE TABLE responses (
                seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL,
                created INTEGER NOT NULL, expires INTEGER NOT NULL, status TEXT NOT NULL, previous TEXT,
                body BLOB NOT NULL, items BLOB NOT NULL, context BLOB NOT NULL, size INTEGER NOT NULL)""",
            "CREATE INDEX responses_age ON responses (seq, size)",
            "CREATE INDEX responses_expiry ON responses (expires)",
        ),
    ),
    (
        "files",
        (
            """CREATE TABLE files (
                seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL,
                name TEXT NOT NULL, content_type TEXT NOT NULL, purpose TEXT NOT NULL, bytes INTEGER NOT NULL,
                created INTEGER NOT NULL, expires INTEGER)""",
            "CREATE INDEX files_expiry ON files (expires)",
        ),
    ),
    (
        "batches",
        (
            """CREATE TABLE batches (
                seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL,
                surface TEXT NOT NULL, status TEXT NOT NULL, created INTEGER NOT NULL, expires INTEGER NOT NULL,
                endpoint TEXT NOT NULL, model TEXT NOT NULL, owner TEXT NOT NULL, input_file TEXT,
                output_file TEXT, error_file TEXT, output_expires INTEGER, metadata BLOB, times BLOB NOT NULL,
                faults BLOB NOT NULL, total INTEGER NOT NULL DEFAULT 0, completed INTEGER NOT NULL DEFAULT 0,
                failed INTEGER NOT NULL DEFAULT 0, cancelled INTEGER NOT NULL DEFAULT 0,
                expired INTEGER NOT NULL DEFAULT 0, input_tokens INTEGER NOT NULL DEFAULT 0,
                cached_tokens INTEGER NOT NULL DEFAULT 0, output_tokens INTEGER NOT NULL DEFAULT 0,
                reasoning_tokens INTEGER NOT NULL DEFAULT 0)""",
            "CREATE INDEX batches_status ON batches (status)",
            """CREATE TABLE batch_rows (
                batch TEXT NOT NULL REFERENCES batches (id) ON DELETE CASCADE, n INTEGER NOT NULL,
                id TEXT NOT NULL, custom_id TEXT, method TEXT NOT NULL, path TEXT NOT NULL, body BLOB NOT NULL,
                outcome TEXT NOT NULL, status INTEGER NOT NULL DEFAULT 0, request_id TEXT NOT NULL DEFAULT '',
                result BLOB NOT NULL DEFAULT x'', code TEXT NOT NULL DEFAULT '', message TEXT NOT NULL DEFAULT '',
                PRIMARY KEY (batch, n))""",
            "CREATE INDEX batch_rows_outcome ON batch_rows (batch, outcome, n)",
        ),
    ),
)


def migrate(side: sqlite3.Connection) -> None:
    """Apply the steps that this file has not seen. Raises StorageFailure when it has seen more than there are."""
    side.execute("BEGIN IMMEDIATE")
    try:
        side.execute(
            "CREATE TABLE IF NOT EXISTS migrations "
            "(step INTEGER PRIMARY KEY, name TEXT NOT NULL, applied INTEGER NOT NULL)"
        )
        done = int(side.execute("SELECT count(*) FROM migrations").fetchone()[0])
        if done > len(STEPS):
            raise StorageFailure(
                "The database was written by a newer version of this server.",
                remedy="Update, or name another folder with --state-dir.",
            )
        for step, (name, statements) in enumerate(STEPS[done:], start=done):
            for statement in statements:
                side.execute(statement)
            side.execute("INSERT INTO migrations VALUES (?, ?, ?)", (step, name, int(time.time())))
        side.execute("COMMIT")
    except BaseException:
        if side.in_transaction:
            side.execute("ROLLBACK")
        raise
