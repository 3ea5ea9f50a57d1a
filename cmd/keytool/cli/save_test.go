package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/echoseal/echoseal/codec/localkek"
	"github.com/echoseal/echoseal/keyset"
)

// A remote store has versions of its own, and is behind what can lose answers and carry out
// late what was sent.
type remote struct {
	mu      sync.Mutex
	doc     []byte
	version int
	late    func() // carries out the save that was given up; nil: none was

	saves int
	fault func(n int) error // of the nth save, which is then given up
}

func (s *remote) String() string { return "remote://store" }

func (s *remote) Load(context.Context) ([]byte, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version == 0 {
		return nil, "", keyset.ErrNotExist
	}
	return bytes.Clone(s.doc), strconv.Itoa(s.version), nil
}

func (s *remote) Save(_ context.Context, doc []byte, version string) (string, error) {
	s.saves++
	if s.fault != nil {
		if err := s.fault(s.saves); err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.late == nil {
				s.late = func() { _, _ = s.put(doc, version) }
			}
			return "", err
		}
	}
	return s.put(doc, version)
}

// arrive is when what was given up does.
func (s *remote) arrive() {
	s.mu.Lock()
	late := s.late
	s.mu.Unlock()
	late()
}

func (s *remote) put(doc []byte, version string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if present := strconv.Itoa(s.version); version != present && (version != "" || s.version > 0) {
		return "", keyset.ErrConflict
	}
	s.doc = bytes.Clone(doc)
	s.version++
	return strconv.Itoa(s.version), nil
}

func (s *remote) keyset(t *testing.T) *keyset.Document {
	t.Helper()
	text, _, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, text)
}

// remotely runs a test with a keyset that lives by time, in a remote store.
func remotely(t *testing.T, test func(t *testing.T, s *remote, run func(want Exit, line string) string)) {
	kek := filepath.Join(t.TempDir(), "kek.key")
	env := map[string]string{"ECHOSEAL_STORE": "remote://store", "ECHOSEAL_NAME": "fleet", "ECHOSEAL_KEY_SERVICES": "localkek://" + kek}
	synctest.Test(t, func(t *testing.T) {
		s := &remote{}
		stores := keyset.SourceOpeners{keyset.NewSourceOpener(func(context.Context, string) (*remote, error) { return s, nil }, "remote")}
		run := func(want Exit, line string) string {
			t.Helper()
			var out bytes.Buffer
			system := System{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Getenv: func(name string) string { return env[name] }, Stores: stores}
			if code := Exit(Run(t.Context(), system, strings.Fields(line)...)); code != want {
				t.Errorf("%s: %d, want %d\n%s", line, code, want, out.String())
			}
			return out.String()
		}
		run(done, "kek new "+kek)
		run(done, "init --proof settle --settle 4s --max-stale 1m --max-skew 1s")
		s.saves = 0
		test(t, s, run)
	})
}

func says(t *testing.T, out string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(out, w) {
			t.Errorf("it does not say %q:\n%s", w, out)
		}
	}
}

// What was given up and is said to have changed nothing changes nothing later.
func TestSaveArrivesLate(t *testing.T) {
	reset := errors.New("connection reset")
	// first fails the first save, and runs before the second.
	first := func(then func(s *remote)) func(*remote, int) error {
		return func(s *remote, n int) error {
			switch n {
			case 1:
				return reset
			case 2:
				then(s)
			}
			return nil
		}
	}
	const unchanged, revised = 1, 2
	for _, c := range []struct {
		name     string
		fault    func(s *remote, n int) error
		want     Exit
		says     string
		revision int64 // when all has arrived
		saves    int
	}{
		{"when the command has ended", first(func(*remote) {}), failed, "connection reset; nothing was changed", unchanged, 2},
		{"while the document that is there is saved again", first(func(s *remote) { s.arrive() }), done, "but the change is there", revised, 2},
		{"and that is saved without an answer", func(s *remote, n int) error {
			if n == 2 {
				s.again(nil)
			}
			return reset
		}, failed, "connection reset; nothing was changed", unchanged, 2},
		{"behind another writer", first(func(s *remote) { s.again([]byte("\n")) }), conflict, "another writer was first: nothing was changed; run the command again", unchanged, 2},
		{"and nobody can do anything about it", func(*remote, int) error { return reset }, failed,
			"connection reset; the change may still arrive: look with keytool status before the next step, and if it is there, wait 4s before that", revised, 4},
		{"never, for it was not sent", func(s *remote, _ int) error {
			s.late = func() {}
			return keyset.ErrConfig
		}, failed, "invalid configuration; nothing was changed", unchanged, 1},
		{"never, for it was refused", func(s *remote, _ int) error {
			s.late = func() {}
			return keyset.Denied
		}, failed, "denied; nothing was changed", unchanged, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			remotely(t, func(t *testing.T, s *remote, run func(Exit, string) string) {
				s.fault = func(n int) error { return c.fault(s, n) }
				says(t, run(c.want, "rotate --replace "+s.keyset(t).Primary().KID), c.says)
				time.Sleep(12 * time.Second)
				s.arrive()
				if d := s.keyset(t); d.Revision != c.revision || s.saves != c.saves {
					t.Errorf("revision %d after %d saves, want %d after %d", d.Revision, s.saves, c.revision, c.saves)
				}
			})
		})
	}
}

// What arrives before the look at the store, and is changed further by another writer, is
// there: nobody is told that nothing was changed, and its time is as late as it came.
func TestSaveArrivesLateBelowAnother(t *testing.T) {
	for _, c := range []struct {
		name string
		late time.Duration
		says []string
		all  int64 // revisions
	}{
		{"in time", time.Second, []string{"but the change is there, and another one after it: the keyset is at revision 3", "DONE  staged "}, 3},
		{"and late", 12 * time.Second, []string{"but the change is there, and another one after it: the keyset is at revision 3", "the change was dated anew, as revision 4", "DONE  staged "}, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			remotely(t, func(t *testing.T, s *remote, run func(Exit, string) string) {
				var arrived time.Time
				s.fault = func(n int) error {
					switch n {
					case 1:
						return errors.New("connection reset")
					case 2: // the document that is there is saved again
						time.Sleep(c.late)
						s.arrive()
						arrived = time.Now()
						run(done, "policy --max-age 1440h --force --yes --reason test")
					}
					return nil
				}
				says(t, run(done, "rotate --replace "+s.keyset(t).Primary().KID), c.says...)
				d := s.keyset(t)
				staged := slices.IndexFunc(d.Keys, func(k keyset.Key) bool { return k.State == keyset.Staged })
				if staged < 0 || d.Revision != c.all || c.late > 4*time.Second && d.Keys[staged].Staged.Before(arrived) {
					t.Errorf("it arrived %v; %d keys at revision %d", arrived, len(d.Keys), d.Revision)
				}
			})
		})
	}
}

// again is what another writer does.
func (s *remote) again(more []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doc = append(s.doc, more...)
	s.version++
}

// That nothing was changed is said where the history goes back to before the change, and is
// not known otherwise.
func TestSaveBelowAnother(t *testing.T) {
	dir := t.TempDir()
	kek, store := "localkek://"+filepath.Join(dir, "kek.key"), filepath.Join(dir, "keyset.json")
	env := map[string]string{"ECHOSEAL_STORE": store, "ECHOSEAL_NAME": "fleet", "ECHOSEAL_KEY_SERVICES": kek}
	for _, line := range []string{"kek new " + strings.TrimPrefix(kek, "localkek://"), "init"} {
		var out bytes.Buffer
		system := System{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Getenv: func(name string) string { return env[name] }}
		if code := Exit(Run(t.Context(), system, strings.Fields(line)...)); code != done {
			t.Fatalf("%s: %d\n%s", line, code, out.String())
		}
	}
	services, err := keyset.Openers{localkek.Opener()}.Open(t.Context(), kek)
	if err != nil {
		t.Fatal(err)
	}
	doc := keysetIn(t, store)
	secret, err := services.OpenAuth(t.Context(), doc)
	if err != nil {
		t.Fatal(err)
	}
	auth, err := keyset.NewAuthKey(doc.Auth.ID, secret)
	if err != nil {
		t.Fatal(err)
	}
	next := doc.Next()
	if err := next.Record(keyset.Note{At: doc.History[0].At.Add(time.Minute), Actor: "op@bastion"}, "ours"); err != nil {
		t.Fatal(err)
	}
	event := func(after time.Duration) keyset.Event {
		return keyset.Event{At: doc.History[0].At.Add(after), Actor: "op@elsewhere", Action: "theirs"}
	}
	for _, c := range []struct {
		name    string
		history []keyset.Event
		known   bool
	}{
		{"all of it", []keyset.Event{doc.History[0], event(time.Hour)}, true},
		{"from behind the change", []keyset.Event{event(time.Hour)}, false},
		{"none", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			theirs := doc.Next()
			theirs.History = c.history
			text, err := auth.Encode(theirs)
			if err != nil {
				t.Fatal(err)
			}
			err = (&opened{app: &app{}, auth: auth}).afterAnother(next, text, "2", errors.New("connection reset"))
			var late *lateError
			if !errors.Is(err, keyset.ErrConflict) || errors.As(err, &late) == c.known || strings.Contains(err.Error(), "nothing was changed") != c.known {
				t.Errorf("%v", err)
			}
		})
	}
}

// A run that waits on takes what arrives late for its own, and counts from then on, be it
// that another writer has come after it.
func TestSaveArrivesLateInAWait(t *testing.T) {
	for _, c := range []struct {
		name  string
		after string // what another writer does then
		all   int64  // revisions
	}{
		{name: "alone", all: 4},
		{name: "and below another", after: "policy --max-age 1440h --force --yes --reason test", all: 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			remotely(t, func(t *testing.T, s *remote, run func(Exit, string) string) {
				var arrived time.Time
				s.fault = func(n int) error {
					switch {
					case n == 1:
						return nil
					case arrived.IsZero():
						arrived = time.Now().Add(12 * time.Second)
						time.AfterFunc(12*time.Second, func() {
							s.arrive()
							if c.after != "" {
								run(done, c.after)
							}
						})
					case !time.Now().Before(arrived):
						return nil
					}
					return errors.New("connection reset")
				}
				old := s.keyset(t).Primary().KID
				says(t, run(pending, "rotate --wait --timeout 1m50s --replace "+old), "trying again: ", "the change may still arrive", fmt.Sprint("the change was dated anew, as revision ", c.all))
				d := s.keyset(t)
				if p := d.Primary(); p.KID == old || arrived.IsZero() || p.Promoted.Before(arrived) || d.Revision != c.all {
					t.Errorf("it arrived %v; revision %d; %s was promoted %v", arrived, d.Revision, p.KID, p.Promoted)
				}
			})
		})
	}
}

// What comes after what a run has read or written goes on from there.
func TestStoreGoesBack(t *testing.T) {
	swap := func(s *remote, doc []byte) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.doc = doc
		s.version++
	}
	for _, c := range []struct {
		name string
		put  func(t *testing.T, s *remote, first, staged []byte, run func(Exit, string) string)
		want Exit
		says []string
		keys int
	}{
		{"to an older revision, for a while", func(_ *testing.T, s *remote, first, staged []byte, _ func(Exit, string) string) {
			swap(s, first)
			time.AfterFunc(7*time.Second, func() { swap(s, staged) })
		}, pending, []string{"trying again: remote://store gives revision 1 again after 2: ", "WAITING  promotion of "}, 2},
		{"to an older revision, for good", func(_ *testing.T, s *remote, first, _ []byte, _ func(Exit, string) string) {
			swap(s, first)
		}, failed, []string{"are over: remote://store gives revision 1 again after 2: a replica that is behind comes up by itself; if an older copy was put there, put the newest back"}, 1},
		{"and on another way", func(t *testing.T, s *remote, first, _ []byte, run func(Exit, string) string) {
			swap(s, first)
			run(done, "rotate --replace "+s.keyset(t).Primary().KID)
		}, failed, []string{"are over: remote://store gives another revision 2 than before: "}, 2},
		{"to before the beginning", func(_ *testing.T, _ *remote, _, _ []byte, run func(Exit, string) string) {
			run(done, "init --replace --yes --reason lost")
		}, failed, []string{"\nkeytool: another keyset has taken the place of the one that this run is about: at remote://store the lineage of fleet is "}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			remotely(t, func(t *testing.T, s *remote, run func(Exit, string) string) {
				first, _, _ := s.Load(t.Context())
				var staged []byte
				time.AfterFunc(time.Second, func() {
					staged, _, _ = s.Load(t.Context())
					c.put(t, s, first, staged, run)
				})
				says(t, run(c.want, "rotate --wait --timeout 1m --replace "+s.keyset(t).Primary().KID), c.says...)
				if d := s.keyset(t); len(d.Keys) != c.keys { // no second key was staged
					t.Errorf("%d keys", len(d.Keys))
				}
			})
		})
	}
}
