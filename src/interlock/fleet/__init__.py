"""A matrix on many hosts: who measures what, what becomes of a host that dies, and how the parts come together."""
