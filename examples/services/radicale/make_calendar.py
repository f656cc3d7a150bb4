"""Writes a calendar of 10 made-up events as Radicale stores it, the same each time."""

import json
import sys
from pathlib import Path

EVENT = """BEGIN:VCALENDAR\r
VERSION:2.0\r
PRODID:-//example//EN\r
BEGIN:VEVENT\r
UID:event-{number}\r
DTSTAMP:20260101T000000Z\r
DTSTART:202601{day:02}T{hour:02}0000Z\r
DTEND:202601{day:02}T{hour:02}3000Z\r
SUMMARY:Meeting {number}\r
END:VEVENT\r
END:VCALENDAR\r
"""

folder = Path(sys.argv[1], "collection-root", "team", "calendar")
folder.mkdir(parents=True)
(folder / ".Radicale.props").write_text(json.dumps({"tag": "VCALENDAR", "D:displayname": "Team"}))
for number in range(10):
    event = EVENT.format(number=number, day=number % 28 + 1, hour=number % 12 + 8)
    (folder / f"event-{number}.ics").write_text(event, newline="")
