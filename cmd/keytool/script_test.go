package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/cmd/keytool/internal/testfleet"
	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/codec/localkek"
	"github.com/echoseal/echoseal/keyset"
)

// The scripts in testdata/script read like a runbook. Beside what testscript has they
// know:
//
//	exits N keytool …          run it, and expect the exit code
//	clock TIME | +D            set the clock of keytool and of the instances, or move it on
//	fleet NAME…                start instances, each at an address; ECHOSEAL_FLEET names them;
//	                           NAME=INSTANCE is one more address of that one
//	registry NAME…             start instances that are found in a registry
//	instance NAME WAY…         make one behave badly, or well again: see ways
//	seals NAME KID N TTL       an instance has sealed N tokens, the last one with that TTL
//	kids                       set $PRIMARY, $STAGED, $RETIRING and $KEK to what the store has
//	field PATH REGEXP          look into the JSON document on standard output
//	revision N                 the store holds that revision
//	seal NAME [WHAT=VALUE…]    a server seals a token: NAME.txt has it, NAME.request the retry
//	unline FILE…               take the line end off: a script's file has one
//	flip FILE                  change one character of a token
//	cut-short FROM TO          copy a token without its last characters
//	tamper FROM TO             copy a keyset with another max-age in it
//	await FILE                 wait until a process in the background has made it
//	bar-rises N                the bar on the terminal has at least N frames, and goes back only
//	                           where a line of a step stands between
//	exit-status N              what the keytool that ended last has exited with
//	together N ARG…            run keytool N times at once: each exits 0 or 5, one of them 0
//	begin NAME TEXT            set $NAME to the first 8 characters of a text
//	for-each-command           each command has help with an example or a single word to say
//	mode MODE FILE             the permissions of a file, in octal digits
//	ring FILE KID…             a file holds the secrets of those keys, in that order
//
// Each document that keytool prints with -o json is checked against its schema, and no
// secret that is anywhere in $WORK may have been printed when a script ends.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup:               setUp,
		Cmds: withWorldCommands(commands{
			"fleet": startFleet, "field": field, "revision": revision, "mode": mode, "ring": ring, "flip": flip, "cut-short": cutShort,
			"tamper": tamper, "await": await, "exit-status": exitStatus, "together": together, "for-each-command": eachCommand, "begin": begin, "bar-rises": barRises,
		}),
	})
}

type commands = map[string]func(*testscript.TestScript, bool, []string)

// withWorldCommands adds those that scripts and the runbook have in common.
func withWorldCommands(own commands) commands {
	maps.Copy(own, commands{
		"exits": exits, "clock": setClock, "registry": startRegistry, "instance": setInstance,
		"seals": sealTokens, "kids": setKIDs, "seal": seal, "unline": unline,
	})
	return own
}

// A world is what a script has beside its folder.
type world struct {
	fleet     testfleet.Fleet
	clock     clock
	instances map[string]*testfleet.Instance
	servers   []*http.Server
	registry  string
}

type worldKey struct{}

func worldOf(ts *testscript.TestScript) *world { return ts.Value(worldKey{}).(*world) }

func setUp(env *testscript.Env) error {
	w := &world{clock: clock(filepath.Join(env.WorkDir, ".clock")), instances: make(map[string]*testfleet.Instance), registry: filepath.Join(env.WorkDir, ".registry")}
	w.clock.set(time.Date(2026, 12, 2, 3, 0, 0, 0, time.UTC))
	env.Values[worldKey{}] = w
	// A process built with -race sleeps a second before it ends, unless it is told not to:
	// most of the time that the scripts would take.
	env.Setenv("GORACE", "atexit_sleep_ms=0")
	env.Setenv("TEST_SCHEMAS", schemaFolder())
	env.Setenv("TEST_CLOCK", string(w.clock))
	env.Setenv("TEST_TRANSCRIPT", filepath.Join(env.WorkDir, ".transcript"))
	env.Setenv("ECHOSEAL_STORE", filepath.Join(env.WorkDir, "keyset.json"))
	env.Setenv("ECHOSEAL_NAME", "fleet")
	env.Setenv("ECHOSEAL_KEY_SERVICES", "localkek://"+filepath.Join(env.WorkDir, "kek.key"))
	env.Defer(func() {
		for _, s := range w.servers {
			_ = s.Close()
		}
	})
	t := env.T()
	env.Defer(func() {
		if err := noSecrets(env.WorkDir); err != nil {
			t.Log(err)
			t.FailNow()
		}
	})
	return os.Mkdir(w.registry, 0o700)
}

// open makes the store and the key service of the script known to its instances.
func (w *world) open(ts *testscript.TestScript) {
	if w.fleet.Source != nil {
		return
	}
	var err error
	w.fleet.Now = w.clock.now
	w.fleet.Source, err = keyset.NewFile(ts.Getenv("ECHOSEAL_STORE"))
	ts.Check(err)
	w.reconfigure(ts)
}

func (w *world) reconfigure(ts *testscript.TestScript) {
	services, err := keyset.Openers{localkek.Opener()}.Open(context.Background(), strings.Fields(ts.Getenv("ECHOSEAL_KEY_SERVICES"))...)
	ts.Check(err)
	w.fleet.Configure(services)
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N program [args...]")
	}
	code := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("it exits %d", code)
	}
}

func mode(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := strconv.FormatUint(uint64(info.Mode().Perm()), 8); got != args[0] {
		ts.Fatalf("%s has the mode %s", args[1], got)
	}
}

func ring(ts *testscript.TestScript, _ bool, args []string) {
	var secrets [][]byte
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &secrets))
	var kids []string
	for _, secret := range secrets {
		key, err := local.NewKey(secret)
		ts.Check(err)
		kids = append(kids, key.KID())
	}
	if !slices.Equal(kids, args[1:]) {
		ts.Fatalf("it holds %q", kids)
	}
}

func setClock(ts *testscript.TestScript, _ bool, args []string) {
	c := worldOf(ts).clock
	if by, ok := strings.CutPrefix(args[0], "+"); ok {
		d, err := time.ParseDuration(by)
		ts.Check(err)
		c.set(c.now().Add(d))
		return
	}
	t, err := time.Parse(time.RFC3339Nano, args[0])
	ts.Check(err)
	c.set(t)
}

func startFleet(ts *testscript.TestScript, _ bool, names []string) {
	w := worldOf(ts)
	w.open(ts)
	var uris []string
	for _, name := range names {
		name, of, forwards := strings.Cut(name, "=")
		i := w.instances[of]
		if !forwards {
			i = w.fleet.Start(name)
			w.instances[name] = i
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		ts.Check(err)
		server := &http.Server{Handler: i.Handler(), ErrorLog: discard()}
		w.servers = append(w.servers, server)
		go func() { _ = server.Serve(l) }()
		uris = append(uris, "http://"+l.Addr().String()+"/report")
		ts.Setenv("ADDRESS_"+strings.ReplaceAll(name, "-", "_"), l.Addr().String())
		ts.Setenv("ID_"+strings.ReplaceAll(name, "-", "_"), i.ID())
	}
	ts.Setenv("ECHOSEAL_FLEET", strings.TrimSpace(ts.Getenv("ECHOSEAL_FLEET")+" "+strings.Join(uris, " ")))
}

// startRegistry starts instances that push their reports: here, whenever the script says
// so by naming them again.
func startRegistry(ts *testscript.TestScript, _ bool, names []string) {
	w := worldOf(ts)
	w.open(ts)
	for _, name := range names {
		if w.instances[name] == nil {
			w.instances[name] = w.fleet.Start(name)
		}
		i := w.instances[name]
		signed, err := i.Signed(context.Background())
		ts.Check(err)
		ts.Check(os.WriteFile(filepath.Join(w.registry, i.ID()), signed, 0o600))
		ts.Setenv("ID_"+strings.ReplaceAll(name, "-", "_"), i.ID())
	}
	ts.Setenv("ECHOSEAL_FLEET", "dir://"+w.registry)
}

func setInstance(ts *testscript.TestScript, _ bool, args []string) {
	w := worldOf(ts)
	i := w.instances[args[0]]
	if i == nil {
		ts.Fatalf("there is no instance %s", args[0])
	}
	for _, way := range args[1:] {
		name, value, _ := strings.Cut(way, "=")
		d, _ := time.ParseDuration(value)
		i.Set(func(ways *testfleet.Ways) {
			switch name {
			case "good":
				*ways = testfleet.Ways{}
			case "down":
				ways.Down = true
			case "pinned":
				ways.Pinned = true
			case "garbage":
				ways.Garbage = true
			case "forged":
				ways.Forged = true
			case "stopped":
				ways.Stopped = true
			case "not-ready":
				ways.NotReady = value
			case "degraded":
				ways.Degraded = value
			case "clock":
				ways.Clock = d
			case "age":
				ways.Age = d
			case "id":
				ways.ID = w.instances[value].ID()
			case "lineage":
				ways.Lineage = value
			case "status":
				n, err := strconv.Atoi(value)
				ts.Check(err)
				ways.Status = n
			case "host":
				ways.Host = value
			case "fails":
				ways.Fails, ways.Kind, _ = strings.Cut(value, ":")
			case "reconfigured":
				w.reconfigure(ts)
			default:
				ts.Fatalf("no instance can be %s", way)
			}
		})
	}
}

func sealTokens(ts *testscript.TestScript, _ bool, args []string) {
	w := worldOf(ts)
	n, err := strconv.ParseInt(args[2], 10, 64)
	ts.Check(err)
	ttl, err := time.ParseDuration(args[3])
	ts.Check(err)
	w.instances[args[0]].Seal(args[1], n, w.clock.now().Add(ttl))
}

func stored(ts *testscript.TestScript) *keyset.Document {
	doc, err := keyset.Parse([]byte(ts.ReadFile(ts.Getenv("ECHOSEAL_STORE"))))
	ts.Check(err)
	return doc
}

// seal seals as a server does, with the primary of the keyset, or with a secret file:
// secret, state, method, target, args, sent (other arguments in the retry), audience,
// principal.
func seal(ts *testscript.TestScript, _ bool, args []string) {
	w := worldOf(ts)
	a := map[string]string{"state": "step=1", "method": "tools/call", "target": "provision", "args": `{"env":"production"}`, "audience": "fleet"}
	for _, arg := range args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		a[name] = value
	}
	var ring codec.Codec
	if file := a["secret"]; file != "" {
		r, err := local.New([]byte(ts.ReadFile(file)))
		ts.Check(err)
		ring = r
	} else {
		w.open(ts)
		doc := stored(ts)
		key, err := w.fleet.Services().OpenKey(context.Background(), doc.Name, *doc.Primary())
		ts.Check(err)
		r, err := local.NewRing(key)
		ts.Check(err)
		ring = r
	}
	policy, err := binding.New(ring, binding.Options{Audience: a["audience"], Now: w.clock.now})
	ts.Check(err)
	var principal binding.Principal
	if file := a["principal"]; file != "" {
		principal = binding.Bound(ts.ReadFile(file))
	}
	if text, ok := strings.CutPrefix(a["state"], "@"); ok {
		a["state"] = ts.ReadFile(text)
	}
	request := binding.Request{Method: a["method"], Target: a["target"], Arguments: []byte(a["args"]), UniqueNames: true}
	token, err := policy.Round(request, principal).Seal(a["state"])
	ts.Check(err)
	if a["sent"] != "" {
		a["args"] = a["sent"]
	}
	retry := fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":%q,"params":{"name":%q,"arguments":%s,"requestState":%q}}`, a["method"], a["target"], a["args"], token)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".txt"), []byte(token), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".request"), []byte(retry), 0o600))
	id := strings.ReplaceAll(args[0], "-", "_")
	ts.Setenv("TOKEN_"+id, binding.TokenID(token))
}

func unline(ts *testscript.TestScript, _ bool, files []string) {
	for _, file := range files {
		ts.Check(os.WriteFile(ts.MkAbs(file), []byte(strings.TrimSuffix(ts.ReadFile(file), "\n")), 0o600))
		ts.Check(os.Chmod(ts.MkAbs(file), 0o600))
	}
}

func flip(ts *testscript.TestScript, _ bool, args []string) {
	token := []byte(ts.ReadFile(args[0]))
	if at := len(token) / 2; token[at] != 'A' {
		token[at] = 'A'
	} else {
		token[at] = 'B'
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), token, 0o600))
}

func cutShort(ts *testscript.TestScript, _ bool, args []string) {
	token := ts.ReadFile(args[0])
	const leaves = len("v1.") + 45 // no base64url is 1 character longer than a multiple of 4
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(token[:leaves]), 0o600))
}

func tamper(ts *testscript.TestScript, _ bool, args []string) {
	text := strings.Replace(ts.ReadFile(args[0]), `"max_age": "7`, `"max_age": "8`, 1)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o600))
}

// await waits until a process in the background has made a file.
func await(ts *testscript.TestScript, _ bool, args []string) {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("there is no %s", args[0])
		}
	}
}

func begin(ts *testscript.TestScript, _ bool, args []string) { ts.Setenv(args[0], args[1][:8]) }

func exitStatus(ts *testscript.TestScript, _ bool, args []string) {
	if got := ts.ReadFile(".exit"); got != args[0] {
		ts.Fatalf("it has exited with %s", got)
	}
}

var (
	lineOfAStep = regexp.MustCompile(`[123]/3 .*(staged|promoted|drained|retired) [0-9a-f]{8}`)
	percentage  = regexp.MustCompile(`([0-9]+)% \|`)
)

func barRises(ts *testscript.TestScript, _ bool, args []string) {
	least, err := strconv.Atoi(args[0])
	ts.Check(err)
	frames, before := 0, 0
	for line := range strings.Lines(ts.ReadFile("ttyout")) {
		for _, frame := range percentage.FindAllStringSubmatch(line, -1) {
			shown, err := strconv.Atoi(frame[1])
			ts.Check(err)
			if shown < before {
				ts.Fatalf("frame %d of the bar shows %d%%, and the one before it %d%%: %q", frames, shown, before, line)
			}
			frames, before = frames+1, shown
		}
		if lineOfAStep.MatchString(line) {
			before = 0
		}
	}
	if frames < least {
		ts.Fatalf("the bar has %d frames", frames)
	}
}

func together(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	var env []string
	for _, name := range []string{"PATH", "HOME", "GORACE", "TEST_CLOCK", "TEST_SCHEMAS", "ECHOSEAL_STORE", "ECHOSEAL_NAME", "ECHOSEAL_KEY_SERVICES", "ECHOSEAL_FLEET"} {
		env = append(env, name+"="+ts.Getenv(name))
	}
	codes := make(chan int)
	for range n {
		cmd := exec.Command("keytool", args[1:]...)
		cmd.Path, err = lookPath(ts.Getenv("PATH"))
		cmd.Err = err
		cmd.Env, cmd.Dir = env, ts.MkAbs(".")
		go func() {
			_ = cmd.Run()
			codes <- cmd.ProcessState.ExitCode()
		}()
	}
	won := 0
	for range n {
		switch code := <-codes; code {
		case 0:
			won++
		case 5:
		default:
			ts.Fatalf("one exits %d", code)
		}
	}
	if won == 0 {
		ts.Fatalf("nobody has won")
	}
}

func lookPath(path string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		if file := filepath.Join(dir, "keytool"); exec.Command(file).Err == nil {
			if _, err := os.Stat(file); err == nil {
				return file, nil
			}
		}
	}
	return "", exec.ErrNotFound
}

// eachCommand asks each command for help.
func eachCommand(ts *testscript.TestScript, _ bool, _ []string) {
	for _, command := range []string{
		"kek new", "init", "status", "rotate", "abort", "rollback", "revoke", "rewrap", "policy", "export", "confirm", "peer forget",
		"fleet", "fleet forget", "inspect", "doctor", "validate", "version", "completion", "help",
	} {
		ts.Check(ts.Exec("keytool", append(strings.Fields(command), "--help")...))
		if out := ts.ReadFile("stdout"); !strings.Contains(out, "Usage:\n  keytool "+command) {
			ts.Fatalf("the help of %s has no usage:\n%s", command, out)
		}
	}
}

func setKIDs(ts *testscript.TestScript, _ bool, _ []string) {
	for _, name := range []string{"PRIMARY", "STAGED", "RETIRING"} {
		ts.Setenv(name, "none")
	}
	doc := stored(ts)
	for _, k := range doc.Keys {
		ts.Setenv(strings.ToUpper(string(k.State)), k.KID)
	}
	ts.Setenv("KEK", strings.TrimPrefix(doc.Primary().Wrapped[0].Service, "localkek://"))
}

func revision(ts *testscript.TestScript, _ bool, args []string) {
	if got := strconv.FormatInt(stored(ts).Revision, 10); got != args[0] {
		ts.Fatalf("the store holds revision %s", got)
	}
}

// field follows a path such as reasons.0.code; a path of - stands for the whole document.
func field(ts *testscript.TestScript, neg bool, args []string) {
	d := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	d.UseNumber()
	var v any
	ts.Check(d.Decode(&v))
	there := true
	for _, step := range strings.Split(args[0], ".") {
		switch at := v.(type) {
		case map[string]any:
			v, there = at[step]
		case []any:
			n, err := strconv.Atoi(step)
			if there = err == nil && n < len(at); there {
				v = at[n]
			}
		default:
			there = false
		}
		if !there {
			break
		}
	}
	if !there {
		if !neg {
			ts.Fatalf("the document has no %s", args[0])
		}
		return
	}
	if len(args) < 2 {
		if neg {
			ts.Fatalf("the document has %s", args[0])
		}
		return
	}
	text := fmt.Sprint(v)
	if matched, err := regexp.MatchString("^(?:"+args[1]+")$", text); err != nil || matched == neg {
		ts.Fatalf("%s is %q (%v)", args[0], text, err)
	}
}

// noSecrets looks for the secrets of a script's folder in all that keytool has printed.
func noSecrets(work string) error {
	printed, err := os.ReadFile(filepath.Join(work, ".transcript"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	secrets, err := secretsIn(work)
	if err != nil {
		return err
	}
	for name, secret := range secrets {
		for _, form := range []string{
			string(secret), hex.EncodeToString(secret), base64.StdEncoding.EncodeToString(secret),
			base64.RawURLEncoding.EncodeToString(secret), strings.Trim(strconv.Quote(string(secret)), `"`), fmt.Sprint(secret),
		} {
			if bytes.Contains(printed, []byte(form)) {
				return fmt.Errorf("keytool has printed the secret of %s", name)
			}
		}
	}
	return nil
}

// secretsIn finds the secrets in a folder: files that are named like one, what a peer was
// given, and the data keys of the keyset.
func secretsIn(work string) (map[string][]byte, error) {
	secrets := make(map[string][]byte)
	for _, pattern := range []string{"*.key", "*.secret", "*.principal", "*.state"} {
		files, err := filepath.Glob(filepath.Join(work, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if secrets[filepath.Base(file)], err = os.ReadFile(file); err != nil {
				return nil, err
			}
		}
	}
	if exports, _ := filepath.Glob(filepath.Join(work, "*.export")); len(exports) > 0 {
		for _, file := range exports {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			var keys [][]byte
			if err := json.Unmarshal(text, &keys); err != nil {
				return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
			}
			for n, key := range keys {
				secrets[fmt.Sprintf("%s %d", filepath.Base(file), n)] = key
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(work, "keyset.json"))
	if err != nil {
		return secrets, nil //nolint:nilerr // where there is no keyset there is no key to look for
	}
	doc, err := keyset.Parse(text)
	if err != nil {
		return secrets, nil //nolint:nilerr // a script may be about a text that is no keyset
	}
	services, err := keyset.Openers{localkek.Opener()}.Open(context.Background(), "localkek://"+filepath.Join(work, "kek.key"))
	if err != nil {
		return secrets, nil //nolint:nilerr // a script may be about a key file that is lost
	}
	for _, k := range doc.Keys {
		if key, err := services.OpenSecret(context.Background(), doc.Name, k); err == nil {
			secrets["key "+k.KID] = key
		}
	}
	if key, err := services.OpenAuth(context.Background(), doc); err == nil {
		secrets["auth key"] = key
	}
	return secrets, nil
}
