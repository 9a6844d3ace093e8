"""PKG-03's last part: times beyond 32 bits. The build side is tests/package/test_package.py."""
import datetime

import pytest

# 2038 ends a signed time_t of 32 bits, 2106 an unsigned one.
FAR = ["2038-01-19T03:14:07Z", "2038-01-19T03:14:08Z", "2040-02-29T12:00:00.250Z",
       "2106-02-07T06:28:16Z", "2120-12-31T23:59:59.999+01:00"]


@pytest.mark.parametrize("when", FAR)
def test_pkg_03_a_job_due_in_2040_keeps_its_time(wqd, when):
    want = round(datetime.datetime.fromisoformat(when.replace("Z", "+00:00")).timestamp() * 1000)
    reply = wqd.json("update", "far", "--at", when, "--durability", "sync")
    assert (reply["outcome"], reply["deadline_ms"]) == ("CREATED", want)
    assert wqd.json("get", "far")["deadline_ms"] == want
    wqd.restart()
    job = wqd.json("get", "far")
    assert (job["state"], job["deadline_ms"]) == ("armed", want)


@pytest.mark.parametrize("delay_ms", [2**31, 2**32, 2**32 + 1])
def test_pkg_03_a_delay_of_more_than_32_bits(wqd, delay_ms):
    reply = wqd.json("update", "far", f"{delay_ms}ms", "--durability", "sync")
    wqd.restart()
    job = wqd.json("get", "far")
    assert job["state"] == "armed"
    # Relative: the same distance, whatever the wall clock did in between.
    assert abs(job["deadline_ms"] - reply["deadline_ms"]) < 5000
