package livefleet

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/integration/internal/mixed"
)

const (
	clients = 10
	slow    = 4 // of them hold each token almost as long as it lives
	bearer  = "token-of-alice"
)

var users = mixed.Users{bearer: {ClientID: "app", Issuer: "https://issuer.example", Subject: "alice"}}

// totals are those of all fleets.
var totals struct{ rounds, refused atomic.Int64 }

// A load is clients that make calls of several rounds, one after the other, at all times.
//
// A round is valid if its token is alive when a server looks at it, and not under a key
// that is revoked. The token's age counts from when the request was sent that it is the
// answer to, so it is never thought younger than it is.
type load struct {
	url    string
	ttl    time.Duration
	cancel context.CancelFunc
	wait   sync.WaitGroup

	finished    atomic.Int64 // rounds that a server has answered
	hops        atomic.Int64 // of them, those whose token was another server's,
	stayed      atomic.Int64 // and those whose token was the same one's
	late        atomic.Int64 // refused, and rightly so: the token had died on its way
	obeyed      atomic.Int64 // refused, and rightly so: the key is revoked
	unavailable atomic.Int64 // tries at which no server was ready
	lost        atomic.Int64 // calls given up because no server was ready while the token lived
	longest     atomic.Int64 // how old a token was at most that was accepted

	mu       sync.Mutex
	wrong    []string               // what must not happen
	refused  map[string]string      // valid rounds that were refused, by token id
	refusals []refused              // what servers said
	dies     map[string]time.Time   // when each token does, or later, by token id
	sealed   map[string]time.Time   // when which server was last asked for what it sealed with which key
	revoked  map[string]*revocation // by key id
}

// A revocation is that of a key.
type revocation struct {
	done time.Time // from then on no server accepts it
}

func newLoad(url string, ttl time.Duration) *load {
	return &load{url: url, ttl: ttl, cancel: func() {}, refused: make(map[string]string), dies: make(map[string]time.Time), sealed: make(map[string]time.Time), revoked: make(map[string]*revocation)}
}

// start starts the clients.
func (l *load) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	l.cancel = cancel
	for n := range clients {
		hold := func() time.Duration { return rand.N(300 * time.Millisecond) }
		switch {
		case n < slow:
			hold = func() time.Duration { return l.ttl - rand.N(l.ttl/5) }
		case n == clients-1:
			hold = func() time.Duration { return rand.N(l.ttl) }
		}
		l.wait.Go(func() {
			for call := 0; ctx.Err() == nil; call++ {
				l.call(ctx, fmt.Sprintf("%d-%d", n, call), hold)
			}
		})
	}
	t.Cleanup(l.stop)
}

func (l *load) stop() {
	l.cancel()
	l.wait.Wait()
}

func (l *load) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
}

// call makes one call, round by round.
func (l *load) call(ctx context.Context, name string, hold func() time.Duration) {
	request := mixed.Request{Method: binding.MethodCallTool, Target: "book", Arguments: `{"value":"` + name + `"}`, Bearer: bearer}
	var token, server string
	var dies time.Time // when the token does, or later
	for round := 0; ; round++ {
		sent := time.Now()
		answer, at, ok := l.round(ctx, request, token, server, dies)
		if !ok {
			return
		}
		l.finished.Add(1)
		totals.rounds.Add(1)
		if token != "" {
			l.longest.Store(max(l.longest.Load(), int64(sent.Sub(dies.Add(-l.ttl)))))
			if at != server {
				l.hops.Add(1)
			} else {
				l.stayed.Add(1)
			}
		}
		if answer.State == "" {
			if n := len(strings.Fields(answer.Text)); n != mixed.Rounds+1 || round != mixed.Rounds {
				l.fail("call %s ends after %d rounds with %q", name, round+1, answer.Text)
			}
			return
		}
		token, server, dies = answer.State, at, sent.Add(l.ttl)
		l.made(token, at, sent, dies)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(sent.Add(hold()))):
		}
	}
}

func (l *load) made(token, at string, sent, dies time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dies[binding.TokenID(token)] = dies
	if by := at + " " + kidOf(token); l.sealed[by].Before(sent) {
		l.sealed[by] = sent
	}
}

// awaitSealed waits until a server has sealed with a key what it was asked for since a time.
func (l *load) awaitSealed(t *testing.T, server, kid string, since time.Time) {
	t.Helper()
	eventually(t, server+" seals with "+kid, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.sealed[server+" "+kid].After(since)
	})
}

// round sends one round, again and again while no server is ready. It reports whether there
// is an answer to go on with.
func (l *load) round(ctx context.Context, request mixed.Request, token, server string, dies time.Time) (answer mixed.Response, at string, ok bool) {
	for {
		if token != "" && !time.Now().Before(dies) {
			l.lost.Add(1)
			return answer, "", false
		}
		sent := time.Now()
		status, body, at, err := l.post(ctx, request, token, server)
		switch {
		case ctx.Err() != nil:
			return answer, "", false
		case err != nil:
			l.fail("the balancer: %v", err)
			return answer, "", false
		case status == http.StatusServiceUnavailable:
			l.unavailable.Add(1)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		case status != http.StatusOK && status != http.StatusBadRequest: // the latter is what a refusal has
			l.fail("%s answers with status %d: %s", at, status, body)
			return answer, "", false
		}
		answer, err = mixed.Parse(body)
		switch {
		case err != nil:
			l.fail("%s: %v", at, err)
			return answer, "", false
		case answer.Err == mixed.Frozen:
			l.judge(token, at, dies)
			return answer, "", false
		case answer.Err != "":
			l.fail("%s answers %s", at, answer.Err)
			return answer, "", false
		}
		if r := l.revocation(kidOf(token)); r != nil && !r.done.IsZero() && sent.After(r.done) {
			l.fail("%s accepts a token under %s, which is revoked", at, kidOf(token))
		}
		return answer, at, true
	}
}

func (l *load) post(ctx context.Context, request mixed.Request, token, server string) (status int, body []byte, at string, err error) {
	r, err := request.HTTP(ctx, l.url, request.Body(token))
	if err != nil {
		return 0, nil, "", err
	}
	r.Header.Set(lastServer, server)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, "", err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, body, response.Header.Get(lastServer), err
}

// judge looks at a refusal whose answer has just come.
func (l *load) judge(token, at string, dies time.Time) {
	now, kid := time.Now(), kidOf(token)
	switch {
	case l.revocation(kid) != nil:
		l.obeyed.Add(1)
	case now.Before(dies):
		l.mu.Lock()
		defer l.mu.Unlock()
		l.refused[binding.TokenID(token)] = fmt.Sprintf("by %s, under %s, %v before its end", at, kid, dies.Sub(now))
	default:
		l.late.Add(1) // what the server says of when it looked is looked at in the end
	}
}

// verdict returns what must not have happened, once all clients and servers have ended.
func (l *load) verdict() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.refusals {
		if dies, known := l.dies[r.TokenID]; known && r.At.Before(dies) && l.revoked[r.KID] == nil {
			l.refused[r.TokenID] = fmt.Sprintf("under %s (%s), %v before its end", r.KID, r.Reason, dies.Sub(r.At))
		}
	}
	totals.refused.Add(int64(len(l.refused)))
	wrong := l.wrong
	for id, how := range l.refused {
		wrong = append(wrong, "VALID ROUND REFUSED: token "+id+" "+how)
	}
	return wrong
}

// told is told what a server says of a token that it has refused.
func (l *load) told(r refused) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusals = append(l.refusals, r)
}

// revoke says that a key is about to be revoked. The function that is returned says that
// every server has obeyed.
func (l *load) revoke(kid string) (obeyed func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := new(revocation)
	l.revoked[kid] = r
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.revoked[kid] = &revocation{done: time.Now()}
	}
}

func (l *load) revocation(kid string) *revocation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.revoked[kid]
}

// await waits until so many more rounds are finished.
func (l *load) await(t *testing.T, rounds int64) {
	t.Helper()
	goal := l.finished.Load() + rounds
	eventually(t, fmt.Sprintf("%d rounds more", rounds), func() bool { return l.finished.Load() >= goal })
}

func (l *load) String() string {
	return fmt.Sprintf("%d rounds finished, %d of them at another server; oldest token accepted %v of %v; rightly refused: %d too late, %d under a revoked key; no server ready: %d tries, %d calls",
		l.finished.Load(), l.hops.Load(), time.Duration(l.longest.Load()).Round(time.Millisecond), l.ttl, l.late.Load(), l.obeyed.Load(), l.unavailable.Load(), l.lost.Load())
}

// kidOf returns the key id of a token.
func kidOf(token string) string {
	text, ok := strings.CutPrefix(token, "v1.")
	if !ok || len(text) < 6 {
		return ""
	}
	id, err := base64.RawURLEncoding.DecodeString(text[:6])
	if err != nil {
		return ""
	}
	return hex.EncodeToString(id)
}

// some lets some rounds pass, if they do within a little while.
func (l *load) some() {
	goal := l.finished.Load() + 30
	for deadline := time.Now().Add(2 * time.Second); l.finished.Load() < goal && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
}
