package fleet

import (
	"context"
	"testing"
	"time"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/integration/internal/mixed"
)

const (
	python  = "python"
	fastMCP = "fastmcp"
)

// pythonReasons are the words of the Python SDK's log for our reasons.
var pythonReasons = map[codec.Reason]string{
	"malformed": "malformed",
	"seal":      "seal",
	"request":   "request binding",
	"principal": "principal",
}

func startPython(t *testing.T, c mixed.Config) *instance {
	t.Helper()
	return startProcess(t, python, mixed.PythonSDK, c)
}

func startFastMCP(t *testing.T, c mixed.Config) *instance {
	t.Helper()
	return startProcess(t, fastMCP, mixed.FastMCP, c)
}

// isPython reports whether the boundary is that of the Python SDK.
func (i *instance) isPython() bool { return i.name == python || i.name == fastMCP }

func startProcess(t *testing.T, name, framework string, c mixed.Config) *instance {
	t.Helper()
	c.Framework = framework
	server := mixed.StartPython(t, name, c)
	return &instance{
		name: name,
		url:  server.URL,
		refusals: func() func(method string, reason codec.Reason) bool {
			offset := server.Log.Len()
			return func(method string, reason codec.Reason) bool {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				return server.Log.Await(ctx, offset, "requestState rejected on "+method+": "+pythonReasons[reason]+"\n")
			}
		},
	}
}
