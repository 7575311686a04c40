"""Logs of inference servers -> the one fault that came first.

from triage.logs import open_log, read_incidents
for incident in read_incidents([open_log("server.log")]):
    print(incident.initiator)
"""

from __future__ import annotations

from triage.logs.incidents import read_incidents, told_by, was_stopped
from triage.logs.reading.load import open_log
from triage.logs.reading.records import read_records

__all__ = ["open_log", "read_incidents", "read_records", "told_by", "was_stopped"]
