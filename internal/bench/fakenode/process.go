package fakenode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Process is a node that runs as a separate process.
type Process struct {
	Places
	command *exec.Cmd
	orders  io.WriteCloser
	answers *json.Decoder
	said    *bytes.Buffer
}

// Start starts a command that calls Serve, and returns once its nodes answer. Stop ends it.
func Start(command *exec.Cmd) (_ *Process, err error) {
	p := &Process{command: command, said: &bytes.Buffer{}}
	command.Stderr = p.said
	if p.orders, err = command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the fake node: %w", err)
	}
	p.answers = json.NewDecoder(out)
	if err := p.answers.Decode(&p.Places); err != nil {
		return nil, errors.Join(fmt.Errorf("the fake node says nothing: %w", err), p.Stop())
	}
	return p, nil
}

// Pay has invoices of the service's node paid, and returns when each was. If one cannot be paid, it returns an error.
func (p *Process) Pay(rate float64, hashes ...paidaction.Hash) ([]time.Time, error) {
	done, err := p.order(Order{Hashes: hashes, Rate: rate})
	if err == nil && len(done.Paid) != len(hashes) {
		err = fmt.Errorf("%d of %d invoices were paid", len(done.Paid), len(hashes))
	}
	return done.Paid, err
}

// Open has the service's node make invoices, and returns their bolt11s.
func (p *Process) Open(requests []paidaction.InvoiceRequest) ([]string, error) {
	done, err := p.order(Order{Open: requests})
	if err == nil && len(done.Bolt11s) != len(requests) {
		err = fmt.Errorf("%d of %d invoices were made", len(done.Bolt11s), len(requests))
	}
	return done.Bolt11s, err
}

// Watch returns once no invoice of the service's node has its own subscription any more. The function that it returns
// waits until this many have one, and says when the last was subscribed to; until then the node takes no other order.
func (p *Process) Watch(invoices int) (reached func() (time.Time, error), err error) {
	if _, err := p.order(Order{Watched: invoices}); err != nil {
		return nil, err
	}
	return func() (time.Time, error) {
		done, err := p.answer()
		return done.Watched, err
	}, nil
}

func (p *Process) order(o Order) (Done, error) {
	if err := json.NewEncoder(p.orders).Encode(o); err != nil {
		return Done{}, fmt.Errorf("the fake node takes no orders: %w", err)
	}
	return p.answer()
}

func (p *Process) answer() (done Done, err error) {
	if err := p.answers.Decode(&done); err != nil {
		return done, fmt.Errorf("the fake node does not answer: %w", err)
	}
	if done.Failed != "" {
		return done, fmt.Errorf("the fake node could not do it: %s", done.Failed)
	}
	return done, nil
}

// Stop ends the process.
func (p *Process) Stop() error {
	err := errors.Join(p.orders.Close(), p.command.Wait())
	if err != nil {
		return fmt.Errorf("the fake node: %w\n%s", err, p.said)
	}
	return nil
}
