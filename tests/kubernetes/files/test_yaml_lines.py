"""What is read line by line means what it means to the parser, which is the oracle here."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from placement.kubernetes.files import yaml_parser, yaml_text
from placement.kubernetes.files.yaml_lines import NotByLinesError, Words, read

NODES = """\
apiVersion: v1
items:
- apiVersion: v1
  kind: Node
  metadata:
    annotations:
      csi.volume.kubernetes.io/nodeid: '{"ebs.csi.aws.com":"i-0"}'
      note: "two\\nlines"
    creationTimestamp: "2026-11-27T10:00:00Z"
    labels: {}
    managedFields:
    - fieldsV1:
        f:metadata:
          'f:labels': {}
          k:{"type":"Ready"}:
            .: {}
    name: gpu-1
  spec:
    taints:
    -   effect: NoSchedule
        key: a
    unschedulable: true

  # A comment.
  status: # another
    capacity:
      pods: 110
      cpu: 1.5
    message: 'a long message that goes
      on in the next line'
    script: |
      if true; then
        echo "$A" && exit
      fi
    words: and these words
      too
    lists: [a, {b: c}]
    nested:
    - - 1
      - 2
    -
      name: x
kind: List
metadata:
  resourceVersion: ""
---
# Only this.
---
a: null
"""


def test_what_programs_print_is_read_by_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    want = list(yaml_parser.parsed(NODES))

    def refuse(*_: object) -> None:
        pytest.fail("the parser read a whole document")

    monkeypatch.setattr(yaml_text, "parsed", refuse)
    assert list(yaml_text.documents(NODES)) == want


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a: &x [1]\nb: *x\n", id="an alias"),
        pytest.param("a: b: c\n", id="two keys in a line"),
        pytest.param("a: 1\n  b: 2\n", id="a key below a value"),
        pytest.param("  a: 1\nb: 2\n", id="a key left of the first"),
        pytest.param("a:\n    b: 1\n  c: 2\n", id="a key between two columns"),
        pytest.param("a: 1\n- b\n", id="an element behind a value"),
        pytest.param("- a\nb: 1\n", id="a key behind elements"),
        pytest.param("a: 'b\nc: d'\n", id="a quote that goes on further left"),
        pytest.param("a: [b\n# c\n  d]\n", id="a list that goes on behind a comment"),
        pytest.param("a: b\n# c\n  d\n", id="a word that goes on behind a comment"),
        pytest.param("a: \tb\n", id="a tab"),
        pytest.param("- \tb\n", id="a tab behind a dash"),
        pytest.param("a: !!int ''\nb: [\n", id="a number that is empty"),
        pytest.param("k" * 1100 + ": 1\n", id="a long key"),
        pytest.param("? a\n: b\n", id="a key of its own line"),
        pytest.param("a: |2\n    b\n", id="a text with its indentation"),
        pytest.param("- a: |+\n    b\n\n\n---\nc", id="a text with its empty lines"),
        pytest.param("a: 0x1f\nb: 010\nc: yes\nd: 1:30\n1: 2\nnull: ~\n", id="no strings"),
        pytest.param("a: 1\na: 2\nb:\n- a: 1\n  'a': 2\n- [{c: 1,\n   c: 2}]\n", id="twice"),
        pytest.param("--- a\n--- # b\n---\nc: [\n", id="documents"),
        pytest.param("a: 1\n...\n%YAML 1.1\n---\nb: 1\n", id="a directive"),
        pytest.param("a: b\x85c: d\n", id="another end of a line"),
        pytest.param("a: 1\r\nb:\r\n- 2\r\n", id="lines of Windows"),
        pytest.param("a: b\x01\n", id="a character that may not be there"),
        pytest.param("a: 1\n" * 3 + "---\nb: [1\n---\nc: 1\n", id="an error with its line"),
        pytest.param("", id="nothing"),
        pytest.param("# a\n", id="a comment"),
    ],
)
def test_what_is_unusual_means_what_it_meant(text: str) -> None:
    assert outcome(yaml_text.documents, text) == outcome(yaml_parser.parsed, text)


WORDS = st.sampled_from(
    [
        *("a", "true", "No", "~", "-1", "0x1f", "010", "1:30", "2026-01-01", ".5", "a b", "a: b"),
        *("a #b", "#x", "- a", "-", "---", "...", "&a", "*a", "!t", "|", ">", "'", '"', "it's"),
        *("x:", "http://a:1/b", "日本", "\ttab", "a\nb", "a\n", "\n a", "a\\b", "{}", "[a", "<<"),
        *('k:{"type":"Ready"}', "f:metadata", ".", "? a", "", " ", "a ", "very long words " * 9),
    ]
)
VALUES = st.recursive(
    WORDS | st.sampled_from([True, None, 1.5, -3]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=12,
)
PIECES = st.sampled_from(
    [
        *("", " ", "  ", "- ", ": ", "#", " # c", "\n", "'", '"', "|", "|+", ">", "&a ", "*a"),
        *("---\n", "...\n", "{", "]", ",", "\t", "? ", "a: ", "- - ", "a: b\n", "  a: b\n"),
        *("    x\n", "# c\n"),
    ]
)


@given(
    st.lists(VALUES, min_size=1, max_size=3),
    st.sampled_from([None, None, "'", '"', "|"]),
    st.sampled_from([False, False, None]),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3), PIECES), max_size=3),
)
def test_any_text_means_what_it_means_to_the_parser(
    values: list[Any], style: str | None, flow: bool | None, edits: list[tuple[float, int, str]]
) -> None:
    text = yaml.safe_dump_all(values, default_style=style, default_flow_style=flow, width=40)
    for share, gone, piece in edits:
        at = int(share * len(text))
        text = text[:at] + piece + text[at + gone :]
    assert outcome(yaml_text.documents, text) == outcome(yaml_parser.parsed, text)


def test_a_document_nests_no_deeper_than_the_parser_allows() -> None:
    with pytest.raises(NotByLinesError):
        read("".join(f"{' ' * i}a:\n" for i in range(200)), Words(), [])


def test_words_are_remembered_only_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placement.kubernetes.files.yaml_lines._MOST_REMEMBERED", 3)
    words = Words()
    assert read("\n".join(f"a{i}: b{i}" for i in range(9)), words, []) == [
        {f"a{i}": f"b{i}" for i in range(9)}
    ]
    assert len(words) <= 3


def outcome(reader: Any, text: str) -> object:
    """The documents before the first error, the error with its line, and keys that are repeated."""
    documents, repeated, error = [], list[yaml_text.Repeated](), None
    try:
        for document in reader(text, repeated):
            documents.append(repr(document))
    except yaml.MarkedYAMLError as raised:
        error = str(raised.problem), raised.problem_mark and raised.problem_mark.line
    except (yaml.YAMLError, ValueError, RecursionError) as raised:
        error = str(raised), None
    # Where a merge key is somewhere in a text, the parser does not look for them.
    return documents, error, "<<" in text or sorted(repeated)
