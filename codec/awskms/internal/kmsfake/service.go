package kmsfake

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// AccessKey is the access key id of a caller who may do everything. It needs no
// session token.
const AccessKey = "AKIAFAKEADMINISTRATOR"

// A Service is the fake. Its methods are safe for concurrent use.
type Service struct {
	URL string // of the server; "" without

	mu      sync.Mutex
	keys    []*Key
	aliases map[string]*Key // by region and alias/NAME
	callers map[string]*Caller
	faults  map[string][]Fault // by operation
	every   Fault              // what all calls are answered with
	left    int                // how many of them; negative: without end
	calls   map[string]int     // by operation
	seen    []Call
	secrets [][]byte
	done    chan struct{} // closed when the server ends; nil without
}

// A Caller is somebody with an access key.
type Caller struct {
	SessionToken string
	Expired      bool
	Allow        []string // operations, such as kms:Decrypt; nil means all
}

// A Call is a request as it came in, without the plaintext in it.
type Call struct {
	Operation string // without kms:
	Region    string
	KeyID     string // KeyId or DestinationKeyId
}

// A Fault is what one call is answered with in place of the right answer.
type Fault struct {
	Status  int    // 0 means 400 for an error code, else 200
	Code    string // the error code
	Message string
	Body    string // the whole body, in place of an error
	KeyID   string // the right answer, but from this key
	Drop    bool   // the connection is closed without an answer
	Hang    bool   // no answer, until the caller or the test gives up
}

// New returns a fake without a server, see [Service.Do].
func New() *Service {
	return &Service{
		aliases: make(map[string]*Key),
		callers: map[string]*Caller{AccessKey: {}},
		faults:  make(map[string][]Fault),
		calls:   make(map[string]int),
	}
}

// Start starts a fake that ends with the test.
func Start(t testing.TB) *Service {
	s := New()
	s.done = make(chan struct{})
	server := httptest.NewServer(s)
	s.URL = server.URL
	t.Cleanup(func() { close(s.done); server.Close() })
	return s
}

// AddKey makes a key and returns its ARN.
func (s *Service) AddKey(k Key) string {
	k.setDefaults()
	k.draw()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = append(s.keys, &k)
	return k.ARN()
}

// Replicate makes a replica of a multi-Region key and returns its ARN.
func (s *Service) Replicate(arn, region string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	replica := *s.key(arn)
	replica.Region = region
	s.keys = append(s.keys, &replica)
	return replica.ARN()
}

// SetState puts a key into a state, such as Disabled or PendingDeletion.
func (s *Service) SetState(arn, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key(arn).State = state
}

// SetAlias points an alias (alias/NAME) at a key, in the region of the key.
func (s *Service) SetAlias(alias, arn string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.key(arn)
	s.aliases[k.Region+" "+alias] = k
}

// SetCaller lets a caller in.
func (s *Service) SetCaller(accessKey string, c Caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callers[accessKey] = &c
}

// Fail answers the next calls of an operation (Decrypt, …) with faults, one each.
func (s *Service) Fail(operation string, faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[operation] = append(s.faults[operation], faults...)
}

// FailAll answers all calls with a fault: the next ones, as many as given, or without
// end if that is negative. It takes the place of an earlier one.
func (s *Service) FailAll(f Fault, calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.every, s.left = f, calls
}

// Calls returns how many calls of an operation there were.
func (s *Service) Calls(operation string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[operation]
}

// Seen returns all calls.
func (s *Service) Seen() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.seen...)
}

// Secrets returns every plaintext that went over the wire.
func (s *Service) Secrets() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]byte(nil), s.secrets...)
}

// key returns a key that the test has made.
func (s *Service) key(arn string) *Key {
	for _, k := range s.keys {
		if k.ARN() == arn {
			return k
		}
	}
	panic("kmsfake: no key " + arn)
}

// ServeHTTP answers one call.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	operation, found := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "TrentService.")
	var in input
	if !found || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-amz-json-1.1" || json.Unmarshal(body, &in) != nil {
		write(w, http.StatusBadRequest, map[string]any{"__type": "SerializationException"})
		return
	}
	f, answer := s.answer(r, operation, &in)
	switch {
	case f == nil:
		write(w, http.StatusOK, answer)
	case f.Hang:
		select {
		case <-r.Context().Done():
		case <-s.done:
		}
	case f.Drop:
		panic(http.ErrAbortHandler)
	case f.Code == "":
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(max(f.Status, http.StatusOK))
		_, _ = io.WriteString(w, f.Body)
	default:
		failed := map[string]any{"__type": f.Code}
		if f.Message != "" {
			failed["message"] = f.Message
		}
		write(w, max(f.Status, http.StatusBadRequest), failed)
	}
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.Header().Set("X-Amzn-Requestid", hex.EncodeToString(random(16)))
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

type fault = Fault

func failure(code, message string) *fault { return &fault{Code: code, Message: message} }

// answer returns what a call is answered with, or a fault.
func (s *Service) answer(r *http.Request, operation string, in *input) (*fault, map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	accessKey, region, signed := parseAuthorization(r.Header.Get("Authorization"))
	s.calls[operation]++
	s.seen = append(s.seen, Call{operation, region, in.KeyID + in.DestinationKeyID})
	queued := s.nextFault(operation)
	if queued != nil && queued.KeyID == "" {
		return queued, nil
	}
	c := s.callers[accessKey]
	switch {
	case !signed:
		return failure("MissingAuthenticationTokenException", "Request is missing Authentication Token"), nil
	case c == nil || c.SessionToken != r.Header.Get("X-Amz-Security-Token"):
		return failure("UnrecognizedClientException", "The security token included in the request is invalid."), nil
	case c.Expired:
		return failure("ExpiredTokenException", "The security token included in the request is expired"), nil
	}
	handle := operations[operation]
	if handle == nil {
		return failure("UnknownOperationException", ""), nil
	}
	f, answer := handle(&request{s, c, region, operation}, in)
	if f == nil && queued != nil {
		if _, ok := answer["KeyId"]; ok {
			answer["KeyId"] = queued.KeyID
		}
		if metadata, ok := answer["KeyMetadata"].(map[string]any); ok {
			metadata["Arn"] = queued.KeyID
		}
	}
	return f, answer
}

// nextFault takes the fault for a call, if there is one.
func (s *Service) nextFault(operation string) *fault {
	if queue := s.faults[operation]; len(queue) > 0 {
		s.faults[operation] = queue[1:]
		return &queue[0]
	}
	if s.left == 0 {
		return nil
	}
	s.left--
	f := s.every
	return &f
}

// parseAuthorization reads
// AWS4-HMAC-SHA256 Credential=ACCESSKEY/DATE/REGION/kms/aws4_request, …
func parseAuthorization(header string) (accessKey, region string, ok bool) {
	_, rest, _ := strings.Cut(header, "AWS4-HMAC-SHA256 Credential=")
	scope, _, _ := strings.Cut(rest, ",")
	parts := strings.Split(scope, "/")
	if len(parts) != 5 || parts[3] != "kms" {
		return "", "", false
	}
	return parts[0], parts[2], true
}

func encode(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
