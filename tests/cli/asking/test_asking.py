"""What an interrupt does to a question that is being answered."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from placement import v1
from placement.cli.asking.asking import Asker
from placement.cli.asking.embedded import Embedded, StartError
from placement.cli.options.options import Service
from placement.streams import SteeredStream
from placement.testing import scripted_server
from tests.waiting import LONG

SERVICE = Service(None, None, None, None, 60.0, None)


@pytest.fixture(autouse=True)
def _interrupts() -> Iterator[None]:
    """Ctrl-C is heard, also where a shell has its children ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_after(seconds: float) -> None:
    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(seconds, lambda: signal.pthread_kill(main, signal.SIGINT)).start()


class LongSearch:
    """Gives its answer when it is told to finish, and not before."""

    def __init__(self) -> None:
        self.told = threading.Event()
        self.on_finish: Callable[[], None] = self.told.set

    def __call__(self, _: v1.ComputePlacementRequest) -> Iterator[v1.Progress | v1.Placement]:
        yield v1.Progress(phase="exact")
        # The asker has been told of progress once it looks for more.
        interrupt_after(0.3)
        self.told.wait()
        placement = v1.Placement(revision="best")
        placement.tiers.add(name="admitted", value=8, bound=10)
        yield placement


def asked(search: LongSearch) -> v1.Placement:
    with scripted_server(search) as server:

        def hear() -> None:
            server.finish.wait()
            search.on_finish()

        threading.Thread(target=hear, daemon=True).start()
        asker = Asker(SERVICE, lambda: server.address)
        try:
            return asker.plan(v1.ComputePlacementRequest())
        finally:
            asker.close()
            search.told.set()
            server.finish.set()


def test_an_interrupt_gives_the_best_answer_so_far_and_says_how_good_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert asked(LongSearch()).revision == "best"
    told = capsys.readouterr().err
    assert "interrupted; this is the best answer so far: Admitted within 25 %" in told


def test_a_second_interrupt_leaves() -> None:
    search = LongSearch()
    search.on_finish = lambda: None if search.told.is_set() else interrupt_after(0.1)
    with pytest.raises(KeyboardInterrupt):
        asked(search)


def test_an_interrupt_while_the_call_is_made_counts() -> None:
    """On a busy machine that takes a while."""

    def search(_: v1.ComputePlacementRequest) -> Iterator[v1.Placement]:
        assert server.finish.wait(LONG)
        yield v1.Placement(revision="best")

    with scripted_server(search) as server:
        asker = Asker(SERVICE, lambda: server.address)
        steer = asker._connected().steer

        def interrupted(request: v1.ComputePlacementRequest, *, timeout: float) -> Any:
            stream = steer(request, timeout=timeout)
            signal.raise_signal(signal.SIGINT)
            return stream

        found = asker._steered(interrupted, v1.ComputePlacementRequest(), gangs=1)
        asker.close()
    assert found.interrupted
    assert found.answer.revision == "best"


class Steered(SteeredStream[v1.ExplainGangResponse]):
    """A call about planning that goes on until it is told to finish."""

    def __init__(self, answer: v1.ExplainGangResponse) -> None:
        self._finished = threading.Event()

        def events() -> Iterator[v1.Progress | v1.ExplainGangResponse]:
            yield v1.Progress(phase="remedies")
            interrupt_after(0.3)
            self._finished.wait()
            yield answer

        self._left = events()

    def __next__(self) -> v1.Progress | v1.ExplainGangResponse:
        return next(self._left)

    def finish(self) -> None:
        self._finished.set()

    close = finish


@pytest.mark.parametrize(
    ("answer", "known"),
    [
        ({"elapsed": {"seconds": 1}}, "this is what was found so far\n"),
        ({}, "this is what was found so far, the plan that comes first\n"),
    ],
)
def test_an_interrupt_gives_what_planning_found_so_far(
    capsys: pytest.CaptureFixture[str], answer: Any, known: str
) -> None:
    begun = v1.ExplainGangResponse(**answer)
    asker = Asker(SERVICE, lambda: "localhost:1")
    found = asker._planned(lambda request, timeout: Steered(begun), v1.ExplainGangRequest())
    assert found == begun
    assert capsys.readouterr().err == f"placementctl: interrupted; {known}"


@pytest.mark.parametrize("ready", [True, False])
def test_the_time_of_a_question_begins_when_the_own_service_is_ready(ready: bool) -> None:
    class Starting:
        def wait_until_ready(self, timeout: float) -> bool:
            assert timeout > SERVICE.time_limit, "a busy machine starts it slowly"
            return ready

    started: Future[Any] = Future()
    started.set_result((Starting(), 50051))
    if ready:
        assert Embedded(started).address() == "127.0.0.1:50051"
    else:
        with pytest.raises(StartError, match="not ready"):
            Embedded(started).address()
