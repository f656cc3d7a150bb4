"""A user's own Dockerfile, run across variants: what was asked, what came of it, and what it says."""
