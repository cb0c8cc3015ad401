package lightning

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/lightningnetwork/lnd/lnrpc"
)

// What an operator, or the development network, does to a node. The service itself needs none of it, and its macaroon none of
// these permissions.

// Channel is one open channel.
type Channel struct {
	Point     string // funding transaction and output, "txid:index"
	Peer      string // public key in hex
	Active    bool   // can carry payments now
	Capacity  int64  // sat
	Local     int64  // sat on our side
	Remote    int64  // sat on theirs
	Unsettled int64  // sat in HTLCs under way
}

// ChannelRequest is a channel to open.
type ChannelRequest struct {
	Peer        string // public key in hex
	Capacity    int64  // sat
	Push        int64  // sat of the capacity given to the peer
	SatPerVByte uint64 // fee of the funding transaction; 0: LND's estimate
}

// WalletBalance is a node's money on chain, in sat.
type WalletBalance struct {
	Confirmed   int64
	Unconfirmed int64
}

// WalletBalance returns the node's money on chain.
func (c *Client) WalletBalance(ctx context.Context) (WalletBalance, error) {
	m, err := call(ctx, c, "WalletBalance", c.main.WalletBalance, &lnrpc.WalletBalanceRequest{})
	return WalletBalance{Confirmed: m.GetConfirmedBalance(), Unconfirmed: m.GetUnconfirmedBalance()}, err
}

// NewAddress returns a fresh address (P2WPKH) of the node's wallet.
func (c *Client) NewAddress(ctx context.Context) (string, error) {
	m, err := call(ctx, c, "NewAddress", c.main.NewAddress, &lnrpc.NewAddressRequest{Type: lnrpc.AddressType_WITNESS_PUBKEY_HASH})
	return m.GetAddress(), err
}

// ConnectPeer connects to a peer and keeps doing so. Connecting to a peer that is connected is an error of LND.
func (c *Client) ConnectPeer(ctx context.Context, pubKey, host string) error {
	_, err := call(ctx, c, "ConnectPeer", c.main.ConnectPeer, &lnrpc.ConnectPeerRequest{
		Addr: &lnrpc.LightningAddress{Pubkey: pubKey, Host: host}, Perm: true,
	})
	return err
}

// OpenChannel funds a channel to a connected peer. It returns the channel point once the funding transaction is out; the channel
// is active a block or more later.
func (c *Client) OpenChannel(ctx context.Context, r ChannelRequest) (point string, err error) {
	peer, err := hex.DecodeString(r.Peer)
	if err != nil {
		return "", fmt.Errorf("public key %q: %w", r.Peer, err)
	}
	m, err := call(ctx, c, "OpenChannelSync", c.main.OpenChannelSync, &lnrpc.OpenChannelRequest{
		NodePubkey: peer, LocalFundingAmount: r.Capacity, PushSat: r.Push, SatPerVbyte: r.SatPerVByte, SpendUnconfirmed: true,
	})
	if err != nil {
		return "", err
	}
	// LND shows the transaction's id as people write it, but sends its bytes in the chain's order, which is the reverse.
	txid := m.GetFundingTxidBytes()
	reversed := make([]byte, len(txid))
	for i, b := range txid {
		reversed[len(txid)-1-i] = b
	}
	return fmt.Sprintf("%x:%d", reversed, m.OutputIndex), nil
}

// ListChannels returns the node's open channels.
func (c *Client) ListChannels(ctx context.Context) ([]Channel, error) {
	m, err := call(ctx, c, "ListChannels", c.main.ListChannels, &lnrpc.ListChannelsRequest{})
	if err != nil {
		return nil, err
	}
	channels := make([]Channel, len(m.Channels))
	for i, ch := range m.Channels {
		channels[i] = Channel{
			Point: ch.ChannelPoint, Peer: ch.RemotePubkey, Active: ch.Active,
			Capacity: ch.Capacity, Local: ch.LocalBalance, Remote: ch.RemoteBalance, Unsettled: ch.UnsettledBalance,
		}
	}
	return channels, nil
}
