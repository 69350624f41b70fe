"""Cheap guesses at the next tokens: one file each, behind the protocol in `base`."""
