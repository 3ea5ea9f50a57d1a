package inspect

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	percents   = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
	eightHex   = regexp.MustCompile(`^[0-9a-f]{8}$`)
	noPartOfIt = regexp.MustCompile(`[^A-Za-z0-9._-]`)
)

// tokenIn returns where the first thing begins in a text that looks like a token of an SDK,
// or -1. It may be ten megabytes, for which a regular expression takes a second.
func tokenIn(text string) int {
	for at := 0; ; at++ {
		dot := strings.IndexByte(text[at:], '.')
		if dot < 0 {
			return -1
		}
		at += dot
		for _, head := range []string{"v1", "v1e", "rs1", "rs2"} {
			if strings.HasSuffix(text[:at], head) && beginsBody(text[at+1:]) {
				return at - len(head)
			}
		}
	}
}

// beginsBody reports whether a text begins as the body of a token, which is not as short as
// what a file or a version is called.
func beginsBody(text string) bool {
	const least = 16
	return len(text) >= least && !noPartOfIt.MatchString(text[:least]) && !strings.Contains(text[:least], ".")
}

// getTheToken is the remedy where a token stands inside of something else.
const getTheToken = `give the token alone: grep -oE '(v1e?|rs[12])\.[A-Za-z0-9._-]+' FILE | keytool inspect -`

// identifyDamaged tells what was done to a token on its way. It is no proof either.
func identifyDamaged(token string) Shape {
	s := Shape{Format: Unknown}
	at := tokenIn(token)
	odd := noPartOfIt.FindStringIndex(token)
	body, isToken := strings.CutPrefix(token, "v1.")
	switch {
	case eightHex.MatchString(token):
		s.Note, s.Next = "8 hex digits are a key id, or the id of a token as logs have it, and no token", "look for the key in keytool status; the token itself is in no log: capture the request"
	case strings.Contains(token, "…") || strings.Contains(token, "..."):
		s.Note, s.Next = "it was shortened to be shown, by a log or on a screen: a part is missing", captured
	case percents.MatchString(token):
		s.Note, s.Next = "it is encoded as in a URL", AsItIs+"; if only the capture is encoded, decode that"
	case at > 0:
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
