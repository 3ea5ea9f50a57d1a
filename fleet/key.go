package fleet

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"

	"github.com/echoseal/echoseal/internal/strict"
)

const (
	authSize = 32
	keyInfo  = "echoseal/fleet/v1/report"
)

// A Key signs the reports of one keyset's instances and verifies them. It is immutable
// and safe for concurrent use. The zero value is not a key; [NewKey] makes one.
//
//	key = HKDF-SHA256(auth, no salt, info "echoseal/fleet/v1/report", 32 bytes)   RFC 5869
//	mac = HMAC-SHA256(key, canonical JSON of the report)                          RFC 2104
type Key struct{ mac []byte }

// NewKey derives the key from a keyset's authentication key, 32 bytes. It keeps nothing
// of auth.
//
// The error is [ErrConfig].
func NewKey(auth []byte) (*Key, error) {
	if len(auth) != authSize {
		return nil, fmt.Errorf("%w: fleet: an authentication key is %d bytes long, not %d", ErrConfig, authSize, len(auth))
	}
	derived, err := hkdf.Key(sha256.New, auth, nil, keyInfo, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("deriving the key of reports: %w", err)
	}
	return &Key{mac: derived}, nil
}

// Format prints the same whatever the verb, so that no log ever shows a key.
func (Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "fleet.Key") }

// Sign returns the report in the document in which it travels:
//
//	{"report":{"v":1,"id":…},"mac":"base64"}
//
// In Host, Reason, Kind, Operation and Software a byte or character that cannot be
// printed becomes a space, and what is beyond 200 bytes is cut off.
//
// The error names the member that is not as [Report] has it, or says that the document
// is longer than [MaxBytes].
func (k *Key) Sign(r Report) ([]byte, error) {
	if k == nil || k.mac == nil {
		return nil, errNotAKey
	}
	r = r.printable()
	if member, why := r.check(); why != "" {
		return nil, fmt.Errorf("fleet: the report cannot be signed: %s: %s", member, why)
	}
	report := strict.Append(nil, r.value())
	signed := append([]byte(`{"report":`), report...)
	signed = append(signed, `,"mac":"`...)
	signed = base64.StdEncoding.AppendEncode(signed, k.sum(report))
	signed = append(signed, `"}`...)
	if len(signed) > MaxBytes {
		return nil, fmt.Errorf("fleet: the report cannot be signed: it is longer than %d bytes", MaxBytes)
	}
	return signed, nil
}

// Verify returns the report in a signed document. Members of the report that it does not
// know are signed as well, and ignored. A list that is empty is nil.
//
// The error is [ErrMAC] if the document is not signed with this key, else
// [ErrMalformed]; it shows nothing of the document.
func (k *Key) Verify(signed []byte) (Report, error) {
	if k == nil || k.mac == nil {
		return Report{}, errNotAKey
	}
	doc, err := parseSigned(signed)
	if err != nil {
		return Report{}, err
	}
	if !hmac.Equal(doc.mac, k.sum(strict.Append(nil, doc.canonical))) {
		return Report{}, ErrMAC
	}
	return doc.read()
}

// unverified returns the report in a signed document, whoever has signed it.
func unverified(signed []byte) (Report, error) {
	doc, err := parseSigned(signed)
	if err != nil {
		return Report{}, err
	}
	return doc.read()
}

// A signedReport is the document in which a report travels.
type signedReport struct {
	report    *strict.Object
	canonical strict.Value // the report, which canonical JSON is made of
	mac       []byte
}

func parseSigned(signed []byte) (d signedReport, err error) {
	if len(signed) > MaxBytes {
		return d, errTooLong
	}
	doc, err := strict.Parse(signed)
	if err != nil {
		return d, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	outer := strict.Read(doc)
	d.mac, d.report = outer.Bytes("mac"), outer.Object("report")
	outer.Done()
	if outer.Err() != nil {
		return d, fmt.Errorf("%w: %w", ErrMalformed, outer.Err())
	}
	if outer.Unknown() {
		return d, fmt.Errorf("%w: there are members besides report and mac, which nothing signs", ErrMalformed)
	}
	members, _ := doc.(map[string]strict.Value)
	d.canonical = members["report"]
	return d, nil
}

func (d signedReport) read() (Report, error) {
	r, err := readReport(d.report)
	if err != nil {
		return Report{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return r, nil
}

func (k *Key) sum(canonical []byte) []byte {
	mac := hmac.New(sha256.New, k.mac)
	mac.Write(canonical)
	return mac.Sum(nil)
}

var (
	errNotAKey = fmt.Errorf("%w: fleet: not a key: use NewKey, and check its error", ErrConfig)
	errTooLong = fmt.Errorf("%w: it is longer than %d bytes", ErrMalformed, MaxBytes)
)
