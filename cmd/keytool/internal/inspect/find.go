package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/echoseal/echoseal/binding"
)

const (
	// MaxBytes is how much input is read.
	MaxBytes = 10 << 20
	// MaxTokens is how many tokens of one input are explained.
	MaxTokens = 100

	maxDepth = 512
)

// A Found is a token, or a request that could have one.
type Found struct {
	Token   string           // "" if the request has none
	Request *binding.Request // the request that it came with; nil if it did not come with one
	NoText  bool             // the request has something else than a text as its token
}

// Find returns the tokens in an input: bare ones, or JSON with tokens in it, such as a
// captured JSON-RPC request or response, a batch, a message a line, or a stream of
// server-sent events; the head of an HTTP message may stand before it. A request of a method
// that may carry a token is found without one, too. more is how many there are beyond
// MaxTokens.
//
// Errors give an offset and never the content.
func Find(input []byte) (found []Found, more int, err error) {
	input = bytes.TrimSpace(bytes.TrimPrefix(input, []byte("\xef\xbb\xbf")))
	switch {
	case len(input) > MaxBytes:
		return nil, 0, fmt.Errorf("the input is larger than %d bytes", MaxBytes)
	case len(input) == 0:
		return nil, 0, errors.New("the input is empty")
	}
	for sign, what := range map[string]string{
		"\xff\xfe": inUTF16, "\xfe\xff": inUTF16,
		"\x1f\x8b":   "it is compressed: gunzip -c FILE | keytool inspect -",
		"-----BEGIN": "it is a key or a certificate (PEM), and no token",
	} {
		if bytes.HasPrefix(input, []byte(sign)) {
			return nil, 0, errors.New("the input cannot be read: " + what)
		}
	}
	w := &walker{}
	if err := w.find(body(input)); err != nil {
		return nil, 0, err
	}
	if len(w.found) == 0 {
		return nil, 0, noToken(input)
	}
	return w.found, w.more, nil
}

const inUTF16 = "it is UTF-16, as PowerShell writes it: iconv -f UTF-16 -t UTF-8 FILE | keytool inspect -"

// noToken is the error of JSON that has nothing to look at.
func noToken(input []byte) error {
	text := `no token is in the input: it has no string "requestState", and no request that could have one`
	switch {
	case bytes.Contains(input, []byte(`"token_id"`)):
		text += "; a server's log has the id of a token and never the token: capture the request"
	case bytes.Contains(input, []byte(`"requestState"`)):
		text += "; what is there as requestState is no text, and servers refuse that"
	default:
		text += "; if all of it came as requestState, it is the plain state of a server that does not seal it"
	}
	return errors.New(text)
}

var httpHead = regexp.MustCompile(`^(HTTP/[0-9.]+ [0-9]{3}|[A-Z]+ [^ \r\n]+ HTTP/[0-9.]+)`)

// body returns what stands behind the head of an HTTP message, if there is one.
func body(input []byte) []byte {
	if !httpHead.Match(input) {
		return input
	}
	for _, blank := range []string{"\r\n\r\n", "\n\n"} {
		if _, body, ok := bytes.Cut(input, []byte(blank)); ok {
			return bytes.TrimSpace(body)
		}
	}
	return input
}

// find reads an input of any kind.
func (w *walker) find(input []byte) error {
	switch {
	case len(input) > 0 && strings.IndexByte("{[\"", input[0]) >= 0:
		return w.read(input)
	case isEvents(input):
		var data bytes.Buffer
		for line := range bytes.Lines(input) {
			if text, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				data.Write(text)
			}
		}
		return w.read(data.Bytes())
	case bytes.ContainsAny(input, " \t\r\n"):
		return w.words(input)
	default:
		w.add(Found{Token: string(input)})
		return nil
	}
}

// words reads several tokens, and refuses everything else: what may be one token in several
// lines is not put together, for a server does not, either.
func (w *walker) words(input []byte) error {
	words, tokens, plain := 0, 0, 0
	for word := range bytes.FieldsSeq(input) {
		words++
		switch {
		case tokenIn(string(word)) == 0:
			tokens++
		case !noPartOfIt.Match(bytes.TrimRight(word, "\\=")):
			plain++
		}
	}
	switch {
	case tokens == words:
		for word := range bytes.FieldsSeq(input) {
			w.add(Found{Token: string(word)})
		}
		return nil
	case tokens == 1 && plain == words-1 && tokenIn(string(input)) == 0:
		return errors.New("the input is a token in several lines, or with spaces in it, which no server takes; if a terminal or a mail has wrapped it: tr -d ' \\\\\\r\\n' < FILE | keytool inspect -")
	case tokenIn(string(input)) >= 0:
		return errors.New("the input is neither JSON nor a token alone, but there is one in it: " + getTheToken)
	case bytes.Contains(input, []byte("token_id=")):
		return errors.New("the input is a line of a log, which has the id of a token and never the token: capture the request")
	default:
		return errors.New("the input is neither one token nor JSON: a token has no spaces, and no line ends in it")
	}
}

func isEvents(input []byte) bool {
	for _, field := range []string{"event:", "data:", "id:", "retry:", ":"} {
		if bytes.HasPrefix(input, []byte(field)) {
			return true
		}
	}
	return false
}

// A walker reads the values of a JSON text once, from front to back, and keeps no more of it than it finds.
type walker struct {
	doc       []byte
	dec       *json.Decoder
	found     []Found
	more      int
	arguments int // how many arguments the place is inside of
}

func (w *walker) add(f Found) {
	if len(w.found) == MaxTokens {
		w.more++
		return
	}
	w.found = append(w.found, f)
}

func (w *walker) read(doc []byte) error {
	doc = bytes.TrimSpace(doc)
	w.doc, w.dec = doc, json.NewDecoder(bytes.NewReader(doc))
	w.dec.UseNumber()
	for w.rest() {
		n, err := w.value(0)
		if err != nil {
			// What encoding/json says may repeat a character of the input, nothing more.
			err = fmt.Errorf("the input is no usable JSON, near byte %d: %w", w.dec.InputOffset(), plain(err))
			if tokenIn(string(doc)) >= 0 {
				err = fmt.Errorf("%w; there is a token in it: %s", err, getTheToken)
			}
			return err
		}
		if n.isText { // a quoted token
			w.add(Found{Token: n.text})
		}
	}
	return nil
}

// rest reports whether there is more JSON, as in a capture of one message a line.
func (w *walker) rest() bool {
	return len(bytes.TrimSpace(w.doc[w.dec.InputOffset():])) > 0
}

func plain(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends too early")
	}
	return err
}

// A node is what is known of a JSON value that was read.
type node struct {
	isText bool
	isNull bool
	text   string
	object *object
}

// An object has the members that a request and its params have.
type object struct {
	text      map[string]string // method, name, uri, requestState
	arguments []byte
	params    *object
	noText    bool // requestState is there, and neither a text nor null
}

func (w *walker) value(depth int) (node, error) {
	if depth > maxDepth {
		return node{}, fmt.Errorf("it is nested more than %d deep", maxDepth)
	}
	start := w.dec.InputOffset()
	t, err := w.dec.Token()
	if err != nil {
		return node{}, err
	}
	switch t := t.(type) {
	case nil:
		return node{isNull: true}, nil
	case string:
		return node{isText: true, text: Text(t, w.doc[start:w.dec.InputOffset()])}, nil
	case json.Delim:
		if t == '{' {
			o, err := w.object(depth)
			return node{object: o}, err
		}
		for w.dec.More() {
			if _, err := w.value(depth + 1); err != nil {
				return node{}, err
			}
		}
		_, err = w.dec.Token()
		return node{}, err
	}
	return node{}, nil
}

func (w *walker) object(depth int) (*object, error) {
	o := &object{}
	at := len(w.found) // the place of a request is before what is found inside of it
	for w.dec.More() {
		t, err := w.dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := t.(string)
		start := w.dec.InputOffset()
		if name == "arguments" {
			w.arguments++
		}
		n, err := w.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if name == "arguments" {
			w.arguments--
		}
		switch {
		case name == "arguments":
			o.arguments = bytes.TrimLeft(w.doc[start:w.dec.InputOffset()], ": \t\r\n")
		case name == "params":
			o.params = n.object
		case name == "requestState" && !n.isText:
			o.noText = !n.isNull
		case n.isText && (name == "method" || name == "name" || name == "uri" || name == "requestState"):
			if o.text == nil {
				o.text = make(map[string]string)
			}
			o.text[name] = n.text
			if name == "requestState" {
				w.add(Found{Token: n.text})
			}
		}
	}
	if _, err := w.dec.Token(); err != nil {
		return nil, err
	}
	w.request(o, at)
	return o, nil
}

// request notes that o is a request, with the token that was found in its params, if any.
func (w *walker) request(o *object, at int) {
	method := o.text["method"]
	// What looks like a request inside of the arguments of one is none. It would also make
	// the same bytes part of many digests.
	if w.arguments > 0 || o.params == nil || method != binding.MethodCallTool && method != binding.MethodGetPrompt && method != binding.MethodReadResource {
		return
	}
	target := "name"
	if method == binding.MethodReadResource {
		target = "uri"
	}
	r := &binding.Request{Method: method, Target: o.params.text[target], Arguments: o.params.arguments, UniqueNames: method == binding.MethodCallTool}
	token, ok := o.params.text["requestState"]
	if !ok {
		w.add(Found{Request: r, NoText: o.params.noText})
		return
	}
	for i := at; i < len(w.found); i++ {
		if f := &w.found[i]; f.Token == token && f.Request == nil {
			f.Request = r
			return
		}
	}
}
