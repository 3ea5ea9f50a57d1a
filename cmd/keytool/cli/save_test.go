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
	before  string // what was there at first, for tests that put it back
	late    func() // carries out the save that was given up; nil: none was

	saves int
	fault func(n int) error // of the nth save, which is then given up
	hangs bool              // the next save does, until nobody waits for it, and is then given up
	twice func(n int)       // sends the nth save anew once it was carried out and this has run
	blind error             // of each load
	gone  int               // not 0: one load is answered, and none after it
}

func (s *remote) String() string { return "remote://store" }

func (s *remote) Load(ctx context.Context) ([]byte, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	if s.gone > 0 {
		if s.gone++; s.gone > 2 { // after one more load
			s.blind = errors.New("connection refused")
		}
	}
	if s.blind != nil {
		return nil, "", s.blind
	}
	if s.version == 0 {
		return nil, "", keyset.ErrNotExist
	}
	return bytes.Clone(s.doc), strconv.Itoa(s.version), nil
}

func (s *remote) Save(ctx context.Context, doc []byte, version string) (string, error) {
	s.saves++
	if s.hangs {
		s.hangs = false
		<-ctx.Done()
		s.late = func() { _, _ = s.put(doc, version) }
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
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
	if s.twice != nil {
		n := s.saves
		if _, err := s.put(doc, version); err != nil {
			return "", err
		}
		s.twice(n)
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
		{"while the document that is there is saved again", first(func(s *remote) { s.arrive() }), done, "but the change is there\n", revised, 2},
		{"and that is saved without an answer", func(s *remote, n int) error {
			if n == 2 {
				s.again(nil)
			}
			return reset
		}, failed, "connection reset; nothing was changed", unchanged, 2},
		{"behind another writer", first(func(s *remote) { s.again([]byte("\n")) }), conflict, "another writer was first: nothing was changed; run the command again", unchanged, 2},
		{"and nobody can do anything about it", func(*remote, int) error { return reset }, failed,
			"connection reset; the change may still arrive: look with keytool status before the next step, and if it is there, wait 1m4s before that", revised, 4},
		{"after an answer that does not tell", func(_ *remote, n int) error {
			return map[bool]error{true: keyset.Unavailable}[n == 1]
		}, failed, "unavailable; nothing was changed", unchanged, 2},
		{"after nobody waits for it any more", func(*remote, int) error { return nil }, failed,
			"context deadline exceeded (the store took longer than 2s, half of settle); nothing was changed", unchanged, 2},
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
				s.hangs = c.name == "after nobody waits for it any more"
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
		{"and late", 4 * time.Second, []string{"but the change is there, and another one after it: the keyset is at revision 3", "the change was dated anew, as revision 4", "DONE  staged "}, 4},
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
				if staged < 0 || d.Revision != c.all || c.late > 2*time.Second && d.Keys[staged].Staged.Before(arrived) {
					t.Errorf("it arrived %v; %d keys at revision %d", arrived, len(d.Keys), d.Revision)
				}
			})
		})
	}
}

// What is between here and a server may send a save anew that got no answer. That another
// writer was first is not said of the change itself.
func TestSaveIsSentTwice(t *testing.T) {
	for _, c := range []struct {
		name  string
		twice func(t *testing.T, s *remote, run func(Exit, string) string)
		want  Exit
		says  []string
		all   int64 // revisions
		keys  int
	}{
		{"and is there", func(*testing.T, *remote, func(Exit, string) string) {}, done,
			[]string{"the store was asked twice for one change", "it is there, and the keyset at revision 2", "DONE  staged "}, 2, 2},
		{"late", func(*testing.T, *remote, func(Exit, string) string) { time.Sleep(12 * time.Second) }, done,
			[]string{"the store was asked twice for one change", "the change was dated anew, as revision 3", "DONE  staged "}, 3, 2},
		{"below another", func(_ *testing.T, _ *remote, run func(Exit, string) string) {
			run(done, "policy --max-age 1440h --force --yes --reason test")
		}, done, []string{"it is there, and the keyset at revision 3", "DONE  staged "}, 3, 2},
		{"and taken out again", func(_ *testing.T, s *remote, _ func(Exit, string) string) {
			_, _ = s.put([]byte(s.before), "2")
		}, conflict, []string{"another writer was first: nothing was changed; run the command again"}, 1, 1},
		{"and the store is gone", func(_ *testing.T, s *remote, _ func(Exit, string) string) {
			s.blind = errors.New("connection refused")
		}, failed, []string{"whether the change was written before that is not known: look with keytool status before the next step, and if it is there, wait 1m4s before that"}, 2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			remotely(t, func(t *testing.T, s *remote, run func(Exit, string) string) {
				s.before = string(s.doc)
				s.twice = func(int) {
					s.twice = nil
					c.twice(t, s, run)
				}
				out := run(c.want, "rotate --replace "+s.keyset(t).Primary().KID)
				says(t, out, c.says...)
				s.blind = nil
				if d := s.keyset(t); d.Revision != c.all || len(d.Keys) != c.keys {
					t.Errorf("%d keys at revision %d\n%s", len(d.Keys), d.Revision, out)
				}
			})
		})
	}
}

// Where the time of a change cannot be corrected it is not said that nothing was changed, and
// the exit code is not that with which a command is run again at once.
func TestSaveIsNotDatedAnew(t *testing.T) {
	for _, c := range []struct {
		name string
		err  func(s *remote) error
		says string
	}{
		{"for the store refuses it", func(*remote) error { return keyset.Denied }, "denied"},
		{"for others write all the time", func(*remote) error { return keyset.ErrConflict }, "another writer was first"},
		{"for another was first, and the store is gone then", func(s *remote) error {
			s.gone = 1
			return keyset.ErrConflict
		}, "connection refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			remotely(t, func(t *testing.T, s *remote, run func(Exit, string) string) {
				s.fault = func(n int) error {
					if n == 1 {
						time.Sleep(12 * time.Second)
						return nil
					}
					return c.err(s)
				}
				out := run(failed, "rotate --replace "+s.keyset(t).Primary().KID)
				s.blind, s.gone = nil, 0
				says(t, out, "the change was saved, but later than settle allows", c.says+"; wait 1m4s before the next step")
				if strings.Contains(out, "nothing was changed") || s.keyset(t).Revision != 2 {
					t.Errorf("at revision %d it says\n%s", s.keyset(t).Revision, out)
				}
			})
		})
	}
}

// What is saved late is dated anew if others count from its time, and only then: by the share
// of settle that was in force, as often as it takes, and unless it is gone already.
func TestSaveTakesLong(t *testing.T) {
	slow := func(d time.Duration) func(*remote, int, func(Exit, string) string) error {
		return func(_ *remote, n int, _ func(Exit, string) string) error {
			if n == 1 {
				time.Sleep(d)
			}
			return nil
		}
	}
	for _, c := range []struct {
		name  string
		fault func(s *remote, n int, run func(Exit, string) string) error
		line  string
		want  Exit
		says  string
		all   int64 // revisions
	}{
		{"nobody counts from it", slow(12 * time.Second), "rewrap", done, "DONE  wrapped 2 keys ", 2},
		{"former values count from it", slow(12 * time.Second), "policy --settle 1s --force --yes --reason test", done, "dated anew, as revision 3", 3},
		{"within the share of the former settle", slow(time.Second), "policy --settle 1s --force --yes --reason test", done, "DONE  changed the policy of fleet, revision 2", 2},
		{"and another has taken it back", func(_ *remote, n int, run func(Exit, string) string) error {
			switch n {
			case 1:
				time.Sleep(12 * time.Second)
			case 2:
				run(done, "abort")
				return nil
			}
			return nil
		}, "rotate --replace PRIMARY", done, "DONE  staged ", 3},
		{"and it is dated anew at the second try", func(_ *remote, n int, _ func(Exit, string) string) error {
			switch n {
			case 1:
				return nil
			case 2:
				time.Sleep(12 * time.Second)
			case 3:
				return keyset.Denied
			}
			return nil
		}, "rotate --wait --timeout 1m50s --replace PRIMARY", pending, "dated anew, as revision 4", 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			remotely(t, func(t *testing.T, s *remote, run func(Exit, string) string) {
				s.fault = func(n int) error { return c.fault(s, n, run) }
				out := run(c.want, strings.ReplaceAll(c.line, "PRIMARY", s.keyset(t).Primary().KID))
				says(t, out, c.says)
				if d := s.keyset(t); d.Revision != c.all {
					t.Errorf("at revision %d\n%s", d.Revision, out)
				}
			})
		})
	}
}

// Where there is no keyset yet there is nothing to save again, and nothing is written in its
// place.
func TestSaveOfTheFirst(t *testing.T) {
	remotely(t, func(t *testing.T, s *remote, run func(Exit, string) string) {
		s.doc, s.version = nil, 0
		s.fault = func(n int) error {
			if n > 1 {
				return nil
			}
			return errors.New("connection reset")
		}
		out := run(failed, "init")
		says(t, out, "connection reset; the change may still arrive: look with keytool status before the next step\n")
		if s.saves != 1 || s.version != 0 {
			t.Errorf("%d saves, and %q is there", s.saves, s.doc)
		}
		s.arrive()
		if d := s.keyset(t); d.Revision != 1 {
			t.Errorf("revision %d", d.Revision)
		}
	})
}

// How long is to be waited after a change that came late is as long as servers may go on as
// before, whatever its stamp says.
func TestCountedFrom(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	reports := keyset.Policy{Settle: time.Second, MaxStale: time.Minute, Proof: keyset.ProofReports}
	settle, former := reports, reports
	settle.Proof = keyset.ProofSettle
	former.Was = &keyset.FormerPolicy{Settle: 3 * time.Second, MaxStale: time.Hour, Until: now.Add(time.Millisecond)}
	for _, c := range []struct {
		policy keyset.Policy
		key    time.Duration
		all    time.Duration // of the policy
	}{
		{reports, time.Second, time.Minute + time.Second},
		{settle, time.Minute + time.Second, time.Minute + time.Second},
		{former, 3 * time.Second, time.Hour + 3*time.Second},
	} {
		o := &opened{app: &app{System: System{Now: func() time.Time { return now }}}, doc: &keyset.Document{Policy: c.policy}}
		if key, all := o.countedFrom(false), o.countedFrom(true); key != c.key || all != c.all {
			t.Errorf("%+v: %s, %s", c.policy, key, all)
		}
		for _, next := range []struct {
			kid  string
			was  *keyset.FormerPolicy
			wait time.Duration
		}{{"9f2c61ab", nil, c.key}, {"9f2c61ab", &keyset.FormerPolicy{}, c.key}, {"", nil, c.key}, {"", &keyset.FormerPolicy{}, c.all}} {
			d := &keyset.Document{Policy: keyset.Policy{Was: next.was}, History: []keyset.Event{{KID: next.kid}}}
			if got := o.patience(d); got != ", and if it is there, wait "+shortDuration(next.wait)+" before that" {
				t.Errorf("%+v: %s", next, got)
			}
		}
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
		forged  bool
	}{
		{name: "all of it", history: []keyset.Event{doc.History[0], event(time.Hour)}, known: true},
		{name: "and it is forged", history: []keyset.Event{doc.History[0], event(time.Hour)}, forged: true},
		{name: "from behind the change", history: []keyset.Event{event(time.Hour)}},
		{name: "none"},
		{name: "from before the clock was set back", history: []keyset.Event{{At: doc.History[0].At.Add(time.Hour), Actor: "op@ahead", Action: "theirs"}, doc.History[0], event(time.Hour)}, known: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			theirs := doc.Next()
			theirs.History = c.history
			text, err := auth.Encode(theirs)
			if err != nil {
				t.Fatal(err)
			}
			if c.forged {
				text = bytes.Replace(text, []byte(`"theirs"`), []byte(`"forged"`), 1)
			}
			err = (&opened{app: &app{}, auth: auth}).afterAnother(next, text, "2", errors.New("connection reset"))
			var late *lateError
			if !errors.Is(err, keyset.ErrConflict) || errors.As(err, &late) == c.known || strings.Contains(err.Error(), "nothing was changed") != c.known {
				t.Errorf("%v", err)
			}
		})
	}
}

// By a clock that is behind, changes have the time of the one before them: one that looks as
// another did is not taken for that.
func TestChangesThatLookAlike(t *testing.T) {
	at := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	event := func(action string) keyset.Event { return keyset.Event{At: at, Actor: "op@bastion", Action: action} }
	history := func(actions ...string) *keyset.Document {
		d := &keyset.Document{}
		for _, action := range actions {
			d.History = append(d.History, event(action))
		}
		return d
	}
	change := lastChange(history("init", "rewrap", "rewrap"))
	for _, c := range []struct {
		there *keyset.Document
		in    bool
	}{
		{history("init", "rewrap", "rewrap"), true},
		{history("init", "rewrap", "rewrap", "policy"), true},
		{history("init", "rewrap", "policy"), false},
		{history("init", "rewrap", "policy", "policy"), false},
		{&keyset.Document{History: []keyset.Event{event("rewrap"), {At: at.Add(time.Millisecond), Actor: "op@bastion", Action: "rewrap"}}}, false},
	} {
		if in := change.in(c.there); in != c.in {
			t.Errorf("%v: %v", c.there.History, in)
		}
	}
	if first := changeAt(history("init", "rewrap", "rewrap").History, 1); !first.in(history("init", "rewrap", "policy")) {
		t.Error("the first one of two that look alike is not found")
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
