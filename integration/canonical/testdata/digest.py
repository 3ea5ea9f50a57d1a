"""Digests JSON documents as the Python SDK digests the arguments of a request.

Reads one document a line, in base64, and answers each with a line of two words: the
digest, or "error" if CPython does not parse the document; and what makes the document
more than RFC 8259 JSON in UTF-8 of at most 512 levels, or "-" if nothing does.
"""

import base64
import codecs
import hashlib
import json
import re
import sys

STRING = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)


def digest(document: bytes) -> str:
    value = json.loads(document) or {}
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:16]).decode().rstrip("=")


def depth(document: bytes) -> int:
    level = deepest = 0
    for c in STRING.sub(b"", document):
        if c in b"[{":
            level += 1
            deepest = max(deepest, level)
        elif c in b"]}":
            level -= 1
    return deepest


def beyond(document: bytes) -> str:
    if document.startswith(codecs.BOM_UTF8):
        return "bom"
    try:
        document.decode("utf-8")
    except UnicodeDecodeError:
        return "encoding"
    if json.detect_encoding(document) != "utf-8":
        return "encoding"
    if depth(document) > 512:
        return "depth"
    constants = []
    json.loads(document, parse_constant=constants.append)
    return "constant" if constants else "-"


for line in sys.stdin:
    document = base64.b64decode(line)
    try:
        answer = digest(document), beyond(document)
    except (ValueError, RecursionError):  # both are refused by the SDK
        answer = "error", "-"
    print(*answer)
