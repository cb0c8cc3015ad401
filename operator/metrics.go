package operator

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Collector shows a lookout's last look to Prometheus. The numbers are for the whole service, and so the same in each
// of its processes: take their maximum. A look that fails shows nothing, and is counted.
type Collector struct {
	lookout *Lookout
	log     *slog.Logger

	failures                          prometheus.Counter
	actions, oldest, stuck            *prometheus.Desc
	jobs, due                         *prometheus.Desc
	balance                           *prometheus.Desc
	locksHeld, locksWaiting, lockWait *prometheus.Desc
}

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector makes a collector of what the lookout sees.
func NewCollector(lookout *Lookout, log *slog.Logger) *Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("holdfast_"+name, help, labels, nil)
	}
	return &Collector{
		lookout: lookout, log: log,
		failures:     prometheus.NewCounter(prometheus.CounterOpts{Namespace: "holdfast", Name: "look_failures_total", Help: "Reads of the database for these metrics that failed."}),
		actions:      desc("actions_open", "Open actions by state, at most 10,000 in all.", "state"),
		oldest:       desc("action_oldest_seconds", "The longest that one of them has been in its state.", "state"),
		stuck:        desc("actions_stuck", "Open actions that are 90 seconds or more past their deadline.", "state"),
		jobs:         desc("jobs", "Jobs by queue and state (available, running, scheduled, retryable), at most 10,000 each.", "queue", "state"),
		due:          desc("job_due_seconds", "How long the oldest job that nobody has taken up has been due.", "queue"),
		balance:      desc("ledger_msat", "What the system accounts hold, in millisatoshis.", "account", "asset"),
		locksHeld:    desc("locks_held", "Locks held in PostgreSQL by all processes, at most 100."),
		locksWaiting: desc("locks_waiting", "Requests that wait for these locks."),
		lockWait:     desc("lock_oldest_wait_seconds", "The longest that one of them has waited whose process is alive."),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	c.failures.Describe(to)
	for _, d := range []*prometheus.Desc{c.actions, c.oldest, c.stuck, c.jobs, c.due, c.balance} {
		to <- d
	}
	if c.lookout.Locks {
		to <- c.locksHeld
		to <- c.locksWaiting
		to <- c.lockWait
	}
}

// openStates are shown even while nothing is in them, so that a graph falls to zero.
var openStates = []paidaction.State{paidaction.Pending, paidaction.PendingHeld, paidaction.Held, paidaction.Forwarding, paidaction.Forwarded,
	paidaction.FailedForward, paidaction.Canceling}

var jobStates = []string{"available", "retryable", "running", "scheduled"}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	look, err := c.lookout.Look(context.Background())
	if err != nil {
		c.failures.Inc()
		c.log.Warn("there are no metrics of the database", "error", err)
	}
	c.failures.Collect(to)
	if err != nil {
		return
	}
	show := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	open := map[string]OpenActions{}
	for _, o := range look.Open {
		open[o.State] = o
	}
	for _, state := range openStates {
		o := open[string(state)]
		show(c.actions, float64(o.Count), string(state))
		show(c.oldest, o.Oldest.Seconds(), string(state))
		show(c.stuck, float64(o.Stuck), string(state))
	}
	jobs := map[[2]string]QueuedJobs{}
	for _, j := range look.Jobs {
		jobs[[2]string{j.Queue, j.State}] = j
	}
	for _, queue := range c.lookout.Queues {
		for _, state := range jobStates {
			show(c.jobs, float64(jobs[[2]string{queue, state}].Count), queue, state)
		}
		show(c.due, max(0, jobs[[2]string{queue, "available"}].Due.Seconds()), queue)
	}
	for _, b := range look.Ledger {
		show(c.balance, float64(b.Msat), b.Account.String(), b.Account.Asset().String())
	}
	if c.lookout.Locks {
		var waiting int64
		var longest float64
		for _, held := range look.Locks {
			waiting += held.Waiting
			for _, w := range held.Waiters {
				if w.Alive { // the others are skipped when it is their turn
					longest = max(longest, w.For.Seconds())
				}
			}
		}
		show(c.locksHeld, float64(len(look.Locks)))
		show(c.locksWaiting, float64(waiting))
		show(c.lockWait, longest)
	}
}
