package livefleet

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/echoseal/echoseal/integration/internal/loopback"
	"github.com/echoseal/echoseal/keyset"
)

// All processes run on one machine, so that times can be short that would be minutes
// elsewhere.
const (
	keysetName = "live"
	ttl        = 4 * time.Second
	settle     = 1500 * time.Millisecond
	maxSkew    = 500 * time.Millisecond
	maxStale   = 5 * time.Second
	servers    = 6
)

// patience is for what happens soon on a machine that is busy.
const patience = 3 * time.Minute

// A world is a fleet, the clients that call it, and its operator.
type world struct {
	*testing.T

	name  string
	place *place
	dns   bool // keytool finds the reports under a name, not in a list

	dir      string
	port     string    // of all reports under a name
	servers  []*server // that keytool is told of
	number   int       // of servers that there were
	peers    []*peer
	balancer *balancer
	load     *load
}

// A server is one of the fleet.
type server struct {
	*process

	config serverConfig
	public string // where it serves clients
}

// newWorld makes a keyset, starts six servers that follow it, and clients.
func newWorld(t *testing.T, name string, p *place, sdks ...string) *world {
	t.Helper()
	w := &world{T: t, name: name, place: p, dir: t.TempDir(), balancer: newBalancer(t)}
	w.dns = p.registry == "" && strings.HasPrefix(p.store, "hashivault")
	_, w.port, _ = net.SplitHostPort(loopback.FreeAt(t, "127.0.1.1"))
	w.list()
	w.keytool(0, "init", "--ttl", ttl.String(), "--settle", settle.String(), "--max-skew", maxSkew.String(), "--max-stale", maxStale.String(),
		"--min-instances", fmt.Sprint(servers/2))
	w.load = newLoad(w.balancer.URL, ttl)
	for n := range servers {
		w.add(sdks[n%len(sdks)])
	}
	w.load.start(t)
	w.load.await(t, 30)
	return w
}

// finish ends everything, and says what was wrong.
func (w *world) finish() {
	w.Helper()
	w.load.stop()
	for _, s := range w.servers {
		if code := s.stop(); code != 0 {
			w.Errorf("%s ends with %d", s.config.Name, code)
		}
	}
	for _, p := range w.peers {
		w.end(p.runs[len(p.runs)-1])
	}
	wrong := w.load.verdict()
	for _, what := range wrong[:min(len(wrong), 20)] {
		w.Error(what)
	}
	if len(wrong) > 20 {
		w.Errorf("and %d more", len(wrong)-20)
	}
	if w.Failed() {
		for _, s := range w.servers {
			w.Logf("log of %s:\n%s", s.config.Name, s.log)
		}
	}
	w.Logf("%s: %s", w.name, w.load)
}

// add lists one more server and starts it: in that order, so that nothing is promoted
// that it has not got.
func (w *world) add(sdk string) *server {
	w.Helper()
	w.number++
	s := &server{config: serverConfig{
		Name: fmt.Sprintf("%s-%d", w.name, w.number), SDK: sdk, Keyset: keysetName, Users: users,
		Store: w.place.store, Services: w.place.services, Registry: w.place.registry,
		Every: time.Duration(100+w.number%servers*250) * time.Millisecond,
	}}
	if w.dns {
		s.config.Report = net.JoinHostPort(fmt.Sprintf("127.0.1.%d", w.number), w.port)
	} else {
		s.config.Report = loopback.Free(w.T)
	}
	w.servers = append(w.servers, s)
	w.list()
	if !w.launch(s) {
		w.Fatalf("%s does not start:\n%s", s.config.Name, s.log)
	}
	return s
}

// launch starts a server, for the first time or again, and reports whether it has come up.
func (w *world) launch(s *server) bool {
	w.Helper()
	return <-w.begin(s)
}

// begin starts a server. Once it is known whether it has come up, the channel tells.
func (w *world) begin(s *server) <-chan bool {
	w.Helper()
	w.balancer.remove(s.config.Name)
	listening := make(chan string, 1)
	p := start(w.T, serverRole, s.config, func(line []byte) {
		var what said
		switch err := json.Unmarshal(line, &what); {
		case err != nil:
			w.load.fail("%s says %q", s.config.Name, line)
		case what.Refused != nil:
			w.load.told(*what.Refused)
		default:
			listening <- what.Listening
		}
	})
	s.process = p
	up := make(chan bool, 1)
	go func() {
		select {
		case s.public = <-listening:
			w.balancer.add(s.config.Name, "http://"+s.public)
			up <- true
		case <-p.ended:
			up <- false
		}
	}()
	return up
}

// remove stops a server in an orderly way, and takes it off the list.
func (w *world) remove(s *server) {
	w.Helper()
	if code := s.stop(); code != 0 {
		w.Errorf("%s ends with %d", s.config.Name, code)
	}
	w.balancer.remove(s.config.Name)
	w.servers = slices.DeleteFunc(w.servers, func(other *server) bool { return other == s })
	w.list()
}

// list publishes the addresses of the reports under their name.
func (w *world) list() {
	w.Helper()
	var text strings.Builder
	for _, s := range w.servers {
		host, _, _ := net.SplitHostPort(s.config.Report)
		text.WriteString(host + "\n")
	}
	draft := w.hosts() + ".new"
	err := os.WriteFile(draft, []byte(text.String()), 0o600)
	if err == nil {
		err = os.Rename(draft, w.hosts())
	}
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) hosts() string { return filepath.Join(w.dir, "hosts") }

// reports are the URIs where keytool finds the reports now.
func (w *world) reports() string {
	switch {
	case w.place.registry != "":
		return w.place.registry
	case w.dns:
		return "dns+http://fleet.example:" + w.port + "/report"
	}
	var all []string
	for _, s := range w.servers {
		all = append(all, "http://"+s.config.Report+"/report")
	}
	return strings.Join(all, " ")
}

// label is what keytool calls a server that does not answer.
func (w *world) label(s *server) string {
	if w.place.registry != "" {
		return s.config.Name
	}
	return s.config.Report
}

// A tool is a keytool that runs.
type tool struct {
	*process

	w      *world
	args   []string
	mu     sync.Mutex
	out    strings.Builder
	offset int // of its log, up to which it was read
}

// start starts keytool, with what is to happen to it.
func (w *world) start(h *hook, args ...string) *tool {
	w.Helper()
	c := toolConfig{Hosts: w.hosts(), Hook: h, Env: map[string]string{
		"ECHOSEAL_STORE": w.place.toolStore, "ECHOSEAL_NAME": keysetName, "ECHOSEAL_KEY_SERVICES": w.place.toolServices, "ECHOSEAL_FLEET": w.reports(),
	}}
	k := &tool{w: w, args: args}
	k.process = start(w.T, keytoolRole, c, func(line []byte) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.out.Write(append(line, '\n'))
	}, args...)
	return k
}

// keytool runs keytool, which has to end with a code, and returns its output.
func (w *world) keytool(code int, args ...string) string {
	w.Helper()
	return w.start(nil, args...).ends(code)
}

// ends waits for the end, which has to be with one of the codes.
func (k *tool) ends(codes ...int) string {
	k.w.Helper()
	select {
	case <-k.ended:
	case <-time.After(patience):
		k.w.Fatalf("keytool %s does not end:\n%s", strings.Join(k.args, " "), k.log)
	}
	if code := k.code(); !slices.Contains(codes, code) {
		k.w.Fatalf("keytool %s ends with %d, not %d:\n%s%s", strings.Join(k.args, " "), code, codes, k.log, &k.out)
	}
	return k.out.String()
}

// says waits until keytool says something that it has not said before.
func (k *tool) says(text string) {
	k.w.Helper()
	ctx, cancel := context.WithTimeout(k.w.Context(), patience)
	defer cancel()
	go func() {
		<-k.ended
		cancel()
	}()
	if !k.log.Await(ctx, k.offset, text) && !strings.Contains(k.log.String()[k.offset:], text) {
		k.w.Fatalf("keytool %s does not say %q:\n%s%s", strings.Join(k.args, " "), text, k.log, &k.out)
	}
	// What it has said since then may be waited for next.
	k.offset += strings.Index(k.log.String()[k.offset:], text) + len(text)
}

// interrupt ends keytool as Control-C does.
func (k *tool) interrupt() {
	k.w.Helper()
	k.signal(syscall.SIGINT)
	k.ends(130)
}

// document reads the keyset.
func (w *world) document() *keyset.Document {
	w.Helper()
	d, err := w.place.document(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return d
}

func (w *world) primary() string {
	w.Helper()
	return w.document().Primary().KID
}

// settled checks that nothing is unfinished, and which key seals: another than old.
func (w *world) settled(old string) {
	w.Helper()
	d := w.document()
	if d.Unfinished() || d.Primary().KID == old {
		w.Fatalf("the keyset is not rotated: the primary is %s, it was %s, unfinished: %v", d.Primary().KID, old, d.Unfinished())
	}
	w.keytool(0, "status", "--exit-code")
}

// holds returns the name of a file that keytool is held by.
func (w *world) holds() string {
	return filepath.Join(w.dir, fmt.Sprintf("hold-%d", time.Now().UnixNano()))
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: it does not happen", what)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// ready reports whether a server lets clients in.
func (s *server) ready() bool {
	response, err := http.Get("http://" + s.public)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode != http.StatusServiceUnavailable
}
