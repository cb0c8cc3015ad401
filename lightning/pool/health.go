package pool

import (
	"context"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Status is the state of a node.
type Status struct {
	Name         string
	Eligible     bool   // it is given payments, as far as slots are free
	Reason       Reason // why it is not; empty if it is
	Why          string // the same in words
	InFlight     int    // leases of this process
	Slots        int
	Outbound     paidaction.Msat // what can still be promised to payments
	CoolingUntil time.Time       // zero if it does not rest
	Draining     bool
	Disabled     string // why, by an operator or for its key; empty if it is not
	Synced       bool
	Height       uint32
	PublicKey    string // under which the name is known
}

// Health returns the state of each node, with what other processes and operators say of it now. It waits until each
// node has been looked at once, but does not ask nodes again.
func (p *Pool) Health(ctx context.Context) ([]Status, error) {
	for _, m := range p.members {
		select {
		case <-m.looked:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	records, err := p.Register.list(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, record := range records {
		for _, m := range p.members {
			if m.Name == record.Name {
				p.remember(m, record)
			}
		}
	}
	p.arrange()
	all := make([]Status, len(p.members))
	for i, m := range p.members {
		all[i] = m.status(&p.settings, p.now())
	}
	return all, nil
}

// status is called with the pool's mu held.
func (m *member) status(s *Settings, now time.Time) Status {
	r := m.refusal(Need{}, s, now)
	status := Status{
		Name: m.Name, Eligible: r == "", Reason: r, Why: m.detail(r), InFlight: len(m.leases), Slots: len(m.slots),
		Outbound: m.outbound - m.promised, Draining: m.record.Draining, Synced: m.silent == nil && m.chain.Synced, Height: m.chain.Height,
	}
	if s.Rests(m.cooling, now) {
		status.CoolingUntil = m.cooling
	}
	if m.record.DisabledReason != nil {
		status.Disabled = *m.record.DisabledReason
	}
	if m.record.PublicKey != nil {
		status.PublicKey = *m.record.PublicKey
	}
	return status
}

// show updates the metrics, and logs what people should look at. Called with mu held.
func (p *Pool) show(now time.Time) {
	for _, m := range p.members {
		status := m.status(&p.settings, now)
		p.metrics.show(status)
		alarm := Reason("")
		if slices.Contains(alarms, status.Reason) {
			alarm = status.Reason
		}
		if alarm == m.alarm {
			continue
		}
		m.alarm = alarm
		if alarm == "" {
			p.log.Info("a node is enabled again", "node", m.Name)
		} else {
			p.log.Error("a node is disabled: payments go through others", "node", m.Name, "reason", alarm, "why", status.Why)
		}
	}
}
