"""Reads a keyset as docs/keyset.md tells, with nothing of Echoseal's.

Arguments: the document and the file with the key-encryption key. Prints as JSON
the tag that the document should have, and the key id of each data key.
"""

import base64
import hashlib
import hmac
import json
import sys

from cryptography.hazmat.primitives.ciphers.aead import AESGCM


def hkdf(secret: bytes, info: bytes) -> bytes:
    """RFC 5869 with SHA-256, no salt, one block."""
    prk = hmac.digest(bytes(32), secret, "sha256")
    return hmac.digest(prk, info + b"\x01", "sha256")


def canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def once(pairs: list) -> dict:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member is there twice")
    return members


with open(sys.argv[1], "rb") as f:
    document = json.load(f, object_pairs_hook=once)
with open(sys.argv[2], "rb") as f:
    kek = f.read()

# A localkek service is named by the key.
service = "localkek://" + hashlib.sha256(b"echoseal/localkek/v1/id:" + kek).hexdigest()[:16]


def unwrap(entry: dict, purpose: str) -> bytes:
    context = {"echoseal:keyset": document["name"], "echoseal:key": entry["id"], "echoseal:purpose": purpose}
    wrapped = next(w for w in entry["wrapped"] if w["service"] == service)
    ciphertext = base64.b64decode(wrapped["ciphertext"], validate=True)
    return AESGCM(kek).decrypt(ciphertext[:12], ciphertext[12:], canonical(context))


tag = document.pop("tag")
auth = unwrap(document["auth"], "auth")
signed = canonical(document)
expected = hmac.digest(hkdf(auth, b"echoseal/keyset/v1/tag"), signed, "sha256")

kids = {}
for key in document["keys"]:
    if key["state"] != "revoked":
        derived = hkdf(unwrap(key, "data"), b"mcp/request-state/v1/aes-256-gcm")
        kids[key["kid"]] = hashlib.sha256(b"mcp/request-state/v1/kid:" + derived).hexdigest()[:8]

json.dump({
    "matches": hmac.compare_digest(base64.b64decode(tag), expected),
    "tag": base64.b64encode(expected).decode(),
    "signed": len(signed),
    "sha256": hashlib.sha256(signed).hexdigest(),
    "kids": kids,
}, sys.stdout)
