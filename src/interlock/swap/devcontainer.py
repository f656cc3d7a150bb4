"""The image line of a devcontainer.json, which is JSON with comments, found by a parser that tells places. Pure."""

from __future__ import annotations

import tree_sitter_json
from tree_sitter import Language, Node, Parser

from interlock.errors import SwapError
from interlock.swap.dockerfile import BOM, Span
from interlock.swap.entries import Listing, make_entry

PARSER = Parser(Language(tree_sitter_json.language()))
INSTEAD = {
    "dockerFile": "It builds {}: swap that file.",
    "build": "It builds a Dockerfile: swap that file.",
    "dockerComposeFile": "It uses {}: swap that file.",
}


def read_devcontainer(text: str, file: str) -> Listing:
    """The image line of a devcontainer.json."""
    # Places are in bytes; a byte order mark is none of JSON's signs and as long as three blanks.
    data = text.encode("utf-8", "surrogateescape")
    root = PARSER.parse(data.replace(BOM.encode(), b"   ", 1) if text.startswith(BOM) else data).root_node
    _must_be_whole(root, file)
    keys = _keys(root, data, file)
    image = keys.get("image")
    if image is None:
        instead = next((todo.format(_word(keys[key], data)) for key, todo in INSTEAD.items() if key in keys), "")
        return Listing(text, "image", "//", (), instead)
    start, end = (len(data[:at].decode("utf-8", "surrogateescape")) for at in (image.start_byte, image.end_byte))
    return Listing(text, "image", "//", (make_entry(text, 0, None, Span(start + 1, end - 1), Span(0, len(text))),), "")


def _must_be_whole(node: Node, file: str) -> None:
    """SwapError for a mistake. A comma behind the last item, which people and editors allow, is none."""
    trailing = node.is_error and node.text == b","
    if (node.is_error and not trailing) or (node.is_missing and not _behind_comma(node)):
        line = node.start_point[0] + 1
        raise SwapError(file=f"{file}:{line}", found="is not valid JSON with comments", todo="Correct it there.")
    for child in node.children:
        _must_be_whole(child, file)


def _behind_comma(node: Node) -> bool:
    return node.prev_sibling is not None and node.prev_sibling.type in {",", "comment"}


def _keys(root: Node, data: bytes, file: str) -> dict[str, Node]:
    objects = [child for child in root.children if child.type == "object"]
    if not objects:
        raise SwapError(file=file, found="has no JSON object", todo="Name a devcontainer.json.")
    keys = {}
    for pair in objects[0].children:
        key, value = pair.child_by_field_name("key"), pair.child_by_field_name("value")
        if key is not None and value is not None:
            keys[_word(key, data)] = value
    image = keys.get("image")
    if image is not None and image.type != "string":
        line = image.start_point[0] + 1
        raise SwapError(file=f"{file}:{line}", key="image", found="is no string", todo="Name an image there.")
    return keys


def _word(node: Node, data: bytes) -> str:
    return data[node.start_byte : node.end_byte].decode("utf-8", "replace").strip('"')
