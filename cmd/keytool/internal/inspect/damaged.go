package inspect

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	aToken     = regexp.MustCompile(`(?:v1e?|rs[12])\.[A-Za-z0-9_-]{16,}`)
	percents   = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
	eightHex   = regexp.MustCompile(`^[0-9a-f]{8}$`)
	noPartOfIt = regexp.MustCompile(`[^A-Za-z0-9._-]`)
)

// getTheToken is the remedy where a token stands inside of something else.
const getTheToken = `give the token alone: grep -oE '(v1e?|rs[12])\.[A-Za-z0-9._-]+' FILE | keytool inspect -`

// identifyDamaged tells what was done to a token on its way. It is no proof either.
func identifyDamaged(token string) Shape {
	s := Shape{Format: Unknown}
	at := aToken.FindStringIndex(token)
	odd := noPartOfIt.FindStringIndex(token)
	body, isToken := strings.CutPrefix(token, "v1.")
	switch {
	case eightHex.MatchString(token):
		s.Note, s.Next = "8 hex digits are a key id, or the id of a token as logs have it, and no token", "look for the key in keytool status; the token itself is in no log: capture the request"
	case strings.Contains(token, "…") || strings.Contains(token, "..."):
		s.Note, s.Next = "it was shortened to be shown, by a log or on a screen: a part is missing", captured
	case percents.MatchString(token):
		s.Note, s.Next = "it is encoded as in a URL", AsItIs+"; if only the capture is encoded, decode that"
	case at != nil && at[0] > 0:
		s.Note, s.Next = "a token with something around it, such as quotes or a name", getTheToken+"; if the client sends it so: it must come back as it is"
	case !isToken || strings.Contains(body, "."):
		return Shape{}
	case strings.HasSuffix(token, "=") && noPartOfIt.FindStringIndex(strings.TrimRight(token, "=")) == nil:
		s.Note, s.Next = "it has padding (=) at its end, which no token has: something has decoded and encoded it", AsItIs
	case odd != nil && strings.ContainsAny(token[odd[0]:odd[1]], "+/"):
		s.Note, s.Next = "it is in the alphabet of standard base64, and tokens are in that of URLs: something has decoded and encoded it", AsItIs
	case odd != nil:
		s.Note, s.Next = fmt.Sprintf("byte %d is of no token: it was changed on the way", odd[0]+1), AsItIs
	case len(body)%4 == 1:
		s.Note, s.Next = "a part is missing, for no token has this length: it was cut on the way", captured
	default:
		s.Note, s.Next = "its last character is of no token of this length: it was cut or changed on the way", captured
	}
	return s
}
