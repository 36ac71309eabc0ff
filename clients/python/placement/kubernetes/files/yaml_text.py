"""YAML as Kubernetes reads it, with a limit on aliases. Aliases (`*name`) and merge keys (`<<`) let
a few bytes stand for gigabytes. So the size of a document is counted on its parsed form, where
every part occurs once, before any of it is built. And it is refused where it nests so deeply that
the parser, which is in C and calls itself, would end the program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

import yaml

#: Nothing of Kubernetes nests so deeply; the parser crashes at some twenty thousand levels.
_DEEPEST: Final = 500
#: Without so many signs before the first word of a line, or lists and mappings that are opened in
#: brackets, it cannot: the parser itself would have to be asked, which takes as long again.
_DEEP_BLOCKS: Final = re.compile(rf"^[ \-?:]{{{_DEEPEST // 2},}}", re.MULTILINE)
_BRACKETS: Final = re.compile(r"[\[{](?!\s*[\]}])")

#: A document may unfold to no more values, and no more characters, than this.
_MOST_VALUES: Final = 2_000_000
_MOST_CHARACTERS: Final = 64_000_000

#: Longer numbers count nothing real; they would only cost time.
_LONGEST_NUMBER: Final = 100

_TAG: Final = "tag:yaml.org,2002:"
_UNUSED_TAGS: Final = ("binary", "omap", "pairs", "set", "timestamp")

# The parser in C when PyYAML was built with it: ten times faster.
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Repeated(NamedTuple):
    """A key that stands in its mapping before, and the line where it does so again, if known."""

    key: str
    line: int | None


class _KubernetesLoader(_BASE):  # type: ignore[misc]
    """Plain YAML, except that dates and numbers of base 60 stay strings, as for Kubernetes."""

    yaml_implicit_resolvers: Final = {
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in _BASE.yaml_implicit_resolvers.items()
    }
    yaml_constructors: Final = {
        tag: construct
        for tag, construct in _BASE.yaml_constructors.items()
        if tag not in {_TAG + name for name in _UNUSED_TAGS}
    }

    def __init__(self, text: str, repeated: list[Repeated] | None) -> None:
        super().__init__(text)
        # What a merge key brings is there to be replaced.
        self._repeated = None if "<<" in text else repeated

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        found = super().construct_mapping(node, deep)
        if self._repeated is not None and len(found) < len(node.value):
            seen = set()
            for key, _ in node.value:
                if key.value in seen:
                    self._repeated.append(Repeated(key.value, key.start_mark.line + 1))
                seen.add(key.value)
        return found


def _number(construct: Callable[[Any, yaml.Node], Any]) -> Callable[[Any, yaml.Node], Any]:
    def read(loader: Any, node: yaml.Node) -> Any:
        text = loader.construct_scalar(node)
        if ":" in text:
            return text
        if len(text) > _LONGEST_NUMBER:
            raise _not_one(node, f"a number of {len(text):,} characters")
        try:
            return construct(loader, node)
        except (ValueError, IndexError):
            raise _not_one(node, f"{text!r} is not a number") from None

    return read


def _boolean(loader: Any, node: yaml.Node) -> Any:
    try:
        return loader.construct_yaml_bool(node)
    except KeyError:
        raise _not_one(node, "neither true nor false") from None


def _not_one(node: yaml.Node, what: str) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, what, node.start_mark)


_KubernetesLoader.add_constructor(_TAG + "int", _number(_BASE.construct_yaml_int))
_KubernetesLoader.add_constructor(_TAG + "float", _number(_BASE.construct_yaml_float))
_KubernetesLoader.add_constructor(_TAG + "bool", _boolean)


class UnfoldsTooFarError(ValueError):
    """Aliases make a small text stand for a huge, or endless, document."""

    def __init__(self) -> None:
        super().__init__("its YAML aliases unfold too far")


def documents(text: str, repeated: list[Repeated] | None = None) -> Iterator[Any]:
    """The values of all documents of a text. Of a key that is repeated the last value counts, and
    it is added to `repeated`.

    Raises `yaml.YAMLError` for what is no YAML, `UnfoldsTooFarError`, `RecursionError` where it
    nests too deeply, and `ValueError` for values that make no sense, such as keys that are
    mappings.
    """
    if _nests_too_deeply(text):
        raise RecursionError("nested too deeply")
    aliases = "&" in text and "*" in text
    loader = _KubernetesLoader(text, repeated)
    try:
        while loader.check_node():
            node = loader.get_node()
            if aliases and _unfolds_too_far(node):
                raise UnfoldsTooFarError
            yield loader.construct_document(node)
    finally:
        loader.dispose()


def _nests_too_deeply(text: str) -> bool:
    brackets = sum(1 for _ in islice(_BRACKETS.finditer(text), _DEEPEST))
    if brackets < _DEEPEST and not _DEEP_BLOCKS.search(text):
        return False
    depth = 0
    try:
        for event in yaml.parse(text, Loader=_BASE):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                return True
    except yaml.MarkedYAMLError as error:
        # Newer parsers have a limit of their own.
        if "nesting depth" not in (error.problem or ""):
            raise
        return True
    return False


def _unfolds_too_far(root: yaml.Node) -> bool:
    """Whether the document has too many values or characters once every alias is followed."""
    sizes: dict[int, tuple[int, int]] = {}
    open_nodes: set[int] = set()
    waiting: list[tuple[yaml.Node, bool]] = [(root, False)]
    while waiting:
        node, done = waiting.pop()
        key = id(node)
        if key in sizes:
            continue
        if isinstance(node, yaml.ScalarNode):
            sizes[key] = 1, len(node.value)
            continue
        below = _below(node)
        if not done:
            if key in open_nodes:
                # It contains itself.
                return True
            open_nodes.add(key)
            waiting.append((node, True))
            waiting += [(child, False) for child in below if id(child) not in sizes]
            continue
        open_nodes.discard(key)
        values = 1 + sum(sizes[id(child)][0] for child in below)
        characters = sum(sizes[id(child)][1] for child in below)
        if values > _MOST_VALUES or characters > _MOST_CHARACTERS:
            return True
        sizes[key] = values, characters
    return False


def _below(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value)
