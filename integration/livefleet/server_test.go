package livefleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/localkek"
	"github.com/echoseal/echoseal/codec/vault"
	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/integration/internal/mixed"
	"github.com/echoseal/echoseal/keyring"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/keyset/etcdstore"
	"github.com/echoseal/echoseal/middleware/gosdk"
	"github.com/echoseal/echoseal/middleware/mcpgo"
)

// A serverConfig says what a server is.
type serverConfig struct {
	Name     string
	SDK      string // goSDK or mcpGo
	Keyset   string // its name
	Store    string // URI
	Services string // URIs
	Registry string // URI, "" for none
	Every    time.Duration
	Report   string        // the address of its reports, HOST:PORT
	Start    time.Duration // how long it may take; 0 for what the ring does by default
	Users    mixed.Users
}

const (
	goSDK    = "go-sdk"
	mcpGo    = "mcp-go"
	audience = "live"
)

// A said is a line of a server's standard output.
type said struct {
	Listening string   `json:",omitempty"` // at HOST:PORT, once it is ready
	Refused   *refused `json:",omitempty"`
}

// A refused is a token that was refused.
type refused struct {
	TokenID, KID string
	Reason       codec.Reason
	At           time.Time
}

// serve is a whole server. It ends when its standard input does.
func serve() int {
	ctx, cancel := context.WithCancel(context.Background())
	endWithParent(cancel)
	if err := runServer(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runServer(ctx context.Context) error {
	var c serverConfig
	if err := readConfig(&c); err != nil {
		return err
	}
	var saying sync.Mutex
	say := func(s said) {
		saying.Lock()
		defer saying.Unlock()
		_ = json.NewEncoder(os.Stdout).Encode(s) // the test may be gone
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ring, err := open(ctx, &c, log)
	if err != nil {
		return err
	}
	defer func() {
		if err := ring.Close(); err != nil {
			log.ErrorContext(ctx, "closing", slog.Any("error", err))
		}
	}()
	policy, err := binding.New(ring, binding.Options{Audience: audience})
	if err != nil {
		return err
	}
	onRefuse := func(_ context.Context, r binding.Refusal) {
		say(said{Refused: &refused{r.TokenID, r.KID, r.Reason, r.Time}})
	}
	var handler http.Handler
	switch c.SDK {
	case goSDK:
		handler = mixed.GoSDK(c.Name, policy, &gosdk.Options{Logger: log, OnRefuse: onRefuse})
	case mcpGo:
		handler = mixed.MCPGo(c.Name, policy, mcpgo.Options{Logger: log, OnRefuse: onRefuse})
	default:
		return fmt.Errorf("there is no SDK %q", c.SDK)
	}
	handler = whileReady(ring, c.Users.Authenticate(handler))

	operators := http.NewServeMux()
	operators.Handle("/report", fleet.Handler(ring.Report))
	_, closeReports, err := listen(ctx, c.Report, operators)
	if err != nil {
		return err
	}
	defer closeReports()
	public, closePublic, err := listen(ctx, "127.0.0.1:0", handler)
	if err != nil {
		return err
	}
	defer closePublic()
	say(said{Listening: public})
	<-ctx.Done()
	return nil
}

func open(ctx context.Context, c *serverConfig, log *slog.Logger) (*keyring.Ring, error) {
	source, err := keyset.SourceOpeners{keyset.FileOpener(), vault.StoreOpener(), etcdstore.Opener()}.Open(ctx, c.Store)
	if err != nil {
		return nil, err
	}
	services, err := keyset.Openers{localkek.Opener(), vault.Opener()}.Open(ctx, strings.Fields(c.Services)...)
	if err != nil {
		return nil, err
	}
	config := keyring.Config{Name: c.Keyset, Source: source, Services: services, Every: c.Every, StartTimeout: c.Start, Host: c.Name, Logger: log}
	if c.Registry != "" {
		registry, err := etcdstore.OpenRegistry(ctx, c.Registry)
		if err != nil {
			return nil, err
		}
		config.Registry = registry
	}
	return keyring.Open(ctx, config)
}

// whileReady answers as a server that no balancer sends anything to while its ring is not
// ready. What failed since the ring stopped being ready while it was answered is to be
// tried again: the token that came in is as good as before.
func whileReady(ring *keyring.Ring, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		err := ring.Err()
		if err == nil {
			handler.ServeHTTP(answer, r)
			if bytes.Contains(answer.Body.Bytes(), []byte(`"code":-32603`)) {
				err = ring.Err()
			}
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = answer.Body.WriteTo(w) // whoever asked has left
	})
}

// listen serves at an address. The function that is returned ends it in an orderly way.
func listen(ctx context.Context, address string, handler http.Handler) (at string, end func(), err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	return l.Addr().String(), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			_ = server.Close()
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, err)
		}
	}, nil
}
