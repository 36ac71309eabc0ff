"""What the edge keeps of snapshots, and tells processes that lack them."""

from __future__ import annotations

from placement_service.api.snapshots.store import _ENTRY, SnapshotStore

A, B, C, D = (bytes((i,)) * 32 for i in range(4))


def test_a_process_is_told_what_it_lacks_in_order() -> None:
    store = SnapshotStore(10**6)
    store.keep(A, b"whole a")
    store.keep(B, b"b of a", A)
    store.keep(C, b"c of b", B)
    assert store.told(C, ()) == [b"whole a", b"b of a", b"c of b"]
    assert store.told(C, {A}) == [b"b of a", b"c of b"]
    assert store.told(C, {C}) == []
    assert store.told(D, {C}) is None
    store.keep(B, b"whole b")
    assert store.told(C, ()) == [b"whole b", b"c of b"]
    store.keep(B, b"b of d", D)
    assert store.told(B, ()) == [b"whole b"]


def test_the_least_recently_used_go_first_and_nothing_before_what_is_made_from_it() -> None:
    store = SnapshotStore(3 * (_ENTRY + 10))
    store.keep(A, b"a" * 10)
    store.keep(B, b"b" * 10, A)
    store.keep(C, b"c" * 10)
    assert len(store) == 3
    assert store.bytes == 3 * (_ENTRY + 10)
    store.use(B)
    store.keep(D, b"d" * 10)
    assert C not in store
    assert store.told(B, ()) == [b"a" * 10, b"b" * 10]
    store.keep(C, b"c" * 10)
    assert B not in store
    assert A in store


def test_what_is_larger_than_all_is_not_kept_and_what_is_made_from_it_neither() -> None:
    store = SnapshotStore(_ENTRY + 10)
    store.keep(A, b"a" * 11)
    store.keep(B, b"b", A)
    assert len(store) == 0
    assert store.bytes == 0
    nothing = SnapshotStore(0)
    nothing.keep(A, b"")
    assert A not in nothing


def test_a_thousand_sessions_take_no_more_than_they_may() -> None:
    store = SnapshotStore(100 * _ENTRY)
    for i in range(1000):
        digest = i.to_bytes(32, "big")
        store.keep(digest, b"x" * 100)
        store.keep(bytes(reversed(digest)) + b"x", b"y", digest)
        assert store.bytes <= 100 * _ENTRY
    assert store.told(digest, ()) == [b"x" * 100]


def test_a_session_that_goes_on_for_ever_takes_no_more_and_no_more() -> None:
    """Every tenth snapshot comes as a whole: those of the last twenty are kept, or a few more."""
    store = SnapshotStore(10**9)
    store.keep(A, b"whole")
    store.keep(B, b"another session", A)
    last = A
    for i in range(1000):
        digest = b"session" + i.to_bytes(25, "big")
        store.keep(digest, b"changes", last)
        if i % 10 == 9:
            store.keep(digest, b"whole")
        last = digest
        assert store.told(digest, ()) is not None
        assert len(store) < 35
    assert store.told(B, ()) == [b"whole", b"another session"]
