package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/cmd/keytool/internal/inspect"
	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/keyset"
)

// inspectFlags are the flags of inspect.
type inspectFlags struct {
	unseal, showState       bool
	keepLineEnd             bool
	secretFiles             []string
	principalFile, audience string
	at                      string
}

func (a *app) inspectCommand() *cobra.Command {
	var f inspectFlags
	cmd := &cobra.Command{
		Use:   "inspect [FILE|-]",
		Short: "Explains a token",
		Long: `inspect tells what can be told of a token: a bare one, or one inside of captured JSON (a
JSON-RPC request or response, a batch, a message a line, server-sent events, with or
without the head of an HTTP message), from a file or standard input, 10 MB at most. It
names what other SDKs and libraries make, and what was done to a token on its way.

Without more it works offline: format, key id, lengths. What else it is given decides
what it can check:

  --store URI               what the key is in the keyset; no key service is called
  --store URI --unseal      opens the token with the keyset's keys
  --secret-file FILE        opens it with the raw secrets of a server that has its own
  a captured request        compares method, target and arguments
  --audience, --principal-file, --at TIME   complete the request

It exits 4 if the token is invalid. State is shown with --show-state only.`,
		Example: `  keytool inspect token.txt
  keytool inspect --unseal --audience billing request.json
  keytool inspect --secret-file current.secret -o json token.txt`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := "-"
			if len(args) > 0 {
				name = args[0]
			} else if isTerminal(a.Stdin) {
				return usagef("say which file, or pipe the token to standard input: keytool inspect FILE")
			}
			ctx, cancel := a.context(cmd)
			defer cancel()
			return a.inspect(ctx, cmd.Flags().Changed("audience"), name, &f)
		},
	}
	a.keysetFlags(cmd)
	fl := cmd.Flags()
	_ = fl.MarkHidden("fleet") // which it takes, as every command does, and has no use for
	fl.BoolVar(&f.unseal, "unseal", false, "open the token with the keys of the keyset")
	fl.StringArrayVar(&f.secretFiles, "secret-file", nil, "`FILE` with a raw secret, byte for byte; repeatable, in the order of the server")
	keepLineEndFlag(cmd, &f.keepLineEnd, "a secret or principal file")
	fl.StringVar(&f.audience, "audience", "", "the audience that the service binds its tokens to: its `NAME`")
	fl.StringVar(&f.principalFile, "principal-file", "", "`FILE` with the principal, or with {\"client_id\":…,\"iss\":…,\"sub\":…} for OAuth")
	fl.StringVar(&f.at, "at", "", "check as of `TIME`, such as 2026-12-02T03:10:00Z (default now)")
	fl.BoolVar(&f.showState, "show-state", false, "show the state in the token")
	return cmd
}

// A tokensReport is the report of several tokens. That of a single one is a tokenReport.
type tokensReport struct {
	Tokens  []*tokenReport `json:"tokens"`
	More    int            `json:"more_tokens,omitempty"`
	Verdict verdict        `json:"verdict"`
}

type verdict string

const (
	valid      verdict = "valid"
	invalid    verdict = "invalid"
	unverified verdict = "unverified" // no keys were given
)

type tokenReport struct {
	Format       string         `json:"format,omitempty"`
	KID          string         `json:"kid,omitempty"`
	TokenID      string         `json:"token_id,omitempty"`
	TokenChars   int            `json:"token_chars,omitempty"`
	PayloadBytes int            `json:"payload_bytes,omitempty"`
	StateBytes   *int           `json:"state_bytes,omitempty"`
	Note         string         `json:"note,omitempty"`
	Key          *keyReport     `json:"key,omitempty"`
	Claims       *claimsReport  `json:"claims,omitempty"`
	Request      *requestReport `json:"request,omitempty"`
	Checks       []checkReport  `json:"checks,omitempty"`
	State        *string        `json:"state,omitempty"`
	Verdict      verdict        `json:"verdict"`
	Reason       string         `json:"reason,omitempty"`
	Next         string         `json:"next,omitempty"` // what to do about the reason
}

type keyReport struct {
	State  string `json:"state"` // of the key in the keyset; retired, aborted or unknown if it is not there
	Since  string `json:"since,omitempty"`
	Reason string `json:"reason,omitempty"`
	Tag    string `json:"tag"`
}

type claimsReport struct {
	M              string `json:"m"`
	T              string `json:"t"`
	A              string `json:"a"`
	IssuedAt       string `json:"iat"`
	Expires        string `json:"exp"`
	Audience       string `json:"aud,omitempty"`
	PrincipalBound bool   `json:"principal_bound"`
}

type requestReport struct {
	Method string `json:"method"`
	Target string `json:"target"`
	A      string `json:"a,omitempty"` // the digest of its arguments
}

type checkReport struct {
	Name   string `json:"name"`
	OK     *bool  `json:"ok"`
	Detail string `json:"detail"`
	Next   string `json:"next,omitempty"` // what to do about it
}

// An inspection is one run of inspect.
type inspection struct {
	doc       *keyset.Document // nil without a store
	tag       string
	ring      codec.Codec // nil without keys
	audience  string
	audienced bool // the audience is known
	principal *binding.Principal
	now       time.Time
	showState bool
}

func (a *app) inspect(ctx context.Context, audienced bool, name string, f *inspectFlags) error {
	input, err := a.readFile(ctx, name, inspect.MaxBytes)
	if err != nil {
		return unnamed("inspect", err)
	}
	found, more, err := inspect.Find(input)
	if err != nil {
		return err
	}
	i := &inspection{audience: f.audience, audienced: audienced, now: a.Now(), showState: f.showState}
	if f.at != "" {
		if i.now, err = time.Parse(time.RFC3339, f.at); err != nil {
			return usagef("--at is a time such as 2026-12-02T03:10:00Z")
		}
	}
	if i.principal, err = readPrincipal(ctx, f.principalFile, f.keepLineEnd); err != nil {
		return err
	}
	if err := a.inspectKeys(ctx, i, f); err != nil {
		return err
	}
	r := &tokensReport{More: more, Verdict: valid}
	for _, found := range found {
		t, err := i.token(found)
		if err != nil {
			return err
		}
		r.Tokens = append(r.Tokens, t)
		if t.Verdict == invalid || t.Verdict == unverified && r.Verdict == valid {
			r.Verdict = t.Verdict
		}
	}
	a.report = r
	if len(r.Tokens) == 1 {
		a.report = r.Tokens[0]
	}
	if r.Verdict == invalid {
		return exit(refused)
	}
	return nil
}

// inspectKeys reads what the flags name: the keyset, and keys to open the token with.
func (a *app) inspectKeys(ctx context.Context, i *inspection, f *inspectFlags) error {
	switch {
	case len(f.secretFiles) > 0 && f.unseal:
		return usagef("--secret-file and --unseal are two ways to open a token: choose one")
	case len(f.secretFiles) > 0:
		if err := i.secrets(f.secretFiles, f.keepLineEnd); err != nil {
			return err
		}
	case f.unseal:
		return a.inspectKeyset(ctx, i)
	}
	given := a.flags.store != ""
	a.settings()
	if a.flags.store == "" {
		return nil
	}
	doc, err := a.unverified(ctx)
	switch {
	case err == nil:
		i.doc, i.tag = doc, tagNotChecked
	case given:
		return misconfigured(err)
	default:
		a.note("what the key is in the keyset is not known, since ECHOSEAL_STORE cannot be read: %v", err)
	}
	return nil
}

// secrets makes a ring of secret files, the first one first.
func (i *inspection) secrets(files []string, keepLineEnd bool) error {
	secrets, err := readSecrets(files, keepLineEnd)
	if err != nil {
		return err
	}
	i.ring, err = local.New(secrets...)
	for _, s := range secrets {
		clear(s)
	}
	return misconfigured(err)
}

// unverified reads the document, and calls no key service.
func (a *app) unverified(ctx context.Context) (*keyset.Document, error) {
	source, err := a.Stores.Open(ctx, a.flags.store)
	if err != nil {
		return nil, fmt.Errorf("--store: %w", err)
	}
	defer closeSource(source)
	text, _, err := source.Load(ctx)
	if errors.Is(err, keyset.ErrNotExist) {
		return nil, absent(source, a.placeOf(source))
	}
	if err != nil {
		return nil, &exitError{code: failed, err: err} // as where a keyset is verified
	}
	doc, err := keyset.Parse(text)
	if err != nil {
		return nil, damaged(a.placeOf(source), text, err)
	}
	return doc, nil
}

const (
	tagOK         = "ok"
	tagNotChecked = "not checked"
)

// inspectKeyset opens every key of the keyset that can be opened.
func (a *app) inspectKeyset(ctx context.Context, i *inspection) error {
	o, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer o.close()
	var keys []*local.Key
	for _, k := range o.doc.Keys {
		if !k.Unseals() {
			continue
		}
		key, err := o.services.OpenKey(ctx, o.doc.Name, k)
		if err != nil {
			a.note("key %s cannot be opened: %v", k.KID, err)
			continue
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return errors.New("none of the keys of the keyset can be opened")
	}
	i.doc, i.tag = o.doc, tagOK
	i.ring, err = local.NewRing(keys...)
	return err
}

// maxTokenChars is how long a token may be for a server that sets nothing else.
const maxTokenChars = 256 << 10

// token explains one token.
func (i *inspection) token(found inspect.Found) (*tokenReport, error) {
	t := &tokenReport{Verdict: unverified}
	if found.Request != nil {
		t.Request = &requestReport{Method: found.Request.Method, Target: found.Request.Target}
		if a, err := digest(found.Request); err == nil {
			t.Request.A = a
		}
	}
	if found.Token == "" && found.Request != nil {
		t.Note = "the request has no token"
		if found.NoText {
			t.Verdict, t.Reason = invalid, string(codec.Malformed)
			t.Note, t.Next = "the requestState of the request is no text", inspect.AsItIs
		}
		return t, nil
	}
	shape := inspect.Identify(found.Token)
	t.Format, t.KID, t.PayloadBytes, t.Note, t.Next = string(shape.Format), shape.KID, shape.PayloadBytes, shape.Note, shape.Next
	t.TokenID, t.TokenChars = binding.TokenID(found.Token), len(found.Token)
	if i.doc != nil && shape.Format == inspect.V1 && shape.KID != "" {
		t.Key = i.key(shape.KID)
	}
	if i.ring == nil {
		i.offline(t)
		return t, nil
	}
	return t, i.check(t, found)
}

// offline judges a token without a key.
func (i *inspection) offline(t *tokenReport) {
	switch {
	case t.TokenChars > maxTokenChars:
		t.Verdict, t.Reason = invalid, string(binding.TooLarge)
		t.Note, t.Next = "it is longer than any token that a server takes", i.next(t, "codec")
	case t.Note != "": // of a v1 token there is nothing to note
		t.Verdict, t.Reason = invalid, string(codec.Malformed)
	case t.Key != nil && !t.Key.unseals():
		t.Next = i.nextUnknown(t)
	}
}

func digest(r *binding.Request) (string, error) {
	if r.Method == binding.MethodReadResource {
		return binding.Digest(nil)
	}
	return binding.Digest(r.Arguments)
}

// moment writes a time of a token as exactly as it is of use.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Truncate(time.Millisecond).Format("2006-01-02T15:04:05.000Z")
}

// key tells what a key id is in the keyset.
func (i *inspection) key(kid string) *keyReport {
	r := &keyReport{State: "unknown", Tag: i.tag}
	if k := i.doc.Key(kid); k != nil && k.Unseals() {
		since := map[keyset.State]time.Time{keyset.Staged: k.Staged, keyset.Primary: k.Promoted, keyset.Retiring: k.Demoted}
		r.State, r.Since = string(k.State), formatTime(since[k.State])
	} else if f := fateOf(i.doc, kid); f.name != "" {
		r.State, r.Since, r.Reason = f.name, formatTime(f.at), f.reason
	}
	return r
}

// check opens the token and makes every check that can be made.
func (i *inspection) check(t *tokenReport, found inspect.Found) error {
	o := binding.Options{Audience: i.audience, NoAudience: i.audience == "", Now: func() time.Time { return i.now }}
	policy, err := binding.New(i.ring, o)
	if err != nil {
		return misconfigured(err)
	}
	var request binding.Request
	if found.Request != nil {
		request = *found.Request
	}
	var principal binding.Principal
	if i.principal != nil {
		principal = *i.principal
	}
	e := policy.Round(request, principal).Explain(found.Token)
	if c := e.Claims; c != nil {
		t.Claims = &claimsReport{M: c.Method, T: c.Target, A: c.Digest, IssuedAt: moment(c.IssuedAt), Expires: moment(c.Expires), Audience: c.Audience, PrincipalBound: c.PrincipalBound}
		state := e.State()
		n := len(state)
		t.StateBytes = &n
		if i.showState {
			t.State = &state
		}
	}
	t.Verdict = valid
	for _, c := range e.Checks {
		i.unknowable(&c, e.Claims)
		r := checkReport{Name: c.Name, Detail: c.Detail}
		if c.Outcome != binding.Skipped {
			ok := c.Outcome == binding.Passed
			r.OK = &ok
			first := !ok && t.Verdict == valid
			if first {
				t.Verdict, t.Reason = invalid, c.Name
				if c.Name == "codec" || c.Name == "claims" {
					t.Reason = string(e.Reason)
				}
			}
			if !ok {
				r.Next = i.next(t, c.Name)
			}
			if first {
				t.Next = r.Next
			}
		}
		t.Checks = append(t.Checks, r)
	}
	return nil
}

// unknowable takes back the outcome of a check that was made against what nobody has
// told.
func (i *inspection) unknowable(c *binding.Check, claims *binding.Claims) {
	switch {
	case claims == nil:
	case c.Name == "audience" && !i.audienced:
		c.Outcome, c.Detail = binding.Skipped, "give --audience to compare"
		if claims.Audience != "" {
			c.Detail = fmt.Sprintf("the token is for %q; give --audience to compare", claims.Audience)
		}
	case (c.Name == "principal_drift" || c.Name == "principal") && i.principal == nil:
		c.Outcome, c.Detail = binding.Skipped, "the token is bound to nobody"
		if claims.PrincipalBound {
			c.Detail = "the token is bound to a principal; give --principal-file to compare"
		}
	}
}

// next says what to do about a check that failed.
func (i *inspection) next(t *tokenReport, check string) string {
	switch check {
	case "codec":
		switch t.Reason {
		case string(codec.UnknownKey):
			return i.nextUnknown(t)
		case string(codec.BadSeal):
			return "somebody changed the token, or it is of another deployment whose key has this id by chance"
		case string(binding.TooLarge):
			return "no server makes tokens of this size; the handler's state would have to be smaller"
		}
		return cmp.Or(t.Next, inspect.AsItIs) // by its shape
	case "claims":
		return "the key made something else than a token of version 1: a newer server, or another use of the same secret"
	case "future":
		return "set the clock of the server that sealed it, and of the one that refused it"
	case "expired":
		return "the client has to start over; if users need longer, raise the ttl: keytool policy --ttl D"
	case "request":
		return "the retry must carry the same tool, prompt or URI and the same arguments as the round before"
	case "audience":
		return "the token is of another service; replicas of one service share one audience"
	case "principal_drift", "principal":
		return "the round was begun as somebody else: look at the client's login between the two rounds"
	}
	return ""
}

func (i *inspection) nextUnknown(t *tokenReport) string {
	const ruby = "; the Ruby SDK's tokens have the same shape"
	switch {
	case i.doc == nil:
		return "none of the secret files has made it: another service's, a replica with other secrets, or one that was restarted with a key of its own" + ruby
	case t.Key == nil || t.Key.State == "unknown":
		return "this keyset never had that key, as far as it remembers: another keyset's token, or that of a server with a secret of its own" + ruby
	case t.Key.State == string(keyset.Revoked):
		return "the key was revoked " + t.Key.Since + "; the client has to start over"
	case t.Key.State == "retired" || t.Key.State == "aborted":
		return "the key was " + t.Key.State + " " + t.Key.Since + ", after every token under it had expired; the client has to start over"
	}
	return "the key is in the keyset, and was not among those that it was tried with here"
}

// maxPrincipal is more bytes than any principal has.
const maxPrincipal = 64 << 10

// readPrincipal reads a principal as a server would bind it.
func readPrincipal(ctx context.Context, file string, keepLineEnd bool) (*binding.Principal, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // no file, no principal
	}
	text, err := readLimited(ctx, file, maxPrincipal)
	if err != nil {
		return nil, unnamed("--principal-file", err)
	}
	var oauth struct {
		ClientID string  `json:"client_id"`
		Issuer   *string `json:"iss"`
		Subject  *string `json:"sub"`
	}
	p := binding.Bound(string(text))
	switch {
	case len(text) > 0 && text[0] == '{' && json.Unmarshal(text, &oauth) == nil && oauth.ClientID != "":
		p = binding.OAuthPrincipal(oauth.ClientID, oauth.Issuer, oauth.Subject)
	case !keepLineEnd && len(text) > 0 && text[len(text)-1] == '\n':
		return nil, usagef("the principal file %s ends with a line end: if the principal does not end with it, write the file without, as printf %%s does; if it does, add --keep-line-end", file)
	}
	return &p, nil
}

func (r *tokensReport) text(p *printer) {
	n := make(map[verdict]int)
	for _, t := range r.Tokens {
		n[t.Verdict]++
	}
	var counts []string
	for _, v := range []verdict{invalid, unverified, valid} {
		if n[v] > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n[v], v))
		}
	}
	why := fmt.Sprintf("of %s: %s", count(len(r.Tokens), "token"), list(counts))
	if r.More > 0 {
		why += fmt.Sprintf("; %d more were not looked at", r.More)
	}
	p.verdict(r.Verdict, why)
	for _, t := range r.Tokens {
		p.linef("")
		t.text(p)
	}
}

func (p *printer) verdict(v verdict, why string) {
	colour := map[verdict]string{valid: green, invalid: red, unverified: yellow}[v]
	p.linef("%s  %s", p.paint(colour, strings.ToUpper(string(v))), why)
}

// longest is how much of what somebody else has written stands in a line, in characters.
const longest = 300

// shortened cuts a text for people, who have the whole one in what they captured.
func shortened(text string) string {
	n := 0
	for i := range text {
		if n++; n > longest {
			return fmt.Sprintf("%s… (%d bytes)", text[:i], len(text))
		}
	}
	return text
}

func (t *tokenReport) text(p *printer) {
	p.verdict(t.Verdict, shortened(t.why()))
	lines := []labelled{{"next", t.Next}}
	if t.Format != "" {
		lines = append(lines, labelled{"token", t.shape()})
	}
	if k := t.Key; k != nil {
		lines = append(lines, labelled{"key", k.line()})
	}
	if c := t.Claims; c != nil {
		bound := map[bool]string{true: "bound", false: "none"}[c.PrincipalBound]
		lines = append(lines,
			labelled{"claims", fmt.Sprintf("%s %s   arguments %s   audience %s   principal %s", c.M, shortened(strconv.Quote(c.T)), c.A, shortened(orDash(c.Audience)), bound)},
			labelled{"", fmt.Sprintf("sealed %s   expires %s   state of %d bytes", orDash(c.IssuedAt), orDash(c.Expires), *t.StateBytes)})
	}
	if r := t.Request; r != nil {
		lines = append(lines, labelled{"request", fmt.Sprintf("%s %s   arguments %s", r.Method, shortened(strconv.Quote(r.Target)), orDash(r.A))})
	}
	if t.State != nil {
		lines = append(lines, labelled{"state", strconv.QuoteToASCII(*t.State)})
	}
	p.labels(lines...)
	t.table(p)
}

// shape says what can be seen of the token.
func (t *tokenReport) shape() string {
	format := t.Format
	if t.Format == string(inspect.Unknown) {
		format = "of no known format"
	}
	line := format + "   id " + t.TokenID
	if t.KID != "" {
		line += "   key " + t.KID
	}
	line += "   " + count(t.TokenChars, "character")
	if t.PayloadBytes > 0 || t.KID != "" {
		line += fmt.Sprintf(", %d bytes inside", t.PayloadBytes)
	}
	return line
}

// why says in a line why the verdict is what it is; where a token is invalid, with the code
// that a server logs.
func (t *tokenReport) why() string {
	switch {
	case t.Verdict == valid:
		return "every check that could be made passed"
	case t.Verdict == unverified && t.TokenID != "":
		return "no keys were given to open it with: --unseal, or --secret-file"
	case t.Verdict == unverified:
		return t.Note
	}
	why := t.Note
	for _, c := range t.Checks {
		if why == "" && c.OK != nil && !*c.OK {
			why = c.Detail
		}
	}
	return t.Reason + ": " + why
}

// unseals reports whether a server that has the keyset opens tokens under the key.
func (k *keyReport) unseals() bool {
	return k.State == string(keyset.Staged) || k.State == string(keyset.Primary) || k.State == string(keyset.Retiring)
}

func (k *keyReport) line() string {
	line := k.State
	if k.Since != "" {
		line += " since " + k.Since
	}
	if k.Reason != "" {
		line += ": " + k.Reason
	}
	return line + "   (tag: " + k.Tag + ")"
}

// table prints every check.
func (t *tokenReport) table(p *printer) {
	if len(t.Checks) > 0 {
		var rows [][]string
		for _, c := range t.Checks {
			mark := "–"
			if c.OK != nil {
				mark = map[bool]string{true: "ok", false: "FAILED"}[*c.OK]
			}
			rows = append(rows, []string{c.Name, mark, shortened(c.Detail)})
			if c.Next != "" && c.Next != t.Next { // which stands below the verdict
				rows = append(rows, []string{"", "next", c.Next})
			}
		}
		p.linef("")
		p.table([]string{"CHECK", "", "DETAIL"}, rows...)
	}
}
