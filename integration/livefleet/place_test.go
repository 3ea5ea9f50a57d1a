package livefleet

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/echoseal/echoseal/codec/localkek"
	"github.com/echoseal/echoseal/codec/vault"
	"github.com/echoseal/echoseal/integration/internal/bao"
	"github.com/echoseal/echoseal/integration/internal/loopback"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/keyset/etcdstore"
)

// A place is where a keyset and the keys that wrap it are, as servers and as keytool see
// it, and how it is lost.
type place struct {
	store, services         string // URIs, for servers
	toolStore, toolServices string // for keytool
	registry                string // URI; "" for none

	// loseStore makes the store unreachable for all, loseKeys the key service, of which
	// the store does not notice anything, and deny the key service for servers alone,
	// until the function that is returned is called. nil: there is no such way.
	loseStore, loseKeys, deny func() (back func())

	// startsWait says that a server that is started while the key service is lost waits
	// for it. Else it ends at once, since somebody has to do something first.
	startsWait bool
}

// newFilePlace is a file, and a key file.
func newFilePlace(t *testing.T) *place {
	t.Helper()
	dir := t.TempDir()
	store, keys := filepath.Join(dir, "store"), filepath.Join(dir, "keys")
	for _, folder := range []string{store, keys} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := localkek.NewKeyFile(filepath.Join(keys, "kek.key")); err != nil {
		t.Fatal(err)
	}
	lose := func(folder string) func() func() {
		move := func(from, to string) {
			if err := os.Rename(from, to); err != nil {
				t.Error(err)
			}
		}
		return func() func() {
			move(folder, folder+".lost")
			return func() { move(folder+".lost", folder) }
		}
	}
	t.Cleanup(func() {
		left, err := filepath.Glob(filepath.Join(store, ".*"))
		if err != nil || len(left) > 1 || len(left) == 1 && filepath.Base(left[0]) != ".keyset.json.lock" {
			t.Errorf("left behind: %q %v", left, err)
		}
	})
	p := &place{store: filepath.Join(store, "keyset.json"), services: "localkek://" + filepath.Join(keys, "kek.key"), loseStore: lose(store), loseKeys: lose(keys)}
	p.toolStore, p.toolServices = p.store, p.services
	return p
}

// A vaultSide is an OpenBao with a Transit key and tokens for servers and for keytool.
type vaultSide struct {
	*bao.Durable

	servers, tool                    string // services
	serverParameters, toolParameters url.Values
}

func startVault(t *testing.T) *vaultSide {
	t.Helper()
	v := &vaultSide{Durable: bao.StartDurable(t)}
	v.Do(t, http.MethodPost, "sys/mounts/transit", map[string]any{"type": "transit"})
	v.Do(t, http.MethodPost, "sys/mounts/secret", map[string]any{"type": "kv", "options": map[string]any{"version": "2"}})
	v.Do(t, http.MethodPost, "transit/keys/live", map[string]any{})
	v.grant(t, "servers", serverPolicy+mayDecrypt)
	v.grant(t, "keytool", toolPolicy)
	dir := t.TempDir()
	parameters := func(policy string) url.Values {
		file := filepath.Join(dir, policy)
		status, answer, err := v.Call(t.Context(), http.MethodPost, "auth/token/create", map[string]any{"policies": []string{policy}})
		auth, _ := answer["auth"].(map[string]any)
		token, _ := auth["client_token"].(string)
		if err == nil {
			err = os.WriteFile(file, []byte(token), 0o600)
		}
		if err != nil || token == "" {
			t.Fatalf("creating a token: status %d, %v, %v", status, answer["errors"], err)
		}
		return url.Values{"address": {v.Address}, "token-file": {file}}
	}
	v.serverParameters, v.toolParameters = parameters("servers"), parameters("keytool")
	v.servers, v.tool = "hashivault://live?"+v.serverParameters.Encode(), "hashivault://live?"+v.toolParameters.Encode()
	return v
}

// The policies of codec/vault's documentation.
const (
	serverPolicy = `path "secret/data/echoseal/live" { capabilities = ["read"] }
`
	mayDecrypt = `path "transit/decrypt/live" { capabilities = ["update"] }
`
	toolStorePolicy = `path "secret/data/echoseal/live" { capabilities = ["read", "create", "update"] }
`
	toolPolicy = toolStorePolicy + `path "transit/decrypt/live" { capabilities = ["update"] }
path "transit/encrypt/live" { capabilities = ["update"] }
path "transit/datakey/plaintext/live" { capabilities = ["update"] }
path "transit/keys/live" { capabilities = ["read"] }
`
)

func (v *vaultSide) grant(t *testing.T, name, policy string) {
	t.Helper()
	v.Do(t, http.MethodPut, "sys/policies/acl/"+name, map[string]any{"policy": policy})
}

// newVaultPlace is OpenBao alone: the keyset in KV, wrapped by Transit.
func newVaultPlace(t *testing.T) *place {
	t.Helper()
	v := startVault(t)
	store := func(parameters url.Values) string { return "hashivault-kv:///echoseal/live?" + parameters.Encode() }
	return &place{
		store: store(v.serverParameters), toolStore: store(v.toolParameters), services: v.servers, toolServices: v.tool,
		loseStore: func() func() {
			v.Stop(t)
			return func() { v.Start(t) }
		},
		// Where OpenBao is sealed, the keyset is lost as well.
		loseKeys: func() func() {
			v.grant(t, "servers", serverPolicy)
			v.grant(t, "keytool", toolStorePolicy)
			return func() {
				v.grant(t, "servers", serverPolicy+mayDecrypt)
				v.grant(t, "keytool", toolPolicy)
			}
		},
		deny: func() func() {
			v.grant(t, "servers", serverPolicy)
			return func() { v.grant(t, "servers", serverPolicy+mayDecrypt) }
		},
	}
}

// newEtcdPlace is etcd, with a registry, and a Transit key of OpenBao.
func newEtcdPlace(t *testing.T) *place {
	t.Helper()
	v, e := startVault(t), startEtcd(t)
	p := &place{
		store: "etcd://" + e.config.ListenClientUrls[0].Host + "/live/keyset", services: v.servers, toolServices: v.tool,
		registry: "etcd://" + e.config.ListenClientUrls[0].Host + "/live/fleet",
		loseStore: func() func() {
			e.stop()
			return func() { e.start(t) }
		},
		loseKeys: func() func() {
			v.Stop(t)
			return func() { v.Start(t) }
		},
		startsWait: true,
		deny: func() func() {
			v.grant(t, "servers", serverPolicy)
			return func() { v.grant(t, "servers", serverPolicy+mayDecrypt) }
		},
	}
	p.toolStore = p.store
	return p
}

// An etcd is a real one, in this process, which can be stopped and started again.
type etcd struct {
	config  embed.Config
	running *embed.Etcd
}

func startEtcd(t *testing.T) *etcd {
	t.Helper()
	config := embed.NewConfig()
	config.Dir = t.TempDir()
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	config.UnsafeNoFsync = true
	config.ListenClientUrls = []url.URL{{Scheme: "http", Host: loopback.Free(t)}}
	config.ListenPeerUrls = []url.URL{{Scheme: "http", Host: loopback.Free(t)}}
	config.AdvertiseClientUrls, config.AdvertisePeerUrls = config.ListenClientUrls, config.ListenPeerUrls
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	e := &etcd{config: *config}
	t.Cleanup(e.stop)
	e.start(t)
	return e
}

func (e *etcd) start(t *testing.T) {
	t.Helper()
	config := e.config // which StartEtcd changes
	running, err := embed.StartEtcd(&config)
	if err != nil {
		t.Fatal(err)
	}
	e.running = running
	select {
	case <-running.Server.ReadyNotify():
	case err := <-running.Err():
		t.Fatal(err)
	}
}

func (e *etcd) stop() {
	if e.running != nil {
		e.running.Close()
		e.running = nil
	}
}

// document reads the keyset as it is in the store.
func (p *place) document(ctx context.Context) (*keyset.Document, error) {
	source, err := keyset.SourceOpeners{keyset.FileOpener(), vault.StoreOpener(), etcdstore.Opener()}.Open(ctx, p.toolStore)
	if err != nil {
		return nil, err
	}
	if c, ok := source.(interface{ Close() error }); ok {
		defer func() { _ = c.Close() }()
	}
	text, _, err := source.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.SplitN(p.toolStore, "?", 2)[0], err)
	}
	return keyset.Parse(text)
}
