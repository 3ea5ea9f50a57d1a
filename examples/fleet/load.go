package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	clients = 12
	// Of the clients these hold each token almost as long as it lives.
	slow = 4
	// margin is what a slow client leaves for the way to the server.
	margin = time.Second
)

// A load is clients that call the tool all the time.
type load struct {
	finished, refused atomic.Int64
	longest           atomic.Int64 // how long a token was held that was accepted

	cancel context.CancelFunc
	wait   sync.WaitGroup
	once   sync.Once
	mu     sync.Mutex
	errs   []error
}

func startLoad(ctx context.Context, address string, screen *screen) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{cancel: cancel}
	screen.watch(func() string {
		return fmt.Sprintf("%d rounds finished, %d refused", l.finished.Load(), l.refused.Load())
	})
	for i := range clients {
		l.wait.Go(func() {
			hold := func() time.Duration { return rand.N(200 * time.Millisecond) }
			if i < slow {
				hold = func() time.Duration { return ttl - margin - rand.N(ttl/4) }
			}
			if err := l.client(ctx, address, i, hold); err != nil && ctx.Err() == nil {
				l.fail(fmt.Errorf("client %d: %w", i, err))
			}
		})
	}
	return l
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

// stop ends the clients and returns what went wrong with them. It can be called again.
func (l *load) stop() error {
	l.cancel()
	l.wait.Wait()
	var err error
	l.once.Do(func() { err = errors.Join(l.errs...) })
	return err
}

// client makes one call after the other.
func (l *load) client(ctx context.Context, address string, number int, hold func() time.Duration) error {
	client := mcp.NewClient(&mcp.Implementation{Name: "fleet", Version: "1.0.0"}, &mcp.ClientOptions{
		MultiRoundTrip:     &mcp.MultiRoundTripOptions{Disabled: true}, // the rounds are made below, to hold the tokens
		ElicitationHandler: confirm,
	})
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: "http://" + address}, nil)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }()
	for n := 0; ctx.Err() == nil; n++ {
		article := fmt.Sprintf("article-%d-%d", number, n)
		if err := l.call(ctx, session, article, hold); err != nil {
			return err
		}
	}
	return nil
}

func confirm(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	return &mcp.ElicitResult{Action: "accept"}, nil
}

// call makes one call, round by round.
func (l *load) call(ctx context.Context, session *mcp.ClientSession, article string, hold func() time.Duration) error {
	params := &mcp.CallToolParams{Name: "order", Arguments: map[string]any{"article": article}}
	var held time.Duration
	for {
		began := time.Now()
		result, err := session.CallTool(ctx, params)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the load has ended
		case err != nil && params.RequestState != "" && strings.Contains(err.Error(), "Invalid or expired requestState"):
			l.refused.Add(1)
			return nil
		case err != nil:
			return err
		}
		l.finished.Add(1)
		if params.RequestState != "" {
			l.longest.Store(max(l.longest.Load(), int64(held)))
		}
		if !result.NeedsInput() {
			if len(result.Content) != 1 || result.IsError {
				return fmt.Errorf("the tool answered %+v", result)
			}
			return nil
		}
		params.RequestState = result.RequestState
		params.InputResponses = mcp.InputResponseMap{"confirm": &mcp.ElicitResult{Action: "accept"}}
		held = max(0, hold()-time.Since(began))
		if !sleep(ctx, held) {
			return nil
		}
	}
}

// sleep reports whether the time has passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// held returns how long an accepted token was held at most.
func (l *load) held() time.Duration { return time.Duration(l.longest.Load()) }

// await waits until so many rounds are finished.
func (l *load) await(ctx context.Context, n int64) error {
	for l.finished.Load() < n {
		l.mu.Lock()
		failed := len(l.errs) > 0
		l.mu.Unlock()
		if failed {
			return errors.New("the clients have failed")
		}
		if !sleep(ctx, 10*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// outlive waits until every token is spent that exists now.
func (l *load) outlive(ctx context.Context, ttl time.Duration) error {
	if !sleep(ctx, ttl) {
		return context.Cause(ctx)
	}
	return nil
}
