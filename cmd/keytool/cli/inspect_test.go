package cli_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/cmd/keytool/cli"
	"github.com/echoseal/echoseal/cmd/keytool/internal/inspect"
)

const vectors = "../../../testdata/vectors/"

// A pyText is a string that may hold lone surrogates, as the vectors have them.
type pyText string

func (t *pyText) UnmarshalJSON(raw []byte) error {
	var decoded string
	if err := json.Unmarshal(raw, &decoded); err != nil {
		return err
	}
	*t = pyText(inspect.Text(decoded, raw))
	return nil
}

type pySecret struct{ Hex, Text string }

func (s pySecret) bytes(t *testing.T) []byte {
	t.Helper()
	if s.Hex == "" {
		return []byte(s.Text)
	}
	raw, err := hex.DecodeString(s.Hex)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

type pyRound struct {
	Name   string
	Strict bool
	Policy struct {
		Ring                []int
		Audience, Principal *pyText
	}
	Method, Params, Token, Reason string
	Now                           float64
}

func read[T any](t *testing.T, file string) (v T) {
	t.Helper()
	text, err := os.ReadFile(vectors + file)
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// codes are the reasons of the Python SDK, as ours are called.
var codes = map[string]string{"unknown key": "unknown_key", "minted in the future": "future", "request binding": "request", "principal drift": "principal_drift"}

// Real tokens of the Python SDK, captured in whole requests, opened with secret files: the
// verdict is Python's.
func TestInspectExplainsPythonsTokens(t *testing.T) {
	secrets := read[struct{ Secrets []pySecret }](t, "tokens.json").Secrets
	rounds := read[struct{ Verify []pyRound }](t, "claims.json").Verify
	folder := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for i, r := range rounds {
		t.Run(strconv.Itoa(i)+" "+r.Name, func(t *testing.T) {
			args := []string{"inspect", "-o", "json", write("request.json", captured(t, r))}
			for n, index := range r.Policy.Ring {
				args = append(args, "--secret-file", write("secret"+strconv.Itoa(n), secrets[index].bytes(t)))
			}
			whole, part := math.Modf(r.Now)
			args = append(args, "--at", time.Unix(int64(whole), int64(part*1e9)).UTC().Format(time.RFC3339Nano))
			audience := ""
			if r.Policy.Audience != nil {
				audience = string(*r.Policy.Audience)
			}
			args = append(args, "--audience", audience)
			if r.Policy.Principal != nil {
				args = append(args, "--principal-file", write("principal", []byte(*r.Policy.Principal)))
			}
			code, report, log := run(t, cli.System{}, args...)
			want, wantCode := r.Reason, 4
			if mapped, ok := codes[want]; ok {
				want = mapped
			}
			if want == "" {
				wantCode = 0
			}
			got := report.Reason
			// Without a principal file the principal is not compared: a tool cannot know that
			// there is none.
			if r.Policy.Principal == nil && want == "principal_drift" {
				want, wantCode = "", 0
			}
			if r.Strict && got != "" || strings.HasSuffix(report.request(), stricter) {
				return
			}
			if got != want || code != wantCode {
				t.Errorf("exit %d, reason %q, Python says %q; %s", code, got, r.Reason, log)
			}
		})
	}
}

// stricter is what we refuse in arguments and Python does not.
const stricter = "an object has two members of the same name, or of names that differ in letter case only"

// request returns what the check of the request says.
func (r inspected) request() string {
	for _, c := range r.Checks {
		if c.Name == "request" {
			return c.Detail
		}
	}
	return "none"
}

// captured returns the request of a round as a proxy would have captured it.
func captured(t *testing.T, r pyRound) []byte {
	t.Helper()
	token, err := json.Marshal(r.Token)
	if err != nil {
		t.Fatal(err)
	}
	params := strings.TrimSpace(r.Params)
	comma := ","
	if strings.TrimSpace(strings.TrimPrefix(params, "{")) == "}" {
		comma = ""
	}
	return []byte(`{"jsonrpc":"2.0","id":7,"method":"` + r.Method + `","params":` + strings.TrimSuffix(params, "}") + comma + `"requestState":` + string(token) + "}}")
}

type inspected struct {
	Verdict, Reason, KID, Note, Format string
	State                              *string
	Tokens                             []json.RawMessage
	Checks                             []struct{ Name, Detail string }
	More                               int `json:"more_tokens"`
	Error                              *struct {
		Exit    int
		Message string
	}
}

// run runs keytool in this process and reads its document.
func run(t *testing.T, s cli.System, args ...string) (code int, report inspected, log string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if s.Stdin == nil {
		s.Stdin = strings.NewReader("")
	}
	s.Stdout, s.Stderr = &stdout, &stderr
	if s.Getenv == nil {
		s.Getenv = func(string) string { return "" }
	}
	code = cli.Run(t.Context(), s, args...)
	if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
		t.Fatalf("%q prints no document: %v\n%.500s", args, err, stdout.Bytes())
	}
	return code, report, stderr.String()
}

// random returns bytes that are the same in every run.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return string(b)
}

// A text for people is short, whatever somebody has put into a request.
func TestInspectIsShort(t *testing.T) {
	long := strings.Repeat("\u202eA\x1b", 100_000)
	name, err := json.Marshal(long)
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	s := cli.System{
		Stdin:  strings.NewReader(`{"method":"tools/call","params":{"name":` + string(name) + `,"requestState":"plain"}}`),
		Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return "" },
	}
	if code := cli.Run(t.Context(), s, "inspect", "-v", "--audience", long); code != 4 || stdout.Len()+stderr.Len() > 2000 || strings.ContainsAny(stdout.String(), "\x1b\u202e") {
		t.Errorf("exit %d, %d bytes: %.2000q%.200s", code, stdout.Len(), &stdout, &stderr)
	}
}

// allocated returns how many bytes something allocates, whether they are kept or not, and
// in how many pieces. No other test may run meanwhile.
func allocated(do func()) (size, pieces uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, after.Mallocs - before.Mallocs
}

// What an inspection may allocate: so much whatever the input is, and for each byte of it
// so much more. That is several times what is in memory at once, since a buffer that grows
// is a new one each time. JSON of small pieces, and a text of escapes that is decoded twice,
// take more, as the cases say.
//
// The pieces stand for the time: each value that is read is at least one, and what reads
// values again for each value around or before them has far more of them than bytes. A
// search that allocates nothing is not among them.
const (
	fixedSize, sizeForAByte     = 512 << 10, 9
	fixedPieces, piecesForAByte = 2000, 1
)

// Hostile input costs work and memory that grow as the input does and no faster, and gets
// an answer.
func TestInspectHostileInput(t *testing.T) {
	const megabyte, megabytes10 = 1 << 20, 10 << 20
	token := "v1." + strings.Repeat("A", 100)
	many := `[` + strings.Repeat(`{"requestState":"`+token+`"},`, 1000) + `null]`
	nested := strings.Repeat(`{"method":"tools/call","params":{"name":"x","requestState":"`+token+`","arguments":`, 250) + `{}` + strings.Repeat(`}}`, 250)
	for _, c := range []struct {
		name, input string
		code        int
		more        uint64 // bytes for each byte of the input, beyond sizeForAByte
	}{
		{"too large", strings.Repeat("A", megabytes10+1), 1, 0},
		{"one token of 10 MB", "v1." + strings.Repeat("A", megabytes10-3), 4, 0},
		{"a string of 10 MB", `"` + strings.Repeat(`\u00e4`, (megabytes10-2)/6) + `"`, 4, 4},
		{"nothing", "", 1, 0},
		{"spaces", strings.Repeat(" ", megabytes10), 1, 0},
		{"deep arrays", strings.Repeat("[", megabytes10/2) + strings.Repeat("]", megabytes10/2), 1, 0},
		{"deep objects", strings.Repeat(`{"a":`, megabytes10/8), 1, 0},
		{"requests in requests", nested, 0, 20},
		{"a thousand tokens", many, 0, 6},
		{"ten megabytes of tokens", `[` + strings.Repeat(`{"requestState":"`+token+`"},`, 80_000) + `null]`, 0, 4},
		{"a megabyte of members", `{"requestState":"` + token + `",` + strings.Repeat(`"method":"tools/call","params":{"name":"x"},`, 20000) + `"x":1}`, 0, 22},
		{"zeros", strings.Repeat("\x00", 1<<20), 4, 0},
		{"not UTF-8", "{\"requestState\":\"\xff\xfe\"}", 4, 0},
		{"a number of a million digits", `{"method":"tools/call","params":{"name":"x","arguments":{"n":` + strings.Repeat("9", 1<<20) + `}}}`, 0, 0},
		{"random bytes", random(megabytes10), 1, 0},
		{"random bytes as a token", `{"requestState":"` + hex.EncodeToString([]byte(random(16<<10))) + `"}`, 4, 8},
		{"dots", strings.Repeat(".", megabyte), 4, 0},
		{"blank lines", "HTTP/1.1 200 OK" + strings.Repeat("\n", megabyte-100) + "x", 4, 0},
		{"a line a value", strings.Repeat("[]\n", megabyte/3), 1, 0},
		{"empty events", "data: []\n" + strings.Repeat("data:\n", megabyte/6-10), 1, 0},
		{"words that are nearly tokens", strings.Repeat("v1."+strings.Repeat("A", 15)+" ", megabyte/19), 1, 0},
		{"long plain states", "[" + strings.Repeat(`{"requestState":"`+strings.Repeat("a--", 21000)+`"},`, 10) + "1]", 4, 0},
		{"events", strings.Repeat("data: {\"requestState\":\""+token+"\"}\n\n", 1000), 0, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			var code int
			var report inspected
			var log string
			size, pieces := allocated(func() {
				code, report, log = run(t, cli.System{Stdin: strings.NewReader(c.input)}, "inspect", "-o", "json")
			})
			if most := fixedSize + (sizeForAByte+c.more)*uint64(len(c.input)); size > most && !isRace {
				t.Errorf("it allocates %d bytes for %d of input, and at most %d are enough", size, len(c.input), most)
			}
			if most := fixedPieces + piecesForAByte*uint64(len(c.input)); pieces > most && !isRace {
				t.Errorf("it allocates %d pieces for %d bytes of input, and at most %d are enough", pieces, len(c.input), most)
			}
			if code != c.code {
				t.Errorf("exit %d, want %d: %+v %.200s", code, c.code, report.Error, log)
			}
			if len(log) > 2000 {
				t.Errorf("it says %d bytes", len(log))
			}
			if n := len(report.Tokens); n > inspect.MaxTokens || report.More > 0 && n < inspect.MaxTokens {
				t.Errorf("%d tokens and %d more", n, report.More)
			}
		})
	}
}
