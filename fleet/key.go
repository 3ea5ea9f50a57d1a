package fleet

// A Key signs the reports of one keyset's instances and verifies them. It is immutable
// and safe for concurrent use. The zero value is not a key; [NewKey] makes one.
//
//	key = HKDF-SHA256(auth, no salt, info "echoseal/fleet/v1/report", 32 bytes)   RFC 5869
//	mac = HMAC-SHA256(key, canonical JSON of the report)                          RFC 2104
type Key struct{ mac [32]byte }

// NewKey derives the key from a keyset's authentication key, 32 bytes. It keeps nothing
// of auth.
//
// The error is [ErrConfig].
func NewKey(auth []byte) (*Key, error) { panic("TODO") }

// Sign returns the report in the document in which it travels:
//
//	{"report":{"v":1,"id":…},"mac":"base64"}
//
// In Host, Reason, Kind, Operation and Software whatever is no printable text becomes a
// space, and what is beyond 200 bytes is cut off.
//
// The error names the member that is not as [Report] has it, or says that the document
// is longer than [MaxBytes].
func (k *Key) Sign(r Report) ([]byte, error) { panic("TODO") }

// Verify returns the report in a signed document. Members of the report that it does not
// know are signed as well, and ignored. A list that is empty is nil.
//
// The error is [ErrMAC] if the document is not signed with this key, else
// [ErrMalformed]; it shows nothing of the document but names of its members.
func (k *Key) Verify(signed []byte) (Report, error) { panic("TODO") }
