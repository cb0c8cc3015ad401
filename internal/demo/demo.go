// Package demo drives every payment flow through the API of a real stack, with real payments, and reports whether each
// ended as it should.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/stack"
	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

// Flow is the outcome of one flow.
type Flow struct {
	Name     string `json:"name"`
	Expected string `json:"expected"`
	Got      string `json:"got"`
	MS       int64  `json:"ms"`
}

// Summary is the last line that the demo prints.
type Summary struct {
	OK                bool    `json:"ok"`
	Flows             []Flow  `json:"flows"`
	Differences       int64   `json:"differences"`
	EventToPaidP50MS  float64 `json:"event_to_paid_p50_ms"`
	EventToPaidMaxMS  float64 `json:"event_to_paid_max_ms"`
	EventToPaidSample int     `json:"event_to_paid_sample"`
}

// Passed reports whether every flow ended as expected, PAID came soon enough, and reconcile found nothing.
func (s *Summary) Passed() bool { return s.OK }

// Environment is the service's settings for the demo, with short waiting times.
func Environment() []string {
	return []string{
		"HOLDFAST_INVOICE_EXPIRY=" + invoiceExpiry.String(), "HOLDFAST_LOG_LEVEL=info",
		"HOLDFAST_RELAY_SEND_WINDOW=3s", "HOLDFAST_RELAY_AUDIT=1s",
	}
}

// invoiceExpiry is how long payers have in the demo: long enough for a restart of any part, short enough to watch one expire.
const invoiceExpiry = 25 * time.Second

// flowTimeout is how long one flow may take, including an expiry and a restart.
const flowTimeout = 90 * time.Second

// Demo is one run.
type Demo struct {
	stack *stack.Stack
	out   io.Writer

	serving sync.RWMutex // locked while the service or the node that issues invoices is down; read-locked by flows that run in parallel and need them

	nodes map[string]*lightning.Client // the service's nodes by name, for watching them from outside

	payer  client // zaps and buys
	late   client // has no balance, and pays too late
	author client
	post   string // the author's, zapped by everybody
	option string // of a poll

	byAddress, byNode writer    // they have wallets: a lightning address, and their own node
	savers            [2]client // they have sats to withdraw
}

// Run drives the flows whose names contain only (all if it is empty) on a running stack whose environment is
// Environment. It prints a table as it goes, and returns what it found. An error means that a flow could not even be
// tried.
func Run(ctx context.Context, s *stack.Stack, only string, out io.Writer) (*Summary, error) {
	d := &Demo{stack: s, out: out, nodes: map[string]*lightning.Client{}}
	for _, ours := range s.Network.Ours() {
		node, err := lightning.Dial(lightning.Config{Name: ours.Name(), Address: ours.Address(), Network: "simnet",
			TLSCertPath: ours.TLSCert(), MacaroonPath: ours.Macaroon()})
		if err != nil {
			return nil, err
		}
		defer node.Close()
		d.nodes[ours.Name()] = node
	}
	if err := d.signUp(ctx); err != nil {
		return nil, err
	}
	summary := &Summary{OK: true}
	fmt.Fprintf(out, "%-66s %-22s %-22s %8s\n", "FLOW", "EXPECTED", "GOT", "MS")
	d.drive(ctx, summary, only)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if only == "" {
		if err := d.latency(ctx, summary); err != nil {
			return nil, err
		}
	}
	if err := d.reconcile(ctx, summary); err != nil {
		return nil, err
	}
	return summary, nil
}

// Names are the names of the flows that Run drives if it is asked for only these.
func Names(only string) (names []string) {
	for _, f := range slices.Concat(flows, []flow{expired}) {
		if f.asked(only) {
			names = append(names, f.name)
		}
	}
	return names
}

// drive drives the flows one after the other, except the one that waits for an expiry, which runs in parallel.
func (d *Demo) drive(ctx context.Context, s *Summary, only string) {
	expiry := make(chan Flow, 1)
	if expired.asked(only) {
		go func() { expiry <- d.run(ctx, expired) }()
		defer func() { d.tell(s, <-expiry) }()
	}
	for _, f := range flows {
		if f.asked(only) {
			d.tell(s, d.run(ctx, f))
		}
	}
}

// flow is one thing that the demo shows.
type flow struct {
	name     string
	expected string
	drive    func(ctx context.Context, d *Demo) (got string, err error)
}

// asked reports whether a flow is one of those that Run drives.
func (f flow) asked(only string) bool { return strings.Contains(f.name, only) }

func (d *Demo) run(ctx context.Context, f flow) Flow {
	ctx, cancel := context.WithTimeout(ctx, flowTimeout)
	defer cancel()
	begun := time.Now()
	got, err := f.drive(ctx, d)
	if err != nil {
		got = "error: " + err.Error()
	}
	return Flow{Name: f.name, Expected: f.expected, Got: got, MS: time.Since(begun).Milliseconds()}
}

func (d *Demo) tell(s *Summary, f Flow) {
	mark := ""
	if f.Got != f.Expected {
		mark, s.OK = "  <- not as expected", false
	}
	fmt.Fprintf(d.out, "%-66s %-22s %-22s %8d%s\n", f.Name, f.Expected, f.Got, f.MS, mark)
	s.Flows = append(s.Flows, f)
}

// signUp makes the people of the demo. The author's first post is paid by the payer's node.
func (d *Demo) signUp(ctx context.Context) error {
	for name, c := range map[string]*client{"author": &d.author, "payer": &d.payer, "late": &d.late} {
		key, err := SignUp(ctx, d.stack.URL(), name)
		if err != nil {
			return fmt.Errorf("sign up %s: %w", name, err)
		}
		*c = client{url: d.stack.URL(), key: key}
	}
	a, err := d.createPost(ctx, d.author, "Hello, Lightning", "OPTIMISTIC")
	if err != nil {
		return err
	}
	d.post = a.Result.Item.ID
	if _, err = d.payAndAwait(ctx, d.author, a); err != nil {
		return err
	}
	return d.signUpReceivers(ctx)
}

// latency measures how long after the node's event a subscriber sees PAID, over several zaps, one after the other.
func (d *Demo) latency(ctx context.Context, s *Summary) error {
	const samples = 61 // so many that the first ones, on connections that are new since PostgreSQL's restart, do not determine the median
	var took []time.Duration
	for range samples {
		t, err := d.eventToPaid(ctx)
		if err != nil {
			return fmt.Errorf("measure: %w", err)
		}
		took = append(took, t)
	}
	d.tellLatency(s, took)
	return nil
}

func (d *Demo) tellLatency(s *Summary, took []time.Duration) {
	slices.Sort(took)
	ms := func(t time.Duration) float64 { return float64(t.Microseconds()) / 1000 }
	s.EventToPaidP50MS, s.EventToPaidMaxMS, s.EventToPaidSample = ms(took[len(took)/2]), ms(took[len(took)-1]), len(took)
	fmt.Fprintf(d.out, "\nFrom the node's settled event to PAID at a subscriber: median %.1f ms, longest %.1f ms, of %d zaps\n",
		s.EventToPaidP50MS, s.EventToPaidMaxMS, s.EventToPaidSample)
	if s.EventToPaidP50MS >= 25 {
		s.OK = false
	}
}

// reconcile runs the operator's command.
func (d *Demo) reconcile(ctx context.Context, s *Summary) error {
	out, err := d.stack.ServiceCommand(ctx, "reconcile", "--json").Output()
	return d.tellReconciled(s, out, err)
}

// tellReconciled takes what the command printed, and how it ended.
func (d *Demo) tellReconciled(s *Summary, out []byte, err error) error {
	var report reconcile.Report
	if jsonErr := json.Unmarshal(out, &report); jsonErr != nil {
		return fmt.Errorf("reconcile: %w", errors.Join(err, jsonErr))
	}
	var checked int64
	for _, i := range report.Invariants {
		s.Differences += i.Broken
		checked += i.Checked
		for _, b := range i.Breaks {
			fmt.Fprintf(d.out, "invariant %d is broken: %s\n", i.ID, b.What)
		}
	}
	fmt.Fprintf(d.out, "Reconcile: %d differences in %d things checked\n", s.Differences, checked)
	s.OK = s.OK && report.OK && err == nil
	return nil
}

// pause is a short wait before looking again.
func pause(ctx context.Context) error {
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
