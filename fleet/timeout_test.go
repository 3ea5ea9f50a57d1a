package fleet

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// lookup finds addresses, or nothing for as long as its context lasts.
type lookup []netip.Addr

func (l lookup) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	if l == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return l, nil
}

// piped is a transport to an instance that says something, and then nothing more.
func piped(says string) fetcher {
	return fetcher{&http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			mine, its := net.Pipe()
			context.AfterFunc(ctx, func() { _ = its.Close() })
			go func() {
				buf := make([]byte, 4<<10)
				if _, err := its.Read(buf); err == nil {
					_, _ = its.Write([]byte(says))
				}
			}()
			return mine, nil
		},
	}}
}

// Without any deadline of the caller a source waits five seconds: for one address that is
// silent, or stops in the middle, for hundreds of them at once, and for a name.
func TestSourcesWaitFiveSeconds(t *testing.T) {
	at, err := url.Parse("http://mcp.test:80/")
	if err != nil {
		t.Fatal(err)
	}
	var many lookup
	for n := range parallel {
		many = append(many, netip.AddrFrom4([4]byte{127, 0, 0, byte(n)}))
	}
	for name, c := range map[string]struct {
		source Source
		want   int // answers, each unreachable; none: the source is
	}{
		"silent":         {&httpSource{at: at, fetcher: piped("")}, 1},
		"stops":          {&httpSource{at: at, fetcher: piped("HTTP/1.1 200 OK\r\n\r\n{")}, 1},
		"many addresses": {&dnsSource{at: at, port: 80, resolver: many, fetcher: piped("")}, parallel},
		"no answer":      {&dnsSource{at: at, port: 80, resolver: lookup(nil), fetcher: piped("")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				answers, err := c.source.Collect(context.WithoutCancel(t.Context()))
				if took := time.Since(began); took != timeout {
					t.Errorf("it took %v", took)
				}
				if len(answers) != c.want || (err == nil) != (c.want > 0) || err != nil && !errors.Is(err, ErrUnreachable) {
					t.Fatalf("%d answers, %v", len(answers), err)
				}
				for _, a := range answers {
					if !errors.Is(a.Err, ErrUnreachable) || !strings.Contains(a.Err.Error(), "in time") {
						t.Errorf("%+v", a)
					}
				}
			})
		})
	}
}
