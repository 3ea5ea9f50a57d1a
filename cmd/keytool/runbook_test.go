package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/echoseal/echoseal/keyset"
)

// The README and the pages for operators show what keytool prints: each command on them is run, and what
// it prints is compared. With UPDATE_RUNBOOK=1 the pages are written anew.
//
// Beside what the scripts of TestScript know, what happens meanwhile is told with
//
//	servers NAME…    start instances, each at an address; ECHOSEAL_FLEET names them
//	dies NAME        nothing listens at the address of an instance any more
//	interrupt N      the next command is interrupted when it has printed N lines
//
// The clock is that of the scripts, so times are what they are. Ids, addresses and the
// folder are other ones on the pages, always the same and of the same length.
func TestRunbook(t *testing.T) {
	r := &runbook{seen: make(map[string]bool)}
	for name, home := range map[string]string{"README.md": "/tmp/try", "docs/runbook.md": "/etc/echoseal", "docs/runbook-status.md": "/etc/echoseal"} {
		p, err := readPage(filepath.Join("..", "..", filepath.FromSlash(name)), home)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.commands) == 0 {
			t.Errorf("%s: nothing is typed on it", p.path)
		}
		t.Run(name, func(t *testing.T) { r.run(t, p) })
	}
	if t.Failed() {
		return
	}
	t.Run("every state is shown", r.everyState)
}

type runbook struct {
	mu   sync.Mutex
	seen map[string]bool // verdicts, codes of reasons, phases and health that a status had
}

func (r *runbook) run(t *testing.T, p *page) {
	dir := t.TempDir()
	var files []string
	for n, s := range p.sections {
		if len(s.script) == 0 {
			continue
		}
		file := filepath.Join(dir, fmt.Sprintf("%02d-%s.txt", n, slug(s.title)))
		if err := os.WriteFile(file, []byte(strings.Join(s.script, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	t.Run("sections", func(t *testing.T) {
		testscript.Run(t, testscript.Params{
			Files:               files,
			RequireExplicitExec: true,
			Setup: func(env *testscript.Env) error {
				if err := setUp(env); err != nil {
					return err
				}
				env.Values[deskKey{}] = newDesk(env)
				return nil
			},
			Cmds: withWorldCommands(commands{
				"servers": startServers, "dies": killServer, "interrupt": interrupt,
				"type": func(ts *testscript.TestScript, _ bool, args []string) {
					n, err := strconv.Atoi(args[0])
					ts.Check(err)
					r.typed(ts, p, p.commands[n])
				},
			}),
		})
	})
	if updating() && !t.Failed() {
		if err := p.rewrite(); err != nil {
			t.Fatal(err)
		}
	}
}

func updating() bool { return os.Getenv("UPDATE_RUNBOOK") != "" }

var notInNames = regexp.MustCompile("[^a-z0-9]+")

func slug(title string) string { return notInNames.ReplaceAllString(strings.ToLower(title), "-") }

// A desk is where an operator types.
type desk struct {
	work      string
	code      int // of the last command
	interrupt int // lines after which the next command is interrupted
	ids       ids
	servers   map[string]*http.Server
	free      []net.Listener // of the next servers
}

type deskKey struct{}

func deskOf(ts *testscript.TestScript) *desk { return ts.Value(deskKey{}).(*desk) }

func newDesk(env *testscript.Env) *desk {
	return &desk{work: env.WorkDir, ids: ids{shown: make(map[string]string), real: make(map[string]string)}, servers: make(map[string]*http.Server)}
}

// The ids on the pages, by their kind, in the order in which a section comes to them.
var shownIDs = map[string][]string{
	"key": {"4c11d0e2", "9f2c61ab", "01d4a2c3", "77aa0b1c", "c58e3f90", "2be61d47", "e0937ac5", "6d12f8b4", "b3a4095e", "58cd7e21", "f6170b9d", "8a3ed246"},
	"kek": {"5f0c2ab97d31e864", "c4928e6f01ba73d5", "1ae7d35096fc48b2"},
	"at": {
		"10.20.7.11:9464", "10.20.7.12:9464", "10.20.7.13:9464", "10.20.7.14:9464", "10.20.7.15:9464", "10.20.7.16:9464",
		"10.20.7.17:9464", "10.20.7.18:9464", "10.20.7.19:9464", "10.20.7.20:9464", "10.20.7.21:9464",
	},
}

// The ids of a section: those that are real, and those on the page.
type ids struct {
	shown, real map[string]string
	used        [3]int
}

var anID = regexp.MustCompile(`\b(?:[0-9a-f]{16}|[0-9a-f]{8}|127\.0\.0\.1:[0-9]{5}|10\.20\.7\.[0-9]+:9464)\b`)

func kindOf(id string) (string, int) {
	switch {
	case strings.Contains(id, ":"):
		return "at", 2
	case len(id) == 16:
		return "kek", 1
	default:
		return "key", 0
	}
}

// show returns an id as the page has it.
func (i *ids) show(id string) string {
	if i.shown[id] == "" {
		kind, n := kindOf(id)
		i.shown[id] = shownIDs[kind][i.used[n]] // a section that has more needs more of them
		i.real[i.shown[id]] = id
		i.used[n]++
	}
	return i.shown[id]
}

func (i *ids) showAll(text string) string { return anID.ReplaceAllStringFunc(text, i.show) }

// mean returns a command with the ids that are real.
func (i *ids) mean(ts *testscript.TestScript, text string) string {
	return anID.ReplaceAllStringFunc(text, func(id string) string {
		if i.real[id] == "" {
			ts.Fatalf("no output has shown %s before: in this section the next ones are %v", id, i.real)
		}
		return i.real[id]
	})
}

// look makes the keys of the keyset known, in its order.
func (d *desk) look(ts *testscript.TestScript) {
	text, err := os.ReadFile(ts.MkAbs(ts.Getenv("ECHOSEAL_STORE")))
	if err != nil {
		return // there is none yet
	}
	doc, err := keyset.Parse(text)
	if err != nil {
		return // the section is about one that is damaged
	}
	slices.SortStableFunc(doc.Keys, func(a, b keyset.Key) int { return cmp.Compare(a.Created.UnixNano(), b.Created.UnixNano()) })
	for _, k := range doc.Keys {
		d.ids.show(k.KID)
	}
}

// typed types a command, and compares what it prints.
func (r *runbook) typed(ts *testscript.TestScript, p *page, c *typed) {
	d := deskOf(ts)
	d.look(ts)
	text := d.ids.mean(ts, strings.ReplaceAll(c.text, p.home, d.work))
	if !strings.Contains(text, "echo $?") && d.code != 0 {
		ts.Fatalf("%s:%d: the command before has exited with %d, and the page does not tell: $ echo $?", p.path, c.line, d.code)
	}
	out := d.shell(ts, text)
	d.look(ts)
	c.got = nil
	if out != "" {
		c.got = strings.Split(strings.TrimSuffix(d.ids.showAll(strings.ReplaceAll(out, d.work, p.home)), "\n"), "\n")
	}
	if want := p.lines[c.from:c.to]; !updating() && !slices.Equal(c.got, want) {
		ts.Fatalf("%s:%d: $ %s\nthe page shows\n%s\nand it prints (UPDATE_RUNBOOK=1 writes the page anew)\n%s", p.path, c.line, c.text, strings.Join(want, "\n"), strings.Join(c.got, "\n"))
	}
	if command, _, _ := strings.Cut(text, " |"); isStatus.MatchString(command) && d.code == 0 {
		r.status(ts, command)
	}
}

var aSetting = regexp.MustCompile(`([A-Z_]+)=("[^"]*"|\S+)`)

// shell runs a command as a shell does whose last one has exited with d.code.
func (d *desk) shell(ts *testscript.TestScript, text string) string {
	if settings, ok := strings.CutPrefix(text, "export "); ok {
		for _, s := range aSetting.FindAllStringSubmatch(settings, -1) {
			ts.Setenv(s[1], strings.Trim(s[2], `"`))
		}
		return ""
	}
	script := fmt.Sprintf("exec 2>&1; umask 022; (exit %d)\n%s", d.code, text)
	if d.interrupt > 0 {
		// Job control, so that an interrupt is not ignored; a hold, so that time stands.
		script = fmt.Sprintf(`set -m; export TEST_HOLD=$WORK/.never; %s >.printed 2>&1 &
until [ $(wc -l <.printed) -ge %d ]; do sleep 0.02; done; kill -INT $!; wait $!; code=$?; cat .printed; exit $code`, text, d.interrupt)
		d.interrupt = 0
	}
	d.code = 0
	var exit *exec.ExitError
	if err := ts.Exec("bash", "-c", script); errors.As(err, &exit) {
		d.code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	return ts.ReadFile("stdout")
}

var isStatus = regexp.MustCompile(`^([A-Z_]+= )?keytool status\b`)

// status notes which state a keytool status has just shown.
func (r *runbook) status(ts *testscript.TestScript, command string) {
	ts.Check(ts.Exec("bash", "-c", command+" -o json"))
	var s struct {
		Verdict string `json:"verdict"`
		Reasons []struct {
			Code string `json:"code"`
		} `json:"reasons"`
		Rotation struct {
			Phase string `json:"phase"`
			State string `json:"state"`
		} `json:"rotation"`
		Fleet struct {
			Instances []struct {
				Health string `json:"health"`
			} `json:"instances"`
		} `json:"fleet"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &s))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[s.Verdict] = true
	r.seen[s.Rotation.Phase+" "+s.Rotation.State] = true
	for _, reason := range s.Reasons {
		r.seen[reason.Code] = true
	}
	for _, i := range s.Fleet.Instances {
		health, _, _ := strings.Cut(i.Health, ":")
		r.seen[health] = true
	}
}

// notOfStatus are the codes that no status has, and why.
var notOfStatus = map[string]string{
	"due_replace": "it is for rotate --replace",
	"not_opened":  "it is for rewrap --drop",
	"not_wrapped": "it is for rewrap --drop",
	"no_primary":  "such a document is refused before",
}

func (r *runbook) everyState(t *testing.T) {
	states := []string{
		"ok", "due", "waiting", "warning", "blocked",
		"none none", "none due", "promote waiting", "promote blocked", "promote due", "retire waiting", "retire blocked", "retire due",
		"degraded", "not_ready", "starting", "not ready", "stopped", "UNREACHABLE", "NO REPORT", "NOT SIGNED", "SILENT", "OTHER KEYSET", "DUPLICATE ID",
	}
	for _, code := range codes(t) {
		if notOfStatus[code] == "" {
			states = append(states, code)
		} else if r.seen[code] {
			t.Errorf("a status has %s, though %s", code, notOfStatus[code])
		}
	}
	for _, state := range states {
		if !r.seen[state] {
			t.Errorf("no status on the pages has %s", state)
		}
	}
}

// codes reads the codes of package rotation from its source.
func codes(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "rotation", "reason.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Code" {
				value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, value)
			}
		}
		return true
	})
	if len(all) < 20 {
		t.Fatalf("package rotation has %d codes", len(all))
	}
	return all
}

func startServers(ts *testscript.TestScript, _ bool, names []string) {
	w, d := worldOf(ts), deskOf(ts)
	w.open(ts)
	var uris []string
	for _, name := range names {
		i := w.fleet.Start(name)
		w.instances[name] = i
		l := d.listen(ts)
		server := &http.Server{Handler: i.Handler(), ErrorLog: discard()}
		d.servers[name], w.servers = server, append(w.servers, server)
		go func() { _ = server.Serve(l) }()
		d.ids.show(l.Addr().String())
		uris = append(uris, "http://"+l.Addr().String()+"/report")
	}
	ts.Setenv("ECHOSEAL_FLEET", strings.TrimSpace(ts.Getenv("ECHOSEAL_FLEET")+" "+strings.Join(uris, " ")))
}

// listen listens at the next of the addresses of the section. They are in their order, in
// which keytool shows them where it knows no name, and as long as those on the pages.
func (d *desk) listen(ts *testscript.TestScript) net.Listener {
	if d.free == nil {
		for len(d.free) < len(shownIDs["at"]) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			ts.Check(err)
			ts.Defer(func() { _ = l.Close() })
			if len(l.Addr().String()) == len(shownIDs["at"][0]) {
				d.free = append(d.free, l)
			}
		}
		slices.SortFunc(d.free, func(a, b net.Listener) int { return cmp.Compare(a.Addr().String(), b.Addr().String()) })
	}
	if len(d.free) == 0 {
		ts.Fatalf("the pages have no more addresses")
	}
	l := d.free[0]
	d.free = d.free[1:]
	return l
}

func killServer(ts *testscript.TestScript, _ bool, names []string) {
	for _, name := range names {
		ts.Check(deskOf(ts).servers[name].Close())
	}
}

func interrupt(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	deskOf(ts).interrupt = n
}
