package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
}

// Find returns the tokens in an input: a bare token, or JSON with tokens in it, such as a
// captured JSON-RPC request or response, a batch, or a stream of server-sent events. A
// request of a method that may carry a token is found without one, too. more is how
// many there are beyond MaxTokens.
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
	w := &walker{}
	switch {
	case strings.IndexByte("{[\"", input[0]) >= 0:
		err = w.read(input)
	case isEvents(input):
		for line := range bytes.Lines(input) {
			if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && len(bytes.TrimSpace(data)) > 0 {
				if err = w.read(data); err != nil {
					break
				}
			}
		}
	case bytes.ContainsAny(input, " \t\r\n"):
		return nil, 0, errors.New("the input is neither one token nor JSON: a token has no spaces, and no line ends in it")
	default:
		w.add(Found{Token: string(input)})
	}
	if err != nil {
		return nil, 0, err
	}
	if len(w.found) == 0 {
		return nil, 0, errors.New(`no token is in the input: it has no string "requestState", and no request that could have one`)
	}
	return w.found, w.more, nil
}

func isEvents(input []byte) bool {
	for _, field := range []string{"event:", "data:", "id:", "retry:", ":"} {
		if bytes.HasPrefix(input, []byte(field)) {
			return true
		}
	}
	return false
}

// A walker reads JSON once, from front to back, and keeps no more of it than it finds.
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
	w.doc, w.dec = doc, json.NewDecoder(bytes.NewReader(doc))
	w.dec.UseNumber()
	n, err := w.value(0)
	if err == nil {
		if _, err = w.dec.Token(); err == nil {
			err = errors.New("there is something behind the JSON")
		} else if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		// What encoding/json says may repeat a character of the input, nothing more.
		return fmt.Errorf("the input is no usable JSON, near byte %d: %w", w.dec.InputOffset(), plain(err))
	}
	if n.isText { // a quoted token
		w.add(Found{Token: n.text})
	}
	return nil
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
	text   string
	object *object
}

// An object has the members that a request and its params have.
type object struct {
	text      map[string]string // method, name, uri, requestState
	arguments []byte
	params    *object
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
		w.add(Found{Request: r})
		return
	}
	for i := at; i < len(w.found); i++ {
		if f := &w.found[i]; f.Token == token && f.Request == nil {
			f.Request = r
			return
		}
	}
}
