"""Where the cluster is and who asks it: kubeconfigs, or what a pod is given by its kubelet."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Final

import kubernetes
import yaml
from kubernetes.utils.keepalive import tcp_keepalive_socket_options

from placement.timed_headers import POOLS

#: Seconds between two looks for new credentials; a program may have to run for each.
_RENEWAL: Final = 10.0
#: Seconds until the kernel asks whether a quiet connection is still there, between two such
#: questions, and how many may stay without an answer. A server that vanished without a word, with
#: its machine or behind a gateway that forgot the connection, is noticed by that.
_KEEP_ALIVE: Final = (15, 5, 3)
#: The same in milliseconds where what was sent is not confirmed.
_UNCONFIRMED: Final = 30_000


class NotConfiguredError(Exception):
    """There is no cluster, or no credentials for it, where they were looked for."""


class Renewal:
    """Gives a client the credentials that are configured now: a token in a kubeconfig, or in a file
    that it names, is replaced when it expires."""

    def __init__(
        self,
        client: kubernetes.client.ApiClient,
        anew: Callable[[], kubernetes.client.ApiClient],
    ) -> None:
        self._client = client
        self._anew = anew
        self._lock = threading.Lock()
        self._next = 0.0
        #: How often it has been done.
        self.count = 0

    def since(self, count: int) -> bool:
        """Whether it has been done since then, by this call or by another thread."""
        with self._lock:
            if self.count == count and time.monotonic() >= self._next:
                self._next = time.monotonic() + _RENEWAL
                try:
                    client = self._anew()
                except NotConfiguredError:
                    # Files that are being replaced; the old credentials may be as good.
                    return False
                self._client.configuration = client.configuration
                self._client.rest_client = client.rest_client
                self.count += 1
            return self.count != count


def api_client(
    kubeconfig: str | None, context: str | None, connections: int
) -> kubernetes.client.ApiClient:
    """A client with the credentials that are configured now. Raises `NotConfiguredError`."""
    configuration = kubernetes.client.Configuration()
    _configure(configuration, kubeconfig, context)
    # The caller decides about repetitions; urllib3 would repeat three times by itself.
    configuration.retries = False
    configuration.connection_pool_maxsize = connections
    options = tcp_keepalive_socket_options(*_KEEP_ALIVE)
    # Only Linux has it.
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        options.append((socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNCONFIRMED))
    configuration.socket_options = options
    # What the environment says of proxies counts once; else each request would read it anew.
    configuration.proxy = configuration.proxy
    client = kubernetes.client.ApiClient(configuration)
    client.rest_client.pool_manager.pool_classes_by_scheme = POOLS
    return client


def _configure(
    configuration: kubernetes.client.Configuration, kubeconfig: str | None, context: str | None
) -> None:
    """Sets the address of the cluster and the credentials. `kubeconfig` may list several files."""
    usual = os.path.expanduser("~/.kube/config")
    files = (kubeconfig or usual).split(os.pathsep)
    try:
        if any(os.path.exists(os.path.expanduser(file)) for file in files):
            kubernetes.config.load_kube_config(
                config_file=os.pathsep.join(files),
                context=context,
                client_configuration=configuration,
            )
        elif kubeconfig:
            raise NotConfiguredError(f"{kubeconfig}: No such file or directory")
        elif context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
            kubernetes.config.load_incluster_config(client_configuration=configuration)
        else:
            raise NotConfiguredError(f"KUBECONFIG is not set, and there is no {usual}")
    except (kubernetes.config.ConfigException, OSError) as error:
        raise NotConfiguredError(str(error)) from error
    except (
        yaml.YAMLError,
        ValueError,
        TypeError,
        AttributeError,
        LookupError,
        RecursionError,
    ) as error:
        # What the client says of a file that holds something else names its own code.
        raise NotConfiguredError(f"{os.pathsep.join(files)} is no kubeconfig") from error
