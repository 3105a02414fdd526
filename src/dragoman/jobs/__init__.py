"""Long work beside the requests: batches, with progress, cancelling and a new start where a crash left off.

Runs rows by a callable it is given; knows neither the gateway nor any wire.
"""
