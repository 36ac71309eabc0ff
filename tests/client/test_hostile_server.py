"""An API server that lies, drips and never ends: typed errors, in time, and no traceback."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from placement import cluster
from placement.cli.main import main
from placement.cluster import ApiError, Cluster, WatchStream
from placement.resources import NODES
from tests.waiting import LONG

Write = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def serving(tmp_path: Path, write: Write, *, headers: bool = True) -> Iterator[Path]:
    """A kubeconfig for a server of which every answer is written by `write`; good headers come
    before it, or none."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if headers:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
            try:
                write(self)
            except OSError:
                return  # The client has had enough.

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    file = tmp_path / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        ],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    file.write_text(yaml.safe_dump(config))
    try:
        yield file
    finally:
        server.shutdown()
        server.server_close()


def saying(content: Any) -> Write:
    return lambda handler: void(handler.wfile.write(json.dumps(content).encode()))


def void(_: object) -> None:
    return None


WRONG = [
    pytest.param([], id="a list"),
    pytest.param("x", id="a string"),
    pytest.param({"items": "x"}, id="items that are no list"),
    pytest.param({"items": ["x"]}, id="items that are no objects"),
    pytest.param({"items": [], "metadata": [1]}, id="metadata that is a list"),
    pytest.param({"items": [{}]}, id="an object without metadata"),
    pytest.param({"items": [{"metadata": {"name": 1}}]}, id="a name that is a number"),
    pytest.param({"items": [{"kind": "Other", "metadata": {"name": "a"}}]}, id="another kind"),
    pytest.param({"metadata": {"continue": "again"}}, id="pages without end"),
]


@pytest.mark.parametrize("content", WRONG)
@pytest.mark.parametrize("command", [["status"], ["plan", "--live"]])
def test_what_is_no_list_ends_the_command_with_three(
    content: Any, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(tmp_path, saying(content)) as kubeconfig:
        assert main([*command, "--kubeconfig", str(kubeconfig)]) == 3
    told = capsys.readouterr()
    assert told.out == ""
    assert "the cluster could not be read" in told.err


def test_fields_of_the_wrong_kind_do_not_end_the_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def write(handler: BaseHTTPRequestHandler) -> None:
        body = {"metadata": {"name": "a", "namespace": 7}, "spec": [], "status": "x"}
        if "podgangs" in handler.path:
            body = {
                "metadata": {"name": "g", "namespace": "ml"},
                "spec": {"podgroups": [{"minReplicas": "many", "podReferences": {}}, 3]},
                "status": {"conditions": [None, {"type": "Scheduled", "status": 1}]},
            }
        handler.wfile.write(json.dumps({"items": [body]}).encode())

    with serving(tmp_path, write) as kubeconfig:
        assert main(["status", "--kubeconfig", str(kubeconfig), "-o", "json"]) == 0
    (gang,) = json.loads(capsys.readouterr().out)["podGangs"]
    assert (gang["scheduled"], gang["minimum"]) == ("Unknown", 0)


def test_pages_that_never_end_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cluster._MOST_PAGES * cluster._PAGE <= 1_000_000
    monkeypatch.setattr(cluster, "_MOST_PAGES", 20)
    told = 0

    def more(handler: BaseHTTPRequestHandler) -> None:
        nonlocal told
        told += 1
        page = {"metadata": {"continue": str(told)}, "items": [{"metadata": {"name": f"n{told}"}}]}
        handler.wfile.write(json.dumps(page).encode())

    with (
        serving(tmp_path, more) as kubeconfig,
        Cluster.connect(kubeconfig=str(kubeconfig)) as connected,
        pytest.raises(ApiError, match="the list of nodes does not end"),
    ):
        list(connected.pages(NODES))
    assert told == 20


def test_pages_of_large_objects_are_shorter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of a tenant with a megabyte of annotations on each pod."""
    monkeypatch.setattr(cluster, "_PAGE_BYTES", 100_000)
    asked: list[int] = []

    def page(handler: BaseHTTPRequestHandler) -> None:
        query = parse_qs(urlsplit(handler.path).query)
        asked.append(limit := int(query["limit"][0]))
        begin = int(query.get("continue", ["0"])[0])
        end = min(begin + limit, 300)
        items = [
            {"metadata": {"name": f"n{i}", "annotations": {"a": "x" * 1000}}}
            for i in range(begin, end)
        ]
        metadata = {"resourceVersion": "7", "continue": str(end) if end < 300 else ""}
        handler.wfile.write(json.dumps({"metadata": metadata, "items": items}).encode())

    with (
        serving(tmp_path, page) as kubeconfig,
        Cluster.connect(kubeconfig=str(kubeconfig)) as connected,
    ):
        pages = list(connected.pages(NODES))
    assert asked == [500, 125, 31, *([31] * 9)]
    names = [one["metadata"]["name"] for page in pages for one in page.items]
    assert names == [f"n{i}" for i in range(300)]


@pytest.mark.parametrize("score", ["1e999", "-1e999", "NaN", "9" * 400, "true", "[]"])
@pytest.mark.parametrize("output", ["json", "table"])
def test_values_that_make_no_sense_do_not_end_the_status(
    score: str, output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def write(handler: BaseHTTPRequestHandler) -> None:
        body = '{"metadata": {"name": "a", "namespace": "ml"}, "spec": {"nodeName": {"a": []}}}'
        if "podgangs" in handler.path:
            gang = {"metadata": {"name": "g", "namespace": "ml"}, "spec": {}}
            told = {**gang, "status": {"placementScore": "SCORE"}}
            body = json.dumps(told).replace('"SCORE"', score)
        handler.wfile.write(b'{"items": [%s]}' % body.encode())

    with serving(tmp_path, write) as kubeconfig:
        assert main(["status", "--kubeconfig", str(kubeconfig), "-o", output]) == 0
    told = capsys.readouterr().out
    assert "g" in told
    assert "Infinity" not in told
    assert "NaN" not in told


@pytest.mark.parametrize("told", ["99999999999", "9" * 400])
def test_nobody_is_sent_away_for_years(tmp_path: Path, told: str) -> None:
    def refuse(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(429)
        handler.send_header("Retry-After", told)
        handler.end_headers()

    with (
        serving(tmp_path, refuse, headers=False) as kubeconfig,
        Cluster.connect(kubeconfig=str(kubeconfig)) as connected,
        pytest.raises(ApiError) as refused,
    ):
        connected.request("GET", NODES.path)
    assert refused.value.retry_after == 60.0


def test_an_answer_that_drips_is_given_up(tmp_path: Path) -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        while True:
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.05)

    with (
        serving(tmp_path, drip) as kubeconfig,
        Cluster.connect(kubeconfig=str(kubeconfig)) as connected,
    ):
        begin = time.monotonic()
        with pytest.raises(ApiError, match="takes too long"):
            connected.request("GET", NODES.path, timeout=1.0)
        assert time.monotonic() - begin < LONG


def test_headers_that_drip_are_given_up(tmp_path: Path) -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        while True:
            handler.wfile.write(b"x")
            time.sleep(0.05)

    with (
        serving(tmp_path, drip, headers=False) as kubeconfig,
        Cluster.connect(kubeconfig=str(kubeconfig)) as connected,
    ):
        begin = time.monotonic()
        with pytest.raises(ApiError, match="no answer from the API server"):
            connected.request("GET", NODES.path, timeout=1.0)
        assert time.monotonic() - begin < LONG


def test_an_answer_without_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_MOST_BYTES", 1_000_000)

    def flood(handler: BaseHTTPRequestHandler) -> None:
        while True:
            handler.wfile.write(b" " * 65536)

    with (
        serving(tmp_path, flood) as kubeconfig,
        Cluster.connect(kubeconfig=str(kubeconfig)) as connected,
        pytest.raises(ApiError, match="larger than"),
    ):
        connected.request("GET", NODES.path)


def test_a_watch_on_which_nothing_comes_ends_without_an_error(tmp_path: Path) -> None:
    """Nothing need be wrong: of a kind that never changes some servers send no bookmarks."""
    wait = threading.Event()
    file = serving(tmp_path, lambda handler: void(wait.wait(LONG)))
    with (
        file as kubeconfig,
        Cluster.connect(kubeconfig=str(kubeconfig)) as connected,
        connected.watch(NODES, "1", silence=0.2) as events,
    ):
        assert list(events) == []
        wait.set()


def test_a_closed_watch_ends_whatever_it_reads_by_then() -> None:
    """A socket of TLS that is shut down gives out what came and is still encrypted."""

    class Response:
        def stream(self, *, decode_content: bool) -> Iterator[bytes]:
            yield b'{"type": "ADDED", "object": {}}\n'
            yield b'{"type": "MODI\x17\x03\x03\xda\n'

        def shutdown(self) -> None:
            pass

    events = WatchStream(Response())
    assert next(events)["type"] == "ADDED"
    events.close()
    assert list(events) == []


def test_an_event_without_end_breaks_the_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_MOST_EVENT_BYTES", 1_000_000)

    def flood(handler: BaseHTTPRequestHandler) -> None:
        while True:
            handler.wfile.write(b" " * 65536)

    with (
        serving(tmp_path, flood) as kubeconfig,
        Cluster.connect(kubeconfig=str(kubeconfig)) as connected,
        connected.watch(NODES, "1") as events,
        pytest.raises(ApiError, match="larger"),
    ):
        next(events)


def test_a_server_that_says_nothing_is_told_in_the_same_words_each_time(tmp_path: Path) -> None:
    """Who tells an error once has to know it again."""
    ended = threading.Event()

    def write(handler: BaseHTTPRequestHandler) -> None:
        ended.wait(LONG)

    with (
        serving(tmp_path, write, headers=False) as kubeconfig,
        Cluster.connect(kubeconfig=str(kubeconfig)) as connected,
    ):
        for _ in range(2):
            with pytest.raises(ApiError, match=r"^no answer from the API server within 0\.3 s$"):
                connected.request("GET", "/api", timeout=0.3)
        ended.set()


def test_the_kernel_notices_a_server_that_vanished(tmp_path: Path) -> None:
    timers = []

    def write(handler: BaseHTTPRequestHandler) -> None:
        timers.append(timer_of(handler.client_address[1]))
        saying({})(handler)

    with (
        serving(tmp_path, write) as kubeconfig,
        Cluster.connect(kubeconfig=str(kubeconfig)) as connected,
    ):
        connected.request("GET", "/api")
    keep_alive = 2
    assert timers == [keep_alive]


def test_a_cluster_is_read_where_the_system_lacks_a_limit_of_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only Linux limits how long what was sent may stay unconfirmed."""
    monkeypatch.delattr(socket, "TCP_USER_TIMEOUT")
    with (
        serving(tmp_path, saying({})) as kubeconfig,
        Cluster.connect(kubeconfig=str(kubeconfig)) as connected,
    ):
        assert connected.request("GET", "/api") == {}


def timer_of(port: int) -> int:
    """Which timer the kernel has set for the connection from a local port."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    (line,) = (one.split() for one in lines if one.split()[1].endswith(f":{port:04X}"))
    return int(line[5].split(":")[0])
