package inspect

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
)

// The shapes of formats that have nothing to do with MCP, and that servers use for state.
var (
	paseto = regexp.MustCompile(`^v[1-4]\.(local|public)\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)?$`)
	// Payload, time and MAC; the payload begins with a dot if it is compressed.
	dangerous = regexp.MustCompile(`^\.?[A-Za-z0-9_-]+[.:][A-Za-z0-9_-]{6}[.:][A-Za-z0-9_-]{27,86}$`)
	// The MAC in hex; or nonce and tag in base64.
	rails = regexp.MustCompile(`^[A-Za-z0-9+/_%=-]+--([0-9a-f]{40}|[0-9a-f]{64}|[A-Za-z0-9+/]{16}--[A-Za-z0-9+/]{22}==)$`)
)

// identifyForeign knows formats that are not those of an SDK of MCP.
func identifyForeign(token string) Shape {
	text := strings.TrimSpace(token)
	switch {
	case strings.IndexByte("{[", first(text)) >= 0 && json.Valid([]byte(text)):
		if strings.Contains(text, `"requestState"`) {
			return Shape{Format: JSON, Note: "a whole message, as a text inside of JSON", Next: "take it out first: jq -r . FILE | keytool inspect -"}
		}
		return Shape{Format: JSON, Note: "plain JSON: the state of a server that does not seal it, which anybody can read and change"}
	case paseto.MatchString(token):
		return Shape{Format: PASETO, Note: "a PASETO token: no server of MCP makes it by itself"}
	case strings.HasPrefix(token, "vault:v"):
		return Shape{Format: Transit, Note: "a ciphertext of the transit engine of Vault or OpenBao, and no token"}
	case rails.MatchString(token):
		return Shape{Format: Rails, Note: "a message of Rails (ActiveSupport), signed or encrypted"}
	}
	if s := identifyJOSE(token); s.Format != "" {
		return s
	}
	if dangerous.MatchString(token) {
		return Shape{Format: ItsDangerous, Note: "a signed value of Python's itsdangerous, or of Django; its state can be read by anybody"}
	}
	return identifyBase64(token)
}

// identifyJOSE knows JWS and JWE in their compact form, RFC 7515 and 7516, by the header.
func identifyJOSE(token string) Shape {
	const signed, encrypted = 3, 5
	segments := strings.SplitN(token, ".", mostSegments)
	var header struct{ Alg, Enc *string }
	raw, ok := decode(segments[0])
	if !ok || json.Unmarshal(raw, &header) != nil || header.Alg == nil {
		return Shape{}
	}
	switch {
	case len(segments) == signed:
		return Shape{Format: JWT, Note: "a JWT: perhaps an access token in the wrong place; what is in it can be read by anybody"}
	case len(segments) == encrypted && header.Enc != nil:
		return Shape{Format: JWE, Note: "an encrypted JWT (JWE)"}
	default:
		return Shape{}
	}
}

// identifyBase64 knows what begins with no sign of its own.
func identifyBase64(token string) Shape {
	const fernetVersion, fernetLeast = 0x80, 1 + 8 + 16 + 16 + 32
	body := strings.NewReplacer("+", "-", "/", "_").Replace(strings.TrimRight(token, "="))
	raw, err := base64.RawURLEncoding.DecodeString(body)
	switch text := bytes.TrimSpace(raw); {
	case err != nil || len(raw) == 0:
		return Shape{}
	case raw[0] == fernetVersion && len(raw) >= fernetLeast && bytes.HasPrefix(raw[1:], make([]byte, 3)):
		return Shape{Format: Fernet, Note: "a Fernet token, as Python's cryptography makes it"}
	case strings.IndexByte("{[", first(string(text))) >= 0 && json.Valid(text):
		return Shape{Format: JSON, Note: "JSON in base64: the state of a server that does not seal it, which anybody can read and change"}
	default:
		return Shape{}
	}
}

// first returns the first byte of a text, or 0.
func first(text string) byte {
	if text == "" {
		return 0
	}
	return text[0]
}
