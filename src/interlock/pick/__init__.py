"""Which image to run for what somebody runs: from an experiment's figures and their demands. Pure.

`demands` reads what was asked for, `weighing` finds it in experiments, `exclusions` says who does not meet it,
`ranking` compares the rest, `advice` puts the answer together, and `page` shows it.
"""
