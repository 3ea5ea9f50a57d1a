package etcdstore

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// environment sets those variables of etcdctl, and no other.
func environment(t *testing.T, variables map[string]string) {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "ETCDCTL_") {
			t.Setenv(name, "")
		}
	}
	for name, value := range variables {
		t.Setenv("ETCDCTL_"+name, value)
	}
}

// malicious returns the address of a server that answers every call with one error.
func malicious(t *testing.T, code codes.Code, text string) string {
	t.Helper()
	return answering(t, func(any, grpc.ServerStream) error { return status.Error(code, text) })
}

// answering returns the address of a server that answers every call in its own way.
func answering(t *testing.T, answer grpc.StreamHandler) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(answer))
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}
