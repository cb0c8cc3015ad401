package simulate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/simulate/simdb"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// job is a job that a transaction has stored. When it is due, some process does it, at least once.
type job struct {
	id     int64
	kind   paidaction.JobKind
	action int64
	with   []int64
	at     time.Time
	label  string
	number int // its number among the jobs of the action
	runs   int
	void   int // counts its schedules: earlier ones are void
}

// queueing stores jobs in River's table, inside the transaction that decides on them. The code below does what River
// does.
type queueing struct{ world *world }

// Insert implements paidaction.Jobs.
func (q queueing) Insert(ctx context.Context, tx pgx.Tx, jobs ...paidaction.Job) error {
	w := q.world
	f := fiberOf(ctx)
	for _, j := range jobs {
		stored := &job{kind: j.Kind, action: j.Action, with: j.With, at: j.At}
		if f != nil {
			stored.label = w.nameFor(j.Action, f)
			w.stored[j.Action]++
			stored.number = w.stored[j.Action]
		}
		var err error
		stored.id, err = simdb.New(tx).StoreJob(ctx, simdb.StoreJobParams{Kind: string(j.Kind), Action: j.Action})
		if err != nil {
			return err
		}
		if f != nil && f.tx != nil {
			f.tx.jobs = append(f.tx.jobs, stored)
		}
	}
	return nil
}

// nameFor names an action after the plan's act it belongs to and the number of the attempt.
func (w *world) nameFor(action int64, f *fiber) string {
	if name, ok := w.labels[action]; ok {
		return name
	}
	w.attempts[f.label]++
	name := f.label
	if n := w.attempts[f.label]; n > 1 {
		name = fmt.Sprintf("%s attempt %d", f.label, n)
	}
	w.labels[action] = name
	return name
}

// schedule has a job done when it is due; zero means at once.
func (w *world) schedule(j *job, at time.Time) {
	j.void++
	current := j.void
	due := w.tick + w.chance.between(time.Millisecond, 60*time.Millisecond, j.key(), j.runs)
	if left := at.Sub(w.Now()); !at.IsZero() && left > 0 {
		due += left
	}
	w.queue.add(due, func() {
		if j.void == current {
			w.do(j)
		}
	})
}

// concerns reports whether the job is for this action, alone or among others.
func (j *job) concerns(action int64) bool {
	return j.action == action || slices.Contains(j.with, action)
}

func (j *job) key() string { return fmt.Sprintf("%s %s %d", j.label, j.kind, j.number) }

// jobLimit is the time limit of jobs. rescueAfter is when a job whose process died is done again (spec 01 §1.3).
const (
	jobLimit    = 30 * time.Second
	rescueAfter = 60 * time.Second
)

// do does a job, sometimes in two processes at once.
func (w *world) do(j *job) {
	if w.jobs[j.id] == nil {
		return
	}
	j.runs++
	if w.plan.trouble > 0 && !w.calm && w.chance.happens(w.more(0.08, j.action, jobTwice), j.key()+" twice", j.runs) && !w.without[fmt.Sprintf("%s twice %d", j.key(), j.runs)] {
		w.met = append(w.met, fmt.Sprintf("%s twice %d", j.key(), j.runs))
		w.faults++
		w.touch(j.action, jobTwice)
		w.doIn(w.alive(j.key()+" other process", j.runs), j, " again")
	}
	w.doIn(w.alive(j.key()+" process", j.runs), j, "")
}

func (w *world) doIn(p *process, j *job, suffix string) {
	if p == nil {
		w.schedule(j, w.Now().Add(5*time.Second))
		return
	}
	name := fmt.Sprintf("%s.%d%s", j.key(), j.runs, suffix)
	runs := j.runs
	w.schedule(j, w.Now().Add(rescueAfter)) // unless it is done before then
	w.spawn(p, name, j.label, j.action, jobLimit, func(ctx context.Context) {
		again := p.worker.Do(ctx, paidaction.Job{Kind: j.kind, Action: j.action, With: j.with, At: j.at}, j.runs-1)
		if p.dead || j.runs != runs {
			return
		}
		if again > 0 {
			w.schedule(j, w.Now().Add(again))
			return
		}
		w.doneWith(j)
	})
}

// doneWith deletes a job, as River completes it.
func (w *world) doneWith(j *job) {
	if w.jobs[j.id] == nil {
		return
	}
	delete(w.jobs, j.id)
	for _, action := range append([]int64{j.action}, j.with...) {
		w.mustHaveJob(action)
		w.mustBeSeenTo(action)
	}
	if err := w.database.queries().CompleteJob(w.ctx, j.id); err != nil {
		panic(err)
	}
}
