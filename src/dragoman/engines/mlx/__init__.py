"""The MLX engine: mlx-lm models stepped row by row. `engine` is importable without MLX; the rest needs it."""
