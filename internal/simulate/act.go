package simulate

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// request is an act while it is carried out, with what its person was told.
type request struct {
	*act
	label    string
	args     any
	raw      map[string]any // the arguments as stored
	key      string
	payer    *int64
	secret   string
	shows    string          // the secret of the item that the request changes
	files    map[int64]int64 // files that it names, with their fees in msat
	ids      map[int64]bool  // actions that the person was told of
	taken    int             // actions attributed to it, though the person was not told of them
	unknown  int             // answers that never came, or that said that the outcome is unknown
	refused  int
	asked    int
	retried  int
	looked   int
	canceled int
	payments map[int64]bool
}

// requestLimit is how long a person waits for an answer.
const requestLimit = 30 * time.Second

// begin carries out an act. Files are uploaded first.
func (w *world) begin(a *act) {
	r := &request{act: a, label: fmt.Sprintf("act %d", a.id), files: map[int64]int64{}, ids: map[int64]bool{}, payments: map[int64]bool{}}
	if a.keyed {
		r.key = fmt.Sprintf("the key of act %d of seed %d", a.id, w.plan.seed)
	}
	if a.who != 0 {
		r.payer = &w.people[a.who]
	}
	w.jostle(a)
	if a.kind.files && a.draw>>44%3 == 0 {
		w.upload(r, 1+int(a.draw>>48%2))
		return
	}
	w.prepare(r)
}

// upload sends files, one after the other. A file whose upload got no answer is not named.
func (w *world) upload(r *request, files int) {
	what := fmt.Sprintf("uploads %d", files)
	ok := w.request(r, what, func(ctx context.Context, p *process) {
		file := community.NewUpload{Owner: r.payer, ContentType: "image/png", Data: make([]byte, fileBytes)}
		if r.payer == nil {
			file.Client = fmt.Appendf(nil, "client %d", r.id%3)
		}
		var random [32]byte
		binary.BigEndian.PutUint64(random[:], w.chance.hash(r.label+" file", files))
		var stored db.Upload
		err := db.InTransaction(ctx, w.database.pool, func(tx *db.Transaction) (err error) {
			stored, err = community.StoreUpload(ctx, db.New(tx), settings(), file, p.reads(p.now)(), rand.NewChaCha8(random))
			return err
		})
		if err == nil && !p.dead {
			r.files[stored.ID] = stored.FeeMsat
		}
		w.tell(nil, "%s %s: %t", r.label, what, err == nil && !p.dead)
		w.queue.add(w.tick, func() {
			if files > 1 {
				w.upload(r, files-1)
			} else {
				w.prepare(r)
			}
		})
	})
	if !ok {
		w.queue.add(w.tick+time.Second, func() { w.upload(r, files) })
	}
}

func (r *request) fileIDs() []int64 { return slices.Sorted(maps.Keys(r.files)) }

// prepare makes the arguments, and sends the request.
func (w *world) prepare(r *request) {
	r.args = r.kind.args(w, r)
	raw, err := json.Marshal(r.args)
	if err == nil {
		err = json.Unmarshal(raw, &r.raw)
	}
	if err != nil {
		panic(err)
	}
	w.model.requests = append(w.model.requests, r)
	w.tell(nil, "%s: person %d, %s %s %s, key %t", r.label, r.who, r.kind.name, raw, r.method, r.keyed)
	if r.twice {
		w.queue.add(w.tick+w.chance.between(0, 10*time.Millisecond, r.label+" twice", 0), func() { w.ask(r) })
		w.faults++
	}
	w.ask(r)
}

func (r *request) caller() paidaction.Caller {
	if r.payer != nil {
		return paidaction.Caller{User: r.payer}
	}
	return paidaction.Caller{Client: fmt.Sprintf("192.0.2.%d", r.id%3), Secret: r.secret}
}

// request has a person do something at a process, which the balancer in front of the processes chooses.
func (w *world) request(r *request, what string, do func(ctx context.Context, p *process)) bool {
	name := r.label + " " + what
	balanced := name
	if r.rush {
		balanced = "rush"
	}
	p := w.alive(balanced, 0)
	if p == nil {
		return false
	}
	patience := w.patienceOf(name)
	w.spawn(p, name, r.label, 0, patience, func(ctx context.Context) {
		if patience < requestLimit {
			fiberOf(ctx).faults = append(fiberOf(ctx).faults, callerLeaves)
		}
		do(ctx, p)
	})
	return true
}

// ask sends the request.
func (w *world) ask(r *request) {
	r.asked++
	if r.asked == 1 && r.cancels > 0 && r.payer != nil {
		w.queue.add(w.tick+r.cancels, func() { w.cancelUnanswered(r) })
	}
	what := fmt.Sprintf("asks %d", r.asked)
	ok := w.request(r, what, func(ctx context.Context, p *process) {
		if r.twice && r.asked > 1 {
			fiberOf(ctx).faults = append(fiberOf(ctx).faults, askedTwice)
		}
		caller := r.caller()
		if r.payer == nil && r.shows != "" {
			caller.Secret = r.shows
		}
		var pa *paidaction.PaidAction
		err := errDead // the fiber ended with its process while it waited for another one
		defer func() { w.answered(r, fiberOf(ctx), pa, err, what) }()
		pa, err = p.engine.Pay(ctx, paidaction.Request{Kind: r.kind.name, Args: r.args, Terms: paidaction.Terms{Method: r.method}, Key: r.key, Caller: caller})
	})
	if !ok {
		r.asked--
		w.queue.add(w.tick+time.Second, func() { w.ask(r) })
	}
}

// noFault checks that a request succeeds or fails with a refusal. Any other error is a fault of the code, or of the
// simulation itself: a client would be told INTERNAL.
func (w *world) noFault(r *request, what string, err error) {
	if _, refusal := paidaction.AsRefusal(err); err != nil && !refusal {
		w.violate("internal error", "%s %s: %v", r.label, what, err)
	}
}

// answered is what a person does with an answer to a request.
func (w *world) answered(r *request, f *fiber, pa *paidaction.PaidAction, err error, what string) {
	unknown := f.process.dead || errors.Is(err, paidaction.Refused(paidaction.CodeUnknownOutcome)) || f.over
	if unknown {
		r.unknown++
		w.tell(nil, "%s %s: no answer, or nobody knows", r.label, what)
	} else if err != nil {
		r.refused++
		w.tell(nil, "%s %s: refused, %s", r.label, what, said(err))
		w.noFault(r, what, err)
	}
	if unknown || err != nil {
		if r.key != "" && r.asked < 6 && (unknown || errors.Is(err, paidaction.Refused(paidaction.CodeTryAgain)) || errors.Is(err, paidaction.Refused(paidaction.CodeLightningUnavailable))) {
			w.queue.add(w.tick+w.chance.between(100*time.Millisecond, 20*time.Second, r.label+" again", r.asked), func() { w.ask(r) })
		}
		return
	}
	w.tell(nil, "%s %s: %s", r.label, what, w.brief(pa))
	w.told(r, pa)
}

func (w *world) brief(pa *paidaction.PaidAction) string {
	return fmt.Sprintf("action %d is %s by %s for %d msat", pa.ID, pa.State, pa.Method, pa.Cost)
}

// told is what a person does on learning of an action of theirs.
func (w *world) told(r *request, pa *paidaction.PaidAction) {
	if pa.Secret != "" {
		r.secret = pa.Secret
	}
	if pa.Attempt == 1 {
		r.ids[pa.ID] = true
	}
	if pa.State.Terminal() && pa.State != paidaction.Failed || r.payments[pa.ID] {
		return
	}
	r.payments[pa.ID] = true
	if pa.Invoice != nil && pa.Invoice.Bolt11 != "" {
		w.model.hashes[pa.ID] = pa.Invoice.Hash
		w.model.invoices = append(w.model.invoices, pa.Invoice.Bolt11)
		w.payLater(r, pa)
	}
	switch {
	case r.cancels > 0 && r.payments[pa.ID]:
		w.queue.add(w.tick+r.cancels, func() { w.cancel(r, pa.ID) })
	case r.cancels < 0 && pa.Invoice != nil:
		w.queue.add(max(w.tick, pa.Invoice.ExpiresAt.Sub(epoch)-w.jumped+r.cancels), func() { w.cancel(r, pa.ID) })
	}
	for i, after := range []time.Duration{time.Minute, 6 * time.Minute, 12 * time.Minute} {
		w.queue.add(w.tick+after+w.chance.between(0, 20*time.Second, fmt.Sprintf("%s looks %d", r.label, pa.Attempt), i), func() { w.lookAgain(r, pa.ID) })
	}
}

// payLater has the payer pay an invoice when they mean to.
func (w *world) payLater(r *request, pa *paidaction.PaidAction) {
	if r.pays.never && pa.Attempt == 1 {
		return
	}
	at := w.tick + r.pays.after
	if r.pays.atExpiry {
		at = pa.Invoice.ExpiresAt.Sub(epoch) - w.jumped + w.chance.between(-time.Second, time.Second, r.label+" at the expiry", pa.Attempt)
	}
	w.queue.add(max(at, w.tick), func() { w.pay(r, pa, 0) })
}

// pay sends a payment to the node that issued the invoice.
func (w *world) pay(r *request, pa *paidaction.PaidAction, tries int) {
	var node *simnode.Node
	for _, n := range w.nodes {
		if n.Name() == pa.Invoice.Node {
			node = n
		}
	}
	pays := simnode.Payment{Msat: pa.Invoice.Amount + paidaction.Msat(r.pays.over)}
	inv, ok := node.Inspect(pa.Invoice.Hash)
	if !ok {
		return
	}
	if r.pays.soon {
		pays.ExpiryHeight = node.Height() + inv.Request.CLTVDelta
	}
	if r.pays.parts > 1 {
		pays.ExpiryHeights = []uint32{node.Height() + inv.Request.CLTVDelta + 3, node.Height() + inv.Request.CLTVDelta + 9}
		w.touch(pa.ID, paidInParts)
	}
	if r.pays.over > 0 {
		w.touch(pa.ID, overpaid)
	}
	if r.pays.atExpiry && tries == 0 {
		w.touch(pa.ID, paidAtExpiry)
	}
	if tries == 0 && (w.receiverPays(r, pa, node) || w.paysByForce(r, pa, node)) {
		return
	}
	err := node.PayHash(pa.Invoice.Hash, pays)
	w.tell(nil, "%s: the payer sends %d msat for action %d: %s", r.label, pays.Msat, pa.ID, said(err))
	w.look()
	if err != nil && tries < 3 {
		w.queue.add(w.tick+time.Minute, func() { w.pay(r, pa, tries+1) })
	}
}

// cancelUnanswered is a person who does not wait for the answer: they find the action in the list of what they have
// begun, and cancel it.
func (w *world) cancelUnanswered(r *request) {
	if len(r.ids) > 0 {
		return // it was answered
	}
	for _, id := range slices.Sorted(maps.Keys(w.open)) {
		if w.open[id] && w.labels[id] == r.label {
			w.cancel(r, id)
			return
		}
	}
}

// cancel cancels an action. A person who gets an error tries again, up to three times in all.
func (w *world) cancel(r *request, id int64) {
	r.canceled++
	what := fmt.Sprintf("cancels %d", r.canceled)
	w.request(r, what, func(ctx context.Context, p *process) {
		fiberOf(ctx).action = id
		pa, err := p.engine.Cancel(ctx, r.caller(), id)
		if !p.dead && !fiberOf(ctx).over {
			w.noFault(r, what, err)
		}
		if err != nil || p.dead {
			w.tell(nil, "%s %s: %s", r.label, what, said(err))
			if r.canceled < 3 && !errors.Is(err, paidaction.Refused(paidaction.CodeNotCancelable)) {
				w.queue.add(w.tick+w.chance.between(100*time.Millisecond, 10*time.Second, r.label+" cancels again", r.canceled), func() { w.cancel(r, id) })
			}
			return
		}
		w.tell(nil, "%s %s: %s", r.label, what, w.brief(pa))
	})
}

// lookAgain is a person who checks on the latest attempt of their action. They pay it or try again where needed.
func (w *world) lookAgain(r *request, id int64) {
	r.looked++
	what := fmt.Sprintf("looks %d", r.looked)
	w.request(r, what, func(ctx context.Context, p *process) {
		pa, err := p.engine.Get(ctx, r.caller(), id)
		for err == nil && pa.Successor != nil {
			pa, err = p.engine.Get(ctx, r.caller(), *pa.Successor)
		}
		if err != nil || p.dead {
			return
		}
		w.told(r, pa)
		if pa.State != paidaction.Failed || r.retried >= r.retries {
			return
		}
		r.retried++
		w.queue.add(w.tick, func() { w.retry(r, pa.ID) })
		if r.together {
			w.queue.add(w.tick+w.chance.between(0, 5*time.Millisecond, r.label+" together", r.retried), func() { w.retry(r, pa.ID) })
		}
	})
}

func (w *world) retry(r *request, id int64) {
	r.looked++
	what := fmt.Sprintf("tries again %d", r.looked)
	w.request(r, what, func(ctx context.Context, p *process) {
		f := fiberOf(ctx)
		f.action = id
		if r.together {
			f.faults = append(f.faults, retriedTwice)
		}
		key := ""
		if r.key != "" {
			key = fmt.Sprintf("%s, again after %d", r.key, id)
		}
		pa, err := p.engine.Retry(ctx, r.caller(), id, key, paidaction.Terms{Method: w.anotherWay(r, what, key)})
		if !p.dead && !f.over {
			w.noFault(r, what, err)
		}
		if err != nil || p.dead {
			w.tell(nil, "%s %s: %s", r.label, what, said(err))
			return
		}
		w.tell(nil, "%s %s: %s", r.label, what, w.brief(pa))
		w.told(r, pa)
	})
}

// anotherWay is the method that a retry insists on, whatever method the failed attempt had; mostly none. Two retries at
// once may want two different ones, but one key stands for one method.
func (w *world) anotherWay(r *request, what, key string) paidaction.Method {
	name := r.label + " " + what + " by another method"
	if key != "" {
		name = key
	}
	if !w.chance.happens(0.4, name, 0) {
		return ""
	}
	return r.kind.methods[w.chance.below(len(r.kind.methods), name+", which", 0)]
}
