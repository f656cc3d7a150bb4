"""Measure a matrix on many hosts by Ansible. In: an inventory, options. Out: an experiment per host, fleet.json."""
