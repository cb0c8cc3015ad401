package config

import (
	"time"

	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// Relay says how outgoing payments are sent (docs/relay.md). Its defaults are those of packages relay and paidaction.
type Relay struct {
	MaxAttempts   int           `help:"Most times that one payment may have been sent." default:"3"`
	SendWindow    time.Duration `help:"How long after it was claimed a payment may be sent." default:"10s"`
	SendTimeout   time.Duration `help:"How long a node looks for a route for a withdrawal; whole seconds." default:"30s"`
	AskTimeout    time.Duration `help:"How long a node may take to report the state of a payment." default:"10s"`
	MaxWait       time.Duration `help:"How long a withdrawal waits for a node that can send it before its payer is refunded." default:"1h"`
	Audit         time.Duration `help:"Time between two checks of payments in work against the nodes." default:"5s"`
	ProbeTimeout  time.Duration `help:"How long a node may try a route to a receiver." default:"5s"`
	MaxProbes     int64         `help:"Most such tries to one receiver at once, including those that hang." default:"3"`
	CrowdedAt     int64         `help:"Percent in use of a node's outgoing balance, or of its channels' HTLC slots, from which on it gets no more payments to receivers; 100: no bound." default:"50"`
	MinFee        int64         `help:"Smallest fee limit of a withdrawal, in msat." default:"0"`
	WithdrawLimit int64         `help:"Largest withdrawal, with its highest routing fee, in msat." default:"1000000000"`

	MaxForwards    int64 `help:"Most payments under way to one receiver." default:"5"`
	MaxForwarded   int64 `help:"Most that these come to in total, routing included, in msat." default:"1000000000"`
	MaxWithdrawals int64 `help:"Most withdrawals of one payer under way." default:"10"`
	MaxPending     int64 `help:"Most open invoices that wrap those of one receiver's wallet." default:"25"`
}

// Settings are the relay's.
func (r Relay) Settings() relay.Settings {
	return relay.Settings{MaxAttempts: r.MaxAttempts, SendWindow: r.SendWindow, SendTimeout: r.SendTimeout, AskTimeout: r.AskTimeout, MaxWait: r.MaxWait, Audit: r.Audit,
		ProbeTimeout: r.ProbeTimeout, MaxProbes: r.MaxProbes, CrowdedAt: r.CrowdedAt,
		MinFee: paidaction.Msat(r.MinFee), WithdrawLimit: paidaction.Msat(r.WithdrawLimit)}
}

const (
	maxSendTimeout = 10 * time.Minute
	maxWait        = 24 * time.Hour
	maxAudit       = time.Minute
)

// check refuses settings that cannot work, and those under which people would wait in vain.
func (r Relay) check(refuse func(when bool, format string, args ...any)) {
	refuse(r.MaxAttempts < 1, "No payment could leave: set HOLDFAST_RELAY_MAX_ATTEMPTS to 1 or more.")
	// After a restart nothing that its node does not know is decided before its window is over, and that is in the row.
	refuse(r.SendWindow < time.Second || r.SendWindow > relay.MaxSendWindow,
		"No node could be asked in time, or what a stopped process had claimed would wait for long: set HOLDFAST_RELAY_SEND_WINDOW from 1s to %s.", relay.MaxSendWindow)
	refuse(r.SendTimeout < time.Second || r.SendTimeout%time.Second != 0 || r.SendTimeout > maxSendTimeout,
		"LND counts whole seconds, and whoever withdraws waits for them: set HOLDFAST_RELAY_SEND_TIMEOUT from 1s to %s.", maxSendTimeout)
	refuse(r.AskTimeout <= 0, "No node could answer: set HOLDFAST_RELAY_ASK_TIMEOUT above zero.")
	refuse(r.AskTimeout >= graph.Patience || r.ProbeTimeout >= graph.Patience,
		"A request would be given up before a node that hangs is: set HOLDFAST_RELAY_ASK_TIMEOUT and HOLDFAST_RELAY_PROBE_TIMEOUT below %s.", graph.Patience)
	refuse(r.MaxWait < time.Minute || r.MaxWait > maxWait,
		"Withdrawals would not wait for a node that is restarting, or for days for one that is gone: set HOLDFAST_RELAY_MAX_WAIT from 1m to %s.", maxWait)
	refuse(r.Audit <= 0 || r.Audit > maxAudit,
		"Nodes would be asked without a pause, or what a stopped process had sent would wait for long: set HOLDFAST_RELAY_AUDIT above zero, and to %s or less.", maxAudit)
	refuse(r.ProbeTimeout <= 0 || r.MaxProbes < 1,
		"No route could be tried: set HOLDFAST_RELAY_PROBE_TIMEOUT and HOLDFAST_RELAY_MAX_PROBES above zero.")
	refuse(r.CrowdedAt < 1 || r.CrowdedAt > 100, "HOLDFAST_RELAY_CROWDED_AT is a percentage: set it to 1 or more, and to 100 for no bound.")
	refuse(r.MinFee < 0 || r.WithdrawLimit < 1000, "A fee limit cannot be negative, and a withdrawal is at least one sat: check HOLDFAST_RELAY_MIN_FEE and HOLDFAST_RELAY_WITHDRAW_LIMIT.")
	refuse(r.WithdrawLimit >= 1000 && r.MinFee > r.WithdrawLimit-1000, "Nothing could be withdrawn: set HOLDFAST_RELAY_WITHDRAW_LIMIT to a sat above HOLDFAST_RELAY_MIN_FEE at least.")
	refuse(r.MaxWithdrawals < 1, "Nothing could be withdrawn: set HOLDFAST_RELAY_MAX_WITHDRAWALS above zero.")
	refuse(r.MaxForwards < 1 || r.MaxForwarded < 1000 || r.MaxPending < 1,
		"Nobody could be paid directly: set HOLDFAST_RELAY_MAX_FORWARDS, HOLDFAST_RELAY_MAX_FORWARDED and HOLDFAST_RELAY_MAX_PENDING above zero.")
}
