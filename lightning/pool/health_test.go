package pool_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/pool"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// metric is one value.
func (p *process) metric(name string, labels ...string) float64 {
	p.w.Helper()
	p.Settled()
	families, err := p.metrics.Gather()
	if err != nil {
		p.w.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			has := 0
			for i, pair := range m.GetLabel() {
				if i < len(labels) && pair.GetValue() == labels[i] {
					has++
				}
			}
			if has == len(labels) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}

func (p *process) wantMetric(want float64, name string, labels ...string) {
	p.w.Helper()
	if got := p.metric(name, labels...); got != want {
		p.w.Errorf("%s%v is %v, want %v", name, labels, got, want)
	}
}

// A payment goes to a node that can send it. What is promised to one payment is not promised to another, and what a
// payment took is gone.
func TestAPaymentGoesToANodeThatCanSendIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := briefly()
	s.Probe = time.Hour
	p := w.open(s, member{"alice", newNode("a", 2000*sat), 3}, member{"bob", newNode("b", 5000*sat), 3})
	outbound := func(want paidaction.Msat) {
		t.Helper()
		if got := p.health()["bob"].Outbound; got != want {
			t.Errorf("bob can send %d, want %d", got, want)
		}
		p.wantMetric(float64(want), "holdfast_node_outbound_msat", "bob")
	}
	for range 20 {
		lease := p.lease(pool.Need{Amount: 3000 * sat})
		if lease.Name() != "bob" {
			t.Fatalf("%s was picked", lease.Name())
		}
		outbound(2000 * sat)
		release(t, lease, pool.ReceiverFault())
		outbound(5000 * sat)
	}
	p.none(pool.Need{Amount: 5001 * sat}, pool.Unfunded)
	lease := p.lease(pool.Need{Amount: 4000 * sat, Only: "bob"})
	p.none(pool.Need{Amount: 3000 * sat}, pool.Unfunded)
	release(t, lease, pool.Done(3500*sat))
	outbound(1500 * sat)
	p.none(pool.Need{Amount: 1501 * sat, Only: "bob"}, pool.Unfunded)
	release(t, p.lease(pool.Need{Amount: 1500 * sat, Only: "bob"}), pool.ReceiverFault())
}

// After a payment the node is asked again, long before its turn.
func TestOutboundIsAskedForAfterAPayment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := quick()
	s.Probe = 10 * time.Second // a look half a second after the release, not in ten
	alice := newNode("a", 2000*sat)
	p := w.open(s, member{"alice", alice, 2})
	lease := p.lease(pool.Need{Amount: 1000 * sat})
	alice.set(func(n *node) { n.outbound = 1234 * sat })
	begun := time.Now()
	release(t, lease, pool.Done(1000*sat))
	p.eventually("what the node says counts", "alice", func(s pool.Status) bool { return s.Outbound == 1234*sat })
	if took := time.Since(begun); took > s.Probe/2 {
		t.Errorf("it took %v", took)
	}
}

// A node is disabled, with an alarm, if it can send next to nothing, or three times does not tell what it can send. It
// is enabled again by itself once it can and does.
func TestANodeIsDisabledAndEnabledByWhatItCanSend(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason    pool.Reason
		ail, mend func(*node)
	}{
		"low":     {pool.Low, func(n *node) { n.outbound = 999 * sat }, func(n *node) { n.outbound = 1000 * sat }},
		"unknown": {pool.Unknown, func(n *node) { n.shy = errors.New("it is shy") }, func(n *node) { n.shy = nil }},
		"away":    {pool.Unknown, func(n *node) { n.away = errors.New("it is away") }, func(n *node) { n.away = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			alice := newNode("a", 2000*sat)
			p := w.open(briefly(), member{"alice", alice, 1}, member{"bob", newNode("b", 1000*sat), 1})
			p.wantMetric(1, "holdfast_node_eligible", "alice")
			alice.set(c.ail)
			p.reason("alice", c.reason)
			p.wantMetric(0, "holdfast_node_eligible", "alice")
			p.wantMetric(1, "holdfast_node_disabled", "alice", string(c.reason))
			p.none(pool.Need{Only: "alice"}, c.reason)
			lease := p.lease(pool.Need{})
			if lease.Name() != "bob" {
				t.Errorf("%s was picked", lease.Name())
			}
			alice.set(c.mend)
			p.reason("alice", "")
			p.wantMetric(1, "holdfast_node_eligible", "alice")
			p.wantMetric(0, "holdfast_node_disabled", "alice", string(c.reason))
			release(t, p.lease(pool.Need{Only: "alice"}), pool.Done(0))
		})
	}
}

// Up to the third time, the last answer counts.
func TestAnUnknownAnswerIsOverlookedTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := briefly()
	s.Unknowns = 1_000_000
	alice := newNode("a", 2000*sat)
	p := w.open(s, member{"alice", alice, 2})
	before := alice.count()
	alice.set(func(n *node) { n.shy = errors.New("it is shy") })
	locktest.Eventually(t, "it was asked several times", func() bool { return alice.count() > before+9 })
	release(t, p.lease(pool.Need{Amount: 2000 * sat}), pool.ReceiverFault())
}

// A node that has never said what it can send is no node that can send too little: nobody is alarmed before it has failed to
// say so as often as it may.
func TestANodeThatIsShyFromTheStart(t *testing.T) {
	t.Parallel()
	for unknowns, want := range map[int]pool.Reason{1: pool.Unknown, 3: pool.Unasked} {
		w := newWorld(t)
		s := briefly()
		s.Probe, s.Unknowns = time.Hour, unknowns
		alice := newNode("a", 2000*sat)
		alice.shy = errors.New("it is shy")
		p := w.open(s, member{"alice", alice, 1})
		if got := p.health()["alice"].Reason; got != want {
			t.Errorf("after one look of %d that may fail it is %q, want %q", unknowns, got, want)
		}
		for _, alarm := range []pool.Reason{pool.Low, pool.Unknown} {
			p.wantMetric(map[bool]float64{true: 1}[alarm == want], "holdfast_node_disabled", "alice", string(alarm))
		}
	}
}

// Whoever comes when no node could serve them has the nodes looked at again, long before their turn: one may have recovered.
func TestARecoveredNodeIsFoundByWhoeverWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := quick()
	s.Probe, s.RetryTimeout = 20*time.Second, 10*time.Second // its turn would come too late
	alice := newNode("a", 2000*sat)
	alice.away = errors.New("it is away")
	p := w.open(s, member{"alice", alice, 1})
	p.reason("alice", pool.Silent)
	alice.set(func(n *node) { n.away = nil })
	release(t, p.lease(pool.Need{}), pool.ReceiverFault())
}

// spec 01 §1.6: a node behind the chain is given nothing new. Nor is a node that does not answer.
func TestANodeBehindTheChainOrAwayGetsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := briefly()
	s.Unknowns = 1_000_000 // so that it is not disabled
	alice := newNode("a", 2000*sat)
	p := w.open(s, member{"alice", alice, 1}, member{"bob", newNode("b", 2000*sat), 1})
	for reason, change := range map[pool.Reason]func(n *node, is bool){
		pool.Unsynced: func(n *node, is bool) { n.behind = is },
		pool.Silent: func(n *node, is bool) {
			if n.away = nil; is {
				n.away = errors.New("it is away")
			}
		},
	} {
		alice.set(func(n *node) { change(n, true) })
		p.reason("alice", reason)
		p.none(pool.Need{Only: "alice"}, reason)
		lease := p.lease(pool.Need{})
		if lease.Name() != "bob" {
			t.Errorf("%s: %s was picked", reason, lease.Name())
		}
		release(t, lease, pool.ReceiverFault())
		alice.set(func(n *node) { change(n, false) })
		p.reason("alice", "")
	}
}

// A node that accepts questions but does not answer holds up nobody, neither while it is asked nor after; and only one
// question at a time is put to it.
func TestAHungNodeHoldsUpNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := quick()
	s.RetryTimeout, s.ProbeTimeout = time.Minute, time.Minute
	alice := newNode("a", 2000*sat)
	members := []member{{"alice", alice, 5}, {"bob", newNode("b", 2000*sat), 5}}
	p := w.open(s, members...)
	alice.set(func(n *node) { n.hang = make(chan struct{}) })
	locktest.Eventually(t, "a question hangs", func() bool { return alice.open() == 1 })
	begun := time.Now()
	done := make(chan result, 50)
	for range cap(done) {
		go func() {
			lease, err := p.Acquire(t.Context(), pool.Need{})
			if err == nil {
				err = lease.Release(t.Context(), pool.ReceiverFault())
			}
			done <- result{lease, err}
		}()
	}
	for range cap(done) {
		got(t, "a lease", done)
	}
	if took := time.Since(begun); took > s.ProbeTimeout/2 {
		t.Errorf("50 leases took %v beside a node that hangs", took)
	}

	s = briefly()
	s.ProbeTimeout = time.Second
	other := w.open(s, members...)
	if reason := other.health()["alice"].Reason; reason != pool.Unasked && reason != pool.Silent {
		t.Errorf("a node that never answered is %q", reason)
	}
	for range 10 {
		lease := other.lease(pool.Need{})
		if lease.Name() != "bob" {
			t.Errorf("%s was picked", lease.Name())
		}
		release(t, lease, pool.ReceiverFault())
	}
	other.reason("alice", pool.Unknown)
	begun = time.Now()
	other.none(pool.Need{Only: "alice"}, pool.Unknown)
	if took := time.Since(begun); took > briefly().RetryTimeout+time.Second {
		t.Errorf("a refusal took %v", took)
	}
	alice.set(func(n *node) {
		if n.most > 2 { // one of each pool
			t.Errorf("%d questions were open at once", n.most)
		}
		close(n.hang)
		n.hang = nil
	})
	other.reason("alice", "")
}

// Whoever drains a node waits for the payments that it was given. So where it is away, that is said besides its being
// drained or disabled.
func TestANodeThatPeopleKeepPaymentsFromIsStillWatched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := newNode("a", 2000*sat)
	p := w.open(briefly(), member{"alice", alice, 1})
	if err := p.Register.Drain(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	p.reason("alice", pool.Draining)
	alice.set(func(n *node) { n.away = errors.New("its machine is off") })
	says := func(s pool.Status) bool { return strings.Contains(s.Why, "its machine is off") }
	p.eventually("said to be drained and away", "alice", func(s pool.Status) bool { return s.Reason == pool.Draining && says(s) })
	if err := p.Register.Disable(t.Context(), "alice", "it smokes"); err != nil {
		t.Fatal(err)
	}
	p.eventually("said to be disabled and away", "alice", func(s pool.Status) bool {
		return s.Reason == pool.Disabled && says(s) && strings.Contains(s.Why, "it smokes")
	})
}

// Draining and disabling hold in every process once the call has returned, whatever the process knew before.
func TestLeversHoldInEveryProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := briefly()
	s.Probe = time.Hour
	alice := member{"alice", newNode("a", 2000*sat), 2}
	here, there := w.open(s, alice), w.open(s, alice)
	ctx := t.Context()
	for reason, lever := range map[pool.Reason]struct{ pull, push func() error }{
		pool.Draining: {func() error { return here.Register.Drain(ctx, "alice") }, func() error { return here.Register.Undrain(ctx, "alice") }},
		pool.Disabled: {func() error { return here.Register.Disable(ctx, "alice", "it smokes") }, func() error { return here.Register.Enable(ctx, "alice", "") }},
	} {
		running := there.lease(pool.Need{})
		if err := lever.pull(); err != nil {
			t.Fatal(err)
		}
		there.none(pool.Need{}, reason)
		here.none(pool.Need{}, reason)
		if running.Context().Err() != nil {
			t.Errorf("%s ended a lease", reason)
		}
		release(t, running, pool.Done(0))
		if s := there.health()["alice"]; s.Eligible || s.Reason != reason || s.Draining != (reason == pool.Draining) ||
			(reason == pool.Disabled) != strings.Contains(s.Why+s.Disabled, "it smokes") {
			t.Errorf("%s: %+v", reason, s)
		}
		there.wantMetric(map[bool]float64{true: 1}[reason == pool.Disabled], "holdfast_node_disabled", "alice", string(pool.Disabled))
		if err := lever.push(); err != nil {
			t.Fatal(err)
		}
		there.reason("alice", "")
		release(t, there.lease(pool.Need{}), pool.Done(0))
		there.wantMetric(0, "holdfast_node_disabled", "alice", string(pool.Disabled))
		here.reason("alice", "")
	}
	for _, err := range []error{here.Register.Drain(ctx, "mallory"), here.Register.Undrain(ctx, "mallory"),
		here.Register.Disable(ctx, "mallory", "none"), here.Register.Enable(ctx, "mallory", "")} {
		if !errors.Is(err, paidaction.Refused(paidaction.CodeNotFound)) {
			t.Errorf("a lever of no node: %v", err)
		}
	}
}

// spec 05.16e: a node wiped under the same name answers with another key. No process gives it anything until an
// operator says that it is the node now.
func TestANodeWithAnotherKeyIsDisabled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := newNode("02aa", 2000*sat)
	p := w.open(briefly(), member{"alice", alice, 1})
	if key := p.health()["alice"].PublicKey; key != "02aa" {
		t.Errorf("it is known as %q", key)
	}
	alice.set(func(n *node) { n.key = "02bb" })
	p.reason("alice", pool.Stranger)
	p.none(pool.Need{}, pool.Stranger)
	p.wantMetric(1, "holdfast_node_disabled", "alice", string(pool.Stranger))
	if s := p.health()["alice"]; !strings.Contains(s.Disabled, "02bb") || !strings.Contains(s.Disabled, "02aa") || s.PublicKey != "02aa" ||
		!strings.Contains(s.Why, "another node answers") {
		t.Errorf("%+v", s)
	}
	// A process that starts now does not know the other key as the node's, either.
	fresh := w.open(briefly(), member{"alice", alice, 1})
	fresh.none(pool.Need{}, pool.Stranger)
	fresh.Close()

	// The old node comes back: somebody has to look all the same.
	alice.set(func(n *node) { n.key = "02aa" })
	p.reason("alice", pool.Disabled)
	if s := p.health()["alice"]; s.Why != "disabled: it answered as 02bb and was known as 02aa" {
		t.Errorf("the right node is back, and it says: %s", s.Why)
	}
	alice.set(func(n *node) { n.key = "02bb" })
	p.reason("alice", pool.Stranger)

	for _, key := range []string{"", "02aa", "02cc"} { // whoever did not look, or looked before a third one answered
		if err := p.Register.Enable(t.Context(), "alice", key); !errors.Is(err, paidaction.Refused(paidaction.CodeForbidden)) ||
			!strings.Contains(fmt.Sprint(err), "holdfast nodes enable alice --key 02bb") {
			t.Errorf("it was enabled as %q: %v", key, err)
		}
	}
	p.none(pool.Need{}, pool.Stranger)
	if err := p.Register.Enable(t.Context(), "alice", "02bb"); err != nil {
		t.Fatal(err)
	}
	p.reason("alice", "")
	if key := p.health()["alice"].PublicKey; key != "02bb" {
		t.Errorf("it is known as %q", key)
	}
	release(t, p.lease(pool.Need{}), pool.Done(0))
	// The operator has accepted only that node.
	alice.set(func(n *node) { n.key = "02aa" })
	p.reason("alice", pool.Stranger)
}

// An operator who names a key that does not answer means another node. It is told so, and nothing is enabled.
func TestANodeIsNotEnabledByAKeyThatItDoesNotHave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.open(briefly(), member{"alice", newNode("02aa", 2000*sat), 1})
	if err := p.Register.Disable(t.Context(), "alice", "it smokes"); err != nil {
		t.Fatal(err)
	}
	if err := p.Register.Enable(t.Context(), "alice", "02bb"); !errors.Is(err, paidaction.Refused(paidaction.CodeForbidden)) ||
		!strings.Contains(fmt.Sprint(err), "does not answer with the key 02bb") {
		t.Errorf("it was enabled: %v", err)
	}
	p.none(pool.Need{}, pool.Disabled)
}

// A register that only reads says of a node what one that writes would, and writes nothing.
func TestAReadOnlyRegisterSaysWhatWouldBeWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	register := pool.NewRegister(w.db, w.now)
	for i, step := range []struct{ key, disabled string }{
		{key: "02aa"}, {key: ""}, {key: "02aa"},
		{key: "02bb"}, {key: ""}, {key: "02aa"}, // another node answers, and then the right one: it stays disabled
		{disabled: "it smokes", key: "02aa"}, {key: "02bb"}, {key: "02cc"}, {key: "02aa"}, // what an operator said stays
	} {
		if step.disabled != "" {
			if err := register.Disable(ctx, "alice", step.disabled); err != nil {
				t.Fatal(err)
			}
		}
		said, err := register.Reading().Meet(ctx, "alice", step.key)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if err := register.Drain(ctx, "alice"); !errors.Is(err, paidaction.Refused(paidaction.CodeNotFound)) {
				t.Errorf("it was written down: %v", err)
			}
		}
		written, err := register.Meet(ctx, "alice", step.key)
		if err != nil {
			t.Fatal(err)
		}
		said.ChangedAt = written.ChangedAt
		if !reflect.DeepEqual(said, written) {
			t.Errorf("step %d, %+v: it says %+v, and this is written: %+v", i, step, said, written)
		}
	}
}

// No node is trusted before the register has compared its key.
func TestWithoutTheRegisterNoKeyIsTrusted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	database := &switched{DBTX: w.db}
	alice := newNode("02aa", 2000*sat)
	p := w.openOn(database, w.locker(lock.Settings{}), briefly(), member{"alice", alice, 1})
	database.off.Store(true)
	alice.set(func(n *node) { n.key = "02bb" })
	locktest.Eventually(t, "the node is not trusted", func() bool {
		_, err := p.Acquire(t.Context(), pool.Need{})
		var why *pool.NoNodeError
		return errors.As(err, &why) && why.Reason() == pool.Unasked
	})
	database.off.Store(false)
	p.reason("alice", pool.Stranger)
}

// While the register is away, a node that answers with the key that was compared is still the node: callers are told at once
// to try again. Nor does a node that is silent then become one that nobody needs to look into.
func TestWithoutTheRegisterWhatWasComparedCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	database := &switched{DBTX: w.db}
	alice, bob := newNode("02aa", 2000*sat), newNode("02bb", 2000*sat)
	p := w.openOn(database, w.locker(lock.Settings{}), briefly(), member{"alice", alice, 1}, member{"bob", bob, 1})
	bob.set(func(n *node) { n.away = errors.New("its machine is off") })
	p.reason("bob", pool.Unknown)
	database.off.Store(true)
	alice.lookedAt(t)
	bob.lookedAt(t)
	if _, err := p.Acquire(t.Context(), pool.Need{Only: "alice"}); !errors.Is(err, paidaction.Refused(paidaction.CodeTryAgain)) {
		t.Errorf("a node with the same key: %v", err)
	}
	p.none(pool.Need{Only: "bob"}, pool.Unknown)
	p.wantMetric(1, "holdfast_node_disabled", "bob", string(pool.Unknown))
}

// A node that only issues invoices is watched, and its key compared, but it gets nothing.
func TestANodeThatOnlyIssuesIsWatched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bob := newNode("02bb", 2000*sat)
	bob.shy = errors.New("its macaroon does not allow the question")
	p := w.open(briefly(), member{"alice", newNode("02aa", 2000*sat), 1}, member{"bob", bob, 0})
	if s := p.health()["bob"]; s.Eligible || s.Reason != pool.Receives || s.Height != 100 || !s.Synced {
		t.Errorf("%+v", s)
	}
	for range 10 {
		lease := p.lease(pool.Need{})
		if lease.Name() != "alice" {
			t.Fatalf("%s was picked", lease.Name())
		}
		release(t, lease, pool.ReceiverFault())
	}
	p.none(pool.Need{Avoid: []string{"alice"}}, pool.Receives)
	bob.set(func(n *node) { n.key = "02cc" })
	p.reason("bob", pool.Stranger)
}

func TestEveryNodeSaysWhyItGetsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	behind := newNode("b", 2000*sat)
	behind.behind = true
	p := w.open(briefly(), member{"alice", newNode("a", 1500*sat), 1}, member{"bob", behind, 1}, member{"carol", newNode("c", sat), 1})
	_, err := p.Acquire(t.Context(), pool.Need{Amount: 2000 * sat, Avoid: []string{"carol"}})
	var why *pool.NoNodeError
	if !errors.As(err, &why) || len(why.Nodes) != 3 || why.Reason() != pool.Unfunded {
		t.Fatal(err)
	}
	for i, want := range []pool.Refusal{
		{Node: "alice", Reason: pool.Unfunded, Detail: "1500000 msat"},
		{Node: "bob", Reason: pool.Unsynced, Detail: "height 100"},
		{Node: "carol", Reason: pool.Avoided, Detail: "not wanted"},
	} {
		if got := why.Nodes[i]; got.Node != want.Node || got.Reason != want.Reason || !strings.Contains(got.Detail, want.Detail) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if refusal, ok := paidaction.AsRefusal(err); !ok || strings.Contains(refusal.Message, "alice") {
		t.Errorf("people are told %q", refusal.Message)
	}
	p.wantMetric(1, "holdfast_node_refused_total", string(pool.Unfunded))
	p.wantMetric(1, "holdfast_node_wait_seconds")
}

func TestLeasesAreCountedByOutcome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := quick()
	s.Cooldown, s.FailureCooldown = 0, 0
	p := w.open(s, member{"alice", newNode("a", 2000*sat), 1})
	for outcome, o := range map[string]pool.Outcome{"done": pool.Done(0), "node_fault": pool.NodeFault("TIMEOUT"), "receiver_fault": pool.ReceiverFault(), "unused": {}} {
		lease := p.lease(pool.Need{})
		p.wantMetric(1, "holdfast_node_in_flight", "alice")
		release(t, lease, o)
		p.wantMetric(0, "holdfast_node_in_flight", "alice")
		p.wantMetric(1, "holdfast_node_leases_total", "alice", outcome)
	}
}
