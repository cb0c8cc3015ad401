package devnet

import (
	"context"
	"fmt"
)

// btcd writes what it knows of its blocks to disk every few minutes, and when it is stopped cleanly. Killed, it loses
// the blocks since then, and usually gets them from its peers. This one has no peers, so it gets them from here.

// write makes btcd write everything to disk.
func (c *chain) write(ctx context.Context) error {
	c.server.Stop(stopGrace)
	return c.start(ctx)
}

// KillChain ends btcd with SIGKILL, as a power failure would.
func (n *Network) KillChain() {
	n.chain.mutex.Lock() // a block that is being mined is kept first
	defer n.chain.mutex.Unlock()
	n.chain.server.Kill()
}

// ChainRuns reports whether btcd's process was started and has not ended since.
func (n *Network) ChainRuns() bool { return n.chain.server.Running() }

// ResumeChain starts btcd again after KillChain, or after it ended by itself. It returns once btcd answers and has its
// former blocks.
func (n *Network) ResumeChain(ctx context.Context) error {
	n.chain.mutex.Lock()
	defer n.chain.mutex.Unlock()
	if err := n.chain.start(ctx); err != nil {
		return err
	}
	return n.chain.giveBack(ctx)
}

// keep reads the blocks that btcd may lose, those above the first ones. The mutex is held.
func (c *chain) keep(ctx context.Context) error {
	if c.kept == nil {
		c.kept = map[int]string{}
	}
	height, err := c.height(ctx)
	if err != nil {
		return err
	}
	for at := int(height); at > firstBlocks && c.kept[at] == ""; at-- {
		if c.kept[at], err = c.rawBlock(ctx, at); err != nil {
			return err
		}
	}
	return nil
}

// giveBack gives btcd the blocks that it has lost. The mutex is held.
func (c *chain) giveBack(ctx context.Context) error {
	height, err := c.height(ctx)
	if err != nil {
		return err
	}
	for at := int(height) + 1; c.kept[at] != ""; at++ {
		var refusal *string
		if err := c.call(ctx, &refusal, "submitblock", c.kept[at]); err != nil {
			return err
		}
		if refusal != nil {
			return fmt.Errorf("btcd refuses block %d: %s", at, *refusal)
		}
	}
	return nil
}
