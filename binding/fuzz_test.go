package binding

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/internal/canon"
)

// FuzzToken gives a server any string for a token, with any request.
func FuzzToken(f *testing.F) {
	ring := local.Ephemeral()
	p := mustPolicy(f, ring, Options{Audience: "a"})
	f.Add("", "", "", []byte(nil))
	f.Add("v1.AAAA", MethodCallTool, "x", []byte(`{}`))
	f.Add(mustSeal(f, p.Round(call, Principal{}), "state"), call.Method, call.Target, call.Arguments)
	f.Fuzz(func(t *testing.T, token, method, target string, arguments []byte) {
		r := p.Round(Request{Method: method, Target: target, Arguments: arguments}, Principal{})
		state, err := r.Unseal(token)
		if err == nil && state != "state" {
			t.Fatalf("%q gives %q", token, state)
		}
		if err != nil && !errors.Is(err, codec.ErrInvalid) {
			t.Fatalf("%q: %v", token, err)
		}
		if e := r.Explain(token); (e.Reason == "") != (err == nil) && method != "" {
			t.Fatalf("explained as %q, but %v", e.Reason, err)
		}
		_ = r.Refusal(token, err).Attrs()
	})
}

// FuzzClaims gives a server any payload under its own key, as a faulty peer might.
func FuzzClaims(f *testing.F) {
	ring := local.Ephemeral()
	now := time.Unix(1000, 0)
	p := mustPolicy(f, ring, Options{Audience: "a", Now: func() time.Time { return now }})
	r := p.Round(Request{Method: MethodCallTool, Target: "x"}, Bound("alice"))
	token := mustSeal(f, r, "state")
	payload, err := ring.Unseal(token)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(payload)
	for _, change := range [][2]string{
		{`"v":1`, `"v":1.0`}, {"1000.0", "1061.0"}, {"1600.0", "1000.0"}, {"1000.0", "1e3"}, {"1000.0", "01000.0"}, {"1000.0", "1000.0.0"}, {`"x"`, `"\u0078"`}, {`"x"`, `"x","x":"x"`},
		{`"state"`, `"st\"ate"`}, {`"state"`, `"st"ate"`}, {`"state"`, `"state","s":"other"`}, {`"state"`, `"st` + "\n" + `ate"`}, {`"state"`, `"\ud800é"`}, {`"state"`, `7`},
		{`"aud":"a"`, `"aud":"b"`}, {`"aud":"a",`, ``}, {`"p":`, `"q":`}, {`"p":`, `"p":null,"p":`}, {`}`, `} `}, {`{`, ` {`}, {`","`, `", "`},
	} {
		f.Add(bytes.Replace(payload, []byte(change[0]), []byte(change[1]), 1))
	}
	f.Add([]byte(`{"v":1,"iat":1e3,"exp":1e9,"m":"tools/call","t":"x","a":"RBNvo1WzZ4oRRq0W9-hkng","s":"\ud800","aud":"a","p":null}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		token, err := ring.Seal(payload)
		if err != nil {
			t.Fatal(err)
		}
		state, err := r.Unseal(token)
		if e := r.Explain(token); (e.Reason == "") != (err == nil) {
			t.Fatalf("explained as %q, but %v", e.Reason, err)
		}
		s := &scratch{payload: payload}
		quick, expected := r.appendExpected(nil, s, seconds(now))
		checked, reason := r.appendChecked(nil, s, seconds(now))
		if expected && (reason != "" || string(quick) != string(checked)) {
			t.Fatalf("%q: %q by its layout, but %q, %s by its claims", payload, quick, checked, reason)
		}
		if (reason == "") != (err == nil) || string(checked) != state {
			t.Fatalf("%q: %q, %v, but %q, %s by its claims", payload, state, err, checked, reason)
		}
		if err != nil {
			if !errors.Is(err, codec.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if !canon.IsText(state) || !json.Valid(payload) {
			t.Fatalf("accepted %q from %q", state, payload)
		}
	})
}

// FuzzState seals any state.
func FuzzState(f *testing.F) {
	p := mustPolicy(f, local.Ephemeral(), Options{Audience: "a"})
	f.Add("step=1", "x")
	f.Add("\xed\xa0\x80😀\x00\"\\", "\xff")
	f.Fuzz(func(t *testing.T, state, target string) {
		r := p.Round(Request{Method: MethodReadResource, Target: target}, Bound(state))
		token, err := r.Seal(state)
		if err != nil {
			if canon.IsText(state) && canon.IsText(target) && len(state)+len(target) < 10_000 {
				t.Fatal(err)
			}
			return
		}
		if got, err := r.Unseal(token); err != nil || got != state {
			t.Fatalf("%q came back as %q, %v", state, got, err)
		}
		s := new(scratch)
		if err := r.decrypt(s, token); err != nil {
			t.Fatal(err)
		}
		if got, ok := r.appendExpected(nil, s, seconds(p.now())); ok != canon.IsPlain(target) || ok && string(got) != state {
			t.Fatalf("the layout that was sealed is not the one that is expected: %q, %t", got, ok)
		}
	})
}
