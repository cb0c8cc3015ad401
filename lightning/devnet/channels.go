package devnet

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"
	"golang.org/x/sync/errgroup"
)

// channel is a channel that from has opened, and paid for, to to.
type channel struct{ from, to string }

func (c channel) String() string { return c.from + "→" + c.to }

// channels lead both ways between the payer and everybody else, so that all have something to pay with from the start,
// and twice as many payments can be in flight as one channel carries. Our nodes have no channel with the receiver:
// paying a neighbour costs nothing, and then nobody would see whether routing fees are booked.
var channels = []channel{
	{Payer, Holdfast}, {Holdfast, Payer}, {Payer, Holdfast2}, {Holdfast2, Payer}, {Payer, Receiver}, {Receiver, Payer},
}

const (
	// capacity is in sats: the largest that LND opens without further settings.
	capacity = 16_000_000

	// coinsEach is how many separate coins a node gets. Change cannot be spent before the next block, so each channel
	// needs its own coin.
	coinsEach = 4

	// announceAfter is how many blocks must follow a channel before the other nodes hear of it.
	announceAfter = 6
)

func (n *Network) channelsOf(name string) []channel {
	var own []channel
	for _, c := range channels {
		if (c.from == name || c.to == name) && n.Node(c.from).server.Running() && n.Node(c.to).server.Running() {
			own = append(own, c)
		}
	}
	return own
}

// makeChannels opens the wanted channels that do not exist: all of them in a new network.
func (n *Network) makeChannels(ctx context.Context, wanted []channel) error {
	missing := map[string][]channel{} // by the node that opens them
	for _, c := range wanted {
		open, err := n.nodes[c.from].find(ctx, c, n.nodes[c.to])
		if err != nil {
			return err
		}
		if open == nil {
			missing[c.from] = append(missing[c.from], c)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := n.giveCoins(ctx, slices.Sorted(maps.Keys(missing))); err != nil {
		return err
	}
	n.options.Log("Lightning network: opening channels")
	if err := n.connectPeers(ctx, wanted); err != nil {
		return err
	}
	opening, openingCtx := errgroup.WithContext(ctx)
	for _, own := range missing {
		// One after the other at each node, because it picks coins for one channel at a time anyhow.
		opening.Go(func() error {
			for _, c := range own {
				if err := n.open(openingCtx, c); err != nil {
					return fmt.Errorf("open channel %s: %w", c, err)
				}
			}
			return nil
		})
	}
	if err := opening.Wait(); err != nil {
		return err
	}
	return n.Mine(ctx, announceAfter)
}

// giveCoins gives coins to each of the nodes, and returns once they can be spent.
func (n *Network) giveCoins(ctx context.Context, to []string) error {
	n.options.Log("Lightning network: giving coins to %s", strings.Join(to, ", "))
	var addresses []string
	for _, name := range to {
		for range coinsEach {
			address, err := n.nodes[name].lightning().NewAddress(ctx, &lnrpc.NewAddressRequest{Type: lnrpc.AddressType_WITNESS_PUBKEY_HASH})
			if err != nil {
				return fmt.Errorf("%s: new address: %w", name, err)
			}
			addresses = append(addresses, address.Address)
		}
	}
	payout, err := n.chain.payout(ctx, addresses)
	if err != nil {
		return err
	}
	if err := n.chain.send(ctx, payout); err != nil {
		return err
	}
	if err := n.Mine(ctx, 1); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range to {
		group.Go(func() error { return n.nodes[name].awaitCoins(ctx, payout.TxHash().String()) })
	}
	return group.Wait()
}

// awaitCoins returns once the node can spend what the transaction pays it.
func (n *Node) awaitCoins(ctx context.Context, tx string) error {
	return until(ctx, 30*time.Second, n.name+" to have its coins", func(ctx context.Context) (bool, error) {
		list, err := n.lightning().ListUnspent(ctx, &lnrpc.ListUnspentRequest{MinConfs: 1, MaxConfs: math.MaxInt32})
		if err != nil {
			return false, err
		}
		coins := 0
		for _, coin := range list.Utxos {
			if coin.Outpoint.TxidStr == tx {
				coins++
			}
		}
		return coins == coinsEach, nil
	})
}

func (n *Network) open(ctx context.Context, c channel) error {
	peer, err := hex.DecodeString(n.nodes[c.to].pubkey)
	if err != nil {
		return err
	}
	// The peer may not know the newest block yet, and then refuses: try again until it does.
	return until(ctx, 30*time.Second, "the peer to accept it", func(ctx context.Context) (bool, error) {
		_, err := n.nodes[c.from].lightning().OpenChannelSync(ctx, &lnrpc.OpenChannelRequest{
			NodePubkey: peer, LocalFundingAmount: capacity, SatPerVbyte: 2,
		})
		return err == nil, err
	})
}

// connectPeers connects the ends of the channels if they are not connected.
func (n *Network) connectPeers(ctx context.Context, wanted []channel) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range wanted {
		if slices.Contains(wanted, channel{c.to, c.from}) && c.from > c.to {
			continue // one connection carries both channels; two calls at once would cut each other off
		}
		group.Go(func() error {
			return until(ctx, 30*time.Second, fmt.Sprintf("%s and %s to connect", c.from, c.to), func(ctx context.Context) (bool, error) {
				from, to := n.nodes[c.from], n.nodes[c.to]
				peers, err := from.lightning().ListPeers(ctx, &lnrpc.ListPeersRequest{})
				if err != nil {
					return false, err
				}
				if slices.ContainsFunc(peers.Peers, func(p *lnrpc.Peer) bool { return p.PubKey == to.pubkey }) {
					return true, nil
				}
				_, err = from.lightning().ConnectPeer(ctx, &lnrpc.ConnectPeerRequest{
					Addr: &lnrpc.LightningAddress{Pubkey: to.pubkey, Host: to.peer}, Perm: true, Timeout: 2,
				})
				return false, err // the next look shows whether the error persists
			})
		})
	}
	return group.Wait()
}

// awaitChannels connects peers, and returns once both ends can use each channel and every running node knows the way
// over it.
func (n *Network) awaitChannels(ctx context.Context, wanted []channel) error {
	if err := n.connectPeers(ctx, wanted); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range wanted {
		group.Go(func() error { return n.awaitChannel(ctx, c) })
	}
	return group.Wait()
}

func (n *Network) awaitChannel(ctx context.Context, c channel) error {
	from, to := n.nodes[c.from], n.nodes[c.to]
	var id uint64
	err := until(ctx, 45*time.Second, fmt.Sprintf("channel %s to be active", c), func(ctx context.Context) (bool, error) {
		at, err := from.find(ctx, c, to)
		if err != nil || at == nil || !at.Active {
			return false, err
		}
		id = at.ChanId
		at, err = to.find(ctx, c, from)
		return at != nil && at.Active, err
	})
	if err != nil {
		return err
	}
	// That the channel is active is not enough: a node finds no route over it before both ends' policies are in its
	// graph.
	return n.eachRunning(ctx, func(node *Node, ctx context.Context) error {
		return until(ctx, 45*time.Second, fmt.Sprintf("%s to know channel %s", node.name, c), func(ctx context.Context) (bool, error) {
			edge, err := node.lightning().GetChanInfo(ctx, &lnrpc.ChanInfoRequest{ChanId: id})
			if err != nil {
				return false, err
			}
			return usable(edge.Node1Policy) && usable(edge.Node2Policy), nil
		})
	})
}

// find returns a channel between the node and the peer, or nil if there is none.
func (n *Node) find(ctx context.Context, c channel, peer *Node) (*lnrpc.Channel, error) {
	list, err := n.lightning().ListChannels(ctx, &lnrpc.ListChannelsRequest{})
	if err != nil {
		return nil, fmt.Errorf("%s: list channels: %w", n.name, err)
	}
	for _, open := range list.Channels {
		if open.RemotePubkey == peer.pubkey && open.Initiator == (c.from == n.name) {
			return open, nil
		}
	}
	return nil, nil
}

func usable(conditions *lnrpc.RoutingPolicy) bool { return conditions != nil && !conditions.Disabled }

func (n *Node) lightning() lnrpc.LightningClient { return lnrpc.NewLightningClient(n.connection) }
