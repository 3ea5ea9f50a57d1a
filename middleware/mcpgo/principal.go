package mcpgo

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/echoseal/echoseal/binding"
)

// principal tells who sent a request. Whatever goes wrong is a failed principal.
func (b *boundary) principal(ctx context.Context, header http.Header) (p binding.Principal) {
	defer func() {
		if v := recover(); v != nil {
			// The value may name who asked; its type does not.
			p = binding.FailedPrincipal(fmt.Errorf("the principal function panicked with a %T", v))
		}
	}()
	if b.options.Principal == nil {
		return nobody(header)
	}
	p, err := b.options.Principal(ctx)
	if err != nil {
		return binding.FailedPrincipal(err)
	}
	return p
}

// nobody is the default of [Options.Principal].
func nobody(header http.Header) binding.Principal {
	if header.Get("Authorization") != "" {
		return binding.FailedPrincipal(errors.New("the request has an Authorization header and nothing tells whose it is; set Options.Principal to a function that does (one that returns the zero Principal binds states to nobody)"))
	}
	return binding.Principal{}
}
