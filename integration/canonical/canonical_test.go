// Package canonical compares the digest of a request's arguments with that of CPython,
// whose json module the Python SDK's digest is made of, on generated documents.
package canonical

import (
	"bufio"
	"encoding/base64"
	"flag"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/integration/peers"
)

var (
	seed  = flag.Uint64("seed", rand.Uint64(), "the seed of the generated documents")
	count = flag.Int("documents", 30_000, "how many documents to generate")
)

// Both digests are the same, or both refuse. Where Go is stricter than CPython, it
// refuses, for one of four reasons that CPython's side names.
func TestDigestAgainstCPython(t *testing.T) {
	peers.Dir(t) // before the documents are made
	t.Logf("the seed is %d; -seed=%[1]d repeats the run", *seed)
	g := generator{Rand: rand.New(rand.NewPCG(*seed, 0))}
	documents := make([][]byte, *count)
	for i := range documents {
		documents[i] = g.document()
	}

	same, refused, wrong := 0, 0, 0
	stricter := map[string]int{"bom": 0, "encoding": 0, "depth": 0, "constant": 0}
	for i, theirs := range digests(t, documents) {
		ours, err := binding.Digest(documents[i])
		_, beyond := stricter[theirs.beyond]
		switch {
		case err == nil && !beyond && ours == theirs.digest:
			same++
		case err != nil && theirs.digest == "error":
			refused++
		case err != nil && beyond:
			stricter[theirs.beyond]++
		default:
			if wrong++; wrong <= 10 {
				t.Errorf("document %d: %q, %v; CPython: %+v\n%q", i, ours, err, theirs, documents[i])
			}
		}
		if err != nil && ours != "" {
			t.Errorf("document %d: a digest beside an error", i)
		}
	}
	t.Logf("%d digests are the same, %d documents are refused by both, by Go alone: %v; %d disagree", same, refused, stricter, wrong)

	// A generator that went astray would compare nothing.
	if same < *count/2 || refused < *count/20 {
		t.Error("too few documents of one kind")
	}
	for reason, n := range stricter {
		if n == 0 {
			t.Errorf("no document is beyond for the reason %q", reason)
		}
	}
}

// An answer is what CPython makes of a document.
type answer struct {
	digest string // "error" if it is none
	beyond string // "-", or what makes it more than Go takes
}

// digests sends the documents through testdata/digest.py.
func digests(t *testing.T, documents [][]byte) []answer {
	t.Helper()
	cmd := peers.Python(t.Context(), t, "testdata/digest.py")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log := peers.Start(t, cmd)

	sent := make(chan error, 1)
	go func() {
		w := bufio.NewWriter(stdin)
		for _, document := range documents {
			_, _ = w.WriteString(base64.StdEncoding.EncodeToString(document) + "\n") // Flush reports an error
		}
		err := w.Flush()
		_ = stdin.Close()
		sent <- err
	}()
	answers := make([]answer, 0, len(documents))
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) != 2 {
			t.Fatalf("CPython answers %q", lines.Text())
		}
		answers = append(answers, answer{words[0], words[1]})
	}
	if err := <-sent; err != nil || len(answers) != len(documents) {
		t.Fatalf("CPython answers %d of %d documents: %v, %v\n%s", len(answers), len(documents), err, lines.Err(), log)
	}
	return answers
}
