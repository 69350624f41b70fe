"""Making a draft or a head for a target: its text, its features on disk, the training, and what comes out."""
