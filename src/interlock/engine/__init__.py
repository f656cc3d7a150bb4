"""What builds and runs variants: Docker, Podman by the same API, or this machine itself.

Only this package talks to a container engine or starts containers. What comes in are variants and command lines;
what goes out are images, outputs of processes, and errors that say what to do.
"""
