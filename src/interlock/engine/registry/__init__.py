"""Images in registries and archives: names, tags, digests, and their transfer."""
