"""Routes for whoever runs the server. Knows no client's wire."""
