package nodetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Sim is an Env around a simulated node. Its fields may be replaced by a client that reaches the same node in another
// way.
type Sim struct {
	Sim     *simnode.Node
	Through interface {
		paidaction.Node
		paidaction.NodeEvents
	}

	outside *simnode.Node // the node that Sim pays

	mu  sync.Mutex
	now time.Time
}

// NewSim makes a simulated node with its own clock.
func NewSim() *Sim {
	s := &Sim{now: time.Now()}
	s.Sim = simnode.New("sim", s.clock)
	s.Through = s.Sim
	s.outside = s.Sim.Network().AddNode("outside")
	return s
}

func (s *Sim) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Node implements Env.
func (s *Sim) Node() paidaction.Node { return s.Through }

// Events implements Env.
func (s *Sim) Events() paidaction.NodeEvents { return s.Through }

// Pay implements Env.
func (s *Sim) Pay(_ context.Context, bolt11 string) error {
	return s.Sim.PayBolt11(bolt11, simnode.Payment{})
}

// PayTotal implements Env.
func (s *Sim) PayTotal(_ context.Context, bolt11 string, total paidaction.Msat, parts int) (taken bool, err error) {
	err = s.Sim.PayBolt11(bolt11, simnode.Payment{Msat: total, ExpiryHeights: make([]uint32, parts)})
	if errors.Is(err, simnode.ErrRefused) {
		return false, nil
	}
	return err == nil, err
}

// Restart implements Env and SendingEnv.
func (s *Sim) Restart(context.Context) error {
	s.Sim.SetAway(true)
	s.Sim.SetAway(false)
	return nil
}

// MineBlocks implements Env.
func (s *Sim) MineBlocks(_ context.Context, blocks uint32) error {
	s.Sim.Mine(blocks)
	return nil
}

// Sender implements SendingEnv. It is the node itself, because Through need not be able to send.
func (s *Sim) Sender() paidaction.SendingNode { return s.Sim }

// Receiver implements SendingEnv.
func (s *Sim) Receiver() Receiver { return s.outside }

// Unreachable implements SendingEnv.
func (s *Sim) Unreachable(context.Context) (string, error) {
	nobody := s.Sim.Network().AddReceiver("nobody")
	return nobody.Issue(simnode.Ask{Amount: amount, Act: simnode.Unreachable}).Bolt11, nil
}

// Advance implements Env and SendingEnv.
func (s *Sim) Advance(d time.Duration) {
	s.mu.Lock()
	s.now = s.now.Add(d)
	s.mu.Unlock()
	s.Sim.Tick()
}
