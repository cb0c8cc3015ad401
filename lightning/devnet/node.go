package devnet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"
	"google.golang.org/grpc"

	"github.com/a-seed-a7aed72f/holdfast/internal/child"
)

// Node is one LND of the network.
type Node struct {
	server *child.Server
	name   string
	dir    string
	rpc    string // address for clients
	rest   string // address for clients that speak HTTP; empty if there is none
	peer   string // address for other nodes

	connection *grpc.ClientConn
	pubkey     string // known once the node has run

	preimages sync.Map // those of its hold invoices, by hash
}

// Name is the node's name in the network, which is also its alias.
func (n *Node) Name() string { return n.name }

// Address is the host and port of the node's gRPC interface. It stays the same until the network is stopped.
func (n *Node) Address() string { return n.rpc }

// TLSCert is the path of the certificate that the node shows to clients.
func (n *Node) TLSCert() string { return filepath.Join(n.dir, "tls.cert") }

// REST is the host and port of the node's REST interface (HTTPS). Only the receiver has one.
func (n *Node) REST() string { return n.rest }

// Macaroon is the path of the macaroon that allows everything.
func (n *Node) Macaroon() string { return n.macaroon("admin") }

// InvoiceMacaroon is the path of the macaroon that allows issuing and reading invoices, but no payments.
func (n *Node) InvoiceMacaroon() string { return n.macaroon("invoice") }

func (n *Node) macaroon(name string) string {
	return filepath.Join(n.dir, "data", "chain", "bitcoin", "simnet", name+".macaroon")
}

// Pubkey is the node's identity, in hex.
func (n *Node) Pubkey() string { return n.pubkey }

// Conn is a connection to the node with the admin macaroon. It outlives restarts of the node.
func (n *Node) Conn() *grpc.ClientConn { return n.connection }

// start starts the node, and returns once it serves calls and has the newest block.
func (n *Node) start(ctx context.Context) error {
	if err := n.server.Start(); err != nil {
		return err
	}
	ctx, release := n.server.WhileAlive(ctx)
	defer release()
	if err := until(ctx, 60*time.Second, n.name+" to serve calls", n.serves); err != nil {
		return err
	}
	return until(ctx, 60*time.Second, n.name+" to know the newest block", func(ctx context.Context) (bool, error) {
		info, err := lnrpc.NewLightningClient(n.connection).GetInfo(ctx, &lnrpc.GetInfoRequest{})
		if err != nil {
			return false, err
		}
		if n.pubkey == "" { // others may be reading it
			n.pubkey = info.IdentityPubkey
		}
		return info.SyncedToChain, nil
	})
}

func (n *Node) serves(ctx context.Context) (bool, error) {
	if n.connection == nil {
		connection, err := dial(n.rpc, n.TLSCert(), n.Macaroon())
		if err != nil {
			return false, err // the node has not written its certificate yet, or its macaroon
		}
		n.connection = connection
	}
	state, err := lnrpc.NewStateClient(n.connection).GetState(ctx, &lnrpc.GetStateRequest{})
	if err != nil {
		return false, err
	}
	return state.State == lnrpc.WalletState_SERVER_ACTIVE, nil
}

func (n *Node) awaitHeight(ctx context.Context, height uint32) error {
	missing := fmt.Sprintf("%s to know block %d", n.name, height)
	return until(ctx, 30*time.Second, missing, func(ctx context.Context) (bool, error) {
		info, err := lnrpc.NewLightningClient(n.connection).GetInfo(ctx, &lnrpc.GetInfoRequest{})
		if err != nil {
			return false, err
		}
		return info.BlockHeight >= height && info.SyncedToChain, nil
	})
}

// StopNode stops a node cleanly. The node does not run any more when it returns.
func (n *Network) StopNode(name string) { n.Node(name).server.Stop(stopGrace) }

// KillNode ends a node with SIGKILL, as a power failure would.
func (n *Network) KillNode(name string) { n.Node(name).server.Kill() }

// FreezeNode makes a running node stand still: whoever asks it waits. ThawNode lets it go on.
func (n *Network) FreezeNode(name string) error {
	return syscall.Kill(n.Node(name).server.PID(), syscall.SIGSTOP)
}

// ThawNode lets a node go on after FreezeNode.
func (n *Network) ThawNode(name string) error {
	return syscall.Kill(n.Node(name).server.PID(), syscall.SIGCONT)
}

// NodeRuns reports whether the node's process was started and has not ended since.
func (n *Network) NodeRuns(name string) bool { return n.Node(name).server.Running() }

// ResumeNode starts a node again after KillNode, or after it ended by itself. It returns once the node serves calls and
// knows the newest block. Its channels come back once their other ends run.
func (n *Network) ResumeNode(ctx context.Context, name string) error { return n.Node(name).start(ctx) }

// StartNode starts a node again after StopNode or KillNode, at the same addresses. It returns once its channels to
// running nodes can carry payments.
func (n *Network) StartNode(ctx context.Context, name string) error {
	if err := n.Node(name).start(ctx); err != nil {
		return err
	}
	return n.awaitChannels(ctx, n.channelsOf(name))
}

// RestartNode is StopNode and StartNode.
func (n *Network) RestartNode(ctx context.Context, name string) error {
	n.StopNode(name)
	return n.StartNode(ctx, name)
}

// WipeNode makes a node forget everything but its name and addresses, as if its disk was lost and it was set up again.
// Its identity and its macaroons are new. The money and the payments in its channels are left to its peers, which must
// be running; it gets new channels with them. Nobody may use the node meanwhile.
func (n *Network) WipeNode(ctx context.Context, name string) error {
	node := n.Node(name)
	n.StopNode(name)
	if node.connection != nil {
		_ = node.connection.Close() // its macaroon is no longer valid
		node.connection = nil
	}
	node.pubkey = ""
	if err := os.RemoveAll(filepath.Join(node.dir, "data")); err != nil {
		return err
	}
	if err := node.start(ctx); err != nil {
		return err
	}
	if err := n.makeChannels(ctx, n.channelsOf(name)); err != nil {
		return err
	}
	if err := n.awaitChannels(ctx, n.channelsOf(name)); err != nil {
		return err
	}
	return n.writeRecord()
}

// configure writes the node's settings. Those beyond what a node needs make it fast or keep it isolated:
//
//   - trickledelay, sub-batch-delay: gossip about channels goes out at once instead of in batches every half minute.
//   - minbackoff, maxbackoff: restarted peers are found again at once.
//   - channel-commit-interval: a payment goes on at once instead of waiting to share a signature with others.
//   - healthcheck: LND stops itself when the disk is nearly full or btcd is away for a moment, and both are common on a
//     developer's machine.
//   - tlsdisableautofill: the certificate does not reveal the machine's name and addresses.
//   - penaltyhalflife: a route over a node that was away is tried again at once instead of after an hour.
//   - basefee, feerate: as on real routes, fractions of a sat are due.
//   - use-native-sql: see [Options].
func (n *Node) configure(o Options, c *chain, claim *child.Claim) error {
	settings := [][2]string{
		{"alias", n.name}, {"noseedbackup", "1"}, {"nobootstrap", "1"},
		{"rpclisten", n.rpc}, {"listen", n.peer},
		{"tlsdisableautofill", "1"}, {"tlsextradomain", "localhost"}, {"tlsextraip", "127.0.0.1"},
		{"trickledelay", "50"}, {"gossip.sub-batch-delay", "50ms"}, {"minbackoff", "200ms"}, {"maxbackoff", "1s"},
		{"maxpendingchannels", "10"}, {"channel-commit-interval", "5ms"},
		{"healthcheck.chainbackend.attempts", "0"}, {"healthcheck.diskspace.attempts", "0"},
		{"bitcoin.simnet", "1"}, {"bitcoin.node", "btcd"}, {"bitcoin.defaultchanconfs", "1"},
		{"btcd.rpchost", c.rpc}, {"btcd.rpcuser", c.user}, {"btcd.rpcpass", c.password}, {"btcd.rpccert", c.cert},
		{"routerrpc.apriori.penaltyhalflife", "1s"}, {"bitcoin.basefee", "250"}, {"bitcoin.feerate", "1000"},
		{"db.backend", "sqlite"},
	}
	if slices.Contains(o.NativeSQL, n.name) {
		settings = append(settings, [2]string{"db.use-native-sql", "1"})
	}
	if n.rest == "" {
		settings = append(settings, [2]string{"norest", "1"})
	} else {
		settings = append(settings, [2]string{"restlisten", n.rest})
	}
	if err := writeSettings(filepath.Join(n.dir, "lnd.conf"), "Application Options", settings); err != nil {
		return err
	}
	n.server = child.NewServer(child.Command{
		Name: "lnd (" + n.name + ")", Path: filepath.Join(o.Bin, "lnd"), Args: []string{"--lnddir", n.dir},
		Env: atHome(n.dir), Dir: n.dir, Log: filepath.Join(n.dir, "lnd.log"), Holds: claim,
	})
	return nil
}
