// Package loopback is the network of tests on this host: addresses that are free, and
// links that break.
package loopback

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports that no system gives out by itself, to a connection or to a listener that asks
// for any: what is free stays free while a server is started, or started again.
const (
	firstPort = 15_000
	lastPort  = 30_000
)

// Free returns an address that nobody listens at, 127.0.0.1:PORT, and gives it to nobody
// else before the test ends, in this process or another: whoever has it holds the UDP port
// of the same number.
func Free(tb testing.TB) string {
	tb.Helper()
	return FreeAt(tb, "127.0.0.1")
}

// FreeAt is [Free] for another address of this host.
func FreeAt(tb testing.TB, host string) string {
	tb.Helper()
	for range 100 {
		port := firstPort + rand.N(uint16(lastPort-firstPort))
		address := net.JoinHostPort(host, strconv.Itoa(int(port)))
		claim, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			_ = claim.Close()
			continue
		}
		tb.Cleanup(func() { _ = claim.Close() })
		if err := listener.Close(); err != nil {
			tb.Fatal(err)
		}
		return address
	}
	tb.Fatal("there is no free port")
	return ""
}
