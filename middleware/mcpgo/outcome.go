package mcpgo

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/echoseal/echoseal/binding"
)

// A wireError is what a handler's caller gets. The SDK makes an error of the code
// -32603 and no data of it, with the text for a message: right for the one, and for the
// other what [Handler], [Writer] and [Response] look for.
type wireError string

const (
	errRefused  wireError = binding.RefusedMessage
	errInternal wireError = binding.InternalMessage
)

func (e wireError) Error() string { return string(e) }

// refused reports a refused token and returns what the client gets for it.
func (b *boundary) refused(ctx context.Context, r binding.Refusal, err error) error {
	attrs := r.Attrs()
	if r.Reason == binding.CodecError || r.Reason == binding.PrincipalError {
		attrs = append(attrs, slog.Any("error", err))
	}
	b.logger().LogAttrs(ctx, slog.LevelWarn, "requestState refused", attrs...)
	b.onRefuse(ctx, r)
	return errRefused
}

// failed reports a fault of this server and returns what the client gets for it.
func (b *boundary) failed(ctx context.Context, method string, err error) error {
	b.logger().LogAttrs(ctx, slog.LevelError, "requestState internal error",
		slog.String("method", method), slog.Any("error", err))
	return errInternal
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
