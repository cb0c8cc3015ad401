// Package devnet runs a Lightning network of real nodes on this machine, on a block chain of its own (btcd's simnet), for
// development, demonstrations and tests: two nodes of the service ("holdfast", "holdfast2"), one that pays it ("payer") and one
// that it pays ("receiver"), with open channels in both directions between neighbours. What the service pays passes through the
// payer's node, which charges for it.
//
//	holdfast ⇄ payer ⇄ receiver
//	             ⇅
//	         holdfast2
//
// The receiver also has a lightning address, as wallets have them. The network's coins are worth nothing; its programs are the
// ones that move real ones.
package devnet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/a-seed-a7aed72f/holdfast/internal/child"
)

// The names of the nodes.
const (
	Holdfast  = "holdfast"
	Holdfast2 = "holdfast2"
	Payer     = "payer"
	Receiver  = "receiver"
)

var names = []string{Payer, Holdfast, Holdfast2, Receiver}

// Options says which network to start.
type Options struct {
	// Dir holds everything the network has. What an earlier network left there is used again.
	Dir string

	// Bin is the directory with the programs btcd and lnd; see [Build].
	Bin string

	// NativeSQL are nodes that keep invoices and payments in tables (db.use-native-sql); the others do so in buckets. LND's ways differ.
	NativeSQL []string

	// BlockEvery mines a block at this interval while the network runs; 0 leaves mining to [Network.Mine].
	BlockEvery time.Duration

	// Log receives what a person should know, one line each. nil discards it.
	Log func(format string, args ...any)
}

// Network is a running network. Its methods may be called from several goroutines, but a node is stopped and started by one at
// a time.
type Network struct {
	options Options
	claim   *child.Claim
	chain   *chain
	nodes   map[string]*Node
	lnurl   *lnurl

	stopMiner func()
	mining    sync.WaitGroup

	died     chan error
	watching sync.WaitGroup // for deaths
	stopping sync.Once
	stopped  chan struct{}
}

// patience is how long Start waits for everything together; every wait within has its own, shorter deadline and names what
// it waited for.
const patience = 3 * time.Minute

// Start brings the network up and returns when every channel can carry payments. The first start in a directory makes the
// chain, the wallets and the channels, which takes about ten seconds; later ones a few. A directory in which the first start
// never finished is begun anew; a network of an older version keeps what it has, since invoices of its nodes are remembered
// elsewhere, and gains what it lacks. It fails with [child.ErrClaimed] if the network in this directory runs already.
func Start(ctx context.Context, options Options) (*Network, error) {
	if options.Log == nil {
		options.Log = func(string, ...any) {}
	}
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, err
	}
	options.Dir = dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// Nodes whose parent was killed take a moment to be gone.
	claiming, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	claim, err := child.ClaimDir(claiming, dir)
	if err != nil {
		return nil, err
	}

	n := &Network{
		options: options, claim: claim, nodes: map[string]*Node{}, stopMiner: func() {},
		died: make(chan error, 1), stopped: make(chan struct{}),
	}
	starting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := n.start(starting); err != nil {
		n.Stop()
		return nil, fmt.Errorf("start the Lightning network in %s: %w", dir, err)
	}
	n.mineInBackground()
	return n, nil
}

func (n *Network) start(ctx context.Context) error {
	made, err := n.isMade()
	if err != nil {
		return err
	}
	if err := n.prepare(); err != nil {
		return err
	}

	if err := n.chain.start(ctx); err != nil {
		return err
	}
	// LND counts itself synced only if the newest block is younger than two hours.
	blocks := 1
	if !made {
		n.options.Log("Lightning network: making a block chain")
		blocks = firstBlocks
	}
	if err := n.chain.generate(ctx, blocks); err != nil {
		return err
	}
	if !made {
		if err := n.chain.write(ctx); err != nil {
			return err
		}
	}
	n.options.Log("Lightning network: starting %d LND", len(names))
	if err := n.eachNode(ctx, (*Node).start); err != nil {
		return err
	}
	if err := n.makeChannels(ctx, channels); err != nil {
		return err
	}
	if err := n.awaitChannels(ctx, channels); err != nil {
		return err
	}
	if err := n.markMade(); err != nil {
		return err
	}
	if err := n.lnurl.start(); err != nil {
		return err
	}
	return n.writeRecord()
}

// eachNode does the same at all nodes at once.
func (n *Network) eachNode(ctx context.Context, do func(*Node, context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, node := range n.nodes {
		group.Go(func() error { return do(node, ctx) })
	}
	return group.Wait()
}

// eachRunning does the same at all nodes that run, at once.
func (n *Network) eachRunning(ctx context.Context, do func(*Node, context.Context) error) error {
	return n.eachNode(ctx, func(node *Node, ctx context.Context) error {
		if !node.server.Running() {
			return nil
		}
		return do(node, ctx)
	})
}

const madeFile = "made"

// isMade tells whether the directory holds a complete network. If it does not, what is in there is removed: nothing of an
// unfinished network can be relied on, and nobody can have used it yet.
func (n *Network) isMade() (bool, error) {
	_, err := os.Stat(filepath.Join(n.options.Dir, madeFile))
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	for _, part := range append([]string{chainDir}, names...) {
		if err := os.RemoveAll(filepath.Join(n.options.Dir, part)); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (n *Network) markMade() error {
	return os.WriteFile(filepath.Join(n.options.Dir, madeFile), nil, 0o600)
}

// Ours are the service's nodes, in the order in which it is to ask them.
func (n *Network) Ours() []*Node { return []*Node{n.Node(Holdfast), n.Node(Holdfast2)} }

// Node is the node with this name: one of the constants above. Any other name is a mistake in the program and panics.
func (n *Network) Node(name string) *Node {
	node, ok := n.nodes[name]
	if !ok {
		panic(fmt.Sprintf("devnet: no node is called %q", name))
	}
	return node
}

// Height is the number of blocks in the chain.
func (n *Network) Height(ctx context.Context) (uint32, error) { return n.chain.height(ctx) }

// Mine adds blocks to the chain and returns when every running node knows them.
func (n *Network) Mine(ctx context.Context, blocks int) error {
	if err := n.chain.generate(ctx, blocks); err != nil {
		return err
	}
	height, err := n.chain.height(ctx)
	if err != nil {
		return err
	}
	return n.eachRunning(ctx, func(node *Node, ctx context.Context) error { return node.awaitHeight(ctx, height) })
}

func (n *Network) mineInBackground() {
	if n.options.BlockEvery <= 0 {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stopMiner = stop
	n.mining.Go(func() {
		next := time.NewTicker(n.options.BlockEvery)
		defer next.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-next.C:
				if err := n.chain.generate(ctx, 1); err != nil && ctx.Err() == nil {
					n.options.Log("Lightning network: no block was mined: %v", err)
				}
			}
		}
	})
}

// Died receives the reason when a part of the network ends that nobody asked to end.
func (n *Network) Died() <-chan error { return n.died }

// watch passes the death of a part on.
func (n *Network) watch(part *child.Server) {
	n.watching.Go(func() {
		select {
		case err := <-part.Died():
			select {
			case n.died <- err:
			default: // the first death is the one to tell of
			}
		case <-n.stopped:
		}
	})
}

// stopGrace is how long LND may take to write its state; it needs about a second.
const stopGrace = 20 * time.Second

// Stop ends all parts in order. When it returns none of them runs.
func (n *Network) Stop() {
	n.stopMiner()
	n.mining.Wait()
	n.removeRecord()
	if n.lnurl != nil {
		n.lnurl.stop()
	}
	var nodes sync.WaitGroup
	for _, node := range n.nodes {
		nodes.Go(func() {
			node.server.Stop(stopGrace)
			if node.connection != nil {
				_ = node.connection.Close() // there is nobody to hear of it
			}
		})
	}
	nodes.Wait()
	if n.chain != nil {
		n.chain.server.Stop(stopGrace)
	}
	n.stopping.Do(func() { close(n.stopped) })
	n.watching.Wait()
	n.claim.Release()
}
