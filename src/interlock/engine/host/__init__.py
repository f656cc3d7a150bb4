"""The engine that needs no containers: variants in prefixes below the cache, workloads as processes of this machine."""
