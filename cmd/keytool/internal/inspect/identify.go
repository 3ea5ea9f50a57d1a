package inspect

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// A Format is whose token a string is, as far as its shape tells.
type Format string

// The formats of the SDKs of MCP, and what is of none that is known.
const (
	V1         Format = "v1"         // Echoseal's and the Python SDK's; Ruby's has the same shape
	TypeScript Format = "typescript" // @modelcontextprotocol/server: signed, not encrypted
	MCPD       Format = "mcp.d"
	RustSigned Format = "rust-rs1"
	RustSealed Format = "rust-rs2"
	Unknown    Format = "unknown"
)

// What servers that seal nothing, or that seal in their own way, give out as state.
const (
	JSON         Format = "json" // as it is, or in base64
	JWT          Format = "jwt"
	JWE          Format = "jwe"
	PASETO       Format = "paseto"
	Fernet       Format = "fernet"
	ItsDangerous Format = "itsdangerous" // of Python, and Django's signing
	Rails        Format = "rails"        // ActiveSupport's messages, signed or encrypted
	Transit      Format = "vault-transit"
)

// A Shape is what can be told of a token without a key.
type Shape struct {
	Format       Format
	KID          string // v1 and rust-rs2: the key id, 8 hex digits for v1; else ""
	PayloadBytes int    // the length of what is inside: claims and state for v1
	Note         string // what to make of it, one sentence; "" for a good v1 token
	Next         string // and what to do about it; "" with Note
}

const (
	kidSize   = 4
	nonceSize = 12
	tagSize   = 16
	macSize   = 32
	expSize   = 8

	// mostSegments is more than the segments of any format.
	mostSegments = 6
)

// Identify tells whose token a string is. It proves nothing: anybody can write a string of
// that shape.
func Identify(token string) Shape {
	shapes := []func(string) Shape{identifySDK, identifyForeign, identifyDamaged}
	if len(token) > longestSearched {
		shapes = shapes[:1]
	}
	for _, identify := range shapes {
		if s := identify(token); s.Format != "" {
			if s.Note != "" && s.Next == "" {
				s.Next = elsewhere
			}
			return s
		}
	}
	return Shape{Format: Unknown, Note: "no format that is known: plain state of a server that does not seal it, or a token that was changed on the way", Next: AsItIs + "; else " + elsewhere}
}

// longestSearched is how long a string may be that is compared with what is no token of an
// SDK, which costs more than to look at the shape of one.
const longestSearched = 64 << 10

// What to do about a token of somebody else, and about one that has changed.
const (
	AsItIs = "look at how the client stores and sends requestState: it must come back as it is"

	elsewhere = "find out which server gave it out: one of another kind behind the same address, or one that does not use the middleware"
	captured  = "capture it again, from the body of the request, where it is whole"
)

// identifySDK knows the formats of the SDKs of MCP.
func identifySDK(token string) Shape {
	head, rest, dotted := strings.Cut(token, ".")
	segments := strings.SplitN(rest, ".", mostSegments)
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
	return Shape{}
}

func identifyV1(body string) Shape {
	raw, ok := decode(body)
	switch {
	case !ok && len(body) > longestSearched:
		return Shape{Format: V1, Note: "it is not canonical base64url without padding: it was cut or changed on the way", Next: AsItIs}
	case !ok:
		s := identifyDamaged("v1." + body)
		s.Format = V1
		return s
	case len(raw) < kidSize+nonceSize+tagSize:
		return Shape{Format: V1, Note: "it is shorter than any token: it was cut on the way", Next: captured}
	}
	return Shape{Format: V1, KID: hex.EncodeToString(raw[:kidSize]), PayloadBytes: len(raw) - kidSize - nonceSize - tagSize}
}

// identifySigned tells TypeScript's v1.JSON.MAC from the signed mode of mcp.d.
func identifySigned(segments []string) Shape {
	payload, ok := decode(segments[0])
	mac, macOK := decode(segments[1])
	switch {
	case !ok || !macOK:
		return Shape{}
	case len(mac) == macSize && json.Valid(payload):
		return Shape{Format: TypeScript, PayloadBytes: len(payload), Note: "a signed token of the TypeScript SDK (or of mcp.d's signed mode); its state can be read by anybody, and no Go or Python server can open it"}
	default:
		return Shape{Format: MCPD, PayloadBytes: len(payload), Note: "a token of two segments: mcp.d's signed mode, or another format"}
	}
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
