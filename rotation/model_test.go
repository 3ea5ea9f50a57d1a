//go:build !race

package rotation

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/internal/memkek"
	"github.com/echoseal/echoseal/keyset"
)

// The model is a small fleet whose every behaviour is walked through. Time goes in ticks;
// between two of them anything may happen, in any order and any number of times: servers
// start, crash, leave, poll, fall silent, cannot unwrap a new key; the store gives any
// revision that was current within the last settle; somebody asks for the next step,
// rolls back, aborts or changes the ceiling. What is done next is decided by rules.next,
// and done by the methods of keyset.Document; nothing of either is repeated here.
//
// What must hold in every state: a server that is ready accepts every token that is
// inside its TTL.
//
// Each of these keeps the number of states down and loses no behaviour:
//
//   - Clocks are not in the state. A stamp is made by the slowest clock, a comparison by
//     the fastest; a token's expiry is dated by the fastest and read by the slowest.
//   - Of the tokens under one key only the one that lives longest counts, and every server
//     that can seal does so all the time, by the largest ceiling that it can find: more
//     and longer tokens only make it harder.
//   - A server that can read what it has again does so, and one that has nothing new to
//     report reports it again: so its age is the least that it can be, and it may go on
//     for as long as it can.
//   - A server that is neither ready nor about to be, because it has crashed, left or
//     gone stale, neither seals nor refuses: it is absent. Its report would block, so
//     leaving that out gives the rotation more freedom, not less.
//   - Times are ages, and an age beyond which nothing changes is not told apart from the
//     next. Servers have no names, keys none but primary, and both are sorted.
//   - A save makes whatever others have gathered worthless, since the store compares; so
//     one keytool with its steps apart stands for any number.
type params struct {
	instances           int
	settle, stale, skew uint8
	ttl                 [2]uint8
	revisions           int // how many replaced revisions the store may give at one time

	apart    bool // a keytool gathers, decides and saves at different times
	registry bool // servers push their reports; else they are asked
	slow     bool // a server that polls reads, and swaps its keys some time after
	proof    keyset.Proof

	rules  rules
	broken broken
}

// broken are the guards that are not in Next but in the moves, in keytool's loop and in
// the servers. The zero value has them all.
type broken struct {
	drainedStays bool // a key that steps up and down again is still drained
	maxFalls     bool // max_ttl follows the ceiling down
	maxStays     bool // max_ttl does not follow it up
	stampFirst   bool // stamps are made with the first reading of the clock
	readFirst    bool // a server reads the keyset before it registers
	lateReport   bool // a report is dated when it is made, though a read is not swapped in yet
}

const (
	slots = 3 // keys that anybody remembers at one time
	most  = 3 // instances
	none  = slots
	tick  = 10 * time.Second
	cap3  = 7 // the age at which three bits end
)

// What a key is.
const (
	gone uint8 = iota
	staged
	primary
	retiring
	drained
)

type modelKey struct {
	state, age uint8 // ticks since it was staged, demoted or drained
	max        uint8 // index of its max_ttl
	hid        uint8 // 1 + the age of a stamp that only a broken rule reads; 0: none
	token      uint8 // ticks that the token which lives longest has left
}

// A content is what a server reads: two bits for each key.
type content uint8

func (c content) state(slot uint8) uint8 { return uint8(c>>(2*slot)) & 3 } // drained is retiring

// keys returns the keys that the content has, and the primary.
func (c content) keys() (mask, prime, stage uint8) {
	prime = none
	for s := range uint8(slots) {
		switch c.state(s) {
		case staged:
			stage |= 1 << s
		case primary:
			prime = s
		}
		if c.state(s) != gone {
			mask |= 1 << s
		}
	}
	return mask, prime, stage
}

type revision struct {
	content content // 0: there is none
	age     uint8   // ticks since the stamp of the one that replaced it
}

// What an instance is.
const (
	absent  uint8 = iota
	loading       // it has read a revision and is not ready yet
	ready
)

type modelInstance struct {
	kind        uint8
	mask, prime uint8 // the keys that it verifies with, and seals with
	ttl         uint8 // index
	age         uint8 // ticks since it has read the store

	// If polls are slow, what was read and is not swapped in yet, 0 for nothing; and how
	// many ticks ago.
	next content
	read uint8

	// With a registry, the report that is there: 1 + its age, 0 for none.
	report            uint8
	reported, reprime uint8

	// With steps apart, what keytool has been told.
	asked           uint8
	answered, anime uint8
}

// What has been asked.
const (
	notAsked uint8 = iota
	saidNothing
	saidStarting
	saidReady
)

// What keytool is at, with its steps apart.
const (
	idle uint8 = iota
	gathering
	saving
)

type world struct {
	keys      [slots]modelKey
	ttl       uint8 // index of the ceiling
	high      uint8 // ticks for which the store may still give the larger one
	old       [4]revision
	instances [most]modelInstance

	phase uint8
	first uint8 // ticks since the first reading of the clock
	move  uint8 // what is being saved
	slot  uint8
	stamp uint8 // ticks since the stamp of that
}

// The moves.
const (
	noMove uint8 = iota
	stage
	promote
	drain
	retire
	rollback
	abort
	ceiling
)

var moveNames = [...]string{"", "stage", "promote", "drain", "retire", "rollback", "abort", "change the ceiling"}

// A packed world.
type word [2]uint64

type bits struct {
	w  word
	at uint
}

func (b *bits) put(v uint8, n uint) {
	if b.at < 64 && b.at+n > 64 {
		b.at = 64
	}
	b.w[b.at/64] |= uint64(v) << (b.at % 64)
	b.at += n
}

func (b *bits) get(n uint) uint8 {
	if b.at < 64 && b.at+n > 64 {
		b.at = 64
	}
	v := b.w[b.at/64] >> (b.at % 64) & (1<<n - 1)
	b.at += n
	return uint8(v)
}

func (p *params) pack(w *world) word {
	var b bits
	for i := range w.keys {
		k := &w.keys[i]
		b.put(k.state, 3)
		b.put(k.age, 3)
		b.put(k.max, 1)
		b.put(k.hid, 3)
		b.put(k.token, 3)
	}
	b.put(w.ttl, 1)
	b.put(w.high, 2)
	for i := range p.revisions {
		b.put(uint8(w.old[i].content), 6)
		b.put(w.old[i].age, 2)
	}
	for n := range p.instances {
		i := &w.instances[n]
		b.put(i.kind, 2)
		b.put(i.mask, 3)
		b.put(i.prime, 2)
		b.put(i.ttl, 1)
		b.put(i.age, 2)
		if p.slow {
			b.put(uint8(i.next), 6)
			b.put(i.read, 2)
		}
		if p.registry {
			b.put(i.report, 2)
			b.put(i.reported, 3)
			b.put(i.reprime, 2)
		}
		if p.apart {
			b.put(i.asked, 2)
			b.put(i.answered, 3)
			b.put(i.anime, 2)
		}
	}
	if p.apart {
		b.put(w.phase, 2)
		b.put(w.first, 2)
		b.put(w.move, 3)
		b.put(w.slot, 2)
		b.put(w.stamp, 2)
	}
	if b.at > 128 {
		panic("a world does not fit")
	}
	return b.w
}

func (p *params) unpack(packed word) (w world) {
	b := bits{w: packed}
	for i := range w.keys {
		w.keys[i] = modelKey{state: b.get(3), age: b.get(3), max: b.get(1), hid: b.get(3), token: b.get(3)}
	}
	w.ttl, w.high = b.get(1), b.get(2)
	for i := range p.revisions {
		w.old[i] = revision{content(b.get(6)), b.get(2)}
	}
	for n := range p.instances {
		i := modelInstance{kind: b.get(2), mask: b.get(3), prime: b.get(2), ttl: b.get(1), age: b.get(2)}
		if p.slow {
			i.next, i.read = content(b.get(6)), b.get(2)
		}
		if p.registry {
			i.report, i.reported, i.reprime = b.get(2), b.get(3), b.get(2)
		}
		if p.apart {
			i.asked, i.answered, i.anime = b.get(2), b.get(3), b.get(2)
		}
		w.instances[n] = i
	}
	if p.apart {
		w.phase, w.first, w.move, w.slot, w.stamp = b.get(2), b.get(2), b.get(3), b.get(2), b.get(2)
	}
	return w
}

// content returns what a server reads in the current revision.
func (w *world) content() content {
	var c content
	for s := range uint8(slots) {
		c |= content(min(w.keys[s].state, retiring)) << (2 * s)
	}
	return c
}

// canonical packs the world with its servers and keys in order.
func (p *params) canonical(w *world) word {
	for s := range w.keys {
		if w.keys[s].state == primary && s != 0 {
			w.swap(0, uint8(s))
		}
	}
	a, b := w.keys[1], w.keys[2]
	switch a.compare(b) {
	case 1:
		w.swap(1, 2)
	case 0:
		p.sort(w)
		one := p.pack(w)
		w.swap(1, 2)
		p.sort(w)
		two := p.pack(w)
		if one[1] < two[1] || one[1] == two[1] && one[0] < two[0] {
			return one
		}
		return two
	}
	p.sort(w)
	return p.pack(w)
}

func (k modelKey) compare(l modelKey) int {
	a := uint(k.state)<<16 | uint(k.token)<<12 | uint(k.age)<<8 | uint(k.max)<<4 | uint(k.hid)
	b := uint(l.state)<<16 | uint(l.token)<<12 | uint(l.age)<<8 | uint(l.max)<<4 | uint(l.hid)
	switch { // the largest first
	case a > b:
		return -1
	case a < b:
		return 1
	}
	return 0
}

// swap exchanges two keys wherever they are remembered.
func (w *world) swap(a, b uint8) {
	w.keys[a], w.keys[b] = w.keys[b], w.keys[a]
	slot := func(s *uint8) {
		switch *s {
		case a:
			*s = b
		case b:
			*s = a
		}
	}
	mask := func(m *uint8) {
		if d := (*m>>a ^ *m>>b) & 1; d != 0 {
			*m ^= 1<<a | 1<<b
		}
	}
	exchange := func(c *content) {
		d := (*c>>(2*a) ^ *c>>(2*b)) & 3
		*c ^= d<<(2*a) | d<<(2*b)
	}
	for i := range w.old {
		exchange(&w.old[i].content)
	}
	for n := range w.instances {
		i := &w.instances[n]
		if i.kind != absent {
			mask(&i.mask)
			slot(&i.prime)
			exchange(&i.next)
		}
		if i.report != 0 {
			mask(&i.reported)
			slot(&i.reprime)
		}
		if i.asked == saidReady {
			mask(&i.answered)
			slot(&i.anime)
		}
	}
	if w.phase == saving {
		slot(&w.slot)
	}
}

func (i *modelInstance) order() uint64 {
	v := uint64(i.kind)<<8 | uint64(i.mask)<<5 | uint64(i.prime)<<3 | uint64(i.ttl)<<2 | uint64(i.age)
	v = v<<8 | uint64(i.next)<<2 | uint64(i.read)
	v = v<<7 | uint64(i.report)<<5 | uint64(i.reported)<<2 | uint64(i.reprime)
	return v<<7 | uint64(i.asked)<<5 | uint64(i.answered)<<2 | uint64(i.anime)
}

func (p *params) sort(w *world) {
	for range 4 {
		for i := p.revisions - 1; i > 0; i-- {
			if a, b := w.old[i-1], w.old[i]; uint16(a.content)<<2|uint16(a.age) < uint16(b.content)<<2|uint16(b.age) {
				w.old[i-1], w.old[i] = b, a
			}
		}
	}
	for n := 1; n < p.instances; n++ {
		for i := n; i > 0 && w.instances[i-1].order() < w.instances[i].order(); i-- {
			w.instances[i-1], w.instances[i] = w.instances[i], w.instances[i-1]
		}
	}
}

// unused returns a key that nobody remembers, or none.
func (w *world) unused() uint8 {
	var used uint8
	for s, k := range w.keys {
		if k.state != gone || k.token > 0 {
			used |= 1 << s
		}
	}
	for _, r := range w.old {
		mask, _, _ := r.content.keys()
		used |= mask
	}
	for _, i := range w.instances {
		mask, _, _ := i.next.keys()
		used |= i.mask | mask
		used |= i.reported | i.answered
	}
	for s := range uint8(slots) {
		if used>>s&1 == 0 {
			return s
		}
	}
	return none
}

// A document as a number: what keytool reads.
func (w *world) document() uint64 {
	d := uint64(w.ttl)
	for _, k := range w.keys {
		d = d<<10 | uint64(k.state)<<7 | uint64(k.age)<<4 | uint64(k.max)<<3 | uint64(k.hid)
	}
	return d
}

func (w *world) setDocument(d uint64) {
	for s := slots - 1; s >= 0; s-- {
		k := &w.keys[s]
		k.state, k.age, k.max, k.hid = uint8(d>>7&7), uint8(d>>4&7), uint8(d>>3&1), uint8(d&7)
		d >>= 10
	}
	w.ttl = uint8(d)
}

// A translator turns numbers into documents and observations, asks the code that the
// model is about, and remembers its answers.
type translator struct {
	*params
	base    *keyset.Document
	fresh   [slots]keyset.Key
	slots   map[string]uint8
	now     time.Time // by the slowest clock
	decided map[uint64]uint8
	moved   map[[2]uint64]uint64
}

func newTranslator(t *testing.T, p *params) *translator {
	tr := &translator{
		params: p, now: time.Date(2026, 12, 2, 3, 0, 0, 0, time.UTC), slots: make(map[string]uint8),
		decided: make(map[uint64]uint8), moved: make(map[[2]uint64]uint64),
	}
	services := keyset.Services{memkek.New("model")}
	policy := keyset.Policy{
		MaxAge: 24 * time.Hour, Proof: p.proof,
		Settle: tr.ticks(p.settle), MaxStale: tr.ticks(p.stale), MaxSkew: tr.ticks(p.skew),
	}
	note := keyset.Note{At: tr.now, Actor: "model"}
	d, auth, err := keyset.Init(t.Context(), services, keyset.InitOptions{Name: "model", Policy: policy, TTL: tr.ticks(p.ttl[0]), After: 8, Note: note})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := auth.Encode(d); err != nil {
		t.Fatal(err)
	}
	for s := range tr.fresh {
		if tr.fresh[s], err = d.GenerateKey(t.Context(), services, tr.now); err != nil {
			t.Fatal(err)
		}
		tr.slots[tr.fresh[s].KID] = uint8(s)
	}
	d.Keys, d.History = nil, nil
	tr.base = d
	return tr
}

func (tr *translator) ticks(n uint8) time.Duration { return time.Duration(n) * tick }

func (tr *translator) ago(n uint8) time.Time { return tr.now.Add(-tr.ticks(n)) }

// document makes the document of a number. A broken max_ttl is no document's; so it is put
// in only for Next, and left out for the moves.
func (tr *translator) document(number uint64, forNext bool) *keyset.Document {
	var w world
	w.setDocument(number)
	d := tr.base.Clone()
	d.TTL = tr.ticks(tr.ttl[w.ttl])
	for s, m := range w.keys {
		k := tr.fresh[s]
		k.MaxTTL = tr.ticks(tr.ttl[m.max])
		if !forNext {
			k.MaxTTL = max(k.MaxTTL, d.TTL)
		}
		k.Staged = tr.ago(20)
		switch m.state {
		case gone:
			continue
		case staged:
			k.State, k.Staged = keyset.Staged, tr.ago(m.age)
		case primary:
			k.State, k.Promoted = keyset.Primary, tr.ago(15)
		case retiring:
			k.State, k.Promoted, k.Demoted = keyset.Retiring, tr.ago(15), tr.ago(m.age)
		case drained:
			k.State, k.Promoted, k.Demoted, k.Drained = keyset.Retiring, tr.ago(15), tr.ago(max(m.age, m.hid-min(m.hid, 1))), tr.ago(m.age)
		}
		d.Keys = append(d.Keys, k)
	}
	return d
}

// An observed number has seven bits for each instance: what was said, and with what keys.
// For a report from a registry, and where polls are slow, what was said is 1 + its age.
func observed(said, mask, prime uint8) uint64 {
	return uint64(said)<<5 | uint64(mask)<<2 | uint64(prime)
}

const saidSilent = saidNothing // in an observed number

func (tr *translator) observation(d *keyset.Document, number uint64, first uint8) fleet.Observation {
	fastest := tr.now.Add(tr.ticks(tr.skew))
	o := fleet.Observation{Began: fastest.Add(-tr.ticks(first)), Ended: fastest}
	if tr.proof == keyset.ProofSettle {
		return o
	}
	o.Sources = []string{"model"}
	for n := range most {
		one := number >> (7 * n) & 127
		said, mask, prime := uint8(one>>5), uint8(one>>2&7), uint8(one&3)
		if said == notAsked {
			continue
		}
		i := fleet.Instance{Source: "model", Address: fmt.Sprint(n), Registered: tr.registry}
		r := fleet.Report{
			ID: fmt.Sprintf("%032x", n), Host: fmt.Sprint(n), Started: tr.ago(30), Now: fastest, Every: 4 * time.Second,
			Keyset: d.Name, Lineage: d.Lineage, Revision: d.Revision - 1, Tag: base64.StdEncoding.EncodeToString(d.Tag),
			TTL: d.TTL, Ready: mask != 0,
		}
		switch {
		case tr.registry || tr.slow:
			r.Now = fastest.Add(-tr.ticks(said - 1))
		case said == saidSilent:
			i.Registered, r.Now = true, fastest.Add(-time.Minute)
		}
		for s := range uint8(slots) {
			if mask>>s&1 != 0 {
				r.Verifies = append(r.Verifies, tr.fresh[s].KID)
			}
		}
		if prime != none {
			r.Primary = tr.fresh[prime].KID
		}
		i.Report = r
		o.Instances = append(o.Instances, i)
	}
	return o
}

// next asks for the next step: the move in the low three bits, the key above.
func (tr *translator) next(document, observed uint64, first uint8) uint8 {
	key := document<<23 | observed<<2 | uint64(first)
	if answer, ok := tr.decided[key]; ok {
		return answer
	}
	d := tr.document(document, true)
	o := tr.observation(d, observed, first)
	step := tr.rules.next(d, o, o.Began, Request{Replace: d.Primary().KID})
	answer := map[Kind]uint8{Stage: stage, Promote: promote, Drain: drain, Retire: retire}[step.Kind]
	answer |= tr.slots[step.KID] << 3
	tr.decided[key] = answer
	return answer
}

// apply makes a move with a stamp of some ticks ago, by the slowest clock.
func (tr *translator) apply(document uint64, move, slot, stamp uint8) (uint64, bool) {
	key := [2]uint64{document, uint64(move)<<16 | uint64(slot)<<8 | uint64(stamp)}
	if answer, ok := tr.moved[key]; ok {
		return answer, answer != 0
	}
	d := tr.document(document, false)
	if err := tr.change(d, move, slot, keyset.Note{At: tr.ago(stamp), Actor: "model"}); err != nil {
		tr.moved[key] = 0
		return 0, false
	}
	answer := tr.number(d, document, move)
	tr.moved[key] = answer
	return answer, true
}

func (tr *translator) change(d *keyset.Document, move, slot uint8, note keyset.Note) error {
	kid := tr.fresh[slot].KID
	switch move {
	case rollback:
		return d.Rollback(note, kid)
	case abort:
		return d.Abort(note, kid)
	case ceiling:
		other := tr.ttl[0]
		if d.TTL == tr.ticks(other) {
			other = tr.ttl[1]
		}
		return d.SetTTL(note, tr.ticks(other))
	default:
		kind := map[uint8]Kind{stage: Stage, promote: Promote, drain: Drain, retire: Retire}[move]
		return Step{Kind: kind, KID: kid}.Apply(d, note, tr.fresh[slot])
	}
}

// number is the number of a document that a move has made of the one before.
func (tr *translator) number(d *keyset.Document, before uint64, move uint8) uint64 {
	var was, w world
	was.setDocument(before)
	if d.TTL == tr.ticks(tr.ttl[1]) {
		w.ttl = 1
	}
	age := func(t time.Time) uint8 { return uint8(min(tr.now.Sub(t)/tick, cap3)) }
	for _, k := range d.Keys {
		s := tr.slots[k.KID]
		m, old := &w.keys[s], was.keys[s]
		switch {
		case k.State == keyset.Staged:
			m.state, m.age = staged, age(k.Staged)
		case k.State == keyset.Primary:
			m.state = primary
		case k.Drained.IsZero():
			m.state, m.age = retiring, age(k.Demoted)
		default:
			m.state, m.age = drained, age(k.Drained)
		}
		if k.MaxTTL == tr.ticks(tr.ttl[1]) {
			m.max = 1
		}
		tr.breakKey(m, old, w.ttl, move)
	}
	return w.document()
}

// breakKey undoes what a guard does that is taken out.
func (tr *translator) breakKey(m *modelKey, old modelKey, ttl, move uint8) {
	switch {
	case old.state == gone:
	case tr.broken.maxFalls && move == ceiling:
		m.max = ttl
	case tr.broken.maxStays || tr.broken.maxFalls:
		m.max = old.max
	}
	if tr.broken.drainedStays {
		switch {
		case m.state == primary && old.state == drained:
			m.hid = min(old.age+1, cap3)
		case m.state == retiring && old.state == primary && old.hid > 0:
			m.state, m.age = drained, old.hid-1
		case m.state == primary && old.state == primary:
			m.hid = old.hid
		}
	} else if m.state == drained {
		// Read only by a rule that does not count from drained.
		if old.state == retiring {
			m.hid = min(old.age+1, cap3)
		} else {
			m.hid = old.hid
		}
		if tr.fromDrained() {
			m.hid = 0
		}
	}
}

// fromDrained reports whether the rules count from where they should.
func (tr *translator) fromDrained() bool {
	k := keyset.Key{Demoted: tr.ago(2), Drained: tr.ago(1)}
	return tr.rules.drained(k).Equal(k.Drained)
}

func (w *world) String() string {
	var b strings.Builder
	names := [...]string{"gone", "staged", "primary", "retiring", "drained"}
	fmt.Fprintf(&b, "ceiling %d", w.ttl)
	for s, k := range w.keys {
		if k.state != gone || k.token > 0 {
			fmt.Fprintf(&b, " | K%d %s %d max %d token %d", s, names[k.state], k.age, k.max, k.token)
		}
	}
	for _, r := range w.old {
		if r.content != 0 {
			fmt.Fprintf(&b, " | old %02x %d", r.content, r.age)
		}
	}
	for _, i := range w.instances {
		kinds := [...]string{"absent", "loading", "ready"}
		if i.kind != absent || i.report != 0 || i.asked != notAsked {
			fmt.Fprintf(&b, " | %s keys %03b seals K%d ceiling %d read %d", kinds[i.kind], i.mask, i.prime, i.ttl, i.age)
		}
		if i.report != 0 {
			fmt.Fprintf(&b, " report %d: %03b K%d", i.report-1, i.reported, i.reprime)
		}
		if i.asked != notAsked {
			fmt.Fprintf(&b, " said %d: %03b K%d", i.asked, i.answered, i.anime)
		}
	}
	if w.phase != idle {
		fmt.Fprintf(&b, " | keytool %d first %d %s K%d stamp %d", w.phase, w.first, moveNames[w.move], w.slot, w.stamp)
	}
	return b.String()
}
