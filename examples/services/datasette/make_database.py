"""Writes a table of 10,000 made-up places, the same each time."""

import random
import sqlite3
import sys

numbers = random.Random(1)
with sqlite3.connect(sys.argv[1]) as database:
    database.execute(
        "create table places (id integer primary key, name text, latitude real, longitude real, people integer)"
    )
    database.executemany(
        "insert into places (name, latitude, longitude, people) values (?, ?, ?, ?)",
        [
            (f"Place {number}", numbers.uniform(-90, 90), numbers.uniform(-180, 180), numbers.randrange(1_000_000))
            for number in range(10_000)
        ],
    )
    database.execute("create index by_people on places (people)")
