package inspect

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// A Format is whose token a string is, as far as its shape tells.
type Format string

// The formats.
const (
	V1         Format = "v1"         // Echoseal's and the Python SDK's; Ruby's has the same shape
	TypeScript Format = "typescript" // @modelcontextprotocol/server: signed, not encrypted
	MCPD       Format = "mcp.d"
	RustSigned Format = "rust-rs1"
	RustSealed Format = "rust-rs2"
	Unknown    Format = "unknown"
)

// A Shape is what can be told of a token without a key.
type Shape struct {
	Format       Format
	KID          string // v1 and rust-rs2: the key id, 8 hex digits for v1; else ""
	PayloadBytes int    // the length of what is inside: claims and state for v1
	Note         string // what to make of it, one sentence; "" for a good v1 token
}

const (
	kidSize   = 4
	nonceSize = 12
	tagSize   = 16
	macSize   = 32
	expSize   = 8
)

// Identify tells whose token a string is. It proves nothing: anybody can write a string of
// that shape.
func Identify(token string) Shape {
	head, rest, dotted := strings.Cut(token, ".")
	segments := strings.Split(rest, ".")
	switch {
	case !dotted:
	case head == "v1" && len(segments) == 1:
		return identifyV1(segments[0])
	case head == "v1" && len(segments) == 2:
		return identifySigned(segments)
	case head == "v1e" && len(segments) == 1:
		if body, ok := decode(segments[0]); ok && len(body) >= nonceSize+tagSize {
			return Shape{Format: MCPD, PayloadBytes: len(body) - nonceSize - tagSize, Note: "an encrypted token of mcp.d: no Go or Python server can open it"}
		}
	case head == "rs1" && len(segments) == 2:
		if body, ok := decode(segments[0]); ok && len(body) >= expSize {
			return Shape{Format: RustSigned, PayloadBytes: len(body) - expSize, Note: "a signed token of the Rust SDK; its state can be read by anybody"}
		}
	case head == "rs2" && len(segments) == 3:
		if body, ok := decode(segments[1]); ok && len(body) >= expSize {
			return Shape{Format: RustSealed, KID: clean(segments[0]), PayloadBytes: len(body) - expSize, Note: "a token of the Rust SDK, with a key id"}
		}
	}
	return Shape{Format: Unknown, Note: "no format that is known: plain state of a server that does not seal it, or a token that was cut or changed on the way"}
}

func identifyV1(body string) Shape {
	raw, ok := decode(body)
	switch {
	case !ok:
		return Shape{Format: V1, Note: "it is not canonical base64url without padding: it was cut or changed on the way"}
	case len(raw) < kidSize+nonceSize+tagSize:
		return Shape{Format: V1, Note: "it is shorter than any token: it was cut on the way"}
	}
	return Shape{Format: V1, KID: hex.EncodeToString(raw[:kidSize]), PayloadBytes: len(raw) - kidSize - nonceSize - tagSize}
}

// identifySigned tells TypeScript's v1.JSON.MAC from the signed mode of mcp.d.
func identifySigned(segments []string) Shape {
	payload, ok := decode(segments[0])
	mac, macOK := decode(segments[1])
	if ok && macOK && len(mac) == macSize && json.Valid(payload) {
		return Shape{Format: TypeScript, PayloadBytes: len(payload), Note: "a signed token of the TypeScript SDK (or of mcp.d's signed mode); its state can be read by anybody, and no Go or Python server can open it"}
	}
	if ok && macOK {
		return Shape{Format: MCPD, PayloadBytes: len(payload), Note: "a token of two segments: mcp.d's signed mode, or another format"}
	}
	return Shape{Format: Unknown, Note: "two segments behind v1 that are not base64url: it was changed on the way"}
}

func decode(segment string) ([]byte, bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(segment)
	// The decoder skips line ends.
	return raw, err == nil && !strings.ContainsAny(segment, "\r\n")
}

// clean returns a key id of another SDK if it is fit to be shown, else "".
func clean(kid string) string {
	if len(kid) > 64 {
		return ""
	}
	for _, c := range []byte(kid) {
		if c <= ' ' || c > '~' {
			return ""
		}
	}
	return kid
}
