// Package localkek is a key service on a key file: it wraps data keys under a 32-byte
// key, or one that Argon2id makes of a passphrase, with no other process involved. It is
// for where there is no key management service, and for tests.
//
//	services, err := keyset.Openers{localkek.Opener()}.Open(ctx, "localkek:///etc/echoseal/kek")
//
// Whoever reads the key file, or the passphrase and the file that belongs to it, can
// unwrap every data key that was ever wrapped under it. Keep it apart from what it wraps,
// keep a copy where a lost disk does not matter, and know that nothing can disable it:
// the way to take it out of use is to wrap anew under another key, and to replace the
// data keys if it was seen.
//
// [Open] tells of the URI, of the files and of who may read them.
//
// # Format
//
// What is stored with a data key is service localkek://ID, no version, and
//
//	ciphertext = nonce(12) ‖ AES-256-GCM(data key) ‖ tag(16)
//	AAD        = keyset.ContextBytes(encryption context)
//	ID         = the first 16 hex digits of SHA-256("echoseal/localkek/v1/id:" ‖ key)
//
// The nonce is random, which is safe for 2^32 data keys under one key (NIST SP 800-38D,
// section 8.3).
//
// A key file is the 32 bytes of the key, or the parameters of Argon2id (RFC 9106), from
// which and the passphrase the key is made:
//
//	{"v":1,"kdf":"argon2id","salt":"base64 of 16 bytes","time":3,"memory_kib":65536,"threads":4}
//
// # Errors
//
// A setting or a file that is not as it should be is [keyset.ErrConfig]. Every other error
// is a [keyset.KeyError]. By kind:
//
//   - not_found: there is no such file.
//   - denied: this process may not read the file.
//   - unavailable: the file cannot be read for another reason, or the context had ended.
//   - wrong_key: wrapped under another key. A wrong passphrase is seen here: it gives
//     another key, with another ID. [keyset.Services] never ask a service for a key that
//     it does not have; from them it is [keyset.ErrConfig], which names both IDs.
//   - context_mismatch: another keyset's name, an entry that was moved, or a damaged
//     ciphertext; AES-GCM does not tell which.
//   - corrupt: what cannot be a ciphertext, by its length alone; a file that holds no key,
//     or an empty passphrase, which is [keyset.ErrConfig], too.
package localkek
