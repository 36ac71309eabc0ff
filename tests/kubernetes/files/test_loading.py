"""Files, folders and standard input: everything people have, and what is wrong with it."""

from __future__ import annotations

import io
import json
import tracemalloc
from pathlib import Path

import pytest
import yaml

from placement.kubernetes import Objects, load
from placement.kubernetes.files import bounded_files, json_text
from placement.kubernetes.objects import not_a_name
from placement.kubernetes.schema.kinds import meant
from tests.kubernetes.build import Body, container, node, pod, priority_class, problems, said


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def names(objects: Objects) -> list[str]:
    return [str(o) for o in (*objects.nodes, *objects.pods, *objects.priority_classes)]


TWO = [node("n1"), pod("a")]

#: Each line holds the one before nine times.
BILLION_LAUGHS = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "\n".join(
    f"{key}: &{key} [{', '.join([f'*{before}'] * 9)}]"
    for before, key in zip("abcdefgh", "bcdefghi", strict=True)
)

#: Each mapping merges the one before nine times over.
MERGED = "a: &a {k: 1}\n" + "\n".join(
    f"{key}: &{key} {{<<: [{', '.join([f'*{before}'] * 9)}]}}"
    for before, key in zip("abcdefgh", "bcdefghi", strict=True)
)

#: A megabyte three thousand times.
LONG = f"a: &a {'x' * 1_000_000}\nb: [{', '.join(['*a'] * 3000)}]"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(yaml.safe_dump_all(TWO), id="YAML documents"),
        pytest.param(
            "---\n# nothing\n---\n" + yaml.safe_dump_all(TWO) + "\n...\n", id="empty documents"
        ),
        pytest.param(yaml.safe_dump(TWO), id="a YAML list"),
        pytest.param(
            yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": TWO}), id="List in YAML"
        ),
        pytest.param(
            json.dumps({"apiVersion": "v1", "kind": "List", "items": TWO}), id="List in JSON"
        ),
        pytest.param("\n ".join(map(json.dumps, TWO)), id="JSON values one after another"),
        pytest.param(json.dumps(TWO), id="a JSON array"),
        pytest.param(
            "{kind: List, apiVersion: v1, items: " + json.dumps(TWO) + "}", id="flow YAML"
        ),
    ],
)
def test_objects_are_found_in(tmp_path: Path, text: str) -> None:
    objects = load([write(tmp_path, "x.yaml", text)])
    assert not objects.problems
    assert not objects.warnings
    assert names(objects) == ["Node n1", "Pod ml/a"]


def test_elements_of_a_typed_list_may_leave_out_their_kind() -> None:
    bare = {k: v for k, v in pod("a").items() if k not in ("kind", "apiVersion")}
    objects = Objects.of([{"apiVersion": "v1", "kind": "PodList", "items": [bare]}])
    assert names(objects) == ["Pod ml/a"]


@pytest.mark.parametrize(
    "body",
    [
        {"apiVersion": "v1", "kind": "NodeList", "items": {"a": "b"}},
        {"apiVersion": "v1", "kind": "List", "items": "x"},
        {"apiVersion": "v1", "kind": "List"},
    ],
)
def test_a_list_without_items_is_a_problem(body: dict[str, object]) -> None:
    (problem,) = Objects.of([body]).problems
    assert (problem.field, problem.message) == ("items", "must be a list")


def test_lists_nest_and_may_be_empty() -> None:
    inner = {"apiVersion": "v1", "kind": "NodeList", "items": [node("n1")]}
    empty = {"apiVersion": "v1", "kind": "PodList", "items": None}
    objects = Objects.of([{"apiVersion": "v1", "kind": "List", "items": [inner, empty]}])
    assert names(objects) == ["Node n1"]
    assert not objects.problems


def test_folders_are_read_recursively_in_order_of_path(tmp_path: Path) -> None:
    write(tmp_path, "b.yml", yaml.safe_dump(node("n2")))
    write(tmp_path, "a/z.json", json.dumps(node("n1")))
    write(tmp_path, "c.yaml", yaml.safe_dump(node("n3")))
    write(tmp_path, "notes.txt", "not for us")
    objects = load([str(tmp_path)])
    assert names(objects) == ["Node n1", "Node n2", "Node n3"]
    assert [Path(o.file).name for o in objects.nodes] == ["z.json", "b.yml", "c.yaml"]


def test_a_template_that_was_not_rendered_is_called_so(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "kind: Node\nmetadata:\n  name: {{ .Values.name }}\n{{- if .x }}\n")
    (problem,) = load([str(tmp_path)]).problems
    assert "looks like a template" in problem.message
    write(tmp_path, "a.yaml", "kind: [Node\n")
    (problem,) = load([str(tmp_path)]).problems
    assert "template" not in problem.message


def test_a_volume_of_a_config_map_is_read_once(tmp_path: Path) -> None:
    """Kubernetes makes each key a link, through another one, to a folder beside it."""
    (tmp_path / "..2026").mkdir()
    (tmp_path / "..data").symlink_to("..2026")
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / "..2026" / name).write_text(
            f"apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\n"
        )
        (tmp_path / name).symlink_to(f"..data/{name}")
    objects = load([str(tmp_path)])
    assert [one.name for one in objects.nodes] == ["a.yaml", "b.yaml"]
    assert [one.file for one in objects.nodes] == [str(tmp_path / n) for n in ("a.yaml", "b.yaml")]


@pytest.mark.parametrize("raw", [False, True])
def test_a_dash_is_standard_input(raw: bool) -> None:
    text = json.dumps(node("n1"))
    stdin = io.BytesIO(text.encode()) if raw else io.StringIO(text)
    (only,) = load(["-"], stdin=stdin).nodes
    assert only.file == "<stdin>"


def test_an_object_remembers_file_and_document(tmp_path: Path) -> None:
    path = write(tmp_path, "x.yaml", yaml.safe_dump_all([node("n1"), node("n2")]))
    assert [(o.file, o.document) for o in load([path]).nodes] == [(path, 0), (path, 1)]


def test_a_namespaced_object_without_namespace_is_in_default() -> None:
    lone = pod("a")
    del lone["metadata"]["namespace"]
    assert names(Objects.of([lone])) == ["Pod default/a"]


def test_dates_stay_strings(tmp_path: Path) -> None:
    text = yaml.safe_dump(pod("a")) + "x: 2026-01-01\ny: 2026-01-01T00:00:00Z\n"
    (only,) = load([write(tmp_path, "x.yaml", text)]).pods
    assert (only.body["x"], only.body["y"]) == ("2026-01-01", "2026-01-01T00:00:00Z")


def test_numbers_of_base_60_stay_strings(tmp_path: Path) -> None:
    """As for Kubernetes; PyYAML takes the square of their length to read them."""
    long = "1" + ":59" * 100_000
    text = f"1:30, b: 1:30.5, c: {long}, d: {long}.5, e: !!int 1:30"
    body = node("n1")
    body["metadata"]["labels"] = {}
    written = yaml.safe_dump(body).replace("labels: {}", f"labels: {{a: {text}}}")
    (only,) = load([write(tmp_path, "a.yaml", written)]).nodes
    labels = only.body["metadata"]["labels"]
    assert labels == {"a": "1:30", "b": "1:30.5", "c": long, "d": f"{long}.5", "e": "1:30"}


def test_what_the_parser_says_is_cut(tmp_path: Path) -> None:
    (problem,) = load(
        [write(tmp_path, "a.yaml", "%TAG ! " + "x" * 9000 + "\n---\n!a b\n")]
    ).problems
    assert len(problem.message) < 300


def test_an_empty_path_is_not_the_folder_one_is_in() -> None:
    (problem,) = load([""]).problems
    assert problem.message == "the path of a file is empty"


def test_aliases_and_merge_keys_of_honest_size_are_followed(tmp_path: Path) -> None:
    text = """
    apiVersion: v1
    kind: List
    items:
    - {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: &spec {containers: [], priority: 1}}
    - {apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {<<: *spec, priority: 2}}
    """
    one, other = load([write(tmp_path, "x.yaml", text)]).pods
    assert one.body["spec"] == {"containers": [], "priority": 1}
    assert other.body["spec"] == {"containers": [], "priority": 2}


@pytest.mark.parametrize("strict", [False, True])
def test_a_key_that_is_there_twice_is_told_with_its_line(*, strict: bool, tmp_path: Path) -> None:
    file = tmp_path / "pods.yaml"
    text = yaml.safe_dump(TWO[0]).replace("kind:", "kind: Pod\nkind:")
    file.write_text(f"# first\n{text}")
    objects = load([str(file)], strict=strict)
    line = text.splitlines().index(f"kind: {TWO[0]['kind']}") + 2
    want = (f"{file}:{line}: kind: is there twice in one mapping; the last one counts",)
    assert said(objects.problems if strict else objects.warnings) == want
    assert not (objects.warnings if strict else objects.problems)


def test_of_what_programs_print_no_key_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_text, "_WRITTEN", 10)
    file = tmp_path / "pod.json"
    file.write_text(json.dumps(TWO[0]).replace('"kind"', '"kind": "Pod", "kind"'))
    assert not said(load([str(file)]).warnings)


@pytest.mark.parametrize("strict", [False, True])
def test_a_key_of_json_that_is_there_twice_is_told_with_its_line(
    *, strict: bool, tmp_path: Path
) -> None:
    file = tmp_path / "pod.json"
    text = json.dumps(TWO[0], indent=1)
    file.write_text(text.replace('"kind"', '"kind": "Pod",\n"kind"'))
    what = "kind: is there twice in one mapping; the last one counts"
    for content, place in ((file.read_text(), ":4"), ("{}" + file.read_text(), "")):
        file.write_text(content)
        objects = load([str(file)], strict=strict)
        told = objects.problems if strict else objects.warnings
        assert f"{file}{place}: {what}" in said(told)


def test_merge_keys_may_be_overruled(tmp_path: Path) -> None:
    file = tmp_path / "pods.yaml"
    file.write_text(f"{yaml.safe_dump(TWO[0])}extra: {{<<: {{a: 1}}, a: 2}}\n")
    assert not [one for one in said(load([str(file)]).warnings) if "twice" in one]


def test_unknown_kinds_are_named_once_with_their_number() -> None:
    def other(name: str, version: str = "v1", kind: str = "ConfigMap") -> Body:
        return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}

    objects = Objects.of(
        [other("a"), other("b"), other("c", "scheduling.grove.io/v1alpha1", "PodGang")]
    )
    assert said(objects.warnings) == (
        "ConfigMap (v1): 2 objects of this kind skipped: it is not read",
        "PodGang (scheduling.grove.io/v1alpha1): 1 object of this kind skipped: it is not read;"
        " is PodGang of scheduler.grove.io meant?",
    )
    assert not objects.problems


def test_a_kind_in_another_spelling_is_answered_with_the_right_one() -> None:
    assert [meant("v1", name) for name in ("pod", "Pods", "Service")] == ["Pod", "Pod", ""]
    assert meant("grove.io/v1alpha1", "PodCliqeSet") == "PodCliqueSet"
    assert meant("kueue.x-k8s.io/v1beta1", "ClusterQueu") == "ClusterQueue"
    # Such objects come with others of the same groups.
    assert meant("grove.io/v1alpha1", "PodClique") == ""
    assert meant("batch/v1", "CronJob") == ""


def test_the_same_name_twice_is_a_problem(tmp_path: Path) -> None:
    path = write(tmp_path, "x.yaml", yaml.safe_dump_all([node("n1"), pod("n1"), node("n1")]))
    objects = load([path])
    assert [str(p) for p in objects.problems] == [
        f"{path}: Node n1: is there twice: document 1 of {path} and document 3 of {path}"
    ]


def test_of_topology_bindings_the_last_counts() -> None:
    """Documentation and charts often hold several versions of one side by side."""
    first, last = (
        {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "ClusterTopologyBinding",
            "metadata": {"name": "t"},
            "n": n,
        }
        for n in (1, 2)
    )
    objects = Objects.of([first, last])
    assert [o.body["n"] for o in objects.topology_bindings] == [2]
    assert said(objects.warnings) == (
        "ClusterTopologyBinding t: is there more than once; the last one counts",
    )


def test_what_cannot_be_read_does_not_hide_the_rest(tmp_path: Path) -> None:
    bad_yaml = write(tmp_path, "bad.yaml", yaml.safe_dump(node("n1")) + "---\na: [1\nb: 2\n")
    bad_json = write(tmp_path, "bad.json", '{"kind": "Node",\n "apiVersion" "v1"}')
    good = write(tmp_path, "good.yaml", yaml.safe_dump(node("n2")))
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"a: 1\nb: \xff\n")
    (tmp_path / "empty").mkdir()
    missing, empty = str(tmp_path / "missing.yaml"), str(tmp_path / "empty")
    objects = load([bad_yaml, bad_json, str(binary), missing, empty, "-", good])
    assert names(objects) == ["Node n1", "Node n2"]
    want = [
        (bad_yaml, 19, "is not valid YAML: while parsing a flow sequence did not find expected"),
        (bad_json, 2, "is not valid JSON: Expecting ':' delimiter"),
        (str(binary), 2, "is not text in UTF-8"),
        (missing, None, "cannot be read: No such file or directory"),
        (empty, None, "holds no .yaml, .yml or .json file"),
        ("<stdin>", None, "there is no standard input"),
    ]
    assert [
        (p.file, p.message[: len(w[2])]) for p, w in zip(objects.problems, want, strict=True)
    ] == [(file, message) for file, _, message in want]
    lines = yaml.safe_dump(node("n1")).count("\n")
    assert [p.line for p in objects.problems] == [lines + 3, 2, 2, None, None, None]


def test_a_file_of_a_folder_that_cannot_be_read_does_not_hide_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = write(tmp_path, "a.yaml", "#" * (2 << 20))
    write(tmp_path, "b.yaml", yaml.safe_dump(node("n1")))
    monkeypatch.setattr(bounded_files, "MOST_BYTES", 1 << 20)
    objects = load([str(tmp_path)])
    assert names(objects) == ["Node n1"]
    assert said(objects.problems) == (f"{large}: cannot be read: is larger than 1 MiB",)


def test_of_a_large_file_only_the_objects_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 4 << 20
    # As much is set aside to read into.
    monkeypatch.setattr(bounded_files, "MOST_BYTES", size + (1 << 20))
    for name in ("a.json", "b.json"):
        body = node(name) | {"status": {"nodeInfo": {"machineID": "x" * size}}}
        write(tmp_path, name, json.dumps(body))
    tracemalloc.start()
    load([str(tmp_path)])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The objects of the first, and of the second bytes and text, or text and objects.
    assert peak < 4 * size


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("just words", "is not a Kubernetes object", id="a word"),
        pytest.param("- 1", "is not a Kubernetes object", id="a number"),
        pytest.param("a: &a [*a]", "its YAML aliases unfold too far", id="endless"),
        pytest.param(
            BILLION_LAUGHS,
            "its YAML aliases unfold too far",
            id="a billion laughs",
        ),
        pytest.param(MERGED, "its YAML aliases unfold too far", id="merge keys"),
        pytest.param(LONG, "its YAML aliases unfold too far", id="a long text many times"),
        pytest.param("a: &a\n  <<: *a", "its YAML aliases unfold too far", id="merged into itself"),
        pytest.param("[" * 100_000, "cannot be parsed: nested too deeply", id="deep JSON"),
        pytest.param(
            '{"a": ' + "9" * 5000 + "}", "cannot be parsed: Exceeds the limit", id="a huge number"
        ),
        pytest.param("a: 0x" + "F" * 5000, "is not valid YAML: a number of 5,002", id="a huge one"),
        pytest.param("a: !!int foo", "is not valid YAML: 'foo' is not a number", id="no number"),
        pytest.param("a: !!int ''", "is not valid YAML: '' is not a number", id="an empty number"),
        pytest.param("a: !!bool foo", "is not valid YAML: neither true nor false", id="no truth"),
        pytest.param("a: !!set {b}", "is not valid YAML: could not determine", id="a set"),
        pytest.param("a: !!binary aGE=", "is not valid YAML: could not determine", id="bytes"),
        pytest.param("a: \x00", "is not valid YAML: ", id="a control character"),
        pytest.param(
            '{"kind": "\\ud800"}', "holds an escape for half a character", id="half a character"
        ),
    ],
)  # fmt: skip
def test_hostile_text_is_a_problem(tmp_path: Path, text: str, want: str) -> None:
    (problem,) = load([write(tmp_path, "x.yaml", text)]).problems
    assert problem.message.startswith(want)


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param({"a": 1}, {"kind": "is missing", "apiVersion": "is missing"}, id="no kind"),
        pytest.param(
            {"kind": "Pod", "apiVersion": 1}, {"apiVersion": "must be a text"}, id="a number"
        ),
        pytest.param(
            {"kind": "Pod", "apiVersion": "v1"}, {"metadata.name": "is missing"}, id="no metadata"
        ),
        pytest.param(
            {"kind": "Pod", "apiVersion": "v1", "metadata": {"generateName": "a-"}},
            {"metadata.name": "is missing"},
            id="no name",
        ),
        pytest.param(
            {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "A/b", "namespace": "x y"}},
            {
                "metadata.name": not_a_name("A/b"),
                "metadata.namespace": not_a_name("x y"),
            },
            id="no Kubernetes names",
        ),
        pytest.param(
            {"kind": "Pod", "apiVersion": "v1", "metadata": []},
            {"metadata": "must be a mapping"},
            id="a list",
        ),
    ],
)
def test_an_object_without_identity_is_a_problem(body: Body, want: dict[str, str]) -> None:
    assert {p.field: p.message for p in Objects.of([body]).problems} == want


def test_an_object_with_a_wrong_name_is_read_on() -> None:
    broken = pod("A_0", containers=[container(cpu="1x")])
    assert problems(broken) == [
        (
            "Pod ml/A_0",
            "metadata.name",
            not_a_name("A_0"),
        ),
        ("Pod ml/A_0", "spec.containers[0].resources.requests[cpu]", "'1x' is not a quantity"),
    ]


def test_an_escape_for_a_whole_character_is_text(tmp_path: Path) -> None:
    smiling = json.dumps(node("n1", labels={"face": "\N{GRINNING FACE}"}))
    assert "\\ud83d" in smiling
    assert not load([write(tmp_path, "x.json", smiling)]).problems


def test_kinds_of_other_groups_are_not_mistaken() -> None:
    stranger = {**priority_class("p", 1), "apiVersion": "example.com/v1"}
    assert not Objects.of([stranger]).priority_classes


def test_who_chose_a_wrong_name_is_told_what_a_right_one_is() -> None:
    assert not_a_name("A_0") == (
        "'A_0' is not a Kubernetes name (lower-case letters, digits, '-' and '.')"
    )
