package main

import (
	"errors"
	"time"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec/local"
)

// A subject is what the table has a line for.
type subject struct {
	name string
	// whole tells of a subject that does the whole job: claims about the request, the
	// audience and the user, checked when the token comes back. The others seal the same
	// claims, which they are given as they are.
	whole bool
	// open gets ready for one work. The payload is that of Echoseal's claims. Either
	// runner may be nil.
	open func(w work, payload []byte) (seal, unseal runner, err error)
}

var errDiffers = errors.New("what was unsealed is not what was sealed")

// ours are Echoseal's own ways.
func ours() []subject {
	return []subject{
		{"**Echoseal**, Seal and Unseal", true, openStrings},
		{"Echoseal, AppendSeal and AppendUnseal", true, openAppend},
		{"Echoseal, sealed again in the same round", true, openAgain},
		{"Echoseal, the codec alone", false, openCodec},
	}
}

var request = binding.Request{Method: binding.MethodCallTool, Target: tool, Arguments: []byte(arguments)}

func newPolicy() (*binding.Policy, error) {
	return binding.New(local.Ephemeral(), binding.Options{Audience: audience})
}

// claims returns a payload for a state as Echoseal seals it.
func claims(state string) ([]byte, error) {
	ring := local.Ephemeral()
	policy, err := binding.New(ring, binding.Options{Audience: audience})
	if err != nil {
		return nil, err
	}
	token, err := policy.Round(request, binding.Bound(principal)).Seal(state)
	if err != nil {
		return nil, err
	}
	return ring.Unseal(token)
}

// sealed returns what rounds are made of, and a token that they open.
func sealed(w work) (policy *binding.Policy, who binding.Principal, token string, err error) {
	if policy, err = newPolicy(); err != nil {
		return nil, who, "", err
	}
	who = binding.Bound(principal)
	token, err = policy.Round(request, who).Seal(w.state)
	return policy, who, token, err
}

func openStrings(w work, _ []byte) (seal, unseal runner, err error) {
	policy, who, token, err := sealed(w)
	if err != nil {
		return nil, nil, err
	}
	seal = each(func() error {
		_, err := policy.Round(request, who).Seal(w.state)
		return err
	})
	unseal = each(func() error {
		state, err := policy.Round(request, who).Unseal(token)
		if err == nil && len(state) != len(w.state) {
			return errDiffers
		}
		return err
	})
	return seal, unseal, nil
}

func openAppend(w work, _ []byte) (seal, unseal runner, err error) {
	policy, who, token, err := sealed(w)
	if err != nil {
		return nil, nil, err
	}
	dst := make([]byte, 0, 2*len(token))
	seal = each(func() error {
		_, err := policy.Round(request, who).AppendSeal(dst, w.state)
		return err
	})
	unseal = each(func() error {
		state, err := policy.Round(request, who).AppendUnseal(dst, token)
		if err == nil && len(state) != len(w.state) {
			return errDiffers
		}
		return err
	})
	return seal, unseal, nil
}

// openAgain is sealing the next state of a request whose digest is known, as it is when
// its token has been opened.
func openAgain(w work, _ []byte) (seal, unseal runner, err error) {
	policy, who, token, err := sealed(w)
	if err != nil {
		return nil, nil, err
	}
	round := policy.Round(request, who)
	if _, err := round.Seal(w.state); err != nil { // the digest is known from now on
		return nil, nil, err
	}
	dst := make([]byte, 0, 2*len(token))
	return each(func() error {
		_, err := round.AppendSeal(dst, w.state)
		return err
	}), nil, nil
}

func openCodec(_ work, payload []byte) (seal, unseal runner, err error) {
	ring := local.Ephemeral()
	token, err := ring.Seal(payload)
	if err != nil {
		return nil, nil, err
	}
	dst := make([]byte, 0, 2*len(token))
	seal = each(func() error {
		_, err := ring.AppendSeal(dst, payload, time.Time{})
		return err
	})
	unseal = each(func() error {
		out, err := ring.AppendUnseal(dst, token)
		if err == nil && len(out) != len(payload) {
			return errDiffers
		}
		return err
	})
	return seal, unseal, nil
}
