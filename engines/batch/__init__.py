"""Many sequences at once: batched speculative decoding, what it brings, and when a busy machine gains nothing."""
