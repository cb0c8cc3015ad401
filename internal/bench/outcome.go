package bench

import (
	"fmt"
	"slices"
)

// contender is one of those that are compared.
type contender string

const (
	reference contender = "reference"
	holdfast  contender = "holdfast"
	rows      contender = "own rows by pgbench"
	handler   contender = "bare handler"
)

// what identifies a measurement: a contender with this many clients.
type what struct {
	contender contender
	mode      mode
	clients   int
}

// processes is Holdfast with this many processes.
func processes(n int) contender { return contender(fmt.Sprintf("%s × %d", holdfast, n)) }

// halfRate, in place of the number of clients, means that zaps come at half of the highest sustained rate.
const halfRate = 0

func (w what) String() string {
	if w.clients == halfRate {
		return fmt.Sprintf("%s, %s, at half the rate", w.contender, w.mode)
	}
	return fmt.Sprintf("%s, %s, %d", w.contender, w.mode, w.clients)
}

// outcome is the outcome of one measurement.
type outcome struct {
	TPS           float64 // actions a second
	ServiceUs     float64 // processor time of one action in microseconds, including side effects and folding
	PostgresUs    float64
	P50, P99      float64 // from when a request was due to its answer, in milliseconds; unknown for pgbench
	SettleSeconds float64 // from the last answer until every side effect was done

	Each  []float64 // actions a second at each process
	Twice int64     // actions requested from two processes at once
}

func (o outcome) cpuUs() float64 { return o.ServiceUs + o.PostgresUs }

func (o outcome) String() string {
	text := fmt.Sprintf("%7.0f/s  CPU %4.0f µs", o.TPS, o.cpuUs())
	if o.ServiceUs == 0 {
		return text
	}
	return text + fmt.Sprintf(" (service %.0f, PostgreSQL %.0f)  p50 %.1f ms  p99 %.1f ms  effects done after %.1f s",
		o.ServiceUs, o.PostgresUs, o.P50, o.P99, o.SettleSeconds)
}

// measured is the outcome of all rounds.
type measured struct {
	outcomes map[what][]outcome // one for each round
	watch
}

func (m measured) last(w what) outcome {
	all := m.outcomes[w]
	return all[len(all)-1]
}

// of is one figure from each round.
func (m measured) of(w what, value func(outcome) float64) figure {
	var f figure
	for _, o := range m.outcomes[w] {
		f = append(f, value(o))
	}
	return f
}

// rates are how fast each contender was in each round.
func (m measured) rates() (all []figure) {
	for w := range m.outcomes {
		all = append(all, m.of(w, tps))
	}
	return all
}

func tps(o outcome) float64        { return o.TPS }
func p50(o outcome) float64        { return o.P50 }
func p99(o outcome) float64        { return o.P99 }
func serviceUs(o outcome) float64  { return o.ServiceUs }
func postgresUs(o outcome) float64 { return o.PostgresUs }
func settle(o outcome) float64     { return o.SettleSeconds }
func least(o outcome) float64      { return slices.Min(o.Each) }
func most(o outcome) float64       { return slices.Max(o.Each) }
func twice(o outcome) float64      { return float64(o.Twice) }
