"""HTTP: mounts endpoint rows on Starlette, guards the door, writes SSE and NDJSON. Knows no dialect's words."""
