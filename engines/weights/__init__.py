"""Getting a model's files onto the disk: fetching them, and making a ready folder out of a GGUF."""
