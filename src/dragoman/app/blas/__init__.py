"""A fast BLAS for MLX on a Linux CPU: found, tried out, shared. `choice.ensure` is all that a server calls."""
