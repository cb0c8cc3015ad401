package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
)

type payCommand struct {
	Dir     string `help:"Directory of the running network's data." default:".holdfast"`
	From    string `help:"The node that pays." enum:"payer,receiver,holdfast,holdfast2" default:"payer"`
	Invoice string `arg:"" name:"bolt11" help:"The invoice."`
}

func (p *payCommand) Run(ctx context.Context) error {
	if !strings.HasPrefix(strings.ToLower(p.Invoice), "ln") {
		return fmt.Errorf("%q is no invoice: give a bolt11, which begins with ln", p.Invoice)
	}
	record, err := devnet.ReadRecord(filepath.Join(p.Dir, "network"))
	if errors.Is(err, devnet.ErrNotRunning) {
		return fmt.Errorf("%w: start it with make run", err)
	}
	if err != nil {
		return err
	}
	say("Paying; a held payment waits here for its receiver.")
	payment, err := record.Nodes[p.From].Pay(ctx, p.Invoice)
	if err != nil {
		return fmt.Errorf("%s: %w", p.From, err)
	}
	if !payment.Settled {
		fmt.Printf("not paid: %s\n", payment.Failure)
		return exitCode(1)
	}
	fmt.Printf("paid %d msat (fee %d msat), preimage %s\n", payment.AmountMsat, payment.FeeMsat, payment.Preimage)
	return nil
}
