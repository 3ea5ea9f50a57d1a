package fleet_test

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/fleet"
)

// The canonical text and the MAC were made with Python's json, hmac and hashlib.
const (
	goldenReport = `{"every":"15s","failed":[{"kid":"9f2c61ab","kind":"denied","operation":"kms:Decrypt","service":"awskms:///arn:aws:kms:eu-west-1:111122223333:key/1234abcd"}],` +
		`"host":"mcp-\u00e4","id":"000102030405060708090a0b0c0d0e0f","keys":[{"kid":"4c11d0e2","live_until":"2026-12-02T03:20:01.000Z","seals":9100000,"since":"2026-12-02T03:00:02.000Z"},` +
		`{"kid":"77aa0b1c","live_until":"","seals":0,"since":"2026-12-02T03:00:02.000Z"}],"keyset":"fleet","lineage":"5c1d7e1e-9e0b-4a55-8a3b-c0ffee15900d","loaded":"2026-12-02T03:00:01.000Z",` +
		`"now":"2026-12-02T03:10:00.250Z","opened":[{"kid":"4c11d0e2","service":"awskms:///arn:aws:kms:eu-west-1:111122223333:key/1234abcd","version":""},` +
		`{"kid":"auth","service":"gcpkms://projects/p","version":"3"}],"primary":"4c11d0e2","ready":true,"reason":"9f2c61ab <is> missing & \"late\"","revision":7,` +
		`"services":["awskms:///arn:aws:kms:eu-west-1:111122223333:key/1234abcd"],"software":"0.1.0","started":"2026-12-02T03:00:00.000Z","stopped":false,` +
		`"tag":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","ttl":"10m0s","v":1,"verifies":["4c11d0e2","9f2c61ab"]}`
	goldenMAC = "IXF+pbAhUyLaGT2gdOApv/S+AHemwagaR5uIawE0BXg="
	golden    = `{"report":` + goldenReport + `,"mac":"` + goldenMAC + `"}`
)

func goldenValue() fleet.Report {
	at := func(text string) time.Time {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			panic(err)
		}
		return t
	}
	return fleet.Report{
		ID: "000102030405060708090a0b0c0d0e0f", Host: "mcp-ä", Started: at("2026-12-02T03:00:00Z"), Now: at("2026-12-02T03:10:00.25Z"), Every: 15 * time.Second,
		Keyset: "fleet", Lineage: lineage, Revision: 7, Tag: "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", Loaded: at("2026-12-02T03:00:01Z"),
		Primary: "4c11d0e2", Verifies: []string{"4c11d0e2", "9f2c61ab"}, TTL: 10 * time.Minute, Ready: true, Reason: `9f2c61ab <is> missing & "late"`,
		Services: []string{awsKey},
		Opened:   []fleet.Opened{{KID: "4c11d0e2", Service: awsKey}, {KID: "auth", Service: "gcpkms://projects/p", Version: "3"}},
		Failed:   []fleet.Failure{{KID: "9f2c61ab", Service: awsKey, Kind: "denied", Operation: "kms:Decrypt"}},
		Keys: []fleet.KeyUse{
			{KID: "4c11d0e2", Seals: 9_100_000, Since: at("2026-12-02T03:00:02Z"), LiveUntil: at("2026-12-02T03:20:01Z")},
			{KID: "77aa0b1c", Since: at("2026-12-02T03:00:02Z")},
		},
		Software: "0.1.0",
	}
}

func TestGolden(t *testing.T) {
	key := mustKey(t, 0)
	if got := sign(t, key, goldenValue()); string(got) != golden {
		t.Errorf("Sign gives\n%s\nwant\n%s", got, golden)
	}
	// Neither space nor spelling nor order is under the MAC.
	var spaced bytes.Buffer
	if err := json.Indent(&spaced, []byte(golden), "\t", "  "); err != nil {
		t.Fatal(err)
	}
	respelled := strings.NewReplacer(`\u00e4`, "ä", `"ready":true,`, "", `"v":1,`, `"v":1,"ready":true,`, "kms:Decrypt", `kms\u003aDecrypt`).Replace(golden)
	for _, signed := range []string{golden, spaced.String(), respelled} {
		if got, err := key.Verify([]byte(signed)); err != nil || !reflect.DeepEqual(got, goldenValue()) {
			t.Errorf("Verify of %.80q gives %+v, %v", signed, got, err)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	key := mustKey(t, 0)
	bare := fleet.Report{
		ID: id(1), Started: noon, Now: noon, Every: time.Millisecond, Stopped: true, Keyset: "f", Lineage: lineage,
		Tag: base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xff}, 32)), TTL: time.Nanosecond,
	}
	for name, r := range map[string]fleet.Report{"full": report(1), "bare": bare} {
		if got, err := key.Verify(sign(t, key, r)); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%s: %+v, %v\nwant %+v", name, got, err, r)
		}
	}
}

func TestTimesAreRounded(t *testing.T) {
	key := mustKey(t, 0)
	r := report(1)
	zone := time.FixedZone("", 3600)
	for _, at := range []*time.Time{&r.Started, &r.Now, &r.Loaded, &r.Keys[0].Since, &r.Keys[0].LiveUntil} {
		*at = at.In(zone).Add(time.Microsecond)
	}
	got, err := key.Verify(sign(t, key, r))
	if err != nil {
		t.Fatal(err)
	}
	if got.Now != noon {
		t.Errorf("now is %v, want %v: a proof is never newer than it is", got.Now, noon)
	}
	for name, at := range map[string][2]time.Time{
		"started": {got.Started, r.Started}, "loaded": {got.Loaded, r.Loaded}, "since": {got.Keys[0].Since, r.Keys[0].Since}, "live_until": {got.Keys[0].LiveUntil, r.Keys[0].LiveUntil},
	} {
		if want := at[1].UTC().Truncate(time.Millisecond).Add(time.Millisecond); at[0] != want {
			t.Errorf("%s is %v, want %v", name, at[0], want)
		}
	}
}

func TestFreeTextIsMadePrintable(t *testing.T) {
	key := mustKey(t, 0)
	r := report(1)
	r.Host = "a\x1b[31m\xff\r\nb\u202e\u2028c"
	r.Reason = strings.Repeat("é", 150) // 300 bytes
	r.Software = strings.Repeat("x", 199) + "é"
	r.Failed[0].Kind, r.Failed[0].Operation = "de\x00nied", strings.Repeat("o", 201)
	got, err := key.Verify(sign(t, key, r))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range [][2]string{
		{got.Host, "a [31m   b  c"}, {got.Reason, strings.Repeat("é", 100)}, {got.Software, strings.Repeat("x", 199)},
		{got.Failed[0].Kind, "de nied"}, {got.Failed[0].Operation, strings.Repeat("o", 200)},
	} {
		if text[0] != text[1] {
			t.Errorf("%q, want %q", text[0], text[1])
		}
	}
	if r.Failed[0].Kind != "de\x00nied" {
		t.Error("Sign has changed the caller's report")
	}
}

// What Sign refuses no Verify accepts, so each is tried with a document that Sign did
// not make.
var wrong = map[string]struct {
	member string
	change func(*fleet.Report)
}{
	"no id":                {"id", func(r *fleet.Report) { r.ID = "" }},
	"id in upper case":     {"id", func(r *fleet.Report) { r.ID = strings.Repeat("A", 32) }},
	"id with a line end":   {"id", func(r *fleet.Report) { r.ID += "\n" }},
	"no start":             {"started", func(r *fleet.Report) { r.Started = time.Time{} }},
	"no time":              {"now", func(r *fleet.Report) { r.Now = time.Time{} }},
	"time too late":        {"now", func(r *fleet.Report) { r.Now = noon.AddDate(8000, 0, 0) }},
	"no interval":          {"every", func(r *fleet.Report) { r.Every = 0 }},
	"negative interval":    {"every", func(r *fleet.Report) { r.Every = -time.Second }},
	"interval of a month":  {"every", func(r *fleet.Report) { r.Every = 30 * 24 * time.Hour }},
	"keyset with a space":  {"keyset", func(r *fleet.Report) { r.Keyset = "a b" }},
	"no keyset":            {"keyset", func(r *fleet.Report) { r.Keyset = "" }},
	"lineage v1":           {"lineage", func(r *fleet.Report) { r.Lineage = "5c1d7e1e-9e0b-1a55-8a3b-c0ffee15900d" }},
	"negative revision":    {"revision", func(r *fleet.Report) { r.Revision = -1 }},
	"revision 2^53":        {"revision", func(r *fleet.Report) { r.Revision = 1 << 53 }},
	"no tag":               {"tag", func(r *fleet.Report) { r.Tag = "" }},
	"tag not canonical":    {"tag", func(r *fleet.Report) { r.Tag = strings.Repeat("A", 42) + "B=" }},
	"loaded too early":     {"loaded", func(r *fleet.Report) { r.Loaded = noon.AddDate(-100, 0, 0) }},
	"primary not verified": {"primary", func(r *fleet.Report) { r.Primary = "77aa0b1c" }},
	"kid too short":        {"verifies", func(r *fleet.Report) { r.Verifies = append(r.Verifies, "77aa0b1") }},
	"auth as a token key":  {"verifies", func(r *fleet.Report) { r.Verifies = append(r.Verifies, fleet.AuthKey) }},
	"no ttl":               {"ttl", func(r *fleet.Report) { r.TTL = 0 }},
	"service too long":     {"services", func(r *fleet.Report) { r.Services[0] = strings.Repeat("s", 2049) }},
	"service with an end":  {"services", func(r *fleet.Report) { r.Services[0] += "\n" }},
	"no service":           {"services", func(r *fleet.Report) { r.Services[0] = "" }},
	"opened nothing":       {"opened.kid", func(r *fleet.Report) { r.Opened[0].KID = "" }},
	"opened with control":  {"opened.service", func(r *fleet.Report) { r.Opened[0].Service = "\x00" }},
	"opened version":       {"opened.version", func(r *fleet.Report) { r.Opened[0].Version = "\u009b" }},
	"failed nothing":       {"failed.kid", func(r *fleet.Report) { r.Failed[0].KID = "-" }},
	"failed with control":  {"failed.service", func(r *fleet.Report) { r.Failed[0].Service = "\x7f" }},
	"use of auth":          {"keys.kid", func(r *fleet.Report) { r.Keys[0].KID = fleet.AuthKey }},
	"fewer than no seals":  {"keys.seals", func(r *fleet.Report) { r.Keys[0].Seals = -1 }},
	"counted from never":   {"keys.since", func(r *fleet.Report) { r.Keys[0].Since = time.Time{} }},
	"live before 1970":     {"keys.live_until", func(r *fleet.Report) { r.Keys[0].LiveUntil = time.Unix(-1, 0) }},
}

func TestSignRefuses(t *testing.T) {
	key := mustKey(t, 0)
	for name, w := range wrong {
		r := report(1)
		w.change(&r)
		if signed, err := key.Sign(r); err == nil || !strings.Contains(err.Error(), " "+w.member+": ") {
			t.Errorf("%s: %.40q, %v; want an error that names %s", name, signed, err, w.member)
		}
	}
	r := report(1)
	for i := range 5000 {
		r.Opened = append(r.Opened, fleet.Opened{KID: fmt.Sprintf("%08x", i), Service: awsKey})
	}
	if _, err := key.Sign(r); err == nil || !strings.Contains(err.Error(), "262144 bytes") {
		t.Errorf("a report that is too long: %v", err)
	}
}

// forge signs what Sign would not.
func forge(t testing.TB, report []byte) []byte {
	t.Helper()
	var value any
	decoder := json.NewDecoder(bytes.NewReader(report))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	canonical, err := json.Marshal(value) // sorted, and the tests have nothing but ASCII
	if err != nil {
		t.Fatal(err)
	}
	derived, err := hkdf.Key(sha256.New, auth(0), nil, "echoseal/fleet/v1/report", 32)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, derived)
	mac.Write(canonical)
	return []byte(`{"report":` + string(report) + `,"mac":"` + base64.StdEncoding.EncodeToString(mac.Sum(nil)) + `"}`)
}

// members returns those of a report as it is signed.
func members(t testing.TB, r fleet.Report) map[string]json.RawMessage {
	t.Helper()
	var outer struct{ Report map[string]json.RawMessage }
	if err := json.Unmarshal(sign(t, mustKey(t, 0), r), &outer); err != nil {
		t.Fatal(err)
	}
	return outer.Report
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A document that is signed well is still read strictly.
func TestVerifyRefusesWhatIsSigned(t *testing.T) {
	key := mustKey(t, 0)
	if _, err := key.Verify(forge(t, marshal(t, members(t, report(1))))); err != nil {
		t.Fatalf("what the test signs is not accepted unchanged: %v", err)
	}
	for name := range members(t, report(1)) {
		m := members(t, report(1))
		delete(m, name)
		_, err := key.Verify(forge(t, marshal(t, m)))
		wantErr(t, "without "+name, err, fleet.ErrMalformed, name, "missing")
		for _, other := range []string{`null`, `[[]]`, `[null]`, `{}`, `9007199254740991`, `"\u0007 no such text"`} {
			m[name] = json.RawMessage(other)
			_, err := key.Verify(forge(t, marshal(t, m)))
			if name != "revision" || other[0] != '9' {
				wantErr(t, name+" "+other, err, fleet.ErrMalformed, name)
			}
		}
	}
	for member, text := range map[string]string{
		"v": `2`, "id": `"0001"`, "host": `"a\u001bb"`, "started": `"2026-12-02T12:00:00Z"`, "now": `"2026-12-02T12:00:00.0000Z"`, "every": `"15000ms"`,
		"loaded": `"0001-01-01T00:00:00.000Z"`, "primary": `"77aa0b1c"`, "verifies": `["4C11D0E2"]`, "ttl": `"600s"`, "reason": `"` + strings.Repeat("x", 201) + `"`,
		"tag": `"` + strings.Repeat("A", 42) + `B="`, "services": `["\u0001"]`, "opened": `[{"kid":"auth","service":"s"}]`, "failed": `[{"kid":"auth"}]`,
		"keys": `[{"kid":"4c11d0e2","seals":1,"since":"","live_until":""}]`, "stopped": `1`, "ready": `"true"`, "revision": `"7"`,
	} {
		m := members(t, report(1))
		m[member] = json.RawMessage(text)
		_, err := key.Verify(forge(t, marshal(t, m)))
		wantErr(t, member+" "+text, err, fleet.ErrMalformed, member)
	}
}

func TestUnknownMembersAreSignedAndIgnored(t *testing.T) {
	key := mustKey(t, 0)
	m := members(t, report(1))
	m["zone"] = json.RawMessage(`{"a":[null,true,1,"x"]}`)
	m["keys"] = json.RawMessage(`[{"kid":"4c11d0e2","seals":1,"since":"2026-12-02T12:00:00.000Z","live_until":"","more":1}]`)
	signed := forge(t, marshal(t, m))
	want := report(1)
	want.Keys = []fleet.KeyUse{{KID: "4c11d0e2", Seals: 1, Since: noon}}
	if got, err := key.Verify(signed); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, change := range [][2]string{{`"x"`, `"y"`}, {`"more":1`, `"more":2`}, {`"zone"`, `"zones"`}} {
		_, err := key.Verify(bytes.Replace(signed, []byte(change[0]), []byte(change[1]), 1))
		wantErr(t, change[1], err, fleet.ErrMAC)
	}
}

func TestVerifyRefusesWhatIsNoReport(t *testing.T) {
	key := mustKey(t, 0)
	body := strings.TrimSuffix(strings.TrimPrefix(golden, "{"), "}")
	for name, signed := range map[string]string{
		"nothing": "", "space": " \n", "null": "null", "array": "[" + golden + "]", "text": "\"report\"", "empty": "{}", "no mac": `{"report":` + goldenReport + `}`,
		"no report": `{"mac":"` + goldenMAC + `"}`, "two documents": golden + golden, "trailing": golden + "x", "byte order mark": "\ufeff" + golden,
		"a member outside":   "{" + body + `,"x":1}`,
		"two macs":           "{" + body + `,"mac":"` + goldenMAC + `"}`,
		"two reports":        "{" + body + `,"report":` + goldenReport + `}`,
		"a member twice":     strings.Replace(golden, `"v":1`, `"v":1,"v":1`, 1),
		"twice, escaped":     strings.Replace(golden, `"v":1`, `"v":1,"\u0076":1`, 1),
		"a fraction":         strings.Replace(golden, `"revision":7`, `"revision":7.0`, 1),
		"an exponent":        strings.Replace(golden, `"revision":7`, `"revision":7e0`, 1),
		"negative":           strings.Replace(golden, `"revision":7`, `"revision":-7`, 1),
		"2^53":               strings.Replace(golden, `"revision":7`, `"revision":9007199254740992`, 1),
		"a lone surrogate":   strings.Replace(golden, `mcp-\u00e4`, `mcp-\ud800`, 1),
		"not UTF-8":          strings.Replace(golden, `mcp-\u00e4`, "mcp-\xe4", 1),
		"mac is no base64":   strings.Replace(golden, goldenMAC, "-"+goldenMAC[1:], 1),
		"mac unpadded":       strings.Replace(golden, goldenMAC, strings.TrimSuffix(goldenMAC, "="), 1),
		"mac is null":        strings.Replace(golden, `"`+goldenMAC+`"`, "null", 1),
		"report is a string": `{"report":"x","mac":"` + goldenMAC + `"}`,
		"deep":               `{"report":` + strings.Repeat("[", 100_000),
		"10 MB":              `{"report":{"x":"` + strings.Repeat("x", 10<<20) + `"},"mac":"` + goldenMAC + `"}`,
		"one byte too long":  golden + strings.Repeat(" ", fleet.MaxBytes-len(golden)+1),
	} {
		r, err := key.Verify([]byte(signed))
		wantErr(t, name, err, fleet.ErrMalformed)
		if errors.Is(err, fleet.ErrMAC) || !reflect.DeepEqual(r, fleet.Report{}) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	if _, err := key.Verify([]byte(golden + strings.Repeat(" ", fleet.MaxBytes-len(golden)))); err != nil {
		t.Errorf("just not too long: %v", err)
	}
	for n := range len(golden) {
		if _, err := key.Verify([]byte(golden[:n])); !errors.Is(err, fleet.ErrMalformed) {
			t.Errorf("cut at byte %d: %v", n, err)
		}
	}
}

func TestVerifyRefusesWhatNobodySigned(t *testing.T) {
	key := mustKey(t, 0)
	changed := map[string]json.RawMessage{
		"v": json.RawMessage(`2`), "stopped": json.RawMessage(`true`), "ready": json.RawMessage(`false`), "revision": json.RawMessage(`8`),
		"verifies": json.RawMessage(`["4c11d0e2"]`), "services": json.RawMessage(`[]`), "opened": json.RawMessage(`[]`), "failed": json.RawMessage(`[]`), "keys": json.RawMessage(`[]`),
	}
	signed := string(sign(t, key, report(1)))
	_, tail, _ := strings.Cut(signed, `,"mac"`)
	for name, value := range members(t, report(1)) {
		other, ok := changed[name]
		if !ok {
			other = json.RawMessage(`"other"`)
		}
		text := `"` + name + `":`
		at := strings.LastIndex(signed, text+string(value))
		forged := signed[:at] + text + string(other) + signed[at+len(text)+len(value):]
		_, err := key.Verify([]byte(forged))
		wantErr(t, name+" changed", err, fleet.ErrMAC)
		m := members(t, report(1))
		delete(m, name)
		_, err = key.Verify([]byte(`{"report":` + string(marshal(t, m)) + `,"mac"` + tail))
		wantErr(t, name+" left out", err, fleet.ErrMAC)
	}
	mac, _ := base64.StdEncoding.DecodeString(goldenMAC)
	for bit := range 8 * len(mac) {
		flipped := slices.Clone(mac)
		flipped[bit/8] ^= 1 << (bit % 8)
		_, err := key.Verify([]byte(strings.Replace(golden, goldenMAC, base64.StdEncoding.EncodeToString(flipped), 1)))
		wantErr(t, fmt.Sprint("bit ", bit), err, fleet.ErrMAC)
	}
	for _, short := range [][]byte{nil, mac[:16], append(slices.Clone(mac), 0)} {
		_, err := key.Verify([]byte(strings.Replace(golden, goldenMAC, base64.StdEncoding.EncodeToString(short), 1)))
		wantErr(t, fmt.Sprint(len(short), " bytes"), err, fleet.ErrMAC)
	}
	_, err := mustKey(t, 1).Verify([]byte(golden))
	wantErr(t, "another keyset's key", err, fleet.ErrMAC)
}

func TestKeyErrors(t *testing.T) {
	for _, size := range []int{0, 16, 31, 33, 64} {
		_, err := fleet.NewKey(make([]byte, size))
		wantErr(t, fmt.Sprint(size, " bytes"), err, fleet.ErrConfig, "32 bytes")
	}
	for _, key := range []*fleet.Key{nil, {}} {
		_, err := key.Sign(report(1))
		wantErr(t, "Sign", err, fleet.ErrConfig, "NewKey")
		_, err = key.Verify([]byte(golden))
		wantErr(t, "Verify", err, fleet.ErrConfig, "NewKey")
	}
}

// A key keeps nothing of what it was made from, and shows nothing of what it has.
func TestKeyIsPrivate(t *testing.T) {
	secret := auth(0)
	key, err := fleet.NewKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	clear(secret)
	if _, err := key.Verify([]byte(golden)); err != nil {
		t.Errorf("the key changes with the authentication key: %v", err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T%v"} {
		for _, v := range []any{key, *key, struct{ K *fleet.Key }{key}, []fleet.Key{*key}} {
			text := fmt.Sprintf(verb, v)
			derived, _ := hkdf.Key(sha256.New, auth(0), nil, "echoseal/fleet/v1/report", 32)
			for _, shown := range []string{string(derived), hex.EncodeToString(derived), fmt.Sprint(derived), strings.Trim(fmt.Sprint(derived), "[]")} {
				if strings.Contains(text, shown) {
					t.Errorf("%s of %T shows the key", verb, v)
				}
			}
		}
	}
	if text := marshal(t, key); string(text) != "{}" {
		t.Errorf("as JSON the key is %s", text)
	}
}

// Errors say where, and nothing of what an attacker has written.
func TestErrorsShowNoContent(t *testing.T) {
	key := mustKey(t, 0)
	const canary = "canary7f3a"
	for _, name := range slices.Sorted(maps.Keys(members(t, report(1)))) {
		m := members(t, report(1))
		m[name] = json.RawMessage(`"` + canary + `"`)
		m[canary] = json.RawMessage(`1`)
		for _, signed := range [][]byte{
			forge(t, marshal(t, m)),
			[]byte(`{"report":` + string(marshal(t, m)) + `,"mac":"` + goldenMAC + `"}`),
			[]byte(`{"` + canary + `":1,"report":{},"mac":"` + canary + `"}`),
			[]byte(`{"` + canary + `":` + canary),
		} {
			if _, err := key.Verify(signed); err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
