package vault_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// TestContract holds the fake to what a server says. With ECHOSEAL_VAULT_ADDR it asks a
// Vault or OpenBao, with the token in ECHOSEAL_VAULT_TOKEN (and the namespace in
// ECHOSEAL_VAULT_NAMESPACE, if there is one), which needs a policy for the two keys:
//
//	path "transit/+/echoseal-contract*" { capabilities = ["create", "update", "read"] }
//	path "transit/datakey/plaintext/echoseal-contract" { capabilities = ["update"] }
//	path "transit/keys/echoseal-contract/rotate" { capabilities = ["update"] }
//
// The keys stay, and each run adds a version.
func TestContract(t *testing.T) {
	address, token := os.Getenv("ECHOSEAL_VAULT_ADDR"), os.Getenv("ECHOSEAL_VAULT_TOKEN")
	const name, derivedName = "echoseal-contract", "echoseal-contract-derived"
	c := contract{t: t, address: address, token: token}
	if address == "" {
		f := startFake(t)
		f.keys["transit/keys/"+name] = newFakeKey()
		f.keys["transit/keys/"+name].rotate()
		f.keys["transit/keys/"+derivedName] = newFakeKey()
		f.keys["transit/keys/"+derivedName].derived = true
		c.address, c.token = f.URL, rootToken
	} else {
		c.call("PUT", "transit/keys/"+name, map[string]any{})
		c.call("PUT", "transit/keys/"+name+"/rotate", map[string]any{})
		c.call("PUT", "transit/keys/"+derivedName, map[string]any{"derived": true})
	}
	b64 := base64.StdEncoding.EncodeToString
	right, wrong := b64([]byte(`{"a":"b"}`)), b64([]byte(`{"a":"c"}`))
	secret := b64(testKey)

	status, key := c.call("GET", "transit/keys/"+name, nil)
	if status != 200 || key.Data["name"] != name || key.Data["latest_version"].(float64) < 2 || key.Data["derived"] != false || key.Data["min_decryption_version"] != 1.0 {
		t.Errorf("the key is %d %+v", status, key)
	}
	status, sealed := c.call("PUT", "transit/encrypt/"+name, map[string]any{"plaintext": secret, "associated_data": right})
	ciphertext, _ := sealed.Data["ciphertext"].(string)
	if status != 200 || !strings.HasPrefix(ciphertext, "vault:v") || sealed.Data["key_version"] != key.Data["latest_version"] {
		t.Fatalf("encrypt: %d %+v", status, sealed)
	}
	status, opened := c.call("PUT", "transit/decrypt/"+name, map[string]any{"ciphertext": ciphertext, "associated_data": right})
	if status != 200 || opened.Data["plaintext"] != secret || len(opened.Warnings) > 0 {
		t.Errorf("decrypt: %d %+v", status, opened)
	}
	status, made := c.call("PUT", "transit/datakey/plaintext/"+name, map[string]any{"associated_data": right})
	if plaintext, _ := made.Data["plaintext"].(string); status != 200 || len(plaintext) != 44 || made.Data["key_version"] != key.Data["latest_version"] {
		t.Errorf("datakey: %d, with the fields %d", status, len(made.Data))
	}
	binds := len(made.Warnings) == 0
	if !binds && !strings.Contains(made.Warnings[0], "ignored these unrecognized parameters: [associated_data]") {
		t.Errorf("datakey warns %q", made.Warnings)
	}
	if status, _ := c.call("PUT", "transit/decrypt/"+name, map[string]any{"ciphertext": made.Data["ciphertext"], "associated_data": right}); (status == 200) != binds {
		t.Errorf("datakey has bound its context: %v; unwrapping it: %d", binds, status)
	}

	head := ciphertext[:strings.LastIndexByte(ciphertext, ':')+1]
	for what, r := range map[string]struct {
		method, path string
		body         map[string]any
		status       int
		text         string
	}{
		"another context":    {"PUT", "transit/decrypt/" + name, map[string]any{"ciphertext": ciphertext, "associated_data": wrong}, 400, "message authentication failed"},
		"no context":         {"PUT", "transit/decrypt/" + name, map[string]any{"ciphertext": ciphertext}, 400, "message authentication failed"},
		"too new":            {"PUT", "transit/decrypt/" + name, map[string]any{"ciphertext": "vault:v99999:" + ciphertext[len(head):], "associated_data": right}, 400, "invalid ciphertext: version is too new"},
		"too short":          {"PUT", "transit/decrypt/" + name, map[string]any{"ciphertext": head + "AAAA", "associated_data": right}, 400, "invalid ciphertext length"},
		"no base64":          {"PUT", "transit/decrypt/" + name, map[string]any{"ciphertext": head + "!!!!", "associated_data": right}, 400, "invalid ciphertext"},
		"no prefix":          {"PUT", "transit/decrypt/" + name, map[string]any{"ciphertext": "AAAA", "associated_data": right}, 400, "invalid ciphertext: no prefix"},
		"no derivation":      {"PUT", "transit/encrypt/" + derivedName, map[string]any{"plaintext": secret, "associated_data": right}, 400, "missing 'context'"},
		"no key":             {"PUT", "transit/decrypt/echoseal-contract-none", map[string]any{"ciphertext": ciphertext, "associated_data": right}, 400, "encryption key not found"},
		"no key to read":     {"GET", "transit/keys/echoseal-contract-none", nil, 404, ""},
		"another key":        {"PUT", "transit/decrypt/" + derivedName, map[string]any{"ciphertext": "vault:v1:" + ciphertext[len(head):], "associated_data": right, "context": right}, 400, "message authentication failed"},
		"a context too many": {"PUT", "transit/encrypt/" + name, map[string]any{"plaintext": secret, "associated_data": right, "context": right}, 200, ""},
	} {
		t.Run(what, func(t *testing.T) {
			status, answer := c.call(r.method, r.path, r.body)
			if status != r.status || !strings.Contains(strings.Join(answer.Errors, "\n"), r.text) {
				t.Errorf("status %d, %q; want %d, %q", status, answer.Errors, r.status, r.text)
			}
		})
	}
	c.token = "no-such-token"
	if status, answer := c.call("GET", "transit/keys/"+name, nil); status != 403 || !strings.Contains(strings.Join(answer.Errors, ""), "permission denied") {
		t.Errorf("a bad token: %d %q", status, answer.Errors)
	}
	if status, _ := c.call("GET", "auth/token/lookup-self", nil); status != 403 {
		t.Errorf("looking up a bad token: %d", status)
	}
}

// TestKVContract does the same for KV, with these lines in the policy:
//
//	path "secret/data/echoseal-contract-kv" { capabilities = ["create", "read", "update", "delete"] }
//	path "secret/metadata/echoseal-contract-kv" { capabilities = ["delete"] }
//
// Nothing stays.
func TestKVContract(t *testing.T) {
	c := contract{t: t, address: os.Getenv("ECHOSEAL_VAULT_ADDR"), token: os.Getenv("ECHOSEAL_VAULT_TOKEN")}
	if c.address == "" {
		c.address, c.token = startFake(t).URL, rootToken
	}
	const data, metadata = "secret/data/echoseal-contract-kv", "secret/metadata/echoseal-contract-kv"
	c.call("DELETE", metadata, nil)

	status, engine := c.call("GET", mountsPath+data, nil)
	if options, _ := engine.Data["options"].(map[string]any); status != 200 || engine.Data["type"] != "kv" || engine.Data["path"] != "secret/" || options["version"] != "2" {
		t.Errorf("the engine is %d %+v", status, engine)
	}
	put := func(doc string, cas int) (int, contractAnswer) {
		t.Helper()
		return c.call("PUT", data, map[string]any{"data": map[string]string{"keyset": doc}, "options": map[string]int{"cas": cas}})
	}
	get := func(want int) (doc any, meta map[string]any) {
		t.Helper()
		status, answer := c.call("GET", data, nil)
		if status != want || len(answer.Errors) > 0 {
			t.Errorf("reading: %d %+v, want %d", status, answer, want)
		}
		fields, _ := answer.Data["data"].(map[string]any)
		meta, _ = answer.Data["metadata"].(map[string]any)
		return fields["keyset"], meta
	}
	conflict := func(cas int) {
		t.Helper()
		status, answer := put("conflict", cas)
		if status != 400 || !strings.Contains(strings.Join(answer.Errors, "\n"), "check-and-set parameter did not match") {
			t.Errorf("cas %d: %d %+v", cas, status, answer)
		}
	}
	if doc, meta := get(404); doc != nil || meta != nil {
		t.Errorf("where nothing is are %v, %v", doc, meta)
	}
	conflict(1)
	if status, answer := put("one", 0); status != 200 || answer.Data["version"] != 1.0 {
		t.Errorf("creating: %d %+v", status, answer)
	}
	conflict(0)
	if status, answer := put("two", 1); status != 200 || answer.Data["version"] != 2.0 {
		t.Errorf("replacing: %d %+v", status, answer)
	}
	conflict(1)
	if doc, meta := get(200); doc != "two" || meta["version"] != 2.0 || meta["deletion_time"] != "" || meta["destroyed"] != false {
		t.Errorf("there are %v, %v", doc, meta)
	}
	c.call("DELETE", data, nil)
	if doc, meta := get(404); doc != nil || meta["version"] != 2.0 || meta["deletion_time"] == "" || meta["destroyed"] != false {
		t.Errorf("what was deleted is %v, %v", doc, meta)
	}
	conflict(0)
	c.call("DELETE", metadata, nil)
	if doc, meta := get(404); doc != nil || meta != nil {
		t.Errorf("where all was removed are %v, %v", doc, meta)
	}
}

type contract struct {
	t              *testing.T
	address, token string
}

type contractAnswer struct {
	Data     map[string]any
	Warnings []string
	Errors   []string
}

func (c contract) call(method, path string, body map[string]any) (int, contractAnswer) {
	c.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	if body == nil {
		text = nil
	}
	r, err := http.NewRequestWithContext(context.Background(), method, c.address+"/v1/"+path, bytes.NewReader(text))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("X-Vault-Request", "true")
	r.Header.Set("X-Vault-Token", c.token)
	if namespace := os.Getenv("ECHOSEAL_VAULT_NAMESPACE"); namespace != "" {
		r.Header.Set("X-Vault-Namespace", namespace)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	var answer contractAnswer
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &answer); err != nil {
			c.t.Fatalf("%s %s: %d %q", method, path, response.StatusCode, raw)
		}
	}
	return response.StatusCode, answer
}
