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

// Process is a node that runs as a process of its own.
type Process struct {
	Places
	command *exec.Cmd
	orders  io.WriteCloser
	answers *json.Decoder
	said    *bytes.Buffer
}

// Start starts a command that calls Serve, and returns when its nodes answer. Stop ends it.
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

// Pay has invoices of the service's node paid, and returns when each was. One that cannot be paid is an error.
func (p *Process) Pay(rate float64, hashes ...paidaction.Hash) ([]time.Time, error) {
	if err := json.NewEncoder(p.orders).Encode(Order{Hashes: hashes, Rate: rate}); err != nil {
		return nil, fmt.Errorf("the fake node takes no orders: %w", err)
	}
	var done Done
	if err := p.answers.Decode(&done); err != nil {
		return nil, fmt.Errorf("the fake node does not answer: %w", err)
	}
	if done.Failed != "" || len(done.Paid) != len(hashes) {
		return nil, fmt.Errorf("%d of %d invoices could be paid: %s", len(done.Paid), len(hashes), done.Failed)
	}
	return done.Paid, nil
}

// Stop ends the process.
func (p *Process) Stop() error {
	err := errors.Join(p.orders.Close(), p.command.Wait())
	if err != nil {
		return fmt.Errorf("the fake node: %w\n%s", err, p.said)
	}
	return nil
}
