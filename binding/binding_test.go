package binding

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/local"
)

var call = Request{Method: MethodCallTool, Target: "provision", Arguments: []byte(`{"env":"production","count":3}`)}

// clockAt is a clock that tests turn by hand.
type clockAt struct{ t time.Time }

func (c *clockAt) now() time.Time { return c.t }

func mustPolicy(t testing.TB, c codec.Codec, o Options) *Policy {
	t.Helper()
	p, err := New(c, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustSeal(t testing.TB, r *Round, state string) string {
	t.Helper()
	token, err := r.Seal(state)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// wantRefused checks that a token is refused for a reason, on every way there is.
func wantRefused(t *testing.T, r *Round, token string, reason codec.Reason) {
	t.Helper()
	state, err := r.Unseal(token)
	if state != "" || !errors.Is(err, reason) || !errors.Is(err, codec.ErrInvalid) {
		t.Errorf("Unseal = %q, %v; want %s", state, err, reason)
	}
	if got := r.Refusal(token, err); got.Reason != reason || got.TokenID != TokenID(token) || got.Method != r.request.Method {
		t.Errorf("Refusal = %+v; want %s", got, reason)
	}
	if got := r.Explain(token); got.Reason != reason && r.request.Method != "" {
		t.Errorf("Explain says %q; want %s", got.Reason, reason)
	}
}

func TestStateComesBack(t *testing.T) {
	p := mustPolicy(t, local.Ephemeral(), Options{Audience: "fleet"})
	for _, state := range []string{"", "step=1", `{"a":[1,2],"b":"\u00e9"}`, "größer 😀", "\x00\x1f\x7f", "\xed\xa0\x80 alone", strings.Repeat("x", 100_000), "\u2028</script>"} {
		for _, request := range []Request{call, {Method: MethodGetPrompt, Target: "brief"}, {Method: MethodReadResource, Target: "file:///a"}} {
			for _, principal := range []Principal{{}, Bound(""), Bound("alice")} {
				token := mustSeal(t, p.Round(request, principal), state)
				got, err := p.Round(request, principal).Unseal(token)
				if err != nil || got != state {
					t.Errorf("%.20q on %s came back as %.20q, %v", state, request.Method, got, err)
				}
			}
		}
	}
}

func TestTTLBoundsARound(t *testing.T) {
	for _, ttl := range []time.Duration{0, 500 * time.Millisecond, time.Second, 90 * time.Minute} {
		t.Run(ttl.String(), func(t *testing.T) {
			clock := &clockAt{time.Unix(1796187701, 250_000_000)}
			p := mustPolicy(t, local.Ephemeral(), Options{Audience: "fleet", TTL: ttl, Now: clock.now})
			lives := ttl
			if ttl == 0 {
				lives = 10 * time.Minute
			}
			r := p.Round(call, Principal{})
			token := mustSeal(t, r, "x")
			clock.t = clock.t.Add(lives - 100*time.Microsecond)
			for range 2 { // it is not single-use
				if _, err := r.Unseal(token); err != nil {
					t.Errorf("just before it expires: %v", err)
				}
			}
			clock.t = clock.t.Add(100 * time.Microsecond)
			wantRefused(t, r, token, Expired)
			clock.t = clock.t.Add(time.Hour)
			wantRefused(t, r, token, Expired)
		})
	}
}

func TestClocksMayDisagreeByAMinute(t *testing.T) {
	ring := local.Ephemeral()
	ahead, behind := &clockAt{time.Unix(2000, 0)}, &clockAt{time.Unix(1970, 0)}
	token := mustSeal(t, mustPolicy(t, ring, Options{Audience: "a", Now: ahead.now}).Round(call, Principal{}), "x")
	r := mustPolicy(t, ring, Options{Audience: "a", Now: behind.now}).Round(call, Principal{})
	for _, seconds := range []int{30, 60} {
		behind.t = ahead.t.Add(-time.Duration(seconds) * time.Second)
		if _, err := r.Unseal(token); err != nil {
			t.Errorf("sealed %d seconds from now: %v", seconds, err)
		}
	}
	for _, d := range []time.Duration{time.Minute + time.Millisecond, 2 * time.Minute, time.Hour} {
		behind.t = ahead.t.Add(-d)
		wantRefused(t, r, token, Future)
	}
}

func TestDefaultClockAndLife(t *testing.T) {
	r := mustPolicy(t, local.Ephemeral(), Options{Audience: "a"}).Round(call, Principal{})
	const rounding = time.Microsecond // a float of seconds has no more digits
	before := time.Now().Add(-rounding)
	claims := r.Explain(mustSeal(t, r, "x")).Claims
	after := time.Now().Add(rounding)
	if claims.IssuedAt.Before(before) || claims.IssuedAt.After(after) {
		t.Errorf("sealed at %v, which is not between %v and %v", claims.IssuedAt, before, after)
	}
	if life := claims.Expires.Sub(claims.IssuedAt).Round(rounding); life != 10*time.Minute {
		t.Errorf("it lives %v", life)
	}
}

func TestEveryRoundIsSealedAfresh(t *testing.T) {
	clock := &clockAt{time.Unix(1000, 0)}
	p := mustPolicy(t, local.Ephemeral(), Options{Audience: "a", TTL: time.Minute, Now: clock.now})
	r := p.Round(call, Principal{})
	first := mustSeal(t, r, "x")
	for range 5 {
		clock.t = clock.t.Add(50 * time.Second)
		state, err := r.Unseal(first)
		if err != nil {
			t.Fatal(err)
		}
		next := mustSeal(t, r, state)
		if next == first {
			t.Fatal("the same token again")
		}
		if issued := r.Explain(next).Claims.IssuedAt; !issued.Equal(clock.t) {
			t.Errorf("sealed at %v, want %v", issued, clock.t)
		}
		first = next
	}
}

func TestTokenIsBoundToItsRequest(t *testing.T) {
	p := mustPolicy(t, local.Ephemeral(), Options{Audience: "fleet"})
	token := mustSeal(t, p.Round(call, Principal{}), "x")
	with := func(arguments string) Request {
		return Request{Method: call.Method, Target: call.Target, Arguments: []byte(arguments)}
	}
	for name, request := range map[string]Request{
		"another tool":             {Method: call.Method, Target: "destroy", Arguments: call.Arguments},
		"another spelling":         {Method: call.Method, Target: "Provision", Arguments: call.Arguments},
		"no tool":                  {Method: call.Method, Target: "", Arguments: call.Arguments},
		"another method":           {Method: MethodGetPrompt, Target: call.Target, Arguments: call.Arguments},
		"resources/read":           {Method: MethodReadResource, Target: call.Target, Arguments: nil},
		"no method":                {Method: "", Target: call.Target, Arguments: call.Arguments},
		"a method without state":   {Method: "tools/list", Target: call.Target, Arguments: call.Arguments},
		"no arguments":             {Method: call.Method, Target: call.Target, Arguments: nil},
		"empty arguments":          with("{}"),
		"another value":            with(`{"env":"staging","count":3}`),
		"integer became float":     with(`{"env":"production","count":3.0}`),
		"number became text":       with(`{"env":"production","count":"3"}`),
		"one argument more":        with(`{"env":"production","count":3,"x":null}`),
		"arguments are not JSON":   with(`{"env":"production","count":3`),
		"arguments are not UTF-8":  with("{\"env\":\"production\",\"count\":3,\"x\":\"\xff\"}"),
		"arguments are not there":  {Method: call.Method, Target: call.Target, Arguments: []byte{}},
		"arguments are too deep":   with(strings.Repeat("[", 600) + strings.Repeat("]", 600)),
		"arguments are repeated":   with(`{"env":"production","count":3}{}`),
		"target is not UTF-8":      {Method: call.Method, Target: "provision\xff", Arguments: call.Arguments},
		"the wrong duplicate wins": with(`{"env":"production","count":3,"count":4}`),
	} {
		t.Run(name, func(t *testing.T) { wantRefused(t, p.Round(request, Principal{}), token, WrongRequest) })
	}
	for name, request := range map[string]Request{
		"the same":          call,
		"reordered":         with(`{"count":3,"env":"production"}`),
		"other white space": with(" {\n\"env\" : \"production\",\t\"count\":3}\r\n"),
		"other escapes":     with(`{"\u0065nv":"produc\u0074ion","count":3}`),
		"the last one wins": with(`{"env":"x","count":3,"env":"production"}`),
	} {
		if state, err := p.Round(request, Principal{}).Unseal(token); err != nil || state != "x" {
			t.Errorf("%s: %q, %v", name, state, err)
		}
	}
}

func TestUniqueNamesRefusesAmbiguousArguments(t *testing.T) {
	p := mustPolicy(t, local.Ephemeral(), Options{Audience: "a"})
	with := func(arguments string) *Round {
		return p.Round(Request{Method: MethodCallTool, Target: "x", Arguments: []byte(arguments), UniqueNames: true}, Principal{})
	}
	token := mustSeal(t, with(`{"amount":20,"to":{"account":"shop"}}`), "x")
	for _, arguments := range []string{
		`{"amount":7,"amount":20,"to":{"account":"shop"}}`,
		`{"amount":20,"to":{"admin":true},"to":{"account":"shop"}}`,
		`{"amount":20,"to":{"Account":"me","account":"shop"}}`,
		`{"amount":20,"to":{"account":"me","\u0061ccount":"shop"}}`,
	} {
		wantRefused(t, with(arguments), token, WrongRequest)
		if sealed, err := with(arguments).Seal("x"); sealed != "" || err == nil || !strings.Contains(err.Error(), "same name") {
			t.Errorf("%s: Seal = %q, %v", arguments, sealed, err)
		}
	}
	for _, arguments := range []string{`{"to":{"account":"shop"},"amount":20}`} {
		if _, err := with(arguments).Unseal(token); err != nil {
			t.Errorf("%s: %v", arguments, err)
		}
	}
	if _, err := p.Round(Request{Method: MethodCallTool, Target: "x", UniqueNames: true}, Principal{}).Seal("x"); err != nil {
		t.Errorf("no arguments: %v", err)
	}
}

func TestLoneSurrogatesInArgumentsAreToldApart(t *testing.T) {
	p := mustPolicy(t, local.Ephemeral(), Options{Audience: "a"})
	with := func(arguments string) *Round {
		return p.Round(Request{Method: MethodCallTool, Target: "x", Arguments: []byte(arguments)}, Principal{})
	}
	token := mustSeal(t, with(`{"a":"\ud800"}`), "x")
	if _, err := with(`{"a":"\uD800"}`).Unseal(token); err != nil {
		t.Error(err)
	}
	wantRefused(t, with(`{"a":"\ud801"}`), token, WrongRequest)
	wantRefused(t, with(`{"a":"\ufffd"}`), token, WrongRequest)
}

func TestArgumentsOfAResourceDoNotCount(t *testing.T) {
	p := mustPolicy(t, local.Ephemeral(), Options{Audience: "a"})
	token := mustSeal(t, p.Round(Request{Method: MethodReadResource, Target: "file:///a"}, Principal{}), "x")
	if _, err := p.Round(Request{Method: MethodReadResource, Target: "file:///a", Arguments: []byte("not JSON")}, Principal{}).Unseal(token); err != nil {
		t.Error(err)
	}
	wantRefused(t, p.Round(Request{Method: MethodReadResource, Target: "file:///b", Arguments: nil}, Principal{}), token, WrongRequest)
}

func TestTokenIsBoundToItsPrincipal(t *testing.T) {
	p := mustPolicy(t, local.Ephemeral(), Options{Audience: "a"})
	subject, other := "alice", "bob"
	for _, c := range []struct {
		name         string
		mint, verify Principal
		reason       codec.Reason
	}{
		{"the same", Bound("alice"), Bound("alice"), ""},
		{"empty is a principal", Bound(""), Bound(""), ""},
		{"nobody", Principal{}, Principal{}, ""},
		{"another", Bound("alice"), Bound("bob"), WrongPrincipal},
		{"a prefix", Bound("alice"), Bound("alic"), WrongPrincipal},
		{"empty", Bound("alice"), Bound(""), WrongPrincipal},
		{"vanished", Bound("alice"), Principal{}, PrincipalDrift},
		{"appeared", Principal{}, Bound("alice"), PrincipalDrift},
		{"empty appeared", Principal{}, Bound(""), PrincipalDrift},
		{"another subject of one client", OAuthPrincipal("app", nil, &subject), OAuthPrincipal("app", nil, &other), WrongPrincipal},
		{"another issuer", OAuthPrincipal("app", &subject, nil), OAuthPrincipal("app", &other, nil), WrongPrincipal},
		{"subject became issuer", OAuthPrincipal("app", &subject, nil), OAuthPrincipal("app", nil, &subject), WrongPrincipal},
		{"a lone surrogate", Bound("\xed\xa0\x80"), Bound("\xed\xa0\x80"), ""},
		{"another lone surrogate", Bound("\xed\xa0\x80"), Bound("\xed\xa0\x81"), WrongPrincipal},
	} {
		t.Run(c.name, func(t *testing.T) {
			token := mustSeal(t, p.Round(call, c.mint), "x")
			r := p.Round(call, c.verify)
			if c.reason != "" {
				wantRefused(t, r, token, c.reason)
				return
			}
			if state, err := r.Unseal(token); err != nil || state != "x" {
				t.Errorf("%q, %v", state, err)
			}
		})
	}
}

func TestTwoTokensOfOnePrincipalHaveDifferentTags(t *testing.T) {
	ring := local.Ephemeral()
	r := mustPolicy(t, ring, Options{Audience: "a"}).Round(call, Bound("alice"))
	tags := make(map[string]bool)
	for range 10 {
		payload, err := ring.Unseal(mustSeal(t, r, "x"))
		if err != nil {
			t.Fatal(err)
		}
		var claims struct{ P string }
		if err := json.Unmarshal(payload, &claims); err != nil || len(claims.P) != 32 {
			t.Fatalf("%s: %v", payload, err)
		}
		tags[claims.P] = true
	}
	if len(tags) != 10 {
		t.Errorf("%d different tags", len(tags))
	}
}

func TestFailedPrincipalDeniesBothWays(t *testing.T) {
	p := mustPolicy(t, local.Ephemeral(), Options{Audience: "a"})
	token := mustSeal(t, p.Round(call, Bound("alice")), "x")
	cause := errors.New("no directory")
	notText := "\xff"
	for name, principal := range map[string]Principal{
		"with a cause":     FailedPrincipal(cause),
		"without one":      FailedPrincipal(nil),
		"not text":         OAuthPrincipal("\xff", nil, nil),
		"subject not text": OAuthPrincipal("a", nil, &notText),
	} {
		r := p.Round(call, principal)
		state, err := r.Unseal(token)
		if state != "" || !errors.Is(err, PrincipalError) || errors.Is(err, codec.ErrInvalid) || r.Refusal(token, err).Reason != PrincipalError {
			t.Errorf("%s: Unseal = %q, %v", name, state, err)
		}
		sealed, err := r.Seal("x")
		if sealed != "" || !errors.Is(err, PrincipalError) {
			t.Errorf("%s: Seal = %q, %v", name, sealed, err)
		}
		if name == "with a cause" && !errors.Is(err, cause) {
			t.Errorf("the cause is lost: %v", err)
		}
	}
	// What is wrong with the token is found first.
	wantRefused(t, p.Round(call, FailedPrincipal(cause)), "junk", codec.Malformed)
}

func TestServicesOfOneKeyRefuseEachOther(t *testing.T) {
	ring := local.Ephemeral()
	a := mustPolicy(t, ring, Options{Audience: "a"})
	b := mustPolicy(t, ring, Options{Audience: "b"})
	none := mustPolicy(t, ring, Options{NoAudience: true})
	policies := []*Policy{a, b, none}
	for i, from := range policies {
		token := mustSeal(t, from.Round(call, Principal{}), "x")
		for j, to := range policies {
			r := to.Round(call, Principal{})
			if i != j {
				wantRefused(t, r, token, WrongAudience)
			} else if _, err := r.Unseal(token); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestClaimsAreExactlyThose(t *testing.T) {
	ring := local.Ephemeral()
	r := mustPolicy(t, ring, Options{Audience: "fleet", TTL: 90 * time.Second}).Round(call, Principal{})
	payload, err := ring.Unseal(mustSeal(t, r, "step=1"))
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"v": 1.0, "m": call.Method, "t": call.Target, "s": "step=1", "aud": "fleet"} {
		if claims[name] != want {
			t.Errorf("%s = %v, want %v", name, claims[name], want)
		}
	}
	if ttl := claims["exp"].(float64) - claims["iat"].(float64); ttl != 90 {
		t.Errorf("exp − iat = %v", ttl)
	}
	if _, ok := claims["p"]; ok || len(claims) != 8 {
		t.Errorf("claims %s", payload)
	}
}

// sealClaims makes a token of any payload at all, as a peer with the key could.
func sealClaims(t *testing.T, ring *local.Ring, payload string) string {
	t.Helper()
	token, err := ring.Seal([]byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestPayloadsThatAreNoClaims(t *testing.T) {
	ring := local.Ephemeral()
	clock := &clockAt{time.Unix(1000, 0)}
	r := mustPolicy(t, ring, Options{Audience: "a", Now: clock.now}).Round(Request{Method: MethodCallTool, Target: "x"}, Principal{})
	good := `{"v":1,"iat":1000,"exp":1600,"m":"tools/call","t":"x","a":"RBNvo1WzZ4oRRq0W9-hkng","s":"state","aud":"a"}`
	if state, err := r.Unseal(sealClaims(t, ring, good)); err != nil || state != "state" {
		t.Fatalf("%q, %v", state, err)
	}
	change := func(from, to string) string {
		if !strings.Contains(good, from) {
			t.Fatalf("no %s", from)
		}
		return strings.Replace(good, from, to, 1)
	}
	for _, c := range []struct {
		payload string
		reason  codec.Reason
	}{
		{"", codec.Malformed}, {"null", codec.Malformed}, {"[]", codec.Malformed}, {"{}", codec.Malformed}, {"not JSON", codec.Malformed}, {good + "x", codec.Malformed}, {good[:len(good)-1], codec.Malformed},
		{"\xff" + good, codec.Malformed}, {change(`"v":1,`, ""), codec.Malformed}, {change(`"v":1`, `"v":2`), codec.Malformed}, {change(`"v":1`, `"v":"1"`), codec.Malformed}, {change(`"v":1`, `"v":[1]`), codec.Malformed}, {change(`"v":1`, `"v":null`), codec.Malformed},
		{change(`"v":1`, `"v":true`), codec.Malformed}, {change(`"v":1`, `"V":1`), codec.Malformed}, {change(`"s":"state",`, ""), codec.Malformed}, {change(`"s":"state"`, `"s":1`), codec.Malformed}, {change(`"s":"state"`, `"s":null`), codec.Malformed}, {change(`"s":"state"`, `"s":{"x":"y"}`), codec.Malformed},
		{change(`"iat":1000,`, ""), codec.Malformed}, {change(`"exp":1600,`, ""), codec.Malformed}, {change("1000", "NaN"), codec.Malformed}, {change("1600", "Infinity"), codec.Malformed},
		{change("1000", `"1000"`), Future}, {change("1000", "null"), Future}, {change("1000", "true"), Future}, {change("1000", "1e400"), Future}, {change("1000", "1060.5"), Future}, {change("1000", "[0]"), Future},
		{change("1600", `"1600"`), Expired}, {change("1600", "null"), Expired}, {change("1600", "false"), Expired}, {change("1600", "1000"), Expired}, {change("1600", "-1e400"), Expired}, {change("1600", "{}"), Expired},
		{change(`"m":"tools/call",`, ""), WrongRequest}, {change(`"m":"tools/call"`, `"m":null`), WrongRequest}, {change(`"t":"x",`, ""), WrongRequest}, {change(`"t":"x"`, `"t":["x"]`), WrongRequest}, {change(`"a":"RBNvo1WzZ4oRRq0W9-hkng",`, ""), WrongRequest},
		{change(`"a":"RBNvo1WzZ4oRRq0W9-hkng"`, `"a":""`), WrongRequest}, {change(`"a":"RBNvo1WzZ4oRRq0W9-hkng"`, `"a":1`), WrongRequest},
		{change(`,"aud":"a"`, ""), WrongAudience}, {change(`"aud":"a"`, `"aud":null`), WrongAudience}, {change(`"aud":"a"`, `"aud":["a"]`), WrongAudience}, {change(`"aud":"a"`, `"aud":""`), WrongAudience}, {change(`"aud":"a"`, `"aud":"A"`), WrongAudience},
		{change(`"aud":"a"`, `"aud":"a","p":1`), PrincipalDrift}, {change(`"aud":"a"`, `"aud":"a","p":""`), PrincipalDrift},
	} {
		t.Run("", func(t *testing.T) { wantRefused(t, r, sealClaims(t, ring, c.payload), c.reason) })
	}
	for _, payload := range []string{
		change(`"v":1`, `"v":1.0`), change(`"iat":1000`, `"iat":1000.5`), change(`"iat":1000`, `"iat":1060`), change("1600", "1e400"), change(`"aud":"a"`, `"aud":"a","p":null`),
		change(`"s":"state"`, `"s":"no","s":"state"`), change(`"s"`, `"\u0073"`), change(`"m":"tools/call"`, `"m":"tools\/call"`), change(`"t":"x"`, `"t":"\u0078"`), change("{", "{ \"x\" : [1,{\"s\":2}] ,\n"),
	} {
		if state, err := r.Unseal(sealClaims(t, ring, payload)); err != nil || state != "state" {
			t.Errorf("%s: %q, %v", payload, state, err)
		}
	}
	bound := r.policy.Round(r.request, Bound("alice"))
	for _, p := range []string{`1`, `{}`, `[]`, `true`, `""`, `"!!!!"`, `"YKc8TrCvRbZIVS1sRqbepOvGKheyguaC"`, `"YKc8TrCvRbZIVS1sRqbepOvGKheyguaC="`, `"YKc8TrCvRbZIVS1sRqbepOvGKheyguaCYKc8"`, `"` + strings.Repeat("A", 36) + `"`, `"YKc8TrCvRbZIVS1s\nRqbepOvGKheyguaC"`, `"` + strings.Repeat("\\n", 32) + `"`} {
		wantRefused(t, bound, sealClaims(t, ring, change(`"aud":"a"`, `"aud":"a","p":`+p)), WrongPrincipal)
	}
}

func TestConstructorNamesTheOption(t *testing.T) {
	ring := local.Ephemeral()
	for _, c := range []struct {
		codec codec.Codec
		o     Options
		want  string
	}{
		{nil, Options{Audience: "a"}, "codec"},
		{(*local.Ring)(nil), Options{Audience: "a"}, "codec"},
		{ring, Options{}, "Audience"},
		{ring, Options{Audience: "a", NoAudience: true}, "NoAudience"},
		{ring, Options{Audience: "\xff"}, "UTF-8"},
		{ring, Options{Audience: "a", TTL: -1}, "TTL"},
		{ring, Options{Audience: "a", TTL: math.MinInt64}, "TTL"},
		{ring, Options{Audience: "a", MaxTokenChars: -1}, "MaxTokenChars"},
	} {
		p, err := New(c.codec, c.o)
		if p != nil || !errors.Is(err, codec.ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v; want %s in it", c.o, err, c.want)
		}
	}
	for _, o := range []Options{{Audience: "a"}, {NoAudience: true}, {Audience: "\xed\xa0\x80"}, {Audience: " "}, {Audience: "a", TTL: 1}, {Audience: "a", MaxTokenChars: 1}} {
		if _, err := New(ring, o); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestSealRefusesWhatCannotComeBack(t *testing.T) {
	p := mustPolicy(t, local.Ephemeral(), Options{Audience: "a", MaxTokenChars: 1000})
	for name, c := range map[string]struct {
		request Request
		state   string
		want    string
	}{
		"state is binary":        {call, "\xff\x00", "not valid UTF-8"},
		"state is split":         {call, "\xed\xa0\xbd\xed\xb8\x80", "not valid UTF-8"},
		"state is cut":           {call, "caf\xc3", "not valid UTF-8"},
		"target is binary":       {Request{Method: MethodCallTool, Target: "\xff"}, "x", "not valid UTF-8"},
		"state is too large":     {call, strings.Repeat("x", 900), "MaxTokenChars"},
		"state is far too large": {call, strings.Repeat("x", 100_000), "MaxTokenChars"},
		"arguments are not JSON": {Request{Method: MethodCallTool, Target: "x", Arguments: []byte("{")}, "x", "not usable JSON at byte 1"},
		"no such method":         {Request{Method: "tools/list"}, "x", "no requestState"},
	} {
		r := p.Round(c.request, Principal{})
		token, err := r.Seal(c.state)
		if token != "" || err == nil || errors.Is(err, codec.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %.20q, %v; want %q in it", name, token, err, c.want)
		}
		if out, err := r.AppendSeal([]byte("x"), c.state); err == nil || string(out) != "x" {
			t.Errorf("%s: AppendSeal = %.20q, %v", name, out, err)
		}
	}
}

func TestTooLargeIsRefusedBeforeItIsOpened(t *testing.T) {
	ring := local.Ephemeral()
	token := mustSeal(t, mustPolicy(t, ring, Options{Audience: "a"}).Round(call, Principal{}), strings.Repeat("x", 1000))
	never := panics{}
	for limit, c := range map[int]codec.Codec{len(token): ring, len(token) - 1: never, 1: never} {
		r := mustPolicy(t, c, Options{Audience: "a", MaxTokenChars: limit}).Round(call, Principal{})
		if limit == len(token) {
			if _, err := r.Unseal(token); err != nil {
				t.Error(err)
			}
			continue
		}
		wantRefused(t, r, token, TooLarge)
	}
	r := mustPolicy(t, ring, Options{Audience: "a"}).Round(call, Principal{})
	wantRefused(t, r, strings.Repeat("A", 256<<10+1), TooLarge)
	wantRefused(t, r, strings.Repeat("A", 256<<10), codec.Malformed)
}

// Codecs of other people, which may do anything.

type panics struct{}

func (panics) Seal([]byte) (string, error)   { panic("seal-canary") }
func (panics) Unseal(string) ([]byte, error) { panic(errors.New("unseal-canary")) }

// panicsAside is a good codec but for what it can do besides.
type panicsAside struct{ *local.Ring }

func (panicsAside) MaxTTL() time.Duration { panic("ttl-canary") }
func (panicsAside) KID(string) string     { panic("kid-canary") }

type fails struct{ err error }

func (f fails) Seal([]byte) (string, error)   { return "half a token", f.err }
func (f fails) Unseal(string) ([]byte, error) { return []byte(`{"v":1}`), f.err }

func TestFailureOfTheCodecIsNotTheTokens(t *testing.T) {
	down := errors.New("the keys are stale")
	for name, c := range map[string]codec.Codec{"panics": panics{}, "fails": fails{down}} {
		r := mustPolicy(t, c, Options{Audience: "a"}).Round(call, Principal{})
		state, err := r.Unseal("token")
		if state != "" || !errors.Is(err, CodecError) || errors.Is(err, codec.ErrInvalid) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: Unseal = %q, %v", name, state, err)
		}
		if got := r.Refusal("token", err).Reason; got != CodecError {
			t.Errorf("%s: refused as %s", name, got)
		}
		token, err := r.Seal("x")
		if token != "" || !errors.Is(err, CodecError) || errors.Is(err, codec.ErrInvalid) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: Seal = %q, %v", name, token, err)
		}
		if name == "fails" && !errors.Is(err, down) {
			t.Errorf("the cause is lost: %v", err)
		}
	}
}

func TestPanicOfAnOptionalMethodIsAFailure(t *testing.T) {
	ring := local.Ephemeral()
	r := mustPolicy(t, panicsAside{ring}, Options{Audience: "a"}).Round(call, Principal{})
	if token, err := r.Seal("x"); token != "" || !errors.Is(err, CodecError) || strings.Contains(err.Error(), "canary") {
		t.Errorf("Seal = %q, %v", token, err)
	}
	token := mustSeal(t, mustPolicy(t, ring, Options{Audience: "b"}).Round(call, Principal{}), "x")
	wantRefused(t, r, token, WrongAudience)
	wantRefused(t, r, "junk", codec.Malformed)
}

func TestReasonOfACodecIsKept(t *testing.T) {
	revoked := fmt.Errorf("wrapped: %w", &codec.InvalidError{Reason: "revoked", KID: "01234567"})
	r := mustPolicy(t, fails{revoked}, Options{Audience: "a"}).Round(call, Principal{})
	wantRefused(t, r, "token", "revoked")
}

// ceiling is a codec whose tokens may live for max.
type ceiling struct {
	*local.Ring
	max     time.Duration
	expires []time.Time
}

func (c *ceiling) MaxTTL() time.Duration { return c.max }

func (c *ceiling) AppendSeal(dst, payload []byte, expires time.Time) ([]byte, error) {
	c.expires = append(c.expires, expires)
	return c.Ring.AppendSeal(dst, payload, expires)
}

// expiring is the same without the append forms.
type expiring struct{ c *ceiling }

func (e expiring) Seal(p []byte) (string, error)       { return e.c.Ring.Seal(p) }
func (e expiring) Unseal(token string) ([]byte, error) { return e.c.Ring.Unseal(token) }
func (e expiring) MaxTTL() time.Duration               { return e.c.max }

func (e expiring) SealUntil(p []byte, expires time.Time) (string, error) {
	e.c.expires = append(e.c.expires, expires)
	return e.c.Ring.Seal(p)
}

func TestCeilingCutsTheTTLAtEachSeal(t *testing.T) {
	clock := &clockAt{time.Unix(1000, 0)}
	inner := &ceiling{Ring: local.Ephemeral()}
	for name, c := range map[string]codec.Codec{"Appender": inner, "Expirer": expiring{inner}} {
		for _, step := range []struct{ ttl, max, want time.Duration }{
			{0, 0, 10 * time.Minute},
			{0, time.Hour, time.Hour},
			{0, time.Second, time.Second},
			{5 * time.Minute, 0, 5 * time.Minute},
			{5 * time.Minute, time.Hour, 5 * time.Minute},
			{5 * time.Minute, time.Minute, time.Minute},
			{5 * time.Minute, 5 * time.Minute, 5 * time.Minute},
		} {
			inner.max, inner.expires = 24*time.Hour, nil
			r := mustPolicy(t, c, Options{Audience: "a", TTL: step.ttl, Now: clock.now}).Round(call, Principal{})
			inner.max = step.max // it falls after the policy was made
			claims := r.Explain(mustSeal(t, r, "x")).Claims
			if got := claims.Expires.Sub(claims.IssuedAt); got != step.want || len(inner.expires) != 1 || !inner.expires[0].Equal(claims.Expires) {
				t.Errorf("%s: ttl %v under a ceiling of %v gives %v, the codec is told %v", name, step.ttl, step.max, got, inner.expires)
			}
		}
	}
}

func TestExplainMakesEveryCheck(t *testing.T) {
	ring := local.Ephemeral()
	clock := &clockAt{time.Unix(1_796_187_701, 0)}
	p := mustPolicy(t, ring, Options{Audience: "fleet", Now: clock.now})
	token := mustSeal(t, p.Round(call, Bound("alice-canary")), "state")
	clock.t = clock.t.Add(14 * time.Minute)
	other := mustPolicy(t, ring, Options{Audience: "billing", Now: clock.now})
	e := other.Round(Request{Method: MethodCallTool, Target: "provision", Arguments: []byte(`{}`)}, Bound("bob-canary")).Explain(token)

	var got []string
	for _, check := range e.Checks {
		got = append(got, fmt.Sprintf("%s %v: %s", check.Name, check.Outcome, check.Detail))
	}
	want := []string{
		"codec passed: opens with key " + e.KID,
		"claims passed: version 1",
		"future passed: sealed 14m0s ago",
		"expired failed: expired 4m0s ago",
		"request failed: the arguments differ from those the token was made for",
		`audience failed: the token is for "fleet", this service is "billing"`,
		"principal_drift passed: both have a principal",
		"principal failed: another principal",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if e.Reason != Expired || e.State() != "state" || e.TokenChars != len(token) || e.Digest != "RBNvo1WzZ4oRRq0W9-hkng" || !e.Claims.PrincipalBound || e.Claims.Audience != "fleet" {
		t.Errorf("%+v", e)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if all := fmt.Sprintf(verb+verb, e, &e); strings.Contains(all, "canary") || strings.Contains(all, "state") {
			t.Errorf("a principal or the state is in %s", all)
		}
	}
}

// A sealer's clock may be a little ahead: no token is said to be of an age below zero.
func TestExplainBetweenClocks(t *testing.T) {
	ring := local.Ephemeral()
	clock := &clockAt{time.Unix(1_796_187_701, 0)}
	p := mustPolicy(t, ring, Options{Audience: "fleet", Now: clock.now})
	token := mustSeal(t, p.Round(call, Principal{}), "state")
	sealed := clock.t
	for ahead, want := range map[time.Duration]string{
		-14 * time.Minute:        "future passed: sealed 14m0s ago",
		-time.Second:             "future passed: sealed 1s ago",
		0:                        "future passed: sealed 0s ago",
		400 * time.Millisecond:   "future passed: sealed 0s ago",
		500 * time.Millisecond:   "future passed: sealed 1s from now; two clocks may differ by that",
		5 * time.Second:          "future passed: sealed 5s from now; two clocks may differ by that",
		futureSkew * time.Second: "future passed: sealed 1m0s from now; two clocks may differ by that",
		time.Hour:                "future failed: sealed 1h0m0s from now; one of the two clocks is wrong",
	} {
		clock.t = sealed.Add(-ahead)
		c := p.Round(call, Principal{}).Explain(token).Checks[2]
		if got := fmt.Sprintf("%s %v: %s", c.Name, c.Outcome, c.Detail); got != want {
			t.Errorf("%v ahead: %q, want %q", ahead, got, want)
		}
	}
}

func TestExplainWithoutARequest(t *testing.T) {
	p := mustPolicy(t, local.Ephemeral(), Options{Audience: "fleet"})
	token := mustSeal(t, p.Round(call, Bound("alice")), "state")
	e := p.Round(Request{}, Principal{}).Explain(token)
	if e.Reason != PrincipalDrift || e.Checks[4].Outcome != Skipped || e.Checks[7].Outcome != Skipped || e.Claims.Method != MethodCallTool {
		t.Errorf("%+v", e)
	}
	for _, token := range []string{"", "junk", token + "="} {
		e := p.Round(Request{}, Principal{}).Explain(token)
		if e.Reason != codec.Malformed || len(e.Checks) != 8 || e.Checks[0].Outcome != Failed || e.Checks[1].Outcome != Skipped || e.Claims != nil {
			t.Errorf("%q: %+v", token, e)
		}
	}
}

func TestRefusalIsSilentAboutSecrets(t *testing.T) {
	ring := local.Ephemeral()
	p := mustPolicy(t, ring, Options{Audience: "a"})
	token := mustSeal(t, p.Round(call, Bound("principal-canary")), "state-canary")
	var log bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	for _, r := range []*Round{p.Round(call, Bound("other-canary")), p.Round(call, Principal{}), mustPolicy(t, local.Ephemeral(), Options{Audience: "a"}).Round(call, Principal{})} {
		_, err := r.Unseal(token)
		refusal := r.Refusal(token, err)
		logger.LogAttrs(t.Context(), slog.LevelWarn, err.Error(), append(refusal.Attrs(), slog.Any("refusal", refusal))...)
	}
	for _, secret := range []string{"canary", token, token[10:40]} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("%s is in %s", secret, log.String())
		}
	}
	for _, want := range []string{`"reason":"principal"`, `"reason":"principal_drift"`, `"reason":"unknown_key"`, `"hint":"`, `"token_id":"` + TokenID(token), `"kid":"` + ring.KID(token)} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s is not in %s", want, log.String())
		}
	}
}

func TestNothingPrintsAPrincipal(t *testing.T) {
	p := mustPolicy(t, local.Ephemeral(), Options{Audience: "a"})
	principal := Bound("canary")
	round := p.Round(Request{Method: MethodCallTool, Target: "x", Arguments: []byte(`{"a":"canary"}`)}, principal)
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "principal", principal, "round", round, "policy", p)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q"} {
		fmt.Fprintf(&log, verb+verb+verb+verb, principal, &principal, round, p)
	}
	for _, secret := range []string{"canary", hex.EncodeToString([]byte("canary"))} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("%s is in %s", secret, log.String())
		}
	}
	for principal, want := range map[Principal]string{{}: "not bound", Bound(""): "bound", FailedPrincipal(codec.ErrInvalid): "failed"} {
		if got := fmt.Sprint(principal); got != "binding.Principal("+want+")" {
			t.Errorf("%s", got)
		}
	}
}

func TestErrorOfThePrincipalIsNeverTheTokens(t *testing.T) {
	p := mustPolicy(t, local.Ephemeral(), Options{Audience: "a"})
	token := mustSeal(t, p.Round(call, Bound("alice")), "x")
	// A function that opened a cookie with a codec of its own, say.
	cookie := fmt.Errorf("cookie: %w", &codec.InvalidError{Reason: codec.BadSeal})
	_, err := p.Round(call, FailedPrincipal(cookie)).Unseal(token)
	if !errors.Is(err, PrincipalError) || errors.Is(err, codec.ErrInvalid) || errors.Is(err, codec.BadSeal) {
		t.Errorf("%v", err)
	}
}

func TestRefusalOfACodecWithoutAReasonIsAFailure(t *testing.T) {
	for _, err := range []error{codec.ErrInvalid, &codec.InvalidError{}, fmt.Errorf("wrapped: %w", codec.ErrInvalid)} {
		r := mustPolicy(t, fails{err}, Options{Audience: "a"}).Round(call, Principal{})
		state, got := r.Unseal("token")
		if state != "" || !errors.Is(got, CodecError) || r.Refusal("token", got).Reason != CodecError || r.Explain("token").Reason != CodecError {
			t.Errorf("%v: %q, %v", err, state, got)
		}
	}
}

func TestDigestIsComputedOnce(t *testing.T) {
	r := mustPolicy(t, local.Ephemeral(), Options{Audience: "a"}).Round(Request{Method: MethodCallTool, Target: "x", Arguments: []byte(`{"a":1}`)}, Principal{})
	token := mustSeal(t, r, "x")
	copy(r.request.Arguments, "{nothing") // it would be refused now
	if _, err := r.Unseal(token); err != nil {
		t.Error(err)
	}
	if _, err := r.Seal("y"); err != nil {
		t.Error(err)
	}
}

func TestLimitCountsTheTokenAlone(t *testing.T) {
	ring := local.Ephemeral()
	clock := &clockAt{time.Unix(1000, 0)}
	length := len(mustSeal(t, mustPolicy(t, ring, Options{Audience: "a", Now: clock.now}).Round(call, Principal{}), "x"))
	dst := bytes.Repeat([]byte("d"), length)
	for limit, fits := range map[int]bool{length: true, length - 1: false} {
		r := mustPolicy(t, ring, Options{Audience: "a", MaxTokenChars: limit, Now: clock.now}).Round(call, Principal{})
		if out, err := r.AppendSeal(dst, "x"); (err == nil) != fits || fits && len(out) != 2*length {
			t.Errorf("a limit of %d for %d characters: %v", limit, length, err)
		}
	}
}

// wiped checks that nothing stays in the buffers when they are wiped, up to their capacity.
func wiped(t *testing.T, s *scratch) {
	t.Helper()
	buffers := [][]byte{s.payload, s.result, s.arguments}
	s.wipe()
	for i, buf := range buffers {
		if left := strings.Trim(string(buf[:cap(buf)]), "\x00"); left != "" {
			t.Errorf("%q is left behind in buffer %d", left, i)
		}
	}
}

// Nothing stays in a pooled buffer, up to its capacity.
func TestScratchIsWiped(t *testing.T) {
	p := mustPolicy(t, local.Ephemeral(), Options{Audience: "a"})
	for _, state := range []string{strings.Repeat("a state ", 40), strings.Repeat(`"quoted" é `, 30) + `\"\"`} {
		s := new(scratch)
		sealed, err := p.Round(call, Bound("alice")).seal(s, nil, state)
		if err != nil {
			t.Fatal(err)
		}
		token := string(sealed)
		wiped(t, s)
		if s.result, err = p.Round(call, Bound("alice")).unseal(s, s.result, token); err != nil || string(s.result) != state {
			t.Fatalf("%q, %v", s.result, err)
		}
		wiped(t, s)
		if s.result, err = p.Round(call, Bound("bob")).unseal(s, s.result, token); err == nil {
			t.Fatal("another principal was let in")
		}
		wiped(t, s)
	}
}

// untidy is a codec that gives a payload with its error, or writes one and panics.
type untidy struct {
	*local.Ring
	panics bool
}

const leftover = "a payload that was not verified"

func (u untidy) AppendUnseal(dst []byte, _ string) ([]byte, error) {
	out := append(dst, leftover...)
	if u.panics {
		panic("no")
	}
	return out, &codec.InvalidError{Reason: codec.BadSeal}
}

// What never became part of a result is wiped, too.
func TestScratchIsWipedAfterFailures(t *testing.T) {
	token := strings.Repeat("t", 100)
	for name, c := range map[string]codec.Codec{
		"an error":              untidy{local.Ephemeral(), false},
		"a panic":               untidy{local.Ephemeral(), true},
		"an error, no appender": fails{codec.BadSeal},
	} {
		s := new(scratch)
		if err := mustPolicy(t, c, Options{Audience: "a"}).Round(call, Principal{}).decrypt(s, token); err == nil {
			t.Errorf("%s: there is none", name)
		}
		wiped(t, s)
	}
	for _, state := range []string{"\xffsecret1", "before \xffsecret1 and more", "\"\xffsecrets"} {
		s := new(scratch)
		if _, err := mustPolicy(t, local.Ephemeral(), Options{Audience: "a"}).Round(call, Principal{}).seal(s, nil, state); err == nil {
			t.Errorf("%q was sealed", state)
		}
		wiped(t, s)
	}
}

func TestPolicyIsSafeForConcurrentUse(t *testing.T) {
	p := mustPolicy(t, local.Ephemeral(), Options{Audience: "a"})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 200 {
				request := Request{Method: MethodCallTool, Target: strconv.Itoa(i), Arguments: fmt.Appendf(nil, `{"b":%d,"a":[%d]}`, i, j)}
				state := strings.Repeat(fmt.Sprint(i, j), 1+j)
				token, err := p.Round(request, Bound(strconv.Itoa(i))).Seal(state)
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := p.Round(request, Bound(strconv.Itoa(i))).Unseal(token); err != nil || got != state {
					t.Errorf("%.20q, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}
