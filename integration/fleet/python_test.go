package fleet

import (
	"context"
	"testing"
	"time"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/integration/internal/mixed"
)

const python = "python"

// pythonReasons are the words of the Python SDK's log for our reasons.
var pythonReasons = map[codec.Reason]string{
	"malformed": "malformed",
	"seal":      "seal",
	"request":   "request binding",
	"principal": "principal",
}

func startPython(t *testing.T, c mixed.Config) *instance {
	t.Helper()
	server := mixed.StartPython(t, python, c)
	return &instance{
		name: python,
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
