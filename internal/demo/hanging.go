package demo

import (
	"context"
	"errors"
	"fmt"
)

const (
	// hangsFor is after how many blocks the receiver's LND gives back a payment that it holds: the final CLTV of its
	// invoice plus what a sending LND adds, less the margin that it keeps before the end.
	hangsFor = 80 + 3 - 12 + 2

	// wellBefore is how many blocks the payer's payment must still be away from its expiry when the money is back.
	wellBefore = 80
)

// receiverHangs lets a payment hang, and mines blocks until the receiver's node gives it up. Others are served
// meanwhile, and the payer gets their money back long before their own payment expires.
func receiverHangs(ctx context.Context, d *Demo) (string, error) {
	a, paid, err := d.wrapAndHang(ctx, d.late)
	if err != nil {
		return "", err
	}
	hanging, err := d.late.await(ctx, a, "FORWARDING", "PAID", "FAILED")
	if err != nil {
		return "", err
	}
	if other, err := d.wrapAndPay(ctx, d.payer, d.byAddress); err != nil || other != directly {
		return hanging.State + ", " + other, err
	}
	left, err := d.blocksLeft(ctx, a)
	if err != nil {
		return "", err
	}
	if err := d.mineUntilGivenUp(ctx); err != nil {
		return "", err
	}
	last, err := d.late.await(ctx, a, "RETRYING", "PAID")
	if err != nil {
		return hanging.State + ", PAID, " + last.State, err
	}
	if p := <-paid; p.err != nil || p.Settled {
		return "payment kept", p.err
	}
	if left < hangsFor+wellBefore {
		return "", fmt.Errorf("the payer had their money back %d blocks before the end", left-hangsFor)
	}
	next, err := d.late.cancel(ctx, action{ID: last.Successor})
	if err == nil && next.State != "FAILED" {
		err = errors.New("the next attempt is " + next.State)
	}
	return hanging.State + ", " + last.State, err
}

// mineUntilGivenUp mines hangsFor blocks. The last of them are mined one by one, so that all nodes know each before the
// next comes. While our nodes are behind the chain no further attempt can be prepared, and it is then that the money
// comes back.
func (d *Demo) mineUntilGivenUp(ctx context.Context) error {
	const oneByOne = 5
	if err := d.stack.Network.Mine(ctx, hangsFor-oneByOne); err != nil {
		return err
	}
	for range oneByOne {
		if err := d.stack.Network.Mine(ctx, 1); err != nil {
			return err
		}
	}
	return nil
}

// blocksLeft is for how many more blocks the payer's payment can be held.
func (d *Demo) blocksLeft(ctx context.Context, a action) (int, error) {
	hash, err := hashOf(a)
	if err != nil {
		return 0, err
	}
	node, err := d.issuer(ctx, a)
	if err != nil {
		return 0, err
	}
	held, err := d.nodes[node.Name()].LookupInvoice(ctx, hash)
	if err != nil {
		return 0, err
	}
	height, err := d.stack.Network.Height(ctx)
	return int(held.ExpiryHeight) - int(height), err
}
