"""Which image to run for a given mix of workloads: from an experiment's figures and a user's constraints.

`criteria` reads what is asked for, `evidence` finds the experiment that answers it, `exclusions` says which images fail
a constraint and what is a risk, `ranking` compares the rest, and `advice` puts the answer together as data.
"""
