"""How the processes of a benchmark are started, fed and read: a module for each kind of workload.

In goes a track, out comes how its processes ended and what they have yielded. Whoever measures asks only what `Kind`
says; which kind it is only `choosing` knows.
"""
