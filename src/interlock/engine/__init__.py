"""What builds and runs variants. Only this package talks to Docker (or Podman, by the same API)."""
