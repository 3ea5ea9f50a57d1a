package binding

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/internal/vectors"
)

// vectorRound sets up the round of a vector, with the clock at its time.
func vectorRound(t *testing.T, tokens vectors.Tokens, v vectors.Round) *Round {
	t.Helper()
	ring, err := local.New(tokens.Ring(v.Policy.Ring)...)
	if err != nil {
		t.Fatal(err)
	}
	options := Options{NoAudience: true, Now: func() time.Time {
		whole, part := math.Modf(v.Now)
		return time.Unix(int64(whole), int64(part*1e9))
	}}
	if v.Policy.Audience != nil {
		options.NoAudience, options.Audience = false, string(*v.Policy.Audience)
	}
	if v.Policy.TTL != nil {
		options.TTL = time.Duration(*v.Policy.TTL * float64(time.Second))
	}
	policy, err := New(ring, options)
	if err != nil {
		t.Fatal(err)
	}
	var params struct {
		Name      vectors.Text    `json:"name"`
		URI       vectors.Text    `json:"uri"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal([]byte(v.Params), &params); err != nil {
		t.Fatal(err)
	}
	request := Request{Method: v.Method, Target: string(params.Name), Arguments: params.Arguments}
	if v.Method == MethodReadResource {
		request.Target = string(params.URI)
	}
	var principal Principal
	if v.Policy.Principal != nil {
		principal = Bound(string(*v.Policy.Principal))
	}
	return policy.Round(request, principal)
}

func TestMintsWhatPythonMints(t *testing.T) {
	tokens := vectors.Read[vectors.Tokens](t)
	for i, want := range vectors.Read[vectors.Claims](t).Mint {
		r := vectorRound(t, tokens, want.Round)
		if err := r.digestRequest(new(scratch)); err != nil {
			t.Errorf("mint %d: %v", i, err)
			continue
		}
		ttl, err := r.policy.lifetime()
		if err != nil {
			t.Fatal(err)
		}
		payload, ok := r.appendClaims(nil, string(want.State), r.policy.now(), ttl, [saltSize]byte(want.Salt))
		if !ok || string(payload) != want.Payload {
			t.Errorf("mint %d = %.200s, %t; want %.200s", i, payload, ok, want.Payload)
		}
		if state, err := r.Unseal(string(want.Token)); err != nil || state != string(want.State) {
			t.Errorf("mint %d comes back as %.60q, %v", i, state, err)
		}
		again, err := r.Seal(string(want.State))
		if err != nil {
			t.Errorf("mint %d: %v", i, err)
		}
		if state, err := r.Unseal(again); err != nil || state != string(want.State) || len(again) != len(want.Token) {
			t.Errorf("mint %d sealed again: %.60q, %v, %d characters instead of %d", i, state, err, len(again), len(want.Token))
		}
	}
}

func TestVerifiesWhatPythonVerifies(t *testing.T) {
	tokens := vectors.Read[vectors.Tokens](t)
	reasons := map[string]codec.Reason{
		"malformed": codec.Malformed, "unknown key": codec.UnknownKey, "seal": codec.BadSeal, "minted in the future": Future, "expired": Expired,
		"request binding": WrongRequest, "audience": WrongAudience, "principal drift": PrincipalDrift, "principal": WrongPrincipal,
	}
	for _, want := range vectors.Read[vectors.Claims](t).Verify {
		r := vectorRound(t, tokens, want.Round)
		state, err := r.Unseal(string(want.Token))
		explained := r.Explain(string(want.Token))
		switch {
		case want.Reason == "" && want.Strict && err != nil:
			// Claims that no SDK writes may be refused for whatever reason.
			if !errors.Is(err, codec.ErrInvalid) {
				t.Errorf("%s: %v", want.Name, err)
			}
		case want.Reason == "":
			if err != nil || state != string(*want.State) {
				t.Errorf("%s: %.60q, %v; want %.60q", want.Name, state, err, *want.State)
			}
		case err == nil:
			t.Errorf("%s: accepted, want %s", want.Name, want.Reason)
		case !errors.Is(err, codec.ErrInvalid) || state != "" || !want.Strict && !errors.Is(err, reasons[want.Reason]):
			t.Errorf("%s: %.60q, %v; want %s", want.Name, state, err, want.Reason)
		}
		// An explanation never decides otherwise.
		if (explained.Reason == "") != (err == nil) || err != nil && !errors.Is(err, explained.Reason) {
			t.Errorf("%s: explained as %q, but %v", want.Name, explained.Reason, err)
		}
		appended, appendErr := r.AppendUnseal([]byte("x"), string(want.Token))
		if (appendErr == nil) != (err == nil) || string(appended) != "x"+state {
			t.Errorf("%s: AppendUnseal: %.60q, %v", want.Name, appended, appendErr)
		}
	}
}

func TestDigestIsPythons(t *testing.T) {
	digests := vectors.Read[vectors.Digests](t)
	for _, want := range digests.Accept {
		if got, err := Digest([]byte(want.Input)); err != nil || got != want.A {
			t.Errorf("Digest(%.60q) = %s, %v; want %s", want.Input, got, err, want.A)
		}
	}
	for _, v := range digests.Reject {
		input := []byte(v.Input)
		if v.Bytes != nil {
			input = v.Bytes
		}
		if got, err := Digest(input); err == nil || got != "" {
			t.Errorf("Digest(%.60q) = %q, %v; want an error", input, got, err)
		}
	}
}

func TestPrincipalIsPythons(t *testing.T) {
	v := vectors.Read[vectors.Principals](t)
	str := func(text *vectors.Text) *string { return (*string)(text) }
	for _, want := range v.Tokens {
		p := OAuthPrincipal(string(want.ClientID), str(want.Issuer), str(want.Subject))
		if p.name != string(want.Principal) || !p.bound {
			t.Errorf("%q, want %q", p.name, want.Principal)
		}
		if got := string(p.appendTag(nil, [saltSize]byte(want.Salt))); got != want.P || !p.matches([]byte(want.P)) {
			t.Errorf("%q: claim %s, want %s", want.Principal, got, want.P)
		}
	}
	for _, want := range v.Strings {
		p := Bound(string(want.Principal))
		if got := string(p.appendTag(nil, [saltSize]byte(want.Salt))); got != want.P || !p.matches([]byte(want.P)) {
			t.Errorf("%q: claim %s, want %s", want.Principal, got, want.P)
		}
	}
	for _, v := range v.Mismatch {
		if p := Bound(string(v.Principal)); p.matches([]byte(v.Claim)) {
			t.Errorf("claim %q matches %q", v.Claim, v.Principal)
		}
	}
}
