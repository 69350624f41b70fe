"""The page. It shows what the engine's events say; it imports neither torch nor transformers."""
