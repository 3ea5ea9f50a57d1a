package mcpgo

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/echoseal/echoseal/binding"
)

// The SDK sends every error of a handler and of a middleware with the code -32603 and
// without data; nothing that a middleware, a hook or an error can do changes that. So
// the refusal is put right where it leaves: it is known by its message. An error of a
// handler with that very message becomes a refusal, too.

// Response returns a response of server.MCPServer.HandleMessage with the error of a
// refused state put right. Any other response, nil too, is returned as it is. It is for
// transports of your own.
//
//	answer := mcpgo.Response(s.HandleMessage(ctx, message))
func Response(m mcp.JSONRPCMessage) mcp.JSONRPCMessage {
	e, ok := m.(mcp.JSONRPCError)
	if !ok || e.Error.Code != mcp.INTERNAL_ERROR || e.Error.Message != binding.RefusedMessage || e.Error.Data != nil {
		return m
	}
	e.Error.Code = binding.RefusedCode
	e.Error.Data = json.RawMessage(binding.RefusedData)
	return e
}

// Writer returns a writer to which server.StdioServer may write in place of w, with the
// error of a refused state put right. It is safe for concurrent use if w is, and does
// not take a message apart: each Write is one Write to w.
//
//	err := server.NewStdioServer(s).Listen(ctx, os.Stdin, mcpgo.Writer(os.Stdout))
//
// A server.HTTPResponseWriter of your own, for a framework that is not net/http, may
// write its bodies through one, too; the status stays 200.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ io.Writer }

func (w writer) Write(p []byte) (int, error) {
	text, _ := repair(p)
	return write(w.Writer, text, len(p))
}

// write writes a text in place of one of another length.
func write(w io.Writer, text []byte, length int) (int, error) {
	n, err := w.Write(text)
	if err != nil {
		return min(n, length), err
	}
	return length, nil
}

// Handler returns an HTTP handler that serves what next, a server.StreamableHTTPServer
// or a server.SSEServer, answers, with the error of a refused state put right. In
// protocol version 2026-07-28 the status of such an answer is 400, as it is for every
// error of that code. Streams pass event by event, and are not held up.
//
//	http.Handle("/mcp", mcpgo.Handler(server.NewStreamableHTTPServer(s)))
//
// What encodes answers (gzip) goes around it, and not inside.
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &response{ResponseWriter: w, modern: mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion))}
		if flusher, ok := w.(http.Flusher); ok {
			next.ServeHTTP(flushing{out, flusher}, r) // the SDK streams only if it finds a Flusher
		} else {
			next.ServeHTTP(out, r)
		}
		out.writeStatus()
	})
}

// A response holds the status back until the SDK writes the body, which it does at once.
type response struct {
	http.ResponseWriter
	modern bool
	status int // held back; 0 if there is none
}

// Unwrap is for http.ResponseController.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteHeader holds back the status that an error of a handler has. The first one counts.
func (r *response) WriteHeader(status int) {
	if r.status != 0 {
		return
	}
	if status != http.StatusOK {
		r.ResponseWriter.WriteHeader(status)
		return
	}
	r.status = status
}

// Write puts an error right, and its status with it.
func (r *response) Write(p []byte) (int, error) {
	text, repaired := repair(p)
	if repaired {
		r.Header().Del("Content-Length") // of the text that it was
	}
	if repaired && r.status != 0 && r.modern && r.Header().Get("Content-Type") == "application/json" {
		r.status = http.StatusBadRequest
	}
	r.writeStatus()
	return write(r.ResponseWriter, text, len(p))
}

func (r *response) writeStatus() {
	if r.status != 0 {
		r.ResponseWriter.WriteHeader(r.status)
		r.status = 0
	}
}

// flushing is a response to a client that can be streamed to.
type flushing struct {
	*response
	flusher http.Flusher
}

// Flush implements http.Flusher.
func (f flushing) Flush() {
	f.writeStatus()
	f.flusher.Flush()
}

// repair returns a message as the SDK writes it, whole, with a new line at its end and
// in a stream the lines of an event before it, and true if it had to put an error right.
func repair(p []byte) ([]byte, bool) {
	if !bytes.Contains(p, []byte(binding.RefusedMessage)) {
		return p, false
	}
	begin := bytes.IndexByte(p, '{')
	end := bytes.LastIndexByte(p, '}') + 1
	if begin < 0 || end < begin {
		return p, false
	}
	var m struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   json.RawMessage `json:"error"`
	}
	if json.Unmarshal(p[begin:end], &m) != nil || string(m.Error) != spoilt {
		return p, false
	}
	m.Error = json.RawMessage(refusal)
	text, err := json.Marshal(m)
	if err != nil {
		return p, false // cannot happen to what was just decoded
	}
	return bytes.Join([][]byte{p[:begin], text, p[end:]}, nil), true
}

// A refused state as the SDK writes it, and as it is meant.
const (
	spoilt  = `{"code":-32603,"message":"` + binding.RefusedMessage + `"}`
	refusal = `{"code":-32602,"message":"` + binding.RefusedMessage + `","data":` + binding.RefusedData + `}`
)
