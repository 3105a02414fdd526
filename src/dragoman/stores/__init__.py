"""What outlives a request: stored responses, files and batches, in SQLite and blobs on disk. Imports core only."""
