#!/usr/bin/env python3
"""A worker in Python, by lines of JSON: makes the payload upper case.

    wqctl work shout --lines json -- docs/examples/worker.py

or kept by the daemon:

    handler "shout" { command = { "/usr/bin/wqctl", "-q", "work", "shout", "--lines", "json", "--",
                                  "/usr/local/bin/worker.py" }  worker = yes }
    queue "shout"   { action = "lease"  handler = "shout"  max_active = 4 }
"""
import json
import sys

for line in sys.stdin:
    job = json.loads(line)
    text = job["payload"]
    if text is None:
        answer = {"outcome": "failed", "output": "the payload is no text"}
    elif text == "later" and job["attempt"] == 1:
        answer = {"outcome": "failed", "output": "not yet", "retry_after_ms": 100}
    else:
        answer = {"outcome": "done", "output": text.upper()}
    # One line, and at once: the next job comes when this one has its answer.
    print(json.dumps(answer), flush=True)
