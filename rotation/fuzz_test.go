package rotation_test

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/rotation"
)

// A tape gives the dice what the fuzzer has found, a byte for each throw, and after its
// end what follows from nothing else.
type tape struct {
	bytes []byte
	rest  *rand.PCG
}

func throw(bytes []byte) dice {
	return dice{rand.New(&tape{bytes, rand.NewPCG(uint64(len(bytes)), 1)})}
}

func (t *tape) Uint64() uint64 {
	if len(t.bytes) == 0 {
		return t.rest.Uint64()
	}
	b := t.bytes[0]
	t.bytes = t.bytes[1:]
	return uint64(b) * 0x0101010101010101
}

// A question is all that Next is given.
type question struct {
	d       *keyset.Document
	o       fleet.Observation
	now     time.Time
	request rotation.Request
}

func (q question) same(other question) bool {
	return reflect.DeepEqual(q.d, other.d) && reflect.DeepEqual(q.request, other.request) && fmt.Sprintf("%+v", q.o) == fmt.Sprintf("%+v", other.o)
}

func (q question) next() rotation.Step { return rotation.Next(q.d, q.o, q.now, q.request) }

// question asks about chaos, or about a fleet that is in order up to a few things.
func (d dice) question() question {
	q := question{d: d.document(), o: d.observation(), now: d.time()}
	if d.IntN(4) > 0 {
		q = d.nearly(q)
	}
	policy := d.policy()
	q.request = rotation.Request{Replace: d.kid(), Policy: pick(d, nil, nil, &policy), Force: d.IntN(4) == 0}
	return q
}

// nearly makes a rotation that is near the end of one of its waits, and spoils it with
// parts of another question.
func (d dice) nearly(odd question) question {
	p := keyset.DefaultPolicy()
	p.Proof = pick(d, keyset.ProofReports, keyset.ProofReports, keyset.ProofSettle)
	k := keyset.Key{KID: "00000002", MaxTTL: ttl}
	wait := settle + skew
	if p.Proof == keyset.ProofSettle {
		wait += stale
	}
	seals := "00000001"
	switch k.State = pick(d, keyset.Staged, keyset.Retiring); {
	case k.State == keyset.Staged:
		k.Staged = start
	case d.IntN(2) == 0:
		k.Demoted = start
	default:
		k.Demoted, k.Drained, wait = start, start, ttl+2*skew
	}
	now := start.Add(wait + pick[time.Duration](d, -1, 0, 0, 1, time.Minute))
	q := question{now: now, d: &keyset.Document{
		Name: "fleet", Lineage: "one", Revision: 7, TTL: ttl, Policy: p, History: []keyset.Event{{At: start}},
		Keys: []keyset.Key{{KID: seals, State: keyset.Primary, Staged: start, Promoted: start, MaxTTL: ttl}, k},
	}, o: fleet.Observation{Began: now, Ended: now.Add(time.Second)}}
	if p.Proof == keyset.ProofReports || d.IntN(4) == 0 {
		q.o.Sources = []string{source}
		for _, id := range []string{"one", "two"}[:1+d.IntN(2)] {
			q.o.Instances = append(q.o.Instances, fleet.Instance{Source: source, Address: id, Report: fleet.Report{
				ID: id, Host: id, Started: start, Now: now.Add(pick[time.Duration](d, 0, 0, 0, -1, time.Second)), Every: time.Minute, Ready: true,
				Keyset: "fleet", Lineage: "one", Revision: 7, Primary: seals, Verifies: []string{seals, k.KID}, TTL: ttl,
			}})
		}
	}
	for range d.IntN(3) {
		d.spoil(q, odd)
		q.o.Failures = pick(d, q.o.Failures, q.o.Failures, odd.o.Failures)
		q.now = pick(d, q.now, q.now, q.now, odd.now)
		q.o.Began = pick(d, q.o.Began, q.o.Began, q.o.Began, odd.o.Began)
		q.d.Peers = pick(d, q.d.Peers, q.d.Peers, q.d.Peers, odd.d.Peers)
		if d.IntN(4) == 0 {
			q.o.Instances = append(q.o.Instances, odd.o.Instances...)
		}
		if d.IntN(8) == 0 {
			q.d.Keys = append(q.d.Keys, odd.d.Keys...)
		}
	}
	return q
}

// spoil replaces a duration or a time, or a member of a report.
func (d dice) spoil(q question, odd question) {
	p, k := &q.d.Policy, &q.d.Keys[1]
	switch d.IntN(10) {
	case 0:
		p.Settle = odd.d.Policy.Settle
	case 1:
		p.MaxStale = odd.d.Policy.MaxStale
	case 2:
		p.MaxSkew = odd.d.Policy.MaxSkew
	case 3:
		p.Was = odd.d.Policy.Was
	case 4:
		k.MaxTTL = d.duration()
	case 5:
		k.Staged = d.time()
	case 6:
		k.Demoted = d.time()
	case 7:
		p.MinInstances = odd.d.Policy.MinInstances
	}
	if len(q.o.Instances) == 0 {
		return
	}
	i := &q.o.Instances[d.IntN(len(q.o.Instances))]
	r := &i.Report
	switch d.IntN(10) {
	case 0:
		i.Registered, r.Stopped = true, true
	case 1:
		i.Registered, r.Now = d.IntN(4) > 0, r.Now.Add(-pick(d, time.Minute, 3*time.Minute, time.Hour))
	case 2:
		r.Verifies = times(d, 2, d.kid)
	case 3:
		r.Primary = pick(d, "", "00000002")
	case 4:
		r.Revision = d.number()
	case 5:
		r.Now = d.time()
	case 6:
		r.Keys = []fleet.KeyUse{{KID: "00000002", Since: start, LiveUntil: d.time()}}
	}
}

func seeds() (all [][]byte) {
	random := rand.New(rand.NewPCG(3, 4))
	for n := range 2048 {
		bytes := make([]byte, n%256)
		for i := range bytes {
			bytes[i] = byte(random.Uint32())
		}
		all = append(all, bytes)
	}
	return all
}

// What FuzzNext starts from gives every kind of step often enough for its checks to bite.
func TestSeedsGiveEveryStep(t *testing.T) {
	kinds := make(map[rotation.Kind]int)
	for _, bytes := range seeds() {
		if s := throw(bytes).question().next(); !s.Forced() {
			kinds[s.Kind]++
		}
	}
	for _, kind := range []rotation.Kind{rotation.Stage, rotation.Promote, rotation.Drain, rotation.Retire, rotation.Wait, rotation.Blocked, rotation.Done} {
		if kinds[kind] < 20 {
			t.Errorf("%s: %d times", kind, kinds[kind])
		}
	}
	t.Log(kinds)
}

// FuzzNext holds every step against what the guarantee demands, put in other words than
// those of the code and in whole numbers of any size.
func FuzzNext(f *testing.F) {
	for _, bytes := range seeds() {
		f.Add(bytes)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		q, untouched := throw(bytes).question(), throw(bytes).question()
		step := q.next()
		if again := q.next(); !reflect.DeepEqual(step, again) {
			t.Errorf("%+v\nand then %+v", step, again)
		}
		others := []rotation.Step{rotation.Obeyed(q.d, q.o, q.now), rotation.Dropped(q.d, q.o, q.now, "a")}
		phases := rotation.Phases(q.d, q.now, step)
		if !q.same(untouched) {
			t.Errorf("%+v\nbecame\n%+v", untouched, q)
		}
		for _, s := range append(others, step) {
			tells(t, s, q.reading())
		}
		for _, p := range phases {
			if p.State == rotation.Running && p.At.Before(q.now) && q.now.Before(lastSecond) {
				t.Errorf("a phase ends in the past: %+v", p)
			}
		}
		q.check(t, step)
		if t.Failed() {
			t.Errorf("%+v\nto %+v", step, q)
		}
	})
}

// tells checks that a step says why in words, and a wait until when: for the fleet alone it
// waits no longer than until somebody is late.
func tells(t *testing.T, s rotation.Step, now time.Time) {
	written(t, s.NotBefore)
	for _, r := range s.Reasons {
		written(t, r.Until)
		written(t, r.Seen)
		for _, text := range []string{r.String(), r.Fix()} {
			if strings.ContainsFunc(text, func(c rune) bool { return !strconv.IsPrint(c) }) {
				t.Errorf("%q steers a terminal", text)
			}
		}
		if r.String() == "" || r.String() == string(r.Code) || r.Fault() && r.Fix() == "" {
			t.Errorf("%+v: %q, fix %q", r, r, r.Fix())
		}
	}
	switch s.Kind {
	case rotation.Wait:
		late := func(r rotation.Reason) bool { return !r.Until.After(now) }
		past := s.NotBefore.IsZero() && slices.ContainsFunc(s.Reasons, late) || !s.NotBefore.IsZero() && !s.NotBefore.After(now)
		if past && now.Before(lastSecond) || len(s.Reasons) == 0 {
			t.Errorf("nobody knows until when: %+v", s)
		}
	case rotation.Blocked:
		if len(s.Reasons) == 0 {
			t.Errorf("nobody knows by what: %+v", s)
		}
	}
}

// reading is the earlier one of the two readings of the clock.
func (q question) reading() time.Time {
	if began := q.o.Began; !began.IsZero() && began.Before(q.now) {
		return began
	}
	return q.now
}

// oldest is the time at which everything was so that the observation says.
func (q question) oldest() time.Time {
	oldest := q.reading()
	for _, i := range q.o.Instances {
		if i.Live() && i.Report.Now.Before(oldest) {
			oldest = i.Report.Now
		}
	}
	return oldest
}

// span is the largest that a policy in force demands.
func (q question) span(of func(keyset.Policy) time.Duration, was func(*keyset.FormerPolicy) time.Duration) time.Duration {
	most := of(q.d.Policy)
	if w := q.d.Policy.Was; w != nil && q.reading().Before(w.Until) {
		most = max(most, was(w))
	}
	if q.request.Policy != nil {
		most = max(most, of(*q.request.Policy))
	}
	return most
}

func (q question) settle() time.Duration {
	return q.span(func(p keyset.Policy) time.Duration { return p.Settle }, func(w *keyset.FormerPolicy) time.Duration { return w.Settle })
}

func (q question) skew() time.Duration {
	return q.span(func(p keyset.Policy) time.Duration { return p.MaxSkew }, func(w *keyset.FormerPolicy) time.Duration { return w.MaxSkew })
}

// passed reports whether a time is not before another one and some durations, none of
// which sums to more than the longest one there is.
func passed(at, from time.Time, all ...time.Duration) bool {
	sum := new(big.Int)
	for _, d := range all {
		sum.Add(sum, big.NewInt(int64(d)))
	}
	if most := big.NewInt(math.MaxInt64); sum.Cmp(most) > 0 {
		sum = most
	}
	return instant(at).Cmp(sum.Add(sum, instant(from))) >= 0
}

func instant(t time.Time) *big.Int {
	n := new(big.Int).Mul(big.NewInt(t.Unix()), big.NewInt(1e9))
	return n.Add(n, big.NewInt(int64(t.Nanosecond())))
}

func (q question) check(t *testing.T, s rotation.Step) {
	var keys []keyset.Key
	unfinished := false
	for _, k := range q.d.Keys {
		unfinished = unfinished || k.State == keyset.Staged || k.State == keyset.Retiring
		if k.KID == s.KID {
			keys = append(keys, k)
		}
	}
	may := func(why string, key func(k keyset.Key) bool) {
		t.Helper()
		if !slices.ContainsFunc(keys, key) { // two keys may have one id
			t.Errorf("%s of %q: %s", s.Kind, s.KID, why)
		}
	}
	// The policy of a forced request counts as it is, even if it demands less.
	loosened := q.request.Force && q.request.Policy != nil
	if s.Kind == rotation.Retire || s.Kind == rotation.Stage && !q.request.Force {
		q.newest(t)
	}
	switch s.Kind {
	case rotation.Stage, rotation.Done:
		if unfinished {
			t.Error("something is unfinished")
		}
	case rotation.Promote:
		may("it is not staged", func(k keyset.Key) bool { return k.State == keyset.Staged })
		if q.request.Force {
			return
		}
		may("too early", func(k keyset.Key) bool { return passed(q.oldest(), k.Staged, q.change()...) })
		q.proven(t, func(r *fleet.Report) bool { return slices.Contains(r.Verifies, s.KID) }, func(p keyset.Peer) bool {
			return slices.Contains(p.KIDs, s.KID) && p.Confirmed
		})
	case rotation.Drain:
		may("it is drained, or not retiring", func(k keyset.Key) bool { return k.State == keyset.Retiring && k.Drained.IsZero() })
		if !loosened {
			may("too early", func(k keyset.Key) bool { return passed(q.oldest(), k.Demoted, q.change()...) })
		}
		q.proven(t, func(r *fleet.Report) bool { return r.Primary != "" && r.Primary != s.KID }, func(p keyset.Peer) bool {
			return !slices.Contains(p.KIDs, s.KID) || p.Primary != s.KID && p.Confirmed
		})
	case rotation.Retire:
		may("it is not drained", func(k keyset.Key) bool { return k.State == keyset.Retiring && !k.Drained.IsZero() })
		if !loosened {
			may("too early", func(k keyset.Key) bool { return passed(q.reading(), k.Drained, k.MaxTTL, q.skew(), q.skew()) })
		}
		for _, i := range q.o.Instances {
			if i.Err == nil && i.Live() && i.Report.Lineage == q.d.Lineage && i.Report.Primary == s.KID {
				t.Errorf("%+v seals", i)
			}
			if i.Err == nil && !i.Registered && i.Report.Lineage == q.d.Lineage && !q.request.Force && q.o.Offset(&i) < -q.d.Policy.MaxSkew/2 {
				t.Errorf("the clock of %+v is behind", i)
			}
		}
	case rotation.Wait, rotation.Blocked:
	default:
		t.Errorf("kind %q", s.Kind)
	}
}

// newest checks that nobody who is there holds what the document is not.
func (q question) newest(t *testing.T) {
	t.Helper()
	for _, i := range q.o.Instances {
		r := &i.Report
		mine := i.Err == nil && r.Keyset == q.d.Name && r.Lineage == q.d.Lineage && !(i.Registered && r.Stopped)
		if mine && (r.Revision > q.d.Revision || r.Revision == q.d.Revision && r.Tag != base64.StdEncoding.EncodeToString(q.d.Tag)) {
			t.Errorf("%+v has left the document behind", i)
		}
	}
}

// change is what has to pass after a stamp, for promote and drain.
func (q question) change() []time.Duration {
	all := []time.Duration{q.settle(), q.skew()}
	if q.d.Policy.Proof == keyset.ProofSettle {
		if q.d.Policy.MaxStale == 0 { // for ever
			return []time.Duration{math.MaxInt64}
		}
		all = append(all, q.d.Policy.MaxStale)
	}
	return all
}

// proven checks that the sources leave nobody out, and everybody who is there is as it
// has to be.
func (q question) proven(t *testing.T, ready func(*fleet.Report) bool, peer func(keyset.Peer) bool) {
	t.Helper()
	live := 0
	for n := range q.o.Instances {
		i := &q.o.Instances[n]
		if !i.Live() {
			continue
		}
		live++
		r := &i.Report
		if i.Err != nil || r.Keyset != q.d.Name || r.Lineage != q.d.Lineage || r.Revision > q.d.Revision || q.o.Ended.After(r.FreshUntil()) || !ready(r) {
			t.Errorf("%+v is no proof", i)
		}
	}
	if len(q.o.Failures) > 0 {
		t.Error("a source has failed")
	}
	asked := len(q.o.Sources) > 0
	if reports := q.d.Policy.Proof != keyset.ProofSettle && !(q.request.Force && q.request.Policy != nil); reports && !asked || asked && live == 0 {
		t.Error("nobody was asked")
	}
	for _, p := range q.d.Peers {
		if !peer(p) {
			t.Errorf("peer %+v", p)
		}
	}
}
