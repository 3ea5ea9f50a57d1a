package keyring

import "time"

const (
	// searchEvery is how much time is between two reads that unknown key ids start.
	searchEvery = time.Second
	// searchWait is how long a token waits for such a read.
	searchWait = 500 * time.Millisecond
)

// A search is one read of the document on behalf of one unknown key id. There is one at
// a time, so a flood of made-up tokens costs one read a second and no memory.
type search struct {
	kid   kid
	began time.Time
	done  chan struct{} // closed when the document was read and its keys were tried
	taken bool          // by follow, whose field this is
}

// await finds the key of a token that s does not hold, where it comes in time.
func (r *Ring) await(s *snapshot, id kid) *heldKey {
	if _, revoked := s.revoked[id]; revoked {
		return nil
	}
	if search := r.seek(id); search != nil {
		timer := time.NewTimer(searchWait)
		defer timer.Stop()
		select {
		case <-search.done:
		case <-timer.C:
		case <-r.life.Done():
		}
	}
	return r.current.Load().keys[id] // even unsought: another token's search may just have ended
}

// seek returns the search for a key id if there is one, and starts it if it may.
func (r *Ring) seek(id kid) *search {
	last := r.search.Load()
	if last != nil {
		select {
		case <-last.done:
			if elapsed(last.began, r.config.Now()) < searchEvery {
				return nil
			}
		default:
			return last.of(id)
		}
	}
	next := &search{kid: id, began: r.config.Now(), done: make(chan struct{})}
	if !r.search.CompareAndSwap(last, next) {
		return r.search.Load().of(id)
	}
	r.wake()
	return next
}

// of returns the search if it is for that key id.
func (s *search) of(id kid) *search {
	if s.kid != id {
		return nil
	}
	return s
}

// wake makes follow read the document soon.
func (r *Ring) wake() { signal(r.wakes) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is one on its way
	}
}
