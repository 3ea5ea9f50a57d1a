//go:build !race

package rotation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/keyset"
)

// A walk goes through all worlds that can be reached, nearest first, so that the way to a
// violation is a shortest one.
type walk struct {
	*translator
	states  []word
	parents []uint32
	table   []uint32 // 1 + the index of a state, open addressing; 0: free
	mask    uint64
	limit   int

	from       uint32 // the state whose successors are made
	violation  int    // its index, or -1
	moves      [len(moveNames)]int
	suppressed int // successors with more revisions than a world has room for
	full       bool

	trace func(label string, w word) // if set, nothing is added
}

func newWalk(t *testing.T, p *params, limit int) *walk {
	w := &walk{translator: newTranslator(t, p), violation: -1, limit: limit}
	w.table = make([]uint32, 1<<16)
	w.mask = 1<<16 - 1
	return w
}

func hash(w word) uint64 {
	h := (w[0] ^ w[1]*0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd
	h ^= h >> 32
	h = (h + w[1]) * 0xc4ceb9fe1a85ec53
	return h ^ h>>29
}

func (v *walk) add(s word) bool {
	for at := hash(s) & v.mask; ; at = (at + 1) & v.mask {
		switch n := v.table[at]; {
		case n == 0:
			v.states = append(v.states, s)
			v.parents = append(v.parents, v.from)
			v.table[at] = uint32(len(v.states))
			if uint64(len(v.states))*4 > 3*v.mask {
				v.grow()
			}
			return true
		case v.states[n-1] == s:
			return false
		}
	}
}

func (v *walk) grow() {
	v.mask = v.mask*2 + 1
	v.table = make([]uint32, v.mask+1)
	for i, s := range v.states {
		at := hash(s) & v.mask
		for v.table[at] != 0 {
			at = (at + 1) & v.mask
		}
		v.table[at] = uint32(i + 1)
	}
}

// run walks until there is nothing new, or a violation.
func (v *walk) run(seeds ...world) {
	for _, s := range seeds {
		v.from = uint32(len(v.states))
		v.emit("start", s)
	}
	for i := 0; i < len(v.states) && v.violation < 0; i++ {
		if len(v.states) > v.limit {
			v.full = true
			return
		}
		v.from = uint32(i)
		v.successors(v.unpack(v.states[i]))
	}
}

// emit adds a world, after every server has sealed that can.
func (v *walk) emit(label string, w world) {
	var live uint8
	v.refresh(&w)
	for n := range v.instances {
		if i := &w.instances[n]; i.kind == ready {
			k := &w.keys[i.prime]
			k.token = max(k.token, v.ttl[i.ttl]+v.skew)
		}
	}
	for s, k := range w.keys {
		if k.token > 0 {
			live |= 1 << s
		}
	}
	packed := v.canonical(&w)
	if v.trace != nil {
		v.trace(label, packed)
		return
	}
	if !v.add(packed) {
		return
	}
	for n := range v.instances {
		if i := &w.instances[n]; i.kind == ready && live&^w.maskOf(n) != 0 && v.violation < 0 {
			v.violation = len(v.states) - 1
		}
	}
}

// refresh lets servers read and report again what they have.
func (v *walk) refresh(w *world) {
	ceiling := w.largest()
	for n := range v.instances {
		i := &w.instances[n]
		if i.kind == absent {
			continue
		}
		if i.ttl <= ceiling && w.readable(func(c content) bool { return v.has(i, c) }) {
			i.age, i.ttl = 0, ceiling
		}
		if i.next != 0 && w.readable(func(c content) bool { return i.next == c }) {
			i.read = 0
		}
		if i.report > 0 && (i.kind == ready && i.reported == i.mask && i.reprime == i.prime || i.kind == loading && i.reported == 0) {
			i.report = 1
		}
	}
}

// largest returns the index of the largest ceiling that the store may give.
func (w *world) largest() uint8 { return max(w.ttl, min(w.high, 1)) }

// has reports whether reading a content leaves an instance as it is.
func (v *walk) has(i *modelInstance, c content) bool {
	mask, prime, staged := c.keys()
	partly := i.kind == ready && v.proof == keyset.ProofReports
	return i.prime == prime && (i.mask == mask || partly && i.mask == mask&^staged)
}

// readable calls yes for what the store may give now, until that is true.
func (w *world) readable(yes func(content) bool) bool {
	if yes(w.content()) {
		return true
	}
	for _, r := range w.old {
		if r.content != 0 && yes(r.content) {
			return true
		}
	}
	return false
}

func (w *world) maskOf(n int) uint8 { return w.instances[n].mask }

// story tells how a state is reached.
func (v *walk) story(state int) string {
	var path []int
	for at := state; ; at = int(v.parents[at]) {
		path = append(path, at)
		if at == int(v.parents[at]) {
			break
		}
	}
	var b strings.Builder
	for n := len(path) - 1; n >= 0; n-- {
		w := v.unpack(v.states[path[n]])
		label := "start"
		if n < len(path)-1 {
			v.trace = func(l string, s word) {
				if s == v.states[path[n]] {
					label = l
				}
			}
			v.successors(v.unpack(v.states[path[n+1]]))
			v.trace = nil
		}
		fmt.Fprintf(&b, "%2d %-28s %s\n", len(path)-1-n, label, w.String())
	}
	return b.String()
}

func (v *walk) successors(w world) {
	v.pass(w)
	for n := range v.instances {
		if n == 0 || w.instances[n] != w.instances[n-1] {
			v.serve(w, n)
		}
	}
	if v.apart {
		v.stepwise(w)
	} else {
		v.atomic(w)
	}
}

// pass lets a tick pass.
func (v *walk) pass(w world) {
	for s := range w.keys {
		k := &w.keys[s]
		if k.state > primary || k.state == staged {
			k.age = min(k.age+1, v.oldest(k))
		}
		if k.hid > 0 {
			k.hid = min(k.hid+1, cap3)
		}
		k.token -= min(k.token, 1)
	}
	w.high -= min(w.high, 1)
	for r := range w.old {
		if w.old[r].content == 0 {
			continue
		}
		if w.old[r].age++; w.old[r].age >= v.settle {
			w.old[r] = revision{}
		}
	}
	for n := range w.instances {
		i := &w.instances[n]
		if i.report > 0 {
			// Then the server is not ready, and its report may be dropped.
			if i.report++; i.report-1 >= v.stale {
				i.report, i.reported, i.reprime = 0, 0, 0
				i.leave()
			}
		}
		if i.kind == absent {
			continue
		}
		if i.next != 0 {
			if i.read++; i.read >= v.stale {
				i.next, i.read = 0, 0
			}
		}
		if i.age++; i.age >= v.stale {
			i.leave()
			if v.registry {
				i.report, i.reported, i.reprime = 0, 0, 0
			}
		}
	}
	switch w.phase {
	case gathering:
		if w.first++; w.first > longestGather {
			w.toIdle()
		}
	case saving:
		// A save that runs over its share of settle is given up.
		if w.stamp++; w.stamp > v.settle {
			w.toIdle()
		}
	}
	v.emit("a tick passes", w)
}

// oldest returns the age of a stamp from which on nothing changes any more.
func (v *walk) oldest(k *modelKey) uint8 {
	age := v.settle
	switch {
	case k.state == drained:
		age = v.ttl[k.max] + v.skew
	case v.proof == keyset.ProofSettle:
		age += v.stale
	case v.apart:
		age += longestGather
	case v.registry || v.slow:
		age += v.stale - 1
	}
	return min(age, cap3)
}

// longestGather is how many ticks a keytool may take from its first reading of the clock
// to its decision.
const longestGather = 3

// leave makes an instance absent. What keytool was told by it stays.
func (i *modelInstance) leave() {
	i.kind, i.mask, i.prime, i.ttl, i.age = absent, 0, 0, 0, 0
	i.next, i.read = 0, 0
}

func (w *world) toIdle() {
	w.phase, w.first, w.move, w.slot, w.stamp = idle, 0, 0, 0, 0
	for n := range w.instances {
		w.instances[n].asked, w.instances[n].answered, w.instances[n].anime = 0, 0, 0
	}
}

// serve lets a server do one thing.
func (v *walk) serve(w world, n int) {
	i := w.instances[n]
	with := func(label string, i modelInstance) {
		w := w
		w.instances[n] = i
		v.emit(label, w)
	}
	switch i.kind {
	case absent:
		w.readable(func(c content) bool {
			j := i
			j.kind, j.ttl, j.age = loading, w.largest(), 0
			j.mask, j.prime, _ = c.keys()
			if v.registry && !v.broken.readFirst {
				j.report, j.reported, j.reprime = 1, 0, none
			}
			with("a server starts and reads", j)
			return false
		})
		return
	case loading:
		j := i
		j.kind = ready
		if v.registry && v.broken.readFirst {
			j.report, j.reported, j.reprime = 1, j.mask, j.prime
		}
		with("a server is ready", j)
	case ready:
		w.readable(func(c content) bool {
			if !v.slow {
				v.poll(w, n, c, 0)
				return false
			}
			j := i
			j.next, j.read = c, 0
			with("a server reads", j)
			return false
		})
		if i.next != 0 {
			v.poll(w, n, i.next, i.read)
		}
		if v.registry {
			j := i
			j.report, j.reported, j.reprime = 1, i.mask, i.prime
			with("a server reports", j)
		}
	}
	i.leave()
	i.report, i.reported, i.reprime = 0, 0, 0
	with("a server crashes", i)
}

// poll lets a ready server read a revision, and fail to unwrap any of its new staged keys.
// One that lacks another key is not ready any more.
func (v *walk) poll(w world, n int, c content, ago uint8) {
	i := w.instances[n]
	i.next, i.read = 0, 0
	mask, prime, staged := c.keys()
	fail := staged &^ i.mask
	if v.proof == keyset.ProofSettle {
		fail = 0 // that is outside the guarantee
	}
	i.ttl, i.age, i.prime = w.largest(), ago, prime
	i.mask = mask
	w.instances[n] = i
	v.emit("a server polls", w)
	if fail != 0 {
		w.instances[n].mask = mask &^ fail
		v.emit("a server cannot unwrap", w)
	}
}

// observe returns what a keytool finds that asks all at once. silent is the instance that
// has not reported for long, or -1.
func (v *walk) observe(w *world, silent int) (o uint64) {
	for n := range v.instances {
		i := &w.instances[n]
		var one uint64
		switch {
		case v.registry:
			if i.report > 0 {
				one = observed(i.report, i.reported, i.reprime)
			}
		case i.kind == ready && v.slow && v.broken.lateReport:
			one = observed(1, i.mask, i.prime)
		case i.kind == ready && v.slow:
			one = observed(1+i.read, i.mask, i.prime)
		case i.kind == ready && n == silent:
			one = observed(saidSilent, i.mask, i.prime)
		case i.kind == ready:
			one = observed(saidReady, i.mask, i.prime)
		case i.kind == loading && !v.broken.readFirst:
			one = observed(saidStarting, 0, none)
		}
		o |= one << (7 * n)
	}
	return o
}

// atomic lets somebody do something to the keyset, in no time.
func (v *walk) atomic(w world) {
	d := w.document()
	v.decide(w, d, v.observe(&w, -1))
	if !v.registry && !v.slow && v.proof == keyset.ProofReports {
		for n := range v.instances {
			if w.instances[n].kind == ready {
				v.decide(w, d, v.observe(&w, n))
			}
		}
		v.decide(w, d, 0) // a source that has lost its memory
	}
	v.ungated(w, func(move, slot uint8) { v.save(w, move, slot, 0, 0) })
}

func (v *walk) decide(w world, document, observed uint64) {
	answer := v.next(document, observed, 0)
	if move, slot, ok := v.chosen(&w, answer); ok {
		v.save(w, move, slot, 0, 0)
	}
}

// chosen returns the move of an answer of next, if there is one and room for it.
func (v *walk) chosen(w *world, answer uint8) (move, slot uint8, ok bool) {
	move, slot = answer&7, answer>>3
	if move == stage {
		slot = w.unused()
	}
	return move, slot, move != noMove && slot != none
}

// ungated calls do for each move that needs no gate.
func (v *walk) ungated(w world, do func(move, slot uint8)) {
	for s := range uint8(slots) {
		switch w.keys[s].state {
		case staged:
			do(abort, s)
		case retiring, drained:
			do(rollback, s)
		}
	}
	do(ceiling, 0)
}

// save makes a move whose stamp is some ticks old.
func (v *walk) save(w world, move, slot, delay, stamp uint8) {
	document, ok := v.apply(w.document(), move, slot, stamp)
	if !ok {
		return
	}
	before, ceiling := w.content(), w.ttl
	w.setDocument(document)
	switch {
	case w.ttl > 0:
		w.high = 0
	case ceiling > w.ttl:
		w.high = v.settle - min(delay, v.settle)
	}
	if !v.replaced(&w, before, delay) {
		v.suppressed++
		return
	}
	w.toIdle()
	if v.trace == nil {
		v.moves[move]++
	}
	v.emit(moveNames[move], w)
}

// replaced notes that a content was replaced. It fails if there is no room.
func (v *walk) replaced(w *world, before content, age uint8) bool {
	now := w.content()
	free := -1
	for r := range v.revisions {
		switch old := &w.old[r]; old.content {
		case now, 0:
			*old = revision{}
			free = r
		case before:
			if before != now && age < v.settle {
				old.age = min(old.age, age)
				before = now
			}
		}
	}
	if before == now || age >= v.settle {
		return true
	}
	if free < 0 {
		return false
	}
	w.old[free] = revision{before, age}
	return true
}

// stepwise lets a keytool that gathers, decides and saves at different times go on.
func (v *walk) stepwise(w world) {
	begin := func(move, slot uint8, w world) {
		first := w.first
		w.toIdle()
		w.phase, w.move, w.slot = saving, move, slot
		if v.broken.stampFirst {
			w.first = first
		}
		v.emit("decides: "+moveNames[move], w)
	}
	switch w.phase {
	case idle:
		b := w
		b.phase = gathering
		v.emit("keytool begins", b)
		// What needs no report.
		if move, slot, ok := v.chosen(&w, v.next(w.document(), 0, 0)); ok {
			begin(move, slot, w)
		}
		v.ungated(w, func(move, slot uint8) { begin(move, slot, w) })
	case gathering:
		all := true
		for n := range v.instances {
			if w.instances[n].asked == notAsked {
				all = false
				b := w
				i := &b.instances[n]
				switch {
				case i.kind == ready:
					i.asked, i.answered, i.anime = saidReady, i.mask, i.prime
				case i.kind == loading && !v.broken.readFirst:
					i.asked = saidStarting
				default:
					i.asked = saidNothing
				}
				v.emit("keytool asks", b)
			}
		}
		if all {
			v.conclude(w, begin)
		}
	case saving:
		v.save(w, w.move, w.slot, w.stamp, w.stamp+w.first)
	}
}

// conclude decides when everybody has answered.
func (v *walk) conclude(w world, begin func(move, slot uint8, w world)) {
	var o uint64
	for n := range v.instances {
		switch i := &w.instances[n]; i.asked {
		case saidStarting:
			o |= observed(saidStarting, 0, none) << (7 * n)
		case saidReady:
			o |= observed(saidReady, i.answered, i.anime) << (7 * n)
		}
	}
	if move, slot, ok := v.chosen(&w, v.next(w.document(), o, w.first)); ok {
		begin(move, slot, w)
	}
}
