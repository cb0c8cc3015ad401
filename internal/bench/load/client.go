package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// client is one client on its own connection. The user that it asks as changes from request to request.
type client struct {
	plan       Plan
	name       string // part of its idempotency keys
	at         int    // the address that it sends to
	connection *connection
	other      *connection // to the next address, for requests that are sent twice
	chance     *rand.Rand
	request    []byte // the last request; the next one reuses its memory
	body       []byte

	asked, paid, twice, failures int64
	reasons                      map[string]int64
	took                         []time.Duration
}

func newClient(p Plan, number int) *client {
	return &client{plan: p, name: fmt.Sprintf("%s-%d-", p.Prefix, number), at: number % len(p.Addresses), reasons: map[string]int64{},
		chance: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}
}

// connect opens the connections again.
func (c *client) connect(ctx context.Context) (err error) {
	c.close()
	if c.connection, err = connect(ctx, c.plan.Addresses[c.at]); err != nil || c.plan.Twice == 0 {
		return err
	}
	c.other, err = connect(ctx, c.plan.Addresses[(c.at+1)%len(c.plan.Addresses)])
	return err
}

// close may be called more than once.
func (c *client) close() {
	c.connection.close()
	c.other.close()
}

// The request is that of a program that pays from credits and wants to know the outcome.
const (
	bodyHead = `{"query":"mutation($item:ID!,$sats:Sats!,$key:String){zap(item:$item,sats:$sats,idempotencyKey:$key,paymentMethod:FEE_CREDIT)` +
		`{id state costMsat}}","variables":{"item":"`
	paid = `"state":"PAID"`
)

// draw chooses who zaps what. Nobody zaps their own items.
func (c *client) draw() (user, item int64) {
	users := int64(len(c.plan.Keys))
	if item = c.plan.Item; item == 0 {
		item = 1 + c.chance.Int64N(c.plan.Items)
	}
	author := 1 + item%users
	if user = 1 + c.chance.Int64N(users-1); user >= author {
		user++
	}
	return user, item
}

// zap asks for one zap, once or twice, and returns when the client's own address answered. Anything but the answer that
// it is paid is an error, and so is the answer of another action to the same key.
func (c *client) zap(ctx context.Context) (answered time.Time, err error) {
	request := c.next()
	if c.plan.Twice == 0 || (c.asked-1)%c.plan.Twice != 0 { // the first request is sent twice, so that there are some even if answers are slow
		_, err = c.connection.zap(ctx, request)
		return time.Now(), err
	}
	type answer struct {
		action []byte
		err    error
	}
	other := make(chan answer, 1)
	go func() {
		action, err := c.other.zap(ctx, request)
		other <- answer{action, err}
	}()
	action, err := c.connection.zap(ctx, request)
	answered = time.Now()
	second := <-other
	if err := errors.Join(err, second.err); err != nil {
		return answered, err
	}
	if !bytes.Equal(action, second.action) {
		return answered, fmt.Errorf("one key, and two actions: %s, %s", action, second.action)
	}
	c.twice++
	return answered, nil
}

// next builds the request for the next zap.
func (c *client) next() []byte {
	user, item := c.draw()
	c.asked++
	b := append(c.body[:0], bodyHead...)
	b = strconv.AppendInt(b, item, 10)
	b = append(b, `","sats":`...)
	b = strconv.AppendInt(b, c.plan.Sats, 10)
	b = append(b, `,"key":"`...)
	b = append(b, c.name...)
	b = strconv.AppendInt(b, c.asked, 10)
	b = append(b, `"}}`...)
	r := append(c.request[:0], "POST /graphql HTTP/1.1\r\nHost: "...)
	r = append(r, c.plan.Addresses[c.at]...)
	r = append(r, "\r\nContent-Type: application/json\r\nAuthorization: Bearer "...)
	r = append(r, c.plan.Keys[user-1]...)
	r = append(r, "\r\nContent-Length: "...)
	r = strconv.AppendInt(r, int64(len(b)), 10)
	r = append(r, "\r\n\r\n"...)
	r = append(r, b...)
	c.body, c.request = b, r
	return r
}

// zap sends a request, and returns the action in the answer, valid until the next call.
func (c *connection) zap(ctx context.Context, request []byte) (action []byte, err error) {
	status, answer, err := c.do(ctx, request)
	if err != nil {
		return nil, err
	}
	_, action, told := bytes.Cut(answer, []byte(`"id":"`))
	action, _, _ = bytes.Cut(action, []byte(`"`))
	if status != 200 || !told || !bytes.Contains(answer, []byte(paid)) {
		return nil, fmt.Errorf("status %d: %.300s", status, bytes.TrimSpace(answer))
	}
	return action, nil
}
