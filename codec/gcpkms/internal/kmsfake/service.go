package kmsfake

import (
	"context"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	kms "cloud.google.com/go/kms/apiv1"
	"cloud.google.com/go/kms/apiv1/kmspb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/protoadapt"
)

// A Service is the fake. Its methods are safe for concurrent use.
type Service struct {
	kmspb.UnimplementedKeyManagementServiceServer

	listener net.Listener
	done     chan struct{} // closed when the test ends

	mu      sync.Mutex
	keys    map[string]*key
	denied  map[string]bool
	faults  map[string][]Fault // by method
	every   Fault              // what all calls meet
	left    int                // how many of them; negative: without end
	seen    []Call
	tokens  []string
	secrets [][]byte
}

// A Call is a request as it came in, without the plaintext in it.
type Call struct {
	Method string // such as Decrypt
	Name   string // the key or version, which the routing header names, too
}

// A Fault is what one call meets.
type Fault struct {
	Code    codes.Code // fails the call, unless it is OK
	Message string
	Details []protoadapt.MessageV1

	Hang    bool      // no answer, until the caller or the test gives up
	Arrival func(any) // changes the request on its way, a *kmspb.EncryptRequest and so on
	Answer  func(any) // changes the right answer on its way
}

func (f Fault) err() error {
	failed, err := status.New(f.Code, f.Message).WithDetails(f.Details...)
	if err != nil {
		panic(err)
	}
	return failed.Err()
}

// Start starts a fake that ends with the test, on a free port of this host.
func Start(t testing.TB, options ...grpc.ServerOption) *Service {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, listener, options...)
}

// StartInProcess starts a fake that ends with the test, without a network, so that the
// time can be testing/synctest's.
func StartInProcess(t testing.TB) *Service {
	t.Helper()
	const bufferSize = 1 << 20
	return serve(t, bufconn.Listen(bufferSize))
}

func serve(t testing.TB, listener net.Listener, options ...grpc.ServerOption) *Service {
	s := &Service{
		listener: listener,
		done:     make(chan struct{}),
		keys:     make(map[string]*key),
		denied:   make(map[string]bool),
		faults:   make(map[string][]Fault),
	}
	server := grpc.NewServer(append(options, grpc.UnaryInterceptor(s.intercept))...)
	kmspb.RegisterKeyManagementServiceServer(server, s)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener) // fails when the test ends
	}()
	t.Cleanup(func() {
		close(s.done)
		server.Stop()
		<-ended
	})
	return s
}

// Address returns HOST:PORT.
func (s *Service) Address() string { return s.listener.Addr().String() }

// Client returns a client that ends with the test, without credentials unless the
// options bring them.
func (s *Service) Client(t testing.TB, options ...grpc.DialOption) *kms.KeyManagementClient {
	t.Helper()
	options = append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, options...)
	if buffer, ok := s.listener.(*bufconn.Listener); ok {
		options = append(options, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return buffer.DialContext(ctx) }))
	}
	connection, err := grpc.NewClient("passthrough:///"+s.Address(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	c, err := kms.NewKeyManagementClient(t.Context(), option.WithGRPCConn(connection))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Deny takes permissions such as cloudkms.cryptoKeys.get away from everybody.
func (s *Service) Deny(permissions ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range permissions {
		s.denied[p] = true
	}
}

// Fail lets the next calls of a method (Decrypt, …) meet faults, one each.
func (s *Service) Fail(method string, faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[method] = append(s.faults[method], faults...)
}

// FailAll lets all calls meet a fault: the next ones, as many as given, or without end
// if that is negative. It takes the place of an earlier one.
func (s *Service) FailAll(f Fault, calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.every, s.left = f, calls
}

// Seen returns all calls.
func (s *Service) Seen() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// Calls returns how many calls of a method there were.
func (s *Service) Calls(method string) int {
	n := 0
	for _, call := range s.Seen() {
		if call.Method == method {
			n++
		}
	}
	return n
}

// Tokens returns what callers have shown as their credentials, without repetition.
func (s *Service) Tokens() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tokens)
}

// Secrets returns every plaintext that went over the wire.
func (s *Service) Secrets() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.secrets)
}

// intercept is what every call goes through.
func (s *Service) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	method := path.Base(info.FullMethod)
	name, err := routed(ctx, request)
	fault := s.meet(ctx, method, name)
	if err != nil {
		return nil, err
	}
	if fault.Hang {
		select {
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-s.done:
			return nil, status.Error(codes.Unavailable, "The test is over.")
		}
	}
	if fault.Code != codes.OK {
		return nil, fault.err()
	}
	if fault.Arrival != nil {
		fault.Arrival(request)
	}
	answer, err := handle(ctx, request)
	if err == nil && fault.Answer != nil {
		fault.Answer(answer)
	}
	return answer, err
}

// meet counts a call and returns its fault, the zero value if there is none.
func (s *Service) meet(ctx context.Context, method, name string) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, Call{method, name})
	for _, token := range metadata.ValueFromIncomingContext(ctx, "authorization") {
		if !slices.Contains(s.tokens, token) {
			s.tokens = append(s.tokens, token)
		}
	}
	if queue := s.faults[method]; len(queue) > 0 {
		s.faults[method] = queue[1:]
		return queue[0]
	}
	if s.left == 0 {
		return Fault{}
	}
	s.left--
	return s.every
}

// routed returns the name in a request, if the routing header has it, too: without it
// a request does not come to where its key is.
func routed(ctx context.Context, request any) (string, error) {
	parameter, name := "name", ""
	switch r := request.(type) {
	case interface{ GetName() string }:
		name = r.GetName()
	case interface{ GetParent() string }:
		parameter, name = "parent", r.GetParent()
	}
	header := strings.Join(metadata.ValueFromIncomingContext(ctx, "x-goog-request-params"), "&")
	if values, err := url.ParseQuery(header); err != nil || values.Get(parameter) != name || name == "" {
		return name, status.Errorf(codes.InvalidArgument, "The request for %q came with the routing header %q.", name, header)
	}
	return name, nil
}
