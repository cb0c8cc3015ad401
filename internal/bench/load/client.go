package load

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// client is one of those who ask, on a connection of its own; as which user changes from request to request.
type client struct {
	plan       Plan
	name       string // in its idempotency keys
	connection *connection
	chance     *rand.Rand
	request    []byte // the last one, whose memory the next one gets
	body       []byte

	asked, paid, failures int64
	reasons               map[string]int64
	took                  []time.Duration
}

func newClient(ctx context.Context, p Plan, number int) (*client, error) {
	to, err := connect(ctx, p.Address)
	if err != nil {
		return nil, err
	}
	return &client{plan: p, name: fmt.Sprintf("%s-%d-", p.Prefix, number), connection: to, reasons: map[string]int64{},
		chance: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}, nil
}

// The request is what a program sends that pays by credits and wants to know what became of it.
const (
	bodyHead = `{"query":"mutation($item:ID!,$sats:Sats!,$key:String){zap(item:$item,sats:$sats,idempotencyKey:$key,paymentMethod:FEE_CREDIT)` +
		`{id state costMsat}}","variables":{"item":"`
	paid = `"state":"PAID"`
)

// draw chooses who zaps what. Nobody zaps what they wrote.
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

// zap asks once. Anything but the answer that it is paid is an error.
func (c *client) zap(ctx context.Context) error {
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
	r = append(r, c.plan.Address...)
	r = append(r, "\r\nContent-Type: application/json\r\nAuthorization: Bearer "...)
	r = append(r, c.plan.Keys[user-1]...)
	r = append(r, "\r\nContent-Length: "...)
	r = strconv.AppendInt(r, int64(len(b)), 10)
	r = append(r, "\r\n\r\n"...)
	r = append(r, b...)
	c.body, c.request = b, r
	status, answer, err := c.connection.do(ctx, r)
	if err != nil {
		return err
	}
	if status != 200 || !bytes.Contains(answer, []byte(paid)) {
		return fmt.Errorf("status %d: %.300s", status, bytes.TrimSpace(answer))
	}
	return nil
}
