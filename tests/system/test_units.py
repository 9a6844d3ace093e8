"""The files for systemd: valid by its own tools, and in agreement with the daemon."""
import configparser
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import BUILD, SOURCE, WQD

SYSTEMD = SOURCE / "systemd"


def need(tool):
    if not shutil.which(tool):
        pytest.skip(f"{tool} is not installed")


def read_unit(path):
    unit = configparser.ConfigParser(strict=True, interpolation=None, comment_prefixes=("#", ";"))
    unit.optionxform = str
    # A setting that adds to itself stands twice: the first one counts here.
    text = re.sub(r"(?m)^SystemCallFilter=~.*\n", "", pathlib.Path(path).read_text())
    unit.read_string(text)
    return unit


def seconds(text):
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
    return sum(int(n) * units[u or "s"] for n, u in re.findall(r"(\d+)(ms|[smhd])?", text))


@pytest.fixture
def units(tmp):
    """The units as installed, but starting the daemon of this build."""
    service = (BUILD / "systemd" / "wqd.service").read_text()
    binary = WQD if WQD.exists() else "/bin/true"
    service = re.sub(r"(?m)^ExecStart=\S*", f"ExecStart={binary}", service)
    (tmp / "wqd.service").write_text(service)
    shutil.copy(SYSTEMD / "wqd.socket", tmp)
    return tmp


def verify(units):
    need("systemd-analyze")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
         str(units / "wqd.service"), str(units / "wqd.socket")],
        capture_output=True, text=True, timeout=120, check=False)
    # The user is made by sysusers at installation.
    wrong = [line for line in (done.stderr + done.stdout).splitlines() if "wqd" in line]
    assert done.returncode == 0 and not wrong, done.stderr


def test_units_verify(units):
    verify(units)


def test_handlers_drop_in_verifies(units):
    drop_in = units / "wqd.service.d"
    drop_in.mkdir()
    shutil.copy(SOURCE / "docs" / "examples" / "wqd-handlers.conf", drop_in)
    verify(units)


def test_the_service_is_exposed_no_more_than_it_must_be(units):
    need("systemd-analyze")
    done = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--no-pager",
                           str(units / "wqd.service")], capture_output=True, text=True, timeout=60,
                          check=False)
    found = re.search(r"exposure level for wqd\.service: ([\d.]+)", done.stdout)
    assert found and float(found.group(1)) <= 2.0, done.stdout + done.stderr


def test_sysusers_and_tmpfiles_are_accepted(tmp):
    need("systemd-sysusers")
    need("systemd-tmpfiles")
    if os.geteuid() != 0:
        pytest.skip("needs root: the files get owners")
    (tmp / "etc").mkdir()
    for cmd in (["systemd-sysusers", f"--root={tmp}", SYSTEMD / "sysusers.d" / "wqd.conf"],
                ["systemd-tmpfiles", f"--root={tmp}", "--create",
                 SYSTEMD / "tmpfiles.d" / "wqd.conf"]):
        done = subprocess.run([str(c) for c in cmd], capture_output=True, text=True, timeout=60,
                              check=False)
        assert done.returncode == 0 and "Failed" not in done.stderr, (cmd, done)
    assert re.search(r"^wqd:", (tmp / "etc" / "passwd").read_text(), re.M)
    assert re.search(r"^wqd:", (tmp / "etc" / "group").read_text(), re.M)
    assert (tmp / "var/lib/wqd").stat().st_mode & 0o777 == 0o700
    assert (tmp / "run/wqd").stat().st_mode & 0o777 == 0o755


def test_service_leaves_children_alone_at_a_stop_and_does_not_retry_the_hopeless(units):
    service = read_unit(units / "wqd.service")["Service"]
    assert service["Type"] == "notify"
    assert service["KillMode"] == "mixed"
    assert service["Delegate"] == "yes"
    assert service["OOMPolicy"] == "continue"
    assert service["RestartPreventExitStatus"].split() == ["2", "3", "4", "5", "6"]
    assert service["Restart"] == "on-failure"


def test_the_drop_in_for_handlers_lets_them_gain_privileges(units):
    """systemd.exec(5) lists what turns NoNewPrivileges= on for a unit with User=; handlers such as
    sendmail would break. The drop-in has to take back all of it."""
    implying = {
        "LockPersonality", "MemoryDenyWriteExecute", "PrivateDevices", "ProtectClock",
        "ProtectHostname", "ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables",
        "RestrictAddressFamilies", "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID",
        "SystemCallArchitectures", "SystemCallFilter", "SystemCallLog", "NoNewPrivileges"}
    text = (units / "wqd.service").read_text()
    drop_in = read_unit(SOURCE / "docs" / "examples" / "wqd-handlers.conf")["Service"]
    for name in implying:
        if re.search(rf"(?m)^{name}=", text):
            assert drop_in.get(name) in ("no", ""), name


def options(*args):
    return subprocess.run([str(WQD), *args], capture_output=True, text=True, timeout=60, check=True)


def default_of(option):
    text = options("--dump-options").stdout
    return re.search(rf"(?m)^  {option}\n(?:    .*\n)*?    default: (.*)$", text).group(1)


def test_the_stop_limit_leaves_room_for_the_daemons_own(units):
    if not WQD.exists():
        pytest.skip("wqd is not built")
    service = read_unit(units / "wqd.service")["Service"]
    own = seconds(default_of("stop_timeout")) + seconds(default_of("grace"))
    assert seconds(service["TimeoutStopSec"]) > 1.5 * own


def test_the_default_paths_are_the_units(units):
    if not WQD.exists():
        pytest.skip("wqd is not built")
    service = read_unit(units / "wqd.service")["Service"]
    socket = read_unit(units / "wqd.socket")["Socket"]
    assert default_of("state_dir") == "/var/lib/" + service["StateDirectory"]
    assert default_of("listen") == "unix:" + socket["ListenStream"]
    assert socket["ListenStream"].startswith(f"/run/{service['RuntimeDirectory']}/")
    assert int(default_of("socket_mode"), 8) == int(socket["SocketMode"], 8)


def test_the_example_configuration_is_accepted(tmp):
    """As it is, and with every line of it turned on."""
    if not WQD.exists():
        pytest.skip("wqd is not built")
    example = (SOURCE / "docs" / "examples" / "wqd.conf").read_text()
    for name, text in (("plain", example), ("all", re.sub(r"(?m)^#(?! )", "", example))):
        conf = tmp / f"{name}.conf"
        conf.write_text(text)
        options("--check", "-c", str(conf))
