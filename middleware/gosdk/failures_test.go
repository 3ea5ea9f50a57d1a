package gosdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/middleware/gosdk"
)

// A brokenCodec is a ring of which a test breaks one half.
type brokenCodec struct {
	ring   *local.Ring
	seal   func([]byte) (string, error) // nil for that of the ring
	unseal func(string) ([]byte, error) // nil for that of the ring
}

func (c brokenCodec) Seal(payload []byte) (string, error) {
	if c.seal != nil {
		return c.seal(payload)
	}
	return c.ring.Seal(payload)
}

func (c brokenCodec) Unseal(token string) ([]byte, error) {
	if c.unseal != nil {
		return c.unseal(token)
	}
	return c.ring.Unseal(token)
}

func TestUnexpectedFailureOfACodecIsARefusal(t *testing.T) {
	for name, unseal := range map[string]func(string) ([]byte, error){
		"error": func(string) ([]byte, error) { return nil, errors.New("the keys are stale") },
		"panic": func(string) ([]byte, error) { panic(secretState) },
	} {
		t.Run(name, func(t *testing.T) {
			log := &logbook{}
			policy := newPolicy(t, brokenCodec{ring: newRing(t), unseal: unseal}, binding.Options{})
			d := newDesk(askFirst, gosdk.Middleware(policy, log.options()))
			client := d.connect(t)
			for _, method := range methods {
				token := client.mint(t, call{method: method})
				d.seen()
				client.mustRefuse(t, call{method: method, state: token})
				text, _ := log.wantReason(t, binding.CodecError)["error"].(string)
				if name == "error" && !strings.Contains(text, "the keys are stale") || text == "" || strings.Contains(text, secretState) {
					t.Errorf("the log says %q", text)
				}
				if seen := d.seen(); seen != nil {
					t.Errorf("the handler saw %q", seen)
				}
			}
		})
	}
}

func TestReasonOfACodecIsLoggedAndNeverSent(t *testing.T) {
	log := &logbook{}
	policy := newPolicy(t, brokenCodec{unseal: func(string) ([]byte, error) {
		return nil, &codec.InvalidError{Reason: "hsm_says_no", KID: "0badcafe"}
	}}, binding.Options{})
	d := newDesk(askFirst, gosdk.Middleware(policy, log.options()))
	d.connect(t).mustRefuse(t, call{method: binding.MethodCallTool, state: "anything"})
	if r := log.wantReason(t, "hsm_says_no"); r["error"] != nil {
		t.Errorf("the record of a refused token has an error: %v", r)
	}
}

func TestWhatCannotBeSealedIsAnInternalError(t *testing.T) {
	long := strings.Repeat("x", 300_000)
	for name, test := range map[string]struct {
		seal  func([]byte) (string, error)
		state string
		log   string
	}{
		"codec error":    {func([]byte) (string, error) { return "", errors.New("the keys are stale") }, secretState, "the keys are stale"},
		"codec panic":    {func([]byte) (string, error) { panic(secretState) }, secretState, "panicked"},
		"invalid UTF-8":  {nil, "\xff" + secretState, "UTF-8"},
		"too long":       {nil, long, "MaxTokenChars"},
		"long and panic": {func([]byte) (string, error) { panic(errors.New(secretState)) }, long, "MaxTokenChars"},
	} {
		t.Run(name, func(t *testing.T) {
			log := &logbook{}
			policy := newPolicy(t, brokenCodec{ring: newRing(t), seal: test.seal}, binding.Options{})
			d := newDesk(func(context.Context, call) (answer, error) {
				return answer{state: test.state, needsInput: true}, nil
			}, gosdk.Middleware(policy, log.options()))
			client := d.connect(t)
			for _, method := range methods {
				_, err := client.do(t.Context(), call{method: method})
				wantInternal(t, err)
				if text := log.wantInternal(t); !strings.Contains(text, test.log) || strings.Contains(text, secretState) {
					t.Errorf("the log says %q, want %q", text, test.log)
				}
				client.mustRefuse(t, call{method: method, state: "v1.AAAA"}) // the other direction goes on
				log.wantReason(t, codec.Malformed)
			}
		})
	}
}

// Whoever has the key could still make a payload that is no claim set.
func TestAuthenticPayloadWithoutItsClaimsIsRefused(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	client := d.connect(t)
	digest, err := binding.Digest(nil)
	if err != nil {
		t.Fatal(err)
	}
	good := func() map[string]any {
		return map[string]any{"v": 1, "iat": 1e9, "exp": 1e11, "m": binding.MethodCallTool, "t": tool, "a": digest, "s": secretState}
	}
	ring := newRing(t)
	try := func(payload []byte) error {
		token, err := ring.Seal(payload)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.do(t.Context(), call{method: binding.MethodCallTool, state: token})
		return err
	}
	payload := func(change func(map[string]any)) []byte {
		claims := good()
		change(claims)
		text, err := json.Marshal(claims)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if err := try(payload(func(map[string]any) {})); err != nil {
		t.Fatalf("the claims that the others are changed from are refused: %v", err)
	}
	d.seen()
	for name, bad := range map[string][]byte{
		"empty":         {},
		"not JSON":      []byte("state"),
		"not an object": []byte(`["state"]`),
		"version 2":     payload(func(c map[string]any) { c["v"] = 2 }),
		"state of 7":    payload(func(c map[string]any) { c["s"] = 7 }),
		"null state":    payload(func(c map[string]any) { c["s"] = nil }),
		"p not base64":  payload(func(c map[string]any) { c["p"] = "!!" }),
		"p a number":    payload(func(c map[string]any) { c["p"] = 7 }),
		"p an object":   payload(func(c map[string]any) { c["p"] = map[string]any{} }),
		"no v":          payload(func(c map[string]any) { delete(c, "v") }),
		"no iat":        payload(func(c map[string]any) { delete(c, "iat") }),
		"no exp":        payload(func(c map[string]any) { delete(c, "exp") }),
		"no s":          payload(func(c map[string]any) { delete(c, "s") }),
		"no m":          payload(func(c map[string]any) { delete(c, "m") }),
		"no t":          payload(func(c map[string]any) { delete(c, "t") }),
		"no a":          payload(func(c map[string]any) { delete(c, "a") }),
	} {
		t.Run(name, func(t *testing.T) {
			wantRefused(t, try(bad))
			if seen := d.seen(); seen != nil {
				t.Errorf("the handler saw %q", seen)
			}
		})
	}
}

func TestErrorOfAHandlerPassesAsItIs(t *testing.T) {
	d := sealedDesk(t, func(context.Context, call) (answer, error) {
		return answer{}, mcp.ResourceNotFoundError("notes://9")
	}, binding.Options{})
	_, err := d.connect(t).do(t.Context(), call{method: binding.MethodReadResource})
	if err == nil || !strings.Contains(err.Error(), "notes://9") && !strings.Contains(err.Error(), "not found") {
		t.Errorf("the client got %v", err)
	}
	if d.log.text() != "" {
		t.Errorf("an error of the handler was logged: %s", d.log.text())
	}
}

// The fields of a record are what dashboards and alerts are built on.
func TestRefusalIsLoggedWithStableFields(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	client := d.connect(t)
	c := call{method: binding.MethodCallTool}
	c.state = client.mint(t, c)
	c.target = "cancel"
	client.mustRefuse(t, c)
	r := d.log.wantReason(t, binding.WrongRequest)
	if got, want := slices.Sorted(maps.Keys(r)), []string{"kid", "level", "method", "msg", "reason", "time", "token_id"}; !slices.Equal(got, want) {
		t.Errorf("the record has %q, want %q", got, want)
	}
	if r["method"] != c.method || r["kid"] != newRing(t).KID(c.state) || r["token_id"] != binding.TokenID(c.state) {
		t.Errorf("the record is %v", r)
	}
}

func TestOnRefuseGetsWhatTheLogGets(t *testing.T) {
	now := newClock()
	var refusals []binding.Refusal
	policy := newPolicy(t, newRing(t), binding.Options{Now: now.Now})
	d := newDesk(askFirst, gosdk.Middleware(policy, &gosdk.Options{
		Logger:   slog.New(slog.DiscardHandler),
		OnRefuse: func(_ context.Context, r binding.Refusal) { refusals = append(refusals, r) },
	}))
	client := d.connect(t)
	c := call{method: binding.MethodGetPrompt}
	c.state = client.mint(t, c)
	client.mustAccept(t, c)
	c.target = "farewell"
	client.mustRefuse(t, c)
	want := binding.Refusal{Method: c.method, Reason: binding.WrongRequest, KID: newRing(t).KID(c.state), TokenID: binding.TokenID(c.state), Time: now.Now()}
	if len(refusals) != 1 || refusals[0] != want {
		t.Errorf("OnRefuse got %v, want %v", refusals, want)
	}
}

func TestPanickingOnRefuseLetsNothingThrough(t *testing.T) {
	log := &logbook{}
	d := newDesk(tellState, gosdk.Ephemeral(&gosdk.Options{
		Logger:   log.logger(),
		OnRefuse: func(context.Context, binding.Refusal) { panic(secretState) },
	}))
	d.connect(t).mustRefuse(t, call{method: binding.MethodCallTool, state: "v1.AAAA"})
	if seen := d.seen(); seen != nil {
		t.Errorf("the handler saw %q", seen)
	}
	records := log.records(t)
	if len(records) != 2 || records[1]["level"] != "ERROR" || records[1]["panic"] != "string" || strings.Contains(fmt.Sprint(records), secretState) {
		t.Errorf("the log is %v", records)
	}
}

func TestNilPolicyPanicsAtOnce(t *testing.T) {
	defer func() {
		if text, ok := recover().(string); !ok || !strings.Contains(text, "binding.New") {
			t.Errorf("the panic says %q, want the remedy", text)
		}
	}()
	gosdk.Middleware(nil, nil)
}

func TestDefaultLoggerIsThatOfTheMoment(t *testing.T) {
	middleware := gosdk.Ephemeral(nil)
	log, before := &logbook{}, slog.Default()
	slog.SetDefault(log.logger())
	defer slog.SetDefault(before)
	newDesk(tellState, middleware).connect(t).mustRefuse(t, call{method: binding.MethodCallTool, state: "v1.AAAA"})
	log.wantReason(t, codec.Malformed)
}
