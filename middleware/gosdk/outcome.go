package gosdk

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/echoseal/echoseal/binding"
)

// refused reports a refused token and returns what the client gets for it.
//
// The error must reach the SDK unwrapped: of a wrapped one it drops the data, and of
// any other it shows the text.
func (b *boundary) refused(ctx context.Context, r binding.Refusal, err error) error {
	attrs := r.Attrs()
	if r.Reason == binding.CodecError || r.Reason == binding.PrincipalError {
		attrs = append(attrs, slog.Any("error", err))
	}
	b.logger().LogAttrs(ctx, slog.LevelWarn, "requestState refused", attrs...)
	b.onRefuse(ctx, r)
	return &jsonrpc.Error{
		Code:    binding.RefusedCode,
		Message: binding.RefusedMessage,
		Data:    json.RawMessage(binding.RefusedData),
	}
}

// failed reports a fault of this server and returns what the client gets for it, as
// refused does.
func (b *boundary) failed(ctx context.Context, method string, err error) error {
	b.logger().LogAttrs(ctx, slog.LevelError, "requestState internal error",
		slog.String("method", method), slog.Any("error", err))
	return &jsonrpc.Error{Code: binding.InternalCode, Message: binding.InternalMessage}
}

func (b *boundary) onRefuse(ctx context.Context, r binding.Refusal) {
	if b.options.OnRefuse == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			b.logger().LogAttrs(ctx, slog.LevelError, "OnRefuse panicked",
				slog.String("method", r.Method), slog.String("panic", fmt.Sprintf("%T", v)))
		}
	}()
	b.options.OnRefuse(ctx, r)
}

func (b *boundary) logger() *slog.Logger {
	if b.options.Logger != nil {
		return b.options.Logger
	}
	return slog.Default()
}
