"""Certificates for tests, made by the openssl command when they are needed."""
import itertools
import pathlib
import ssl
import subprocess


def run(*args):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (args, done.stderr)
    return done.stdout


class Authority:
    """Who issues certificates, in a folder of its own."""

    numbers = itertools.count(1)

    def __init__(self, folder, name="Test CA"):
        self.dir = pathlib.Path(folder) / f"pki{next(self.numbers)}"
        self.dir.mkdir()
        self.cert, self.key = self.dir / "ca.pem", self.dir / "ca.key"
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-keyout", self.key, "-out", self.cert, "-days", "30", "-subj", f"/CN={name}")

    def issue(self, name, alt="DNS:localhost,IP:127.0.0.1", days=30, ago=0):
        """(certificate, key) of `name`, issued `ago` days ago for `days`."""
        base = self.dir / f"{next(self.numbers)}"
        key, csr, ext, cert = (base.with_suffix(s) for s in (".key", ".csr", ".ext", ".pem"))
        run("openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-keyout", key, "-out", csr, "-subj", f"/CN={name}")
        ext.write_text(f"subjectAltName={alt}\n" if alt else "")
        then = ["faketime", "-f", f"-{ago}d"] if ago else []
        run(*then, "openssl", "x509", "-req", "-in", csr, "-CA", self.cert, "-CAkey", self.key,
            "-CAcreateserial", "-days", days, "-extfile", ext, "-out", cert)
        return cert, key

    def context(self, cert=None):
        """What a client of Python's ssl needs to trust it; `cert`: a pair of its own."""
        context = ssl.create_default_context(cafile=str(self.cert))
        if cert:
            context.load_cert_chain(*(str(p) for p in cert))
        return context


def serial(cert):
    return run("openssl", "x509", "-in", cert, "-noout", "-serial").strip().split("=")[1]
