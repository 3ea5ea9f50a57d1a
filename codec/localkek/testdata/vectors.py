"""Makes vectors.json, with implementations that share nothing with the Go ones.

    pip install argon2-cffi==25.1.0 cryptography==50.0.2
    python vectors.py > vectors.json
"""

import base64
import hashlib
import json

from argon2.low_level import Type, hash_secret_raw
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

CONTEXT = {"echoseal:keyset": "fleet", "echoseal:key": "6a1f9e0c-3c52-4e2b-9d3c-0f6f6f1f2a77", "echoseal:purpose": "data"}


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def vector(name: str, key_file: bytes, kek: bytes, context: dict[str, str], size: int, passphrase: str = "") -> dict:
    seed = hashlib.sha256(name.encode())
    data_key = hashlib.shake_256(seed.digest() + b"data key").digest(size)
    nonce = hashlib.shake_256(seed.digest() + b"nonce").digest(12)
    aad = json.dumps(context, sort_keys=True, separators=(",", ":")).encode()
    return {
        "name": name,
        "key_file": b64(key_file),
        "passphrase_file": passphrase,
        "context": context,
        "data_key": b64(data_key),
        "wrapped": {
            "service": "localkek://" + hashlib.sha256(b"echoseal/localkek/v1/id:" + kek).hexdigest()[:16],
            "ciphertext": b64(nonce + AESGCM(kek).encrypt(nonce, data_key, aad)),
        },
    }


def argon(name: str, passphrase_file: str, time: int, memory_kib: int, threads: int) -> dict:
    salt = hashlib.sha256(name.encode() + b"salt").digest()[:16]
    key_file = json.dumps({"v": 1, "kdf": "argon2id", "salt": b64(salt), "time": time, "memory_kib": memory_kib, "threads": threads})
    passphrase = passphrase_file.removesuffix("\n").encode()
    kek = hash_secret_raw(passphrase, salt, time, memory_kib, threads, 32, Type.ID, 0x13)
    return vector(name, key_file.encode(), kek, CONTEXT, 32, passphrase_file)


random = hashlib.sha256(b"a key-encryption key").digest()
brace = b"{" + random[1:]
print(
    json.dumps(
        [
            vector("a key file", random, random, CONTEXT, 32),
            vector("a key file that begins like JSON", brace, brace, CONTEXT, 32),
            vector("a long data key", random, random, CONTEXT, 1024),
            vector("no context", random, random, {}, 32),
            vector("a context that is not ASCII", random, random, {"größe": "😀\u007f\n", "\uffff": "", "😀": "/<&>"}, 32),
            argon("a passphrase", "correct horse battery staple\n", 3, 65536, 4),
            argon("a passphrase without a line end", "größer 😀", 1, 19456, 1),
            argon("a passphrase with two line ends", "two\n\n", 2, 20000, 3),
        ],
        indent=1,
    )
)
