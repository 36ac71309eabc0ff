"""A real kube-apiserver on a real etcd, on loopback, for as long as a test needs it.

What differs from a production server: etcd does not sync to disk, nobody runs
controllers (no garbage collection, no namespace ever ends, nodes are not watched
over), and pods need no ServiceAccount. Everything else is as it ships: RBAC,
admission, the watch cache with bookmarks, the checks of `pods/binding`.

    server = ApiServer(binaries.ensure(), directory)
    server.start()
    server.kubeconfig("system:serviceaccount:placement:controller")   # a file's path
    server.stop()
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import urllib3
import yaml

from tests.cluster.api import CRDS, NAMESPACES, SERVICE_ACCOUNTS, Api, ApiError, Body, Resource
from tests.cluster.binaries import Binaries
from tests.ports import reserve
from tests.waiting import wait_until

ADMIN: Final = "admin"

CRDS_DIRECTORY: Final = Path(__file__).parent / "crds"
_STOP_SECONDS: Final = 10.0
_LAST_LINES: Final = 20
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
#: No session of tests lasts longer.
_TOKEN_SECONDS: Final = 24 * 3600
#: Becomes another program, that Linux kills when its parent ends. Not a preexec_fn: that
#: forks this process as it is, which gRPC with calls under way does not always outlive.
_DIE_WITH_PARENT: Final = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
os.execv(sys.argv[1], sys.argv[1:])
"""


class StartError(Exception):
    """A program ended, or did not become ready; carries the last lines of its log."""


class ApiServer:
    """One kube-apiserver with its etcd. Not for two threads at once.

    Linux ends both with the thread that started them: start and restart from one
    that lasts, such as the test's own.

    `authorization` is "RBAC" or "AlwaysAllow"; `admin` may do everything under
    both. `arguments` are further flags of kube-apiserver.
    """

    def __init__(
        self,
        binaries: Binaries,
        directory: Path,
        *,
        authorization: str = "RBAC",
        arguments: Sequence[str] = (),
    ) -> None:
        self._binaries = binaries
        self._directory = directory
        self._authorization = authorization
        self._arguments = arguments
        self._tokens = {ADMIN: secrets.token_hex(16)}
        self._etcd: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        # After a restart clients expect the server where it was, and the server its etcd.
        self._etcd_port = reserve()
        self._port = reserve()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    @property
    def ca_file(self) -> Path:
        """The certificate to trust, which is signed by itself."""
        return self._directory / "certificates" / "apiserver.crt"

    @property
    def pid(self) -> int:
        """The process of kube-apiserver, to measure it. Raises when it does not run."""
        assert self._process is not None, "kube-apiserver does not run"
        return self._process.pid

    def start(self) -> None:
        """Start what does not run yet and wait until it is ready. Raises `StartError`."""
        self._directory.mkdir(parents=True, exist_ok=True)
        tokens = self._directory / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(f'{self._tokens[ADMIN]},{ADMIN},{ADMIN},"system:masters"\n')
        if self._etcd is None:
            self._etcd = self._start_etcd()
        if self._process is None:
            self._process = self._start_server()
            self._wait_for_custom_resources()

    def stop(self) -> None:
        """End both. What is stored stays in the directory and comes back with `start`."""
        self.stop_server()
        if self._etcd is not None:
            _end(self._etcd, signal.SIGTERM)
            self._etcd = None

    def stop_server(self, *, kill: bool = False) -> None:
        """End kube-apiserver and leave etcd, in good order or by SIGKILL."""
        if self._process is not None:
            _end(self._process, signal.SIGKILL if kill else signal.SIGTERM)
            self._process = None

    def restart(self, *, kill: bool = False) -> None:
        """kube-apiserver anew, at its old address. Open watches break."""
        self.stop_server(kill=kill)
        self.start()

    def api(self, user: str = ADMIN) -> Api:
        """The server as a user, for tests to set up and to look."""
        return Api(self.url, self.token(user), str(self.ca_file))

    def token(self, user: str) -> str:
        """A bearer token of `admin` or of ``system:serviceaccount:<namespace>:<name>``.

        The namespace and the account are made if they are missing; what the account
        may do is a matter of the test's RBAC.
        """
        if user not in self._tokens:
            account = user.removeprefix(_SERVICE_ACCOUNT)
            if account == user:
                raise ValueError(f"{user} is neither {ADMIN} nor a service account")
            namespace, name = account.split(":")
            self._tokens[user] = self._service_account_token(namespace, name)
        return self._tokens[user]

    def kubeconfig(self, user: str = ADMIN, *, url: str = "", namespace: str = "default") -> Path:
        """Write a kubeconfig of a user and return where.

        `url` leads elsewhere, to a `FaultProxy` for instance.
        """
        cluster: Body = {"server": url or self.url}
        if cluster["server"].startswith("https:"):
            cluster["certificate-authority"] = str(self.ca_file)
        context = {"cluster": "tests", "user": user, "namespace": namespace}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tests",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "contexts": [{"name": "tests", "context": context}],
            "users": [{"name": user, "user": {"token": self.token(user)}}],
        }
        file = self._directory / f"kubeconfig-{secrets.token_hex(4)}.yaml"
        file.touch(mode=0o600)
        file.write_text(yaml.safe_dump(config))
        return file

    def install_crds(self, directory: Path = CRDS_DIRECTORY) -> None:
        """Create or update the CRDs of a directory and wait until they are served."""
        api = self.api()
        for file in sorted(directory.glob("*.yaml")):
            for body in filter(None, yaml.safe_load_all(file.read_text())):
                api.apply(body)
        api.close()
        self._wait_for_custom_resources()

    def _wait_for_custom_resources(self) -> None:
        """Wait until all CRDs are served: a ready server still answers 404 or 429 to some."""
        api = self.api()
        _wait(lambda: _are_served(api), "custom resources")
        api.close()

    def _service_account_token(self, namespace: str, name: str) -> str:
        api = self.api()
        account: Body = {"metadata": {"name": name, "namespace": namespace}}
        for resource, body in (
            (NAMESPACES, {"metadata": {"name": namespace}}),
            (SERVICE_ACCOUNTS, account),
        ):
            try:
                api.create(resource, body)
            except ApiError as error:
                if error.status != 409:
                    raise
        wanted = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": _TOKEN_SECONDS},
        }
        made = api.request("POST", SERVICE_ACCOUNTS.path(namespace, name, "token"), wanted)
        api.close()
        token: str = made["status"]["token"]
        return token

    def _start_etcd(self) -> subprocess.Popen[bytes]:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", "http://127.0.0.1:0"
        return self._run(
            "etcd",
            [
                str(self._binaries.etcd),
                f"--data-dir={self._directory / 'etcd'}",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                # Nobody is to be met there: a cluster of one.
                f"--listen-peer-urls={peer}",
                "--unsafe-no-fsync",
                # Room for clusters of scale; the pages are only taken as they fill.
                f"--quota-backend-bytes={8 * 1024**3}",
                "--log-level=warn",
            ],
            lambda: _answers(f"{client}/health"),
        )

    def _start_server(self) -> subprocess.Popen[bytes]:
        key = self._directory / "certificates" / "apiserver.key"
        _certify(key)
        command = [
            str(self._binaries.kube_apiserver),
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--cert-dir={key.parent}",
            f"--token-auth-file={self._directory / 'tokens.csv'}",
            f"--authorization-mode={self._authorization}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={key}",
            f"--service-account-key-file={self.ca_file}",
            "--service-cluster-ip-range=10.0.0.0/24",
            # The first would want accounts that nobody makes, the second would taint each
            # new node as not ready, and nobody would take the taint away.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--watch-cache=true",
            # Tests ask more of one server than fairness grants to one user.
            "--enable-priority-and-fairness=false",
            "--max-requests-inflight=0",
            "--max-mutating-requests-inflight=0",
            "--delete-collection-workers=8",
            "--shutdown-delay-duration=0s",
            *self._arguments,
        ]
        headers = {"Authorization": f"Bearer {self._tokens[ADMIN]}"}
        ready = f"{self.url}/readyz"
        return self._run("kube-apiserver", command, lambda: _answers(ready, headers, self.ca_file))

    def _run(
        self, name: str, command: Sequence[str], is_ready: Callable[[], bool]
    ) -> subprocess.Popen[bytes]:
        log = self._directory / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-S", "-E", "-c", _DIE_WITH_PARENT, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Collecting garbage costs a fourth of a start, and there is memory.
                env={"GOGC": "300", **os.environ},
                # Interrupts are for the tests; their end, however violent, is ours too.
                start_new_session=True,
            )
        try:
            _wait(lambda: process.poll() is not None or is_ready(), name)
            if process.poll() is not None:
                raise StartError(f"{name} ended with {process.returncode}")
        except StartError as error:
            _end(process, signal.SIGKILL)
            last = log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
            raise StartError("\n".join([str(error), *last])) from None
        except BaseException:
            _end(process, signal.SIGKILL)
            raise
        return process


def _certify(key: Path) -> None:
    """Elliptic, with which the server greets at a tenth of the cost: tests make thousands of
    connections. Where openssl is missing, the server makes its own on its first start, before it
    reads its keys."""
    if key.exists() or shutil.which("openssl") is None:
        return
    key.parent.mkdir()
    command = [
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
        *("-nodes", "-days", "1", "-subj", "/CN=127.0.0.1"),
        *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key)),
        *("-out", str(key.with_suffix(".crt"))),
    ]
    subprocess.run(command, check=True, capture_output=True)


def _wait(condition: Callable[[], bool], name: str) -> None:
    try:
        wait_until(condition, "ready")
    except AssertionError as error:
        raise StartError(f"{name}: {error}") from None


def _end(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    process.send_signal(how)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _answers(url: str, headers: Body | None = None, ca_file: Path | None = None) -> bool:
    if ca_file and not ca_file.exists():
        return False
    pool = urllib3.PoolManager(retries=False, ca_certs=str(ca_file) if ca_file else None)
    try:
        status: int = pool.request("GET", url, headers=headers, timeout=2.0).status
    except (urllib3.exceptions.HTTPError, OSError):
        return False
    finally:
        pool.clear()
    return status == 200


def _are_served(api: Api) -> bool:
    """Whether every version of every custom resource can be listed."""
    try:
        for spec in (crd["spec"] for crd in api.items(CRDS)):
            for version in (one["name"] for one in spec["versions"] if one["served"]):
                resource = Resource(f"{spec['group']}/{version}", spec["names"]["plural"])
                # Twice: one answer comes from etcd, the other from the watch cache.
                api.listing(resource, limit="1")
                api.listing(resource)
    except ApiError as error:
        if error.status not in (404, 429) and error.status < 500:
            raise
        return False
    return True
