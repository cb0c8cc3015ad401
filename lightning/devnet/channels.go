package devnet

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"
	"golang.org/x/sync/errgroup"
)

// channel is one that from has opened, and paid for, to to.
type channel struct{ from, to string }

func (c channel) String() string { return c.from + "→" + c.to }

// channels lead both ways between neighbours, so that both have something to pay with from the start, and twice as many
// payments can be under way as one channel can carry.
var channels = []channel{{Payer, Holdfast}, {Holdfast, Payer}, {Holdfast, Receiver}, {Receiver, Holdfast}}

const (
	// capacity in sats: the largest that LND opens without asking for more.
	capacity = 16_000_000

	// coinsEach is how many separate coins each node gets. Change cannot be spent before the next block, so each channel takes
	// a coin of its own.
	coinsEach = 4

	// announceAfter is how many blocks must be above a channel before the other nodes hear of it.
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

// makeChannels gives every node coins and opens the channels.
func (n *Network) makeChannels(ctx context.Context) error {
	n.options.Log("Lightning network: giving the nodes coins")
	var addresses []string
	for _, name := range names {
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
	coins := payout.TxOut[0].Value * coinsEach
	err = n.eachNode(ctx, func(node *Node, ctx context.Context) error {
		return until(ctx, 30*time.Second, node.name+" to have its coins", func(ctx context.Context) (bool, error) {
			balance, err := node.lightning().WalletBalance(ctx, &lnrpc.WalletBalanceRequest{})
			return err == nil && balance.ConfirmedBalance >= coins, err
		})
	})
	if err != nil {
		return err
	}

	n.options.Log("Lightning network: opening channels")
	if err := n.connectPeers(ctx, channels); err != nil {
		return err
	}
	opening, openingCtx := errgroup.WithContext(ctx)
	for _, from := range names {
		// One after the other for each node, since it picks coins for one channel at a time anyhow.
		opening.Go(func() error {
			for _, c := range channels {
				if c.from != from {
					continue
				}
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

func (n *Network) open(ctx context.Context, c channel) error {
	peer, err := hex.DecodeString(n.nodes[c.to].pubkey)
	if err != nil {
		return err
	}
	// The peer may not have heard of the newest block yet, and then refuses: so again until it has.
	return until(ctx, 30*time.Second, "the peer to accept it", func(ctx context.Context) (bool, error) {
		_, err := n.nodes[c.from].lightning().OpenChannelSync(ctx, &lnrpc.OpenChannelRequest{
			NodePubkey: peer, LocalFundingAmount: capacity, SatPerVbyte: 2,
		})
		return err == nil, err
	})
}

// connectPeers connects the ends of the channels that are not connected.
func (n *Network) connectPeers(ctx context.Context, wanted []channel) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range wanted {
		if slices.Contains(wanted, channel{c.to, c.from}) && c.from > c.to {
			continue // one connection carries both; two calls at once would cut each other off
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
				return false, err // the next look shows whether it lasts
			})
		})
	}
	return group.Wait()
}

// awaitChannels connects peers and returns when both ends can use each channel.
func (n *Network) awaitChannels(ctx context.Context, wanted []channel) error {
	if err := n.connectPeers(ctx, wanted); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range wanted {
		from, to := n.nodes[c.from], n.nodes[c.to]
		group.Go(func() error { return from.awaitChannel(ctx, c, to, true) })
		group.Go(func() error { return to.awaitChannel(ctx, c, from, false) })
	}
	return group.Wait()
}

// awaitChannel returns when the node can send over the channel with the peer which it opened, or else the peer did.
func (n *Node) awaitChannel(ctx context.Context, c channel, peer *Node, opener bool) error {
	missing := fmt.Sprintf("channel %s to be usable at %s", c, n.name)
	return until(ctx, 45*time.Second, missing, func(ctx context.Context) (bool, error) {
		list, err := n.lightning().ListChannels(ctx, &lnrpc.ListChannelsRequest{ActiveOnly: true})
		if err != nil {
			return false, err
		}
		i := slices.IndexFunc(list.Channels, func(open *lnrpc.Channel) bool {
			return open.RemotePubkey == peer.pubkey && open.Initiator == opener
		})
		if i < 0 {
			return false, nil
		}
		// "Active" is not enough: the node finds no way over a channel before both ends' conditions are in its map.
		edge, err := n.lightning().GetChanInfo(ctx, &lnrpc.ChanInfoRequest{ChanId: list.Channels[i].ChanId})
		if err != nil {
			return false, err
		}
		return usable(edge.Node1Policy) && usable(edge.Node2Policy), nil
	})
}

func usable(conditions *lnrpc.RoutingPolicy) bool { return conditions != nil && !conditions.Disabled }

func (n *Node) lightning() lnrpc.LightningClient { return lnrpc.NewLightningClient(n.connection) }
