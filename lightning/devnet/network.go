// Package devnet runs a Lightning network of real nodes on this machine, on its own block chain (btcd's simnet), for
// development, demonstrations and tests: two nodes of the service ("holdfast", "holdfast2"), one that pays it ("payer")
// and one that it pays ("receiver"), with open channels in both directions between neighbours. What the service pays
// passes through the payer's node, which charges for it.
//
//	holdfast ⇄ payer ⇄ receiver
//	             ⇅
//	         holdfast2
//
// The receiver also has a lightning address, as wallets have them. The network's coins are worthless, but its programs
// are those that move real ones.
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
	// Dir holds all data of the network. What an earlier network left there is used again.
	Dir string

	// Bin is the directory with the programs btcd and lnd; see [Build].
	Bin string

	// NativeSQL are the nodes that keep invoices and payments in tables (db.use-native-sql); the others keep them in
	// buckets. LND behaves differently with the two.
	NativeSQL []string

	// BlockEvery mines a block at this interval while the network runs; 0 leaves mining to [Network.Mine].
	BlockEvery time.Duration

	// Log receives what a person should know, one line each. nil discards it.
	Log func(format string, args ...any)
}

// Network is a running network. Its methods may be called from several goroutines, but a node must be stopped and
// started by one at a time.
type Network struct {
	options Options
	claim   *child.Claim
	chain   *chain
	nodes   map[string]*Node
	lnurl   *lnurl

	stopMiner func()
	mining    sync.WaitGroup

	died     chan error
	watching sync.WaitGroup // the goroutines that wait for deaths
	stopping sync.Once
	stopped  chan struct{}
}

// patience is how long Start waits in all. Every wait within it has its own, shorter deadline, and names what it waited
// for.
const patience = 3 * time.Minute

// Start starts the network, and returns once every channel can carry payments. The first start in a directory makes the
// chain, the wallets and the channels, which takes about ten seconds; later ones take a few. If the first start in a
// directory never finished, it begins anew. A network of an older version keeps what it has, because others remember
// its nodes' invoices, and gets what it lacks. Start fails with [child.ErrClaimed] if the network in this directory is
// already running.
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
	// Nodes whose parent was killed take a moment to end.
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
	// LND counts itself synced only if the newest block is less than two hours old.
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

// eachNode runs do for all nodes at once.
func (n *Network) eachNode(ctx context.Context, do func(*Node, context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, node := range n.nodes {
		group.Go(func() error { return do(node, ctx) })
	}
	return group.Wait()
}

// eachRunning runs do for all running nodes at once.
func (n *Network) eachRunning(ctx context.Context, do func(*Node, context.Context) error) error {
	return n.eachNode(ctx, func(node *Node, ctx context.Context) error {
		if !node.server.Running() {
			return nil
		}
		return do(node, ctx)
	})
}

const madeFile = "made"

// isMade reports whether the directory holds a complete network. If not, it removes what is there: nothing of an
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

// Ours are the service's nodes, in the order in which the service should ask them.
func (n *Network) Ours() []*Node { return []*Node{n.Node(Holdfast), n.Node(Holdfast2)} }

// Node is the node with this name, one of the constants above. Any other name is a bug in the program, and panics.
func (n *Network) Node(name string) *Node {
	node, ok := n.nodes[name]
	if !ok {
		panic(fmt.Sprintf("devnet: no node is called %q", name))
	}
	return node
}

// Height is the number of blocks in the chain.
func (n *Network) Height(ctx context.Context) (uint32, error) { return n.chain.height(ctx) }

// Mine adds blocks to the chain, and returns once every running node knows them.
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

// Died receives the reason when a part of the network ends unasked.
func (n *Network) Died() <-chan error { return n.died }

// watch reports the death of a part.
func (n *Network) watch(part *child.Server) {
	n.watching.Go(func() {
		select {
		case err := <-part.Died():
			select {
			case n.died <- err:
			default: // only the first death is reported
			}
		case <-n.stopped:
		}
	})
}

// stopGrace is how long LND may take to write its state; it needs about a second.
const stopGrace = 20 * time.Second

// Stop stops all parts cleanly. None of them runs any more when it returns.
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
				_ = node.connection.Close() // nobody is there to hear of it
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
