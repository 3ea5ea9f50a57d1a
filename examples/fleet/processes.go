package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"sync/atomic"
)

// A process is one of the servers.
type process struct {
	listening
	cmd   *exec.Cmd
	stdin io.Closer // the server ends when it is closed
}

type processes []*process

// startFleet starts n servers and waits until each is ready. Stop what it returns, with
// an error, too.
func startFleet(ctx context.Context, env map[string]string, n int) (processes, error) {
	var all processes
	for i := range n {
		p, err := startServer(ctx, env, fmt.Sprintf("server-%d", i+1))
		if err != nil {
			return all, err
		}
		all = append(all, p)
	}
	return all, nil
}

func startServer(ctx context.Context, env map[string]string, host string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, serverRole)
	cmd.Env = os.Environ()
	cmd.Env = append(cmd.Env, hostVariable+"="+host)
	for key, value := range env {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	cmd.Stderr = os.Stderr // warnings, such as a refused token
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &p.listening)
	}
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("a server did not start: %w", err)
	}
	return p, nil
}

func (p *process) stop() {
	_ = p.stdin.Close()
	_ = p.cmd.Wait()
}

func (all processes) stop() {
	for _, p := range all {
		p.stop()
	}
}

func (all processes) addresses() (addresses []string) {
	for _, p := range all {
		addresses = append(addresses, p.MCP)
	}
	return addresses
}

// reports are the URIs at which keytool asks the servers.
func (all processes) reports() (uris []string) {
	for _, p := range all {
		uris = append(uris, "http://"+p.Report+"/report")
	}
	return uris
}

// startBalancer starts a proxy that sends each request to the next server: the worst that
// a balancer without sticky sessions can do.
func startBalancer(ctx context.Context, addresses []string) (*listener, error) {
	var next atomic.Uint64
	return listen(ctx, &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			address := addresses[next.Add(1)%uint64(len(addresses))]
			r.SetURL(&url.URL{Scheme: "http", Host: address})
		},
		FlushInterval: -1,                         // answers may be streams of events
		ErrorLog:      log.New(io.Discard, "", 0), // clients that close a stream once they have their answer
		Transport:     &http.Transport{MaxIdleConnsPerHost: clients},
	})
}
