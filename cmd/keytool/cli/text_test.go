package cli

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// What comes from others is printed without a character that does something, wherever it
// stands; what keytool paints itself is.
func TestEscape(t *testing.T) {
	hostile := "a\x1b[2J\n\r\t\u009b\u202eb\xff\u2028é✓"
	const shown = `a\x1b[2J\n\r\t\u009b\u202eb\xff\u2028é✓`
	if got := escape(hostile); got != shown {
		t.Errorf("escape: %s", got)
	}
	p := &printer{colour: true}
	type named string
	p.linef("%s %s", hostile, named(hostile))
	p.linef("%v", errors.Join(errors.New(hostile), errors.New("two")))
	p.labels(labelled{hostile, hostile})
	p.table([]string{"NAME", ">N"}, []string{hostile, hostile})
	p.linef("%s", p.paint(red, hostile))
	text := strings.ReplaceAll(strings.ReplaceAll(p.String(), "\x1b[1;31m", ""), "\x1b[0m", "")
	if strings.ContainsFunc(strings.ReplaceAll(text, "\n", ""), unprintable) || strings.Count(text, "\n") != 6 {
		t.Errorf("printed: %q", text)
	}
}

// The JSON is the same document, and steers no terminal either.
func TestEscapeJSON(t *testing.T) {
	hostile := "a\x1b[2J\n\u007f\u009b\u202e\U000e0041é✓"
	document, err := marshal(map[string]string{"name": hostile})
	if err != nil || strings.ContainsFunc(string(document), unprintable) {
		t.Fatalf("%q: %v", document, err)
	}
	var back map[string]string
	if err := json.Unmarshal(document, &back); err != nil || back["name"] != hostile {
		t.Errorf("it comes back as %q: %v", back, err)
	}
}

// A line names a few, and at least two are left out where it leaves some out.
func TestFew(t *testing.T) {
	for all, want := range map[string]string{
		"a": "a", "a b": "a and b", "a b c d": "a, b, c and d", "a b c d e": "a, b, c and 2 others",
	} {
		if got := list(few(strings.Fields(all))); got != want {
			t.Errorf("%s: %s", all, got)
		}
	}
}
